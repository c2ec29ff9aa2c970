//! Server's end of a privileged helper.
use crate::{
    control::{ControlFailure, ControlOrder, ProcessAction, STOP_TIMEOUT},
    files::FilePlace,
    message::{
        CallNumber, FileFault, FileRequest, FromHelper, HelperAnswer, HelperCall, HelperError,
        HelperRefusal, LIMIT, OpenedFile, PROTOCOL, ToHelper,
    },
    removal::{RemovalExtent, RemovalOrder},
    service::{HelperWork, ServiceError},
};
use peal_core::monitor::FileStat;
use peal_frames::{MessageStream, encode};
use peal_system::{process::ProcessId, socket_holder::HolderSearch};
use std::{
    collections::HashMap,
    fmt, io,
    io::Write,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// Time limit of a call that waits for no process to end. A search may look through all processes,
/// and a file may be on a file system that does not respond.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a removal, which may examine a million entries.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(600);

/// Work that a server cannot do itself: questions about processes of others, and work with the
/// rights of users. A helper does it, or, in a server without one, this process.
#[derive(Clone, Debug)]
pub struct PrivilegedHelper(Arc<HelperMode>);

#[derive(Debug)]
enum HelperMode {
    /// This process.
    Here(HelperWork),
    /// A process at the other end of a connection.
    Process(HelperProcess),
}

impl Default for PrivilegedHelper {
    fn default() -> PrivilegedHelper {
        PrivilegedHelper(Arc::new(HelperMode::Here(HelperWork::without_rules())))
    }
}

/// Call that a helper has refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedCall {
    /// Kind of the call in a few words.
    pub kind: &'static str,
    /// User as whom the helper was to act, if any.
    pub uid: Option<u32>,
    /// Reason of the refusal.
    pub reason: HelperRefusal,
}

/// Receives refusals.
type ReportRefusal = Box<dyn Fn(RefusedCall) + Send + Sync>;

/// Starts a helper and returns the connection to it.
type StartHelper = Box<dyn Fn() -> io::Result<UnixStream> + Send + Sync>;

struct HelperProcess {
    start: StartHelper,
    /// Connection; none before the first call and after an error.
    connection: Mutex<Option<Arc<HelperConnection>>>,
    /// Receiver of refusals.
    refusals: OnceLock<ReportRefusal>,
}

impl fmt::Debug for HelperProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperProcess").finish_non_exhaustive()
    }
}

/// Answer of a helper to a call, or the reason why there is none.
type Answered = Result<HelperAnswer, HelperError>;

#[derive(Debug)]
struct HelperConnection {
    writer: Mutex<UnixStream>,
    open: Mutex<OpenCalls>,
}

/// Call without an answer.
struct OpenCall {
    number: CallNumber,
    answer: mpsc::Receiver<Answered>,
}

#[derive(Debug)]
enum OpenCalls {
    /// Calls without an answer.
    Waiting {
        last: u64,
        calls: HashMap<CallNumber, mpsc::SyncSender<Answered>>,
    },
    /// The connection has ended for this reason.
    Lost(String),
}

impl PrivilegedHelper {
    /// Returns a helper in a process that `start` starts: at the first call, and again after the process
    /// was lost.
    pub fn process(
        start: impl Fn() -> io::Result<UnixStream> + Send + Sync + 'static,
    ) -> PrivilegedHelper {
        PrivilegedHelper(Arc::new(HelperMode::Process(HelperProcess {
            start: Box::new(start),
            connection: Mutex::default(),
            refusals: OnceLock::new(),
        })))
    }

    /// Has each refusal of a helper's process reported, on the thread that made the call. Only the
    /// first receiver counts.
    pub fn report_refusals(&self, report: impl Fn(RefusedCall) + Send + Sync + 'static) {
        if let HelperMode::Process(process) = &*self.0 {
            // A second receiver would be a mistake without consequence.
            drop(process.refusals.set(Box::new(report)));
        }
    }

    /// Starts the process before the first call. This process then has a thread that reads answers.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started or is of another release.
    pub fn connect(&self) -> Result<(), HelperError> {
        match &*self.0 {
            HelperMode::Here(_) => Ok(()),
            HelperMode::Process(process) => process.connected().map(drop),
        }
    }

    /// Returns the process that holds a socket; none if it is not found or its files may not be read.
    /// Blocks.
    pub fn holder(&self, search: HolderSearch) -> Option<ProcessId> {
        match self.call(HelperCall::FindHolder(search), CALL_TIMEOUT) {
            Ok(HelperAnswer::Holder(holder)) => holder,
            Ok(_) => None,
            Err(error) => {
                tracing::error!(%error, "holder of a connection not found");
                None
            }
        }
    }

    /// Removes files and directories as their user. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the helper refuses, is lost, or does not answer.
    pub fn remove(&self, order: RemovalOrder) -> Result<RemovalExtent, HelperError> {
        match self.call(HelperCall::Remove(order), REMOVAL_TIMEOUT)? {
            HelperAnswer::Removed(extent) => Ok(extent),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens the directory of a file as a user, and reads the metadata of the file. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the helper refuses, is lost, or does not answer.
    pub fn open_file(
        &self,
        request: FileRequest,
    ) -> Result<Result<OpenedFile, FileFault>, HelperError> {
        match self.call(HelperCall::OpenFile(request), CALL_TIMEOUT)? {
            HelperAnswer::Opened(opened) => Ok(opened),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads the metadata of an opened file; none if it no longer exists or its user may not read it.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file is not open at the helper, or the helper is lost or does not answer.
    pub fn read_file(&self, place: FilePlace) -> Result<Option<FileStat>, HelperError> {
        match self.call(HelperCall::ReadFile(place), CALL_TIMEOUT)? {
            HelperAnswer::Read(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }

    /// Closes a file. Does not wait for the answer.
    pub fn close_file(&self, place: FilePlace) {
        let call = HelperCall::CloseFile(place);
        match &*self.0 {
            HelperMode::Here(work) => drop(work.carry_out(call)),
            // A helper that is lost has closed its files.
            HelperMode::Process(process) => {
                drop(process.current().map(|connection| connection.begin(call)));
            }
        }
    }

    /// Carries out an action on processes as their user. Returns the procs on which it failed. Blocks
    /// until it is done.
    ///
    /// # Errors
    ///
    /// Fails if the helper refuses, is lost, or does not answer.
    pub fn control(&self, order: ControlOrder) -> Result<Vec<ControlFailure>, HelperError> {
        let grace = match order.action {
            ProcessAction::Terminate(grace) => grace,
            _ => Duration::ZERO,
        };
        // The helper waits for the stop and for the end after the kill.
        let timeout = CALL_TIMEOUT
            .saturating_add(grace)
            .saturating_add(STOP_TIMEOUT * 2);
        match self.call(HelperCall::Control(order), timeout)? {
            HelperAnswer::Controlled(failures) => Ok(failures),
            other => Err(unexpected(&other)),
        }
    }

    fn call(&self, call: HelperCall, timeout: Duration) -> Answered {
        match &*self.0 {
            HelperMode::Here(work) => Ok(work.carry_out(call)?),
            HelperMode::Process(process) => {
                let (kind, uid) = (call.kind(), call.uid());
                let connection = process.connected()?;
                let open = connection.begin(call)?;
                match open.answer.recv_timeout(timeout) {
                    Ok(answered) => {
                        if let (Err(HelperError::Refused(reason)), Some(report)) =
                            (&answered, process.refusals.get())
                        {
                            report(RefusedCall {
                                kind,
                                uid,
                                reason: reason.clone(),
                            });
                        }
                        answered
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        // Nobody waits for a late answer.
                        drop(connection.take(open.number));
                        Err(HelperError::Timeout)
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        Err(HelperError::Lost("connection closed".to_owned()))
                    }
                }
            }
        }
    }
}

fn unexpected(answer: &HelperAnswer) -> HelperError {
    HelperError::Lost(format!("unexpected answer {answer:?}"))
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        // The thread that reads answers ends, and so does the helper.
        if let Some(connection) = self.current() {
            connection.lose("the server has no more use for it");
        }
    }
}

impl HelperProcess {
    /// Returns the connection if it has not failed.
    fn current(&self) -> Option<Arc<HelperConnection>> {
        let connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connection
            .clone()
            .filter(|connection| !connection.is_lost())
    }

    /// Returns the connection. Starts another helper if the last one was lost.
    fn connected(&self) -> Result<Arc<HelperConnection>, HelperError> {
        let mut slot = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_lost()) {
            return Ok(connection.clone());
        }
        let lost =
            |error: io::Error| HelperError::Lost(format!("cannot start another one: {error}"));
        if slot.is_some() {
            tracing::warn!("privileged helper lost; starting another one");
        }
        let connection = HelperConnection::begin_with((self.start)().map_err(lost)?)?;
        *slot = Some(connection.clone());
        Ok(connection)
    }
}

/// Exchanges the first messages. Returns the stream for calls and the reader of answers.
fn greet(mut stream: UnixStream) -> Result<(UnixStream, MessageStream), ServiceError> {
    stream.set_write_timeout(Some(CALL_TIMEOUT))?;
    stream.write_all(&encode(&ToHelper::Hello(PROTOCOL), LIMIT)?)?;
    stream.set_read_timeout(Some(CALL_TIMEOUT))?;
    let mut reader = MessageStream::new(stream.try_clone()?, LIMIT);
    match reader.next_message()? {
        Some(FromHelper::Hello(PROTOCOL)) => {}
        Some(FromHelper::Hello(other)) => return Err(ServiceError::Protocol(Some(other))),
        Some(FromHelper::Answer { .. }) | None => return Err(ServiceError::Protocol(None)),
    }
    stream.set_read_timeout(None)?;
    Ok((stream, reader))
}

impl HelperConnection {
    /// Exchanges the first messages and starts the thread that reads answers.
    fn begin_with(stream: UnixStream) -> Result<Arc<HelperConnection>, HelperError> {
        let (writer, reader) =
            greet(stream).map_err(|error| HelperError::Lost(error.to_string()))?;
        let connection = Arc::new(HelperConnection {
            writer: Mutex::new(writer),
            open: Mutex::new(OpenCalls::Waiting {
                last: 0,
                calls: HashMap::new(),
            }),
        });
        let reading = connection.clone();
        thread::Builder::new()
            .name("helper".to_owned())
            .spawn(move || reading.read_answers(reader))
            .map_err(|error| HelperError::Lost(error.to_string()))?;
        Ok(connection)
    }

    fn is_lost(&self) -> bool {
        matches!(*self.open(), OpenCalls::Lost(_))
    }

    /// Sends a call.
    fn begin(&self, call: HelperCall) -> Result<OpenCall, HelperError> {
        let (sender, answer) = mpsc::sync_channel(1);
        let number = match &mut *self.open() {
            OpenCalls::Lost(reason) => return Err(HelperError::Lost(reason.clone())),
            OpenCalls::Waiting { last, calls } => {
                *last = last.wrapping_add(1);
                let number = CallNumber(*last);
                calls.insert(number, sender);
                number
            }
        };
        let frame = encode(&ToHelper::Call { number, call }, LIMIT).map_err(|error| {
            // Nothing was written, so the connection is as it was.
            self.take(number);
            HelperError::Lost(error.to_string())
        })?;
        let written = {
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write_all(&frame)
        };
        if let Err(error) = written {
            self.lose(&error.to_string());
            return Err(HelperError::Lost(error.to_string()));
        }
        Ok(OpenCall { number, answer })
    }

    fn read_answers(&self, mut reader: MessageStream) {
        let reason = loop {
            match reader.next_message() {
                Ok(Some(FromHelper::Answer { number, answer })) => {
                    // A call that was given up has no receiver any more.
                    if let Some(sender) = self.take(number) {
                        drop(sender.try_send(answer.map_err(HelperError::from)));
                    }
                }
                Ok(Some(FromHelper::Hello(_))) => {
                    break "it sent its first message twice".to_owned();
                }
                Ok(None) => break "it has ended".to_owned(),
                Err(error) => break error.to_string(),
            }
        };
        self.lose(&reason);
    }

    fn take(&self, number: CallNumber) -> Option<mpsc::SyncSender<Answered>> {
        match &mut *self.open() {
            OpenCalls::Waiting { calls, .. } => calls.remove(&number),
            OpenCalls::Lost(_) => None,
        }
    }

    /// Ends the connection: the calls that wait get no answer.
    fn lose(&self, reason: &str) {
        let mut open = self.open();
        if let OpenCalls::Waiting { calls, .. } = &mut *open {
            for sender in std::mem::take(calls).into_values() {
                drop(sender.try_send(Err(HelperError::Lost(reason.to_owned()))));
            }
            *open = OpenCalls::Lost(reason.to_owned());
        }
        drop(open);
        // The helper ends when it reads the end of the stream.
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        drop(writer.shutdown(std::net::Shutdown::Both));
    }

    fn open(&self) -> MutexGuard<'_, OpenCalls> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
