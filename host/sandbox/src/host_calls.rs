//! Host calls of one call, in their order, with the answers that do not follow from the subject of
//! the call. A log records them, and answers the same host calls again in a replay.
use peal_model::{Bytes, Info, Mail, Proc, Range, Status};
use serde::{Deserialize, Serialize};

/// A host call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostCall {
    /// Function and arguments.
    pub request: HostCallRequest,
    /// The answer, unless it follows from the subject of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<HostCallAnswer>,
}

macro_rules! host_call_requests {
    ($($(#[$doc:meta])+ $Request:ident $({ $($field:ident: $ty:ty),+ })? = $name:literal;)+) => {
        /// Function and arguments of a host call. Arguments that are missing here are in the call's
        /// [`crate::CallOutput`].
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the fields are the arguments of the function")]
        pub enum HostCallRequest { $($(#[$doc])+ $Request $({ $($field: $ty),+ })?,)+ }

        impl HostCallRequest {
            /// Returns the name of the function: interface and function of the contract.
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

host_call_requests! {
    /// Reads the source.
    Source = "call.source";
    /// Reads user and group of the source.
    Credentials = "call.credentials";
    /// Reads the Unix groups of the requester.
    Groups = "call.groups";
    /// Reads user and group of the server.
    Server = "call.server";
    /// Reads the target procs.
    Targets = "call.targets";
    /// Reads the owners of the target procs.
    Owners = "call.owners";
    /// Reads the peer of the connection.
    Connection = "call.connection";
    /// Reads all infos.
    Infos = "call.infos";
    /// Reads all directives.
    Directives = "call.directives";
    /// Reads the chain results.
    Steps = "call.steps";
    /// Reads one info.
    Get { key: String } = "call.get";
    /// Pushes an info of the result.
    Push = "call.push";
    /// Amends the directives.
    Amend = "amendment.amend";
    /// Narrows the range of the event.
    Narrow { range: Range } = "amendment.narrow-range";
    /// Rewrites the data to be logged.
    Rewrite = "amendment.rewrite-data";
    /// Describes the exception that ends the call.
    Exception = "exception.describe";
    /// Writes a message to the trace; refused beyond the limit on lines.
    Log { level: Level, message: String } = "logging.log";
    /// Reads the time in milliseconds since the epoch. The host is called once in a call.
    Now = "clock.now";
    /// Raises an event.
    Notify { code: Status, range: Range } = "notify.notify";
    /// Requests job control.
    Control = "job-control.request";
    /// Makes a log request.
    Report = "log-request.submit";
    /// Reads the resource usage of procs.
    Usage { procs: Vec<Proc> } = "resource-usage.query";
    /// Assigns the number of a request. The host itself makes this call.
    Number = "notify.number";
    /// Requests a registration.
    Register = "registration.register";
    /// Requests the end of a registration.
    Deregister { registration: u64 } = "registration.deregister";
    /// Lists the names of the sinks.
    Sinks = "sink.names";
    /// Writes to a sink.
    Write { sink: String, bytes: Bytes } = "sink.write";
    /// Submits a mail to a sink.
    Submit { sink: String, mail: Mail } = "sink.send-mail";
    /// Reads a value of the module's state.
    Fetch { key: String } = "state.get";
    /// Sets a value of the state.
    Keep { key: String, value: Bytes } = "state.set";
    /// Deletes a value of the state.
    Drop { key: String } = "state.delete";
    /// Lists the keys of the state.
    Keys { prefix: String } = "state.keys";
    /// Draws random bytes.
    Random { len: u64 } = "random.bytes";
    /// Lists the names of the granted directories.
    Directories = "files.directories";
    /// Reads a file.
    ReadFile { directory: String, path: String } = "files.read";
    /// Writes a file.
    WriteFile { directory: String, path: String, bytes: Bytes } = "files.write";
    /// Appends to a file.
    AppendFile { directory: String, path: String, bytes: Bytes } = "files.append";
    /// Removes a file.
    RemoveFile { directory: String, path: String } = "files.remove";
    /// Lists the entries of a directory.
    Entries { directory: String, path: String } = "files.list";
    /// Calls a function of WASI, by its name. The host calls that it makes follow behind it.
    Wasi { function: String } = "wasi";
}

/// Severity of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in the contract")]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Answer of a host call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostCallAnswer {
    /// Success without a value.
    Done,
    /// Refusal with its status.
    Refused(Status),
    /// A number.
    Number(u64),
    /// Bytes.
    Bytes(Bytes),
    /// No value of that name exists.
    Nothing,
    /// Names.
    Names(Vec<String>),
    /// Infos.
    Infos(Vec<Info>),
}

/// Result type of a host call that is recorded.
pub(crate) trait RecordedResult: Sized {
    /// Returns the recorded form.
    fn answer(&self) -> HostCallAnswer;
    /// Returns the value of a recorded form, or `None` if that is the answer to another function.
    fn of(answer: &HostCallAnswer) -> Option<Self>;
}

macro_rules! impl_recorded_result {
    ($($ty:ty: |$value:pat_param| $to:expr, $($from:pat => $back:expr),+;)+) => {$(
        impl RecordedResult for $ty {
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

impl_recorded_result! {
    (): |()| HostCallAnswer::Done, HostCallAnswer::Done => ();
    u64: |number| HostCallAnswer::Number(*number), HostCallAnswer::Number(number) => *number;
    Vec<u8>: |bytes| HostCallAnswer::Bytes(bytes.as_slice().into()), HostCallAnswer::Bytes(bytes) => bytes.as_slice().to_vec();
    Vec<String>: |names| HostCallAnswer::Names(names.clone()), HostCallAnswer::Names(names) => names.clone();
    Vec<Info>: |infos| HostCallAnswer::Infos(infos.clone()), HostCallAnswer::Infos(infos) => infos.clone();
    Option<Vec<u8>>: |found| found.as_ref().map_or(HostCallAnswer::Nothing, RecordedResult::answer),
        HostCallAnswer::Bytes(bytes) => Some(bytes.as_slice().to_vec()), HostCallAnswer::Nothing => None;
}

impl<R: RecordedResult> RecordedResult for Result<R, Status> {
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

/// Log of the host calls of successive calls. It records only for a recorder.
#[derive(Default)]
pub(crate) struct HostCallLog {
    /// `None` if nothing is recorded.
    calls: Option<Vec<HostCall>>,
    /// The recorded host calls, in a replay.
    script: Option<Script>,
}

/// Position in the host calls of a recorded call.
struct Script {
    calls: Vec<HostCall>,
    at: usize,
}

impl HostCallLog {
    /// Makes a log that records all host calls, or none.
    pub(crate) fn new(is_recorded: bool) -> HostCallLog {
        HostCallLog {
            calls: is_recorded.then(Vec::new),
            script: None,
        }
    }

    /// Answers the next call from recorded host calls.
    pub(crate) fn follow(&mut self, calls: &[HostCall]) {
        self.script = Some(Script {
            calls: calls.to_vec(),
            at: 0,
        });
    }

    /// Returns the host calls of the call that ended.
    pub(crate) fn take(&mut self) -> Vec<HostCall> {
        self.script = None;
        self.calls.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records a host call whose answer follows from the subject.
    pub(crate) fn record_request(&mut self, request: impl FnOnce() -> HostCallRequest) {
        if let Some(calls) = &mut self.calls {
            let request = request();
            if let Some(script) = &mut self.script {
                // Move past this host call, so that an equal request later in the call gets its own
                // answer.
                script.find(&request);
            }
            calls.push(HostCall {
                request,
                answer: None,
            });
        }
    }

    /// Returns the recorded answer to the same host call, if there is one.
    pub(crate) fn replayed_answer<R: RecordedResult>(
        &mut self,
        request: &HostCallRequest,
    ) -> Option<R> {
        R::of(self.script.as_mut()?.find(request)?.answer.as_ref()?)
    }

    /// Returns true if host calls are recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.calls.is_some()
    }

    /// Records a host call with its answer.
    pub(crate) fn record_answer<R: RecordedResult>(
        &mut self,
        request: HostCallRequest,
        answer: &R,
    ) {
        if let Some(calls) = &mut self.calls {
            calls.push(HostCall {
                request,
                answer: Some(answer.answer()),
            });
        }
    }
}

impl Script {
    /// Returns the next recorded host call that equals `request`. Those between were not made
    /// again.
    fn find(&mut self, request: &HostCallRequest) -> Option<&HostCall> {
        let rest = self.calls.get(self.at..)?;
        let found = self.at + rest.iter().position(|call| call.request == *request)?;
        self.at = found + 1;
        self.calls.get(found)
    }
}
