//! The event being handled. Nothing of it is copied into the module until it is asked for.
use crate::{
    Info, Proc, Range, Step, Value,
    bindings::{EventHead, call},
    tree::{Host, lift_info, lift_step, lift_value},
};

/// The event being handled. It is a view of the call being made: each question is answered by the host, so keep an
/// answer that is needed twice.
#[derive(Debug)]
pub struct Event {
    head: EventHead,
}

/// User and group of a process, as the kernel knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Event {
    pub(crate) fn new(head: EventHead) -> Event {
        Event { head }
    }

    /// What happened: one of [`crate::status`], or a number that programs agreed upon.
    pub fn code(&self) -> i32 {
        self.head.code
    }

    /// Whom the event is meant for.
    pub fn range(&self) -> Range {
        self.head.range
    }

    /// The number of the registration that this call is for.
    pub fn registration(&self) -> u64 {
        self.head.registration
    }

    /// Who raised it; none means the resource manager.
    pub fn source(&self) -> Option<Proc> {
        call::source()
    }

    /// User and group of the source, as the kernel told the server; none where nobody is behind it.
    pub fn credentials(&self) -> Option<Credentials> {
        call::credentials().map(|(uid, gid)| Credentials { uid, gid })
    }

    /// The procs it is aimed at, where it names any.
    pub fn targets(&self) -> Vec<Proc> {
        call::targets()
    }

    /// The value of this key ([`crate::key`] has the Standard's), if there is one. A repeated key means the last.
    pub fn get(&self, key: &str) -> Option<Value> {
        call::get(key).map(|value| lift_value(value, &Host))
    }

    /// All infos, in their order.
    pub fn infos(&self) -> Vec<Info> {
        call::infos().into_iter().map(|info| lift_info(info, &Host)).collect()
    }

    /// How many infos there are; known without asking the host.
    pub fn info_count(&self) -> u32 {
        self.head.infos
    }

    /// What those before this one in the chain returned, oldest first.
    pub fn steps(&self) -> Vec<Step> {
        call::steps().into_iter().map(|step| lift_step(step, &Host)).collect()
    }

    /// How many handlers of this chain ran before; known without asking the host.
    pub fn step_count(&self) -> u32 {
        self.head.steps
    }
}
