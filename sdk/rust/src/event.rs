//! The event being handled. Nothing of it is copied into the module until it is asked for.
use crate::{
    Identity, Info, Outcome, Proc, Range, Step, Value,
    bindings::{EventHead, call},
    tree::{lift_chain, lift_content, lift_found},
};

/// The event being handled. It is a view of the call being made: each question is answered by the host, so keep an
/// answer that is needed twice.
#[derive(Debug)]
pub struct Event {
    head: EventHead,
}

impl Event {
    fn new(head: EventHead) -> Event {
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

    /// The tag that this module gave that registration ([`crate::Registration::tag`]); 0 where the admin's file made it.
    pub fn tag(&self) -> u32 {
        self.head.tag
    }

    /// Who raised it; none means the resource manager.
    pub fn source(&self) -> Option<Proc> {
        call::source()
    }

    /// User and group of the source, as the kernel told the server; none where nobody is behind it.
    pub fn credentials(&self) -> Option<Identity> {
        call::credentials()
    }

    /// The procs it is aimed at, where it names any.
    pub fn targets(&self) -> Vec<Proc> {
        call::targets()
    }

    /// The value of this key ([`crate::key`] has the Standard's), if there is one. A repeated key means the last.
    pub fn get(&self, key: &str) -> Option<Value> {
        call::get(key).map(lift_found)
    }

    /// All infos, in their order.
    pub fn infos(&self) -> Vec<Info> {
        lift_content(call::infos())
    }

    /// How many infos there are; known without asking the host.
    pub fn info_count(&self) -> u32 {
        self.head.infos
    }

    /// What those before this one in the chain returned, oldest first.
    pub fn steps(&self) -> Vec<Step> {
        lift_chain(call::steps())
    }

    /// How many handlers of this chain ran before; known without asking the host.
    pub fn step_count(&self) -> u32 {
        self.head.steps
    }
}

/// What [`crate::handler!`] exports as `handle`.
#[doc(hidden)]
pub fn run_handle(head: EventHead, handle: impl Fn(&Event) -> Outcome) -> i32 {
    handle(&Event::new(head)).deliver()
}

/// Makes a component of this crate: a module whose events are handled by a `fn(&Event) -> Outcome`. Which events those
/// are, the admin's file or the command line says.
#[macro_export]
macro_rules! handler {
    ($handle:path) => {
        const _: () = {
            use $crate::bindings::event_handler::{self as bindings, exports::peal::pmix::event_handler as role};

            struct Module;

            impl role::Guest for Module {
                fn handle(head: role::EventHead) -> i32 {
                    $crate::run_handle(head, $handle)
                }
            }

    bindings::export_event_handler!(Module with_types_in bindings);
        };
    };
}
