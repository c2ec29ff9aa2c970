//! Registrations of this client counted by event code and class, so that servers receive only
//! new and removed ones.
use peal_core::class::{Class, ClassFilter};
use peal_model::Status;
use std::collections::BTreeMap;

/// Message to the servers that a change of the registrations requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerUpdate {
    /// None: the servers already send these events.
    Nothing,
    /// Registration of these codes, where none means all, for these classes.
    Register(Vec<Status>, ClassFilter),
    /// Deregistration of these codes.
    Deregister(Vec<Status>),
}

/// Number of registrations for a code, by class.
#[derive(Clone, Copy, Default)]
struct ClassCounts {
    job_specific: usize,
    environment: usize,
}

impl ClassCounts {
    /// Returns the classes with at least one registration.
    fn levels(self) -> ClassFilter {
        match (self.job_specific > 0, self.environment > 0) {
            (true, true) => ClassFilter::Both,
            (true, false) => ClassFilter::JobSpecific,
            (false, true) => ClassFilter::Environment,
            (false, false) => ClassFilter::Neither,
        }
    }

    fn add(&mut self, levels: ClassFilter) {
        self.job_specific += usize::from(levels.include(Class::JobSpecific));
        self.environment += usize::from(levels.include(Class::Environment));
    }

    fn subtract(&mut self, levels: ClassFilter) {
        let one = |class| usize::from(levels.include(class));
        self.job_specific = self.job_specific.saturating_sub(one(Class::JobSpecific));
        self.environment = self.environment.saturating_sub(one(Class::Environment));
    }
}

/// Registrations of all handlers and of the client itself, by code.
#[derive(Default)]
pub(crate) struct EventRegistrations(BTreeMap<Status, ClassCounts>);

impl EventRegistrations {
    /// Adds a registration for these codes, where none means all.
    pub(crate) fn add(&mut self, codes: &[Status], levels: ClassFilter) -> ServerUpdate {
        let mut is_new = false;
        for code in counted(codes) {
            let wanted = self.0.entry(*code).or_default();
            let known = wanted.levels();
            wanted.add(levels);
            is_new |= wanted.levels() != known;
        }
        if is_new {
            // Known codes are sent again with the new ones, as clients of the C library do.
            ServerUpdate::Register(codes.to_vec(), levels)
        } else {
            ServerUpdate::Nothing
        }
    }

    /// Removes a registration for these codes. A server that still has to send one class of a code
    /// may go on sending the other class.
    pub(crate) fn remove(&mut self, codes: &[Status], levels: ClassFilter) -> ServerUpdate {
        let mut unwanted = Vec::new();
        for code in counted(codes) {
            let Some(wanted) = self.0.get_mut(code) else {
                continue;
            };
            let known = wanted.levels();
            wanted.subtract(levels);
            if wanted.levels() == ClassFilter::Neither {
                self.0.remove(code);
                if known != ClassFilter::Neither {
                    unwanted.push(*code);
                }
            }
        }
        if unwanted.is_empty() {
            ServerUpdate::Nothing
        } else {
            ServerUpdate::Deregister(unwanted)
        }
    }

    /// Returns the messages that register everything with a new server.
    pub(crate) fn all(&self) -> Vec<ServerUpdate> {
        let mut asks = Vec::new();
        for levels in [
            ClassFilter::JobSpecific,
            ClassFilter::Environment,
            ClassFilter::Both,
        ] {
            let of_these = self
                .0
                .iter()
                .filter(|(_, wanted)| wanted.levels() == levels)
                .map(|(code, _)| *code);
            // The default registration needs a request of its own: there, no codes mean all.
            let (default, codes): (Vec<Status>, Vec<Status>) =
                of_these.partition(|code| *code == Status::DEFAULT_HANDLER);
            let some = (!codes.is_empty()).then_some(ServerUpdate::Register(codes, levels));
            let all = (!default.is_empty()).then(|| ServerUpdate::Register(Vec::new(), levels));
            asks.extend(some.into_iter().chain(all));
        }
        asks
    }
}

/// Returns the codes as they are counted: no codes are counted as the default handler.
fn counted(codes: &[Status]) -> &[Status] {
    if codes.is_empty() {
        &[Status::DEFAULT_HANDLER]
    } else {
        codes
    }
}
