//! What a guest asks of the host in one call, in its order, with those answers that do not follow from what the call is about.
//! A tape takes that down, and gives the answers again where the call is replayed.
use peal_model::{Bytes, Info, Mail, Proc, Range, Status};
use serde::{Deserialize, Serialize};

/// A call of the host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostCall {
    /// What was asked.
    pub ask: HostCallRequest,
    /// The answer, unless it follows from what the call is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<HostCallAnswer>,
}

macro_rules! asks {
    ($($(#[$doc:meta])+ $Request:ident $({ $($field:ident: $ty:ty),+ })? = $name:literal;)+) => {
        /// What a guest asks of the host. What it hands over beyond this is in the call's [`crate::CallOutput`].
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the fields are the arguments of the function")]
        pub enum HostCallRequest { $($(#[$doc])+ $Request $({ $($field: $ty),+ })?,)+ }

        impl HostCallRequest {
            /// The function's name: interface and function of the contract.
            pub fn name(&self) -> &str {
                if let HostCallRequest::Wasi { function } = self {
                    return function;
                }
                match self {
                    $(HostCallRequest::$Request $({ $($field: _),+ })? => $name,)+
                }
            }
        }
    };
}

asks! {
    /// Who caused it.
    Source = "call.source";
    /// As whom.
    Credentials = "call.credentials";
    /// In which groups.
    Groups = "call.unix-groups";
    /// As whom the server runs.
    Server = "call.server-identity";
    /// Whom it is aimed at.
    Targets = "call.targets";
    /// Whose they are.
    Owners = "call.target-owners";
    /// What is at the other end of the connection.
    Connection = "call.peer";
    /// All infos.
    Infos = "call.infos";
    /// All directives.
    Directives = "call.directives";
    /// What those before it returned.
    Steps = "call.previous-results";
    /// One info.
    Get { key: String } = "call.get";
    /// Hands over a result.
    Push = "call.push";
    /// Changes the directives.
    Amend = "amendment.amend";
    /// Changes the range.
    Narrow { range: Range } = "amendment.narrow-range";
    /// Changes what is to be logged.
    Rewrite = "amendment.rewrite-data";
    /// Describes the exception that ends the call.
    Exception = "exception.describe";
    /// Writes a message; refused where there were too many.
    Log { level: Level, message: String } = "logging.log";
    /// The time, in milliseconds since the epoch. Asked of the host once a call.
    Now = "clock.now";
    /// Raises an event.
    Notify { code: Status, range: Range } = "notify.notify";
    /// Asks for job control.
    Control = "job-control.request";
    /// Wants something logged.
    Report = "log-request.submit";
    /// What procs use.
    Usage { procs: Vec<Proc> } = "resource-usage.query";
    /// The number that a request has; asked by the host itself.
    Number = "notify.number";
    /// Wants one more registration.
    Register = "registration.register";
    /// Wants one less.
    Deregister { registration: u64 } = "registration.deregister";
    /// The names of the sinks.
    Sinks = "sink.names";
    /// Writes to one.
    Write { sink: String, bytes: Bytes } = "sink.write";
    /// Hands a mail to one.
    Submit { sink: String, mail: Mail } = "sink.send-mail";
    /// A value of its state.
    Fetch { key: String } = "state.get";
    /// Sets one.
    Keep { key: String, value: Bytes } = "state.set";
    /// Drops one.
    Drop { key: String } = "state.delete";
    /// The keys of its state.
    Keys { prefix: String } = "state.keys";
    /// Random bytes.
    Random { len: u64 } = "random.get-random-bytes";
    /// The names of its directories.
    Directories = "files.directories";
    /// Reads a file.
    ReadFile { directory: String, path: String } = "files.read";
    /// Writes one.
    WriteFile { directory: String, path: String, bytes: Bytes } = "files.write";
    /// Writes at its end.
    AppendFile { directory: String, path: String, bytes: Bytes } = "files.append";
    /// Removes one.
    RemoveFile { directory: String, path: String } = "files.remove";
    /// What is in a directory.
    Entries { directory: String, path: String } = "files.list";
    /// A function of WASI, by its name. What it has from the host follows behind it.
    Wasi { function: String } = "wasi";
}

/// How loud a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in the contract")]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// What the host answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostCallAnswer {
    /// It was done.
    Done,
    /// It was not, for this reason.
    Refused(Status),
    /// A number.
    Number(u64),
    /// Bytes.
    Bytes(Bytes),
    /// There is nothing of that name.
    Nothing,
    /// Names.
    Names(Vec<String>),
    /// Infos.
    Infos(Vec<Info>),
}

/// What a function of the host returns.
pub(crate) trait Answered: Sized {
    /// As it is taken down.
    fn answer(&self) -> HostCallAnswer;
    /// From what was taken down; nothing where that is the answer to something else.
    fn of(answer: &HostCallAnswer) -> Option<Self>;
}

macro_rules! answered {
    ($($ty:ty: |$value:pat_param| $to:expr, $($from:pat => $back:expr),+;)+) => {$(
        impl Answered for $ty {
            fn answer(&self) -> HostCallAnswer {
                let $value = self;
                $to
            }
            fn of(answer: &HostCallAnswer) -> Option<$ty> {
                match answer {
                    $($from => Some($back),)+
                    _ => None,
                }
            }
        }
    )+};
}

answered! {
    (): |()| HostCallAnswer::Done, HostCallAnswer::Done => ();
    u64: |number| HostCallAnswer::Number(*number), HostCallAnswer::Number(number) => *number;
    Vec<u8>: |bytes| HostCallAnswer::Bytes(bytes.as_slice().into()), HostCallAnswer::Bytes(bytes) => bytes.as_slice().to_vec();
    Vec<String>: |names| HostCallAnswer::Names(names.clone()), HostCallAnswer::Names(names) => names.clone();
    Vec<Info>: |infos| HostCallAnswer::Infos(infos.clone()), HostCallAnswer::Infos(infos) => infos.clone();
    Option<Vec<u8>>: |found| found.as_ref().map_or(HostCallAnswer::Nothing, Answered::answer),
        HostCallAnswer::Bytes(bytes) => Some(bytes.as_slice().to_vec()), HostCallAnswer::Nothing => None;
}

impl<R: Answered> Answered for Result<R, Status> {
    fn answer(&self) -> HostCallAnswer {
        self.as_ref()
            .map_or_else(|status| HostCallAnswer::Refused(*status), R::answer)
    }

    fn of(answer: &HostCallAnswer) -> Option<Result<R, Status>> {
        match answer {
            HostCallAnswer::Refused(status) => Some(Err(*status)),
            answer => R::of(answer).map(Ok),
        }
    }
}

/// Takes down the host calls of one call after the other, where somebody wants that.
#[derive(Default)]
pub(crate) struct HostCallLog {
    /// None where nobody does.
    calls: Option<Vec<HostCall>>,
    /// What was taken down the last time, where this is a replay.
    script: Option<Script>,
}

/// What is still to come of a recorded call.
struct Script {
    calls: Vec<HostCall>,
    at: usize,
}

impl HostCallLog {
    /// A tape that takes down nothing, or everything.
    pub(crate) fn new(is_recorded: bool) -> HostCallLog {
        HostCallLog {
            calls: is_recorded.then(Vec::new),
            script: None,
        }
    }

    /// Answers the next call as this one was answered.
    pub(crate) fn follow(&mut self, calls: &[HostCall]) {
        self.script = Some(Script {
            calls: calls.to_vec(),
            at: 0,
        });
    }

    /// What was taken down of the call that ended.
    pub(crate) fn take(&mut self) -> Vec<HostCall> {
        self.script = None;
        self.calls.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes down what is asked, where its answer follows from what the call is about.
    pub(crate) fn note(&mut self, ask: impl FnOnce() -> HostCallRequest) {
        if let Some(calls) = &mut self.calls {
            let ask = ask();
            if let Some(script) = &mut self.script {
                script.find(&ask);
            }
            calls.push(HostCall { ask, answer: None });
        }
    }

    /// The answer to this when it was asked the last time, if it is asked again.
    pub(crate) fn known<R: Answered>(&mut self, ask: &HostCallRequest) -> Option<R> {
        R::of(self.script.as_mut()?.find(ask)?.answer.as_ref()?)
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_recorded(&self) -> bool {
        self.calls.is_some()
    }

    /// Takes down what was asked and answered.
    pub(crate) fn keep<R: Answered>(&mut self, ask: HostCallRequest, answer: &R) {
        if let Some(calls) = &mut self.calls {
            calls.push(HostCall {
                ask,
                answer: Some(answer.answer()),
            });
        }
    }
}

impl Script {
    /// The next call of which this was asked. What lies between was not asked again.
    fn find(&mut self, ask: &HostCallRequest) -> Option<&HostCall> {
        let rest = self.calls.get(self.at..)?;
        let found = self.at + rest.iter().position(|call| call.ask == *ask)?;
        self.at = found + 1;
        self.calls.get(found)
    }
}
