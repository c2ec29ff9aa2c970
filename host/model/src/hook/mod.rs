//! Hooks: the kinds of requests that policies decide.
//!
//! Each file of this directory defines one hook: the request as its policies see it, what they may
//! amend, and the built-in rule. Each of the two tables below has a row for it: its names, and the
//! type of its request. Elsewhere, a hook has a place where its requests are held (`policy_gate` of
//! `peal-core`), the interface of its policies (`wit/roles.wit`, `Instance::decide` of
//! `peal-sandbox`), and a setting for its default.
mod connection;
mod event;
mod group;
mod job_control;
mod log;
mod monitor;
mod provision;
mod registration;
mod rule;
mod spawn;

pub use self::{
    connection::{ConnectionKind, ConnectionSubject, PeerInfo},
    event::EventSubject,
    group::{GroupOperationKind, GroupSubject},
    job_control::{ControlExtent, JobControlSubject},
    log::LogSubject,
    monitor::MonitorSubject,
    provision::ProvisionSubject,
    registration::RegistrationSubject,
    rule::BuiltInRule,
    spawn::{Application, SpawnSubject},
};
use crate::{Amendment, Info, Range, Size};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

macro_rules! hooks {
    ($($Hook:ident = $name:literal, $role:expr;)+) => {
        /// Kind of request that is decided. Each hook has a chain of policies and a built-in rule.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "named after the requests that they are about")]
        pub enum Hook {
            $($Hook,)+
        }

        impl Hook {
            /// All hooks.
            pub const ALL: [Hook; [$($name),+].len()] = [$(Hook::$Hook),+];

            /// Returns the name, as in configurations and messages.
            pub fn name(self) -> &'static str {
                match self {
                    $(Hook::$Hook => $name,)+
                }
            }

            /// Returns the WIT interface that policies of the hook export; `None` if the hook has
            /// only its default.
            pub fn role(self) -> Option<&'static str> {
                match self {
                    $(Hook::$Hook => $role,)+
                }
            }
        }
    };
}

hooks! {
    Connection = "connection", Some("connection-policy");
    Event = "event", Some("event-policy");
    JobControl = "job-control", Some("job-control-policy");
    Monitor = "monitor", Some("monitor-policy");
    Provision = "provision", Some("provision-policy");
    Log = "log", Some("log-policy");
    Group = "group", Some("group-policy");
    Spawn = "spawn", Some("spawn-policy");
    Publish = "publish", None;
    Lookup = "lookup", None;
    Query = "query", None;
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Hook {
    type Err = ();
    fn from_str(name: &str) -> Result<Hook, ()> {
        Hook::ALL
            .into_iter()
            .find(|hook| hook.name() == name)
            .ok_or(())
    }
}

/// The part of a request that its hook defines. [`PolicySubject`] documents the methods; the
/// default ones are those of a request that has directives only.
trait HookSubject {
    fn hook(&self) -> Hook;

    fn rule(&self) -> BuiltInRule<'_>;

    fn summary(&self, targets: usize) -> String;

    fn infos(&self) -> &[Info] {
        &[]
    }

    fn directives(&self) -> &[Info] {
        &[]
    }

    fn granted(&self) -> &[Info] {
        self.directives()
    }

    fn amend(&mut self, amendment: Amendment);

    fn range(&self) -> Option<Range> {
        None
    }

    fn log_data(&self) -> Option<&[Info]> {
        None
    }

    fn is_answered_by_policy(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        bytes_of(self.infos()).saturating_add(bytes_of(self.directives()))
    }
}

fn bytes_of(infos: &[Info]) -> usize {
    // Saturating, since a limit is compared with the sum.
    infos
        .iter()
        .map(|info| Size::of_info(info).bytes)
        .fold(0, usize::saturating_add)
}

/// Replaces infos or directives if an amendment has a replacement.
fn replace(infos: &mut Vec<Info>, replacement: Option<Vec<Info>>) {
    if let Some(replacement) = replacement {
        *infos = replacement;
    }
}

macro_rules! subjects {
    ($($(#[$doc:meta])* $Subject:ident($Type:ident);)+) => {
        /// Subject of a policy request, by hook. The hook of events has two.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum PolicySubject {
            $($(#[$doc])* $Subject($Type),)+
        }

        impl PolicySubject {
            fn part(&self) -> &dyn HookSubject {
                match self {
                    $(PolicySubject::$Subject(subject) => subject,)+
                }
            }

            fn part_mut(&mut self) -> &mut dyn HookSubject {
                match self {
                    $(PolicySubject::$Subject(subject) => subject,)+
                }
            }
        }
    };
}

subjects! {
    /// A connection.
    Connection(ConnectionSubject);
    /// An event that is raised, and whether it reaches other users.
    Event(EventSubject);
    /// A registration for events.
    Registration(RegistrationSubject);
    /// Job control.
    JobControl(JobControlSubject);
    /// Monitoring of procs, files or resource usage.
    Monitor(MonitorSubject);
    /// Provision of nodes, and by which module.
    Provision(ProvisionSubject);
    /// A log request.
    Log(LogSubject);
    /// An operation on a group.
    Group(GroupSubject);
    /// A spawn.
    Spawn(SpawnSubject);
}

impl PolicySubject {
    /// Returns the hook that decides.
    pub fn hook(&self) -> Hook {
        self.part().hook()
    }

    /// Returns the rule that decides by default, with the data that it needs.
    pub fn rule(&self) -> BuiltInRule<'_> {
        self.part().rule()
    }

    /// Returns a few words for logs. `targets` is the number of target procs.
    pub fn summary(&self, targets: usize) -> String {
        self.part().summary(targets)
    }

    /// Returns the infos.
    pub fn infos(&self) -> &[Info] {
        self.part().infos()
    }

    /// Returns the directives.
    pub fn directives(&self) -> &[Info] {
        self.part().directives()
    }

    /// Returns the infos that a granted request continues with: the directives, or the infos of a
    /// request that has no directives.
    pub fn granted(&self) -> &[Info] {
        self.part().granted()
    }

    /// Applies a policy's amendment. What policies of the hook must not amend stays as it is.
    pub fn amend(&mut self, amendment: Amendment) {
        self.part_mut().amend(amendment);
    }

    /// Returns the memory of a held request, in bytes. Parts that the held request has a copy of,
    /// beside the policies' copy, count twice.
    pub fn bytes(&self) -> usize {
        self.part().bytes()
    }

    /// Returns the range of an event, with the amendments; `None` for other subjects.
    pub fn range(&self) -> Option<Range> {
        self.part().range()
    }

    /// Returns the data of a log request, with the amendments; `None` for other subjects.
    pub fn log_data(&self) -> Option<&[Info]> {
        self.part().log_data()
    }

    /// Returns true if the infos that the granting policy returns are the answer to the requester.
    pub fn is_answered_by_policy(&self) -> bool {
        self.part().is_answered_by_policy()
    }
}
