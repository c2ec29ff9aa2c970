//! Which events this client wants of its servers: counted by code and class, so that servers hear only of what is new or gone.
use peal_core::class::{Class, Levels};
use peal_model::Status;
use std::collections::BTreeMap;

/// What a change of the registrations means for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForServer {
    /// They know already.
    Nothing,
    /// They are to be asked for these codes, none meaning all, of these classes.
    Register(Vec<Status>, Levels),
    /// Nobody wants these codes any more.
    Deregister(Vec<Status>),
}

/// How many want events of a code, by class.
#[derive(Clone, Copy, Default)]
struct Wanted {
    job_specific: usize,
    environment: usize,
}

impl Wanted {
    /// The classes that somebody wants.
    fn levels(self) -> Levels {
        match (self.job_specific > 0, self.environment > 0) {
            (true, true) => Levels::Both,
            (true, false) => Levels::JobSpecific,
            (false, true) => Levels::Environment,
            (false, false) => Levels::Neither,
        }
    }

    fn add(&mut self, levels: Levels) {
        self.job_specific += usize::from(levels.include(Class::JobSpecific));
        self.environment += usize::from(levels.include(Class::Environment));
    }

    fn subtract(&mut self, levels: Levels) {
        let one = |class| usize::from(levels.include(class));
        self.job_specific = self.job_specific.saturating_sub(one(Class::JobSpecific));
        self.environment = self.environment.saturating_sub(one(Class::Environment));
    }
}

/// All that somebody wants.
#[derive(Default)]
pub(crate) struct Interests(BTreeMap<Status, Wanted>);

impl Interests {
    /// Somebody wants these codes, none meaning all.
    pub(crate) fn add(&mut self, codes: &[Status], levels: Levels) -> ForServer {
        let mut is_new = false;
        for code in counted(codes) {
            let wanted = self.0.entry(*code).or_default();
            let known = wanted.levels();
            wanted.add(levels);
            is_new |= wanted.levels() != known;
        }
        if is_new {
            ForServer::Register(codes.to_vec(), levels)
        } else {
            ForServer::Nothing
        }
    }

    /// Somebody who wanted these does not any more. A server that still has to send one class of a code may send the other as well.
    pub(crate) fn remove(&mut self, codes: &[Status], levels: Levels) -> ForServer {
        let mut unwanted = Vec::new();
        for code in counted(codes) {
            let Some(wanted) = self.0.get_mut(code) else {
                continue;
            };
            let known = wanted.levels();
            wanted.subtract(levels);
            if wanted.levels() == Levels::Neither {
                self.0.remove(code);
                if known != Levels::Neither {
                    unwanted.push(*code);
                }
            }
        }
        if unwanted.is_empty() {
            ForServer::Nothing
        } else {
            ForServer::Deregister(unwanted)
        }
    }

    /// What a server must be asked for that knows of nothing.
    pub(crate) fn all(&self) -> Vec<ForServer> {
        let mut asks = Vec::new();
        for levels in [Levels::JobSpecific, Levels::Environment, Levels::Both] {
            let of_these = self
                .0
                .iter()
                .filter(|(_, wanted)| wanted.levels() == levels)
                .map(|(code, _)| *code);
            let (default, codes): (Vec<Status>, Vec<Status>) =
                of_these.partition(|code| *code == Status::DEFAULT_HANDLER);
            let some = (!codes.is_empty()).then_some(ForServer::Register(codes, levels));
            let all = (!default.is_empty()).then(|| ForServer::Register(Vec::new(), levels));
            asks.extend(some.into_iter().chain(all));
        }
        asks
    }
}

/// What codes are counted as.
fn counted(codes: &[Status]) -> &[Status] {
    if codes.is_empty() {
        &[Status::DEFAULT_HANDLER]
    } else {
        codes
    }
}
