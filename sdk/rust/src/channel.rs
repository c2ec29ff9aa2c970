//! Log channels: the log request of the current call.
use crate::{
    ChainResult, Info, Outcome, Proc, UserIdentity, Value,
    bindings::log_channel::exports::peal::pmix::log_channel::RequestHead,
    view::{View, for_tests},
};

/// Log request of the current call. Every accessor calls the host unless its documentation says
/// otherwise, so keep a value that is needed twice.
#[derive(Debug)]
pub struct LogRequest {
    head: RequestHead,
    view: View,
}

for_tests!(LogRequest);

impl LogRequest {
    /// Creates a request for tests: without data, for the channel of this key, first in its chain.
    pub fn for_test(channel: impl Into<String>) -> LogRequest {
        let head = RequestHead {
            channel: channel.into(),
            timestamp: 0,
            infos: 0,
            directives: 0,
            previous: 0,
        };
        LogRequest {
            head,
            view: View::test(),
        }
    }

    /// Sets the time of the request, in tests.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: u64) -> LogRequest {
        self.head.timestamp = timestamp;
        self
    }

    /// Returns the key of the channel, such as [`crate::key::PMIX_LOG_STDERR`]; a module may serve
    /// several channels.
    pub fn channel(&self) -> &str {
        &self.head.channel
    }

    /// Returns the time of the request as stated by the requester, in seconds since the epoch.
    pub fn timestamp(&self) -> Option<u64> {
        Some(self.head.timestamp).filter(|seconds| *seconds != 0)
    }

    /// Returns the requester. None: the resource manager.
    pub fn source(&self) -> Option<Proc> {
        self.view.source()
    }

    /// Returns the user of the requester, as reported by the kernel. None where no process is the
    /// requester.
    pub fn identity(&self) -> Option<UserIdentity> {
        self.view.identity()
    }

    /// Returns the data to be written: those under the key of this channel, and those under no
    /// channel's key.
    pub fn data(&self) -> Vec<Info> {
        self.view.infos()
    }

    /// Returns the directives: how the data are to be written.
    pub fn directives(&self) -> Vec<Info> {
        self.view.directives()
    }

    /// Returns the value of a key ([`crate::key`] has the Standard's) among the data or else the
    /// directives. Of a repeated key the last value counts.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.view.get(key)
    }

    /// Returns the results of the channels that were tried earlier for this request, oldest first.
    pub fn previous_results(&self) -> Vec<ChainResult> {
        self.view.previous_results()
    }

    /// Returns the number of channels that were tried earlier, without a call of the host.
    pub fn previous_count(&self) -> u32 {
        match &self.view {
            View::Call => self.head.previous,
            View::Test(test_call) => test_call.previous.len() as u32,
        }
    }
}

/// Runs the function that [`crate::channel!`] exports as `log`.
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

/// Exports the role `log-channel` from this crate, by a `fn(&LogRequest) -> Result<(), i32>` whose
/// error is a status. A function with more to report returns an [`Outcome`].
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
