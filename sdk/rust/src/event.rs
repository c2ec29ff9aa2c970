//! The event of the current call. Its parts are copied into the module only when they are read.
use crate::{
    ChainResult, Info, Outcome, Proc, Range, UserIdentity, Value,
    bindings::EventHead,
    view::{View, for_tests},
};

/// Event of the current call. Every accessor calls the host unless its documentation says
/// otherwise, so keep a value that is needed twice.
#[derive(Debug)]
pub struct Event {
    head: EventHead,
    view: View,
}

for_tests!(Event);

impl Event {
    /// Creates an event for tests: with this code, raised by the resource manager for a namespace,
    /// without infos, first in its chain.
    pub fn for_test(code: i32) -> Event {
        let head = EventHead {
            registration: 1,
            tag: 0,
            code,
            range: Range::Namespace,
            infos: 0,
            previous: 0,
        };
        Event {
            head,
            view: View::test(),
        }
    }

    /// Sets the range, in tests.
    #[must_use]
    pub fn with_range(mut self, range: Range) -> Event {
        self.head.range = range;
        self
    }

    /// Returns the event code: one of [`crate::status`], or a number that programs agreed upon.
    /// Does not call the host.
    pub fn code(&self) -> i32 {
        self.head.code
    }

    /// Returns the range of the event, without a call of the host.
    pub fn range(&self) -> Range {
        self.head.range
    }

    /// Returns the number of the registration that this call is for, without a call of the host.
    pub fn registration(&self) -> u64 {
        self.head.registration
    }

    /// Returns the tag that this module gave to that registration ([`crate::Registration::tag`]),
    /// without a call of the host; 0 if the configuration made it.
    pub fn tag(&self) -> u32 {
        self.head.tag
    }

    /// Returns the source of the event. None: the resource manager.
    pub fn source(&self) -> Option<Proc> {
        self.view.source()
    }

    /// Returns user and group of the source, as reported by the kernel. None where no process is
    /// the source.
    pub fn credentials(&self) -> Option<UserIdentity> {
        self.view.identity()
    }

    /// Returns the target procs of the event, if it names any.
    pub fn targets(&self) -> Vec<Proc> {
        self.view.procs()
    }

    /// Returns the value of a key ([`crate::key`] has the Standard's). Of a repeated key the last
    /// value counts.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.view.get(key)
    }

    /// Returns all infos in their order.
    pub fn infos(&self) -> Vec<Info> {
        self.view.infos()
    }

    /// Returns the number of infos, without a call of the host.
    pub fn info_count(&self) -> u32 {
        match &self.view {
            View::Call => self.head.infos,
            View::Test(test_call) => test_call.infos.len() as u32,
        }
    }

    /// Returns the results of the handlers that ran earlier in the chain, oldest first.
    pub fn previous_results(&self) -> Vec<ChainResult> {
        self.view.previous_results()
    }

    /// Returns the number of handlers that ran earlier in the chain, without a call of the host.
    pub fn previous_count(&self) -> u32 {
        match &self.view {
            View::Call => self.head.previous,
            View::Test(test_call) => test_call.previous.len() as u32,
        }
    }
}

/// Runs the function that [`crate::handler!`] exports as `handle`.
#[doc(hidden)]
pub fn run_handle(head: EventHead, handle: impl Fn(&Event) -> Outcome) -> i32 {
    crate::describe_panics();
    handle(&Event {
        head,
        view: View::Call,
    })
    .deliver()
}

/// Exports the role `event-handler` from this crate, by a `fn(&Event) -> Outcome`. The
/// configuration or the command line selects the events, unless the module also exports
/// [`crate::lifecycle!`].
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
