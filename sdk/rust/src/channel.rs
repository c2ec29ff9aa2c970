//! Log channels: the request being logged.
use crate::{
    Identity, Info, Outcome, Proc, Step, Value,
    bindings::{call, log_channel::exports::peal::pmix::log_channel::RequestHead},
    tree::{lift_chain, lift_content, lift_found},
};

/// The request being logged. It is a view of the call being made: each question is answered by the host, so keep an answer
/// that is needed twice.
#[derive(Debug)]
pub struct LogRequest {
    head: RequestHead,
}

impl LogRequest {
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
        call::source()
    }

    /// As whom, by the kernel's word; none where nobody is behind it.
    pub fn identity(&self) -> Option<Identity> {
        call::credentials()
    }

    /// What is to be written: what is under this channel's own key, and what is under no channel's.
    pub fn data(&self) -> Vec<Info> {
        lift_content(call::infos())
    }

    /// How it is to be written.
    pub fn directives(&self) -> Vec<Info> {
        lift_content(call::directives())
    }

    /// The value of this key ([`crate::key`] has the Standard's) among its data or else its directives. A repeated key means
    /// the last.
    pub fn get(&self, key: &str) -> Option<Value> {
        call::get(key).map(lift_found)
    }

    /// What became of the channels that were tried before for this request, oldest first.
    pub fn steps(&self) -> Vec<Step> {
        lift_chain(call::steps())
    }

    /// How many channels were tried before; known without asking the host.
    pub fn step_count(&self) -> u32 {
        self.head.steps
    }
}

/// What [`crate::channel!`] exports as `log`.
#[doc(hidden)]
pub fn run_log<O: Into<Outcome>>(head: RequestHead, log: impl Fn(&LogRequest) -> O) -> i32 {
    log(&LogRequest { head }).into().deliver()
}

/// Makes a component of this crate: a module that logs, by a `fn(&LogRequest) -> Result<(), i32>`, the error being a status.
/// One that has more to say returns an [`Outcome`].
#[macro_export]
macro_rules! channel {
    ($log:path) => {
        const _: () = {
            use $crate::bindings::log_channel::{self as bindings, exports::peal::pmix::log_channel as role};

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
