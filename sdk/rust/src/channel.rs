//! Log channels: the request being logged.
use crate::{
    Identity, Info, Outcome, Proc, Step, Value,
    bindings::log_channel::exports::peal::pmix::log_channel::RequestHead,
    view::{View, for_tests},
};

/// The request being logged. It is a view of the call being made: each question is answered by the host, so keep an answer
/// that is needed twice.
#[derive(Debug)]
pub struct LogRequest {
    head: RequestHead,
    view: View,
}

for_tests!(LogRequest);

impl LogRequest {
    /// For tests: a request to log nothing to the channel of this key, first in its chain.
    pub fn for_test(channel: impl Into<String>) -> LogRequest {
        let head = RequestHead {
            channel: channel.into(),
            timestamp: 0,
            infos: 0,
            directives: 0,
            steps: 0,
        };
        LogRequest {
            head,
            view: View::test(),
        }
    }

    /// For tests: the same, logged at this time.
    #[must_use]
    pub fn at(mut self, timestamp: u64) -> LogRequest {
        self.head.timestamp = timestamp;
        self
    }

    /// The key of the channel that is meant, such as [`crate::key::PMIX_LOG_STDERR`]; a module may be several channels.
    pub fn channel(&self) -> &str {
        &self.head.channel
    }

    /// When it was logged by the requester's word, in seconds since the epoch.
    pub fn timestamp(&self) -> Option<u64> {
        Some(self.head.timestamp).filter(|seconds| *seconds != 0)
    }

    /// Who logs it; none means the resource manager.
    pub fn source(&self) -> Option<Proc> {
        self.view.source()
    }

    /// As whom, by the kernel's word; none where nobody is behind it.
    pub fn identity(&self) -> Option<Identity> {
        self.view.identity()
    }

    /// What is to be written: what is under this channel's own key, and what is under no channel's.
    pub fn data(&self) -> Vec<Info> {
        self.view.infos()
    }

    /// How it is to be written.
    pub fn directives(&self) -> Vec<Info> {
        self.view.directives()
    }

    /// The value of this key ([`crate::key`] has the Standard's) among its data or else its directives. A repeated key means
    /// the last.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.view.get(key)
    }

    /// What became of the channels that were tried before for this request, oldest first.
    pub fn steps(&self) -> Vec<Step> {
        self.view.steps()
    }

    /// How many channels were tried before; known without asking the host.
    pub fn step_count(&self) -> u32 {
        match &self.view {
            View::Call => self.head.steps,
            View::Test(facts) => facts.steps.len() as u32,
        }
    }
}

/// What [`crate::channel!`] exports as `log`.
#[doc(hidden)]
pub fn run_log<O: Into<Outcome>>(head: RequestHead, log: impl Fn(&LogRequest) -> O) -> i32 {
    crate::describe_panics();
    log(&LogRequest {
        head,
        view: View::Call,
    })
    .into()
    .deliver()
}

/// Makes a component of this crate: a module that logs, by a `fn(&LogRequest) -> Result<(), i32>`, the error being a status.
/// One that has more to say returns an [`Outcome`].
#[macro_export]
macro_rules! channel {
    ($log:path) => {
        const _: () = {
            use $crate::bindings::log_channel::{
                self as bindings, exports::peal::pmix::log_channel as role,
            };

            struct Module;

            impl role::Guest for Module {
                fn log(head: role::RequestHead) -> i32 {
                    $crate::run_log(head, $log)
                }
            }

    bindings::export_log_channel!(Module with_types_in bindings);
        };
    };
}
