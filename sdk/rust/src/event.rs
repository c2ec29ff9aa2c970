//! The event being handled. Nothing of it is copied into the module until it is asked for.
use crate::{
    Identity, Info, Outcome, Proc, Range, Step, Value,
    bindings::EventHead,
    view::{View, for_tests},
};

/// The event being handled. It is a view of the call being made: each question is answered by the host, so keep an
/// answer that is needed twice.
#[derive(Debug)]
pub struct Event {
    head: EventHead,
    view: View,
}

for_tests!(Event);

impl Event {
    /// For tests: an event with this code, raised by the resource manager for a namespace, without infos, first in its chain.
    pub fn for_test(code: i32) -> Event {
        let head = EventHead {
            registration: 1,
            tag: 0,
            code,
            range: Range::Namespace,
            infos: 0,
            steps: 0,
        };
        Event {
            head,
            view: View::test(),
        }
    }

    /// For tests: the same, meant for these.
    #[must_use]
    pub fn for_range(mut self, range: Range) -> Event {
        self.head.range = range;
        self
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
        self.view.source()
    }

    /// User and group of the source, as the kernel told the server; none where nobody is behind it.
    pub fn credentials(&self) -> Option<Identity> {
        self.view.identity()
    }

    /// The procs it is aimed at, where it names any.
    pub fn targets(&self) -> Vec<Proc> {
        self.view.procs()
    }

    /// The value of this key ([`crate::key`] has the Standard's), if there is one. A repeated key means the last.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.view.get(key)
    }

    /// All infos, in their order.
    pub fn infos(&self) -> Vec<Info> {
        self.view.infos()
    }

    /// How many infos there are; known without asking the host.
    pub fn info_count(&self) -> u32 {
        match &self.view {
            View::Call => self.head.infos,
            View::Test(facts) => facts.infos.len() as u32,
        }
    }

    /// What those before this one in the chain returned, oldest first.
    pub fn steps(&self) -> Vec<Step> {
        self.view.steps()
    }

    /// How many handlers of this chain ran before; known without asking the host.
    pub fn step_count(&self) -> u32 {
        match &self.view {
            View::Call => self.head.steps,
            View::Test(facts) => facts.steps.len() as u32,
        }
    }
}

/// What [`crate::handler!`] exports as `handle`.
#[doc(hidden)]
pub fn run_handle(head: EventHead, handle: impl Fn(&Event) -> Outcome) -> i32 {
    crate::describe_panics();
    handle(&Event {
        head,
        view: View::Call,
    })
    .deliver()
}

/// Makes a component of this crate: a module whose events are handled by a `fn(&Event) -> Outcome`. Which events those
/// are, the admin's file or the command line says.
#[macro_export]
macro_rules! handler {
    ($handle:path) => {
        const _: () = {
            use $crate::bindings::event_handler::{
                self as bindings, exports::peal::pmix::event_handler as role,
            };

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
