//! Begin and end of a client.
use super::{
    library::{Connection, InitError, Library},
    operations::wait_status,
};
use crate::{
    abi::{CInfo, CProc, CStatus},
    border,
    convert::{read_array, write_into},
    trace,
};
use peal_client::{Client, ClientError, ClientSettings, Environment, ToolSettings};
use peal_model::{Info, Infos, KeyName, Range, Status, Value, code, key};
use std::{ffi::c_int, time::Duration};

/// Time for which the progress thread waits awake after a local event. The next event comes when the
/// program's thread is awake again; in a virtual machine the wake of an idle core takes some 30 us.
const LOCAL_EVENT_WAIT: Duration = Duration::from_micros(50);

/// Returns the time limits and bounds of a client of this library: a call takes as long as its
/// server and the other procs take, and so does a handler.
pub(crate) fn settings() -> ClientSettings {
    ClientSettings {
        answer_timeout: None,
        meeting_timeout: None,
        handler_timeout: None,
        local_event_wait: LOCAL_EVENT_WAIT,
        ..ClientSettings::default()
    }
}

/// Connects a client to the server that started the process. One that no server started connects to
/// the system server. Without that it is refused, as by the C library: programs such as those of Open
/// MPI then run without PMIx.
async fn connect() -> Result<Connection, ClientError> {
    let started = match Environment::read() {
        Ok(environment) => Client::connect_with(&environment, settings()).await,
        Err(ClientError::NotSet { .. }) if is_singleton() => {
            let places = ToolSettings::from(std::env::var_os)?.places;
            Client::singleton(&places, settings()).await
        }
        Err(error) => Err(error),
    };
    started.map(Connection::Client)
}

/// Returns true if no server started this process.
fn is_singleton() -> bool {
    std::env::var_os(NAMESPACE).is_none()
}

/// Variable by which a server names the namespace of a proc.
const NAMESPACE: &str = "PMIX_NAMESPACE";

/// Keys of an init by which a program describes its programming model.
const MODEL_KEYS: [KeyName; 4] = [
    key::PMIX_PROGRAMMING_MODEL,
    key::PMIX_MODEL_LIBRARY_NAME,
    key::PMIX_MODEL_LIBRARY_VERSION,
    key::PMIX_THREADING_MODEL,
];

/// Tells the handlers of the process which programming model it uses, if the infos of an init say
/// so: one library of the program learns of another that way.
fn declare_model(client: &Client, infos: &[Info]) -> Option<impl Future<Output = ()> + use<>> {
    let is_model = |info: &&Info| MODEL_KEYS.iter().any(|key| info.key == *key);
    let mut declared: Vec<Info> = infos.iter().filter(is_model).cloned().collect();
    if declared.is_empty() {
        return None;
    }
    declared.push(Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)));
    let client = client.clone();
    Some(async move {
        let declared = client.notify(code::PMIX_MODEL_DECLARED, Range::ProcLocal, declared);
        if let Err(error) = declared.await {
            tracing::debug!(%error, "programming model not declared");
        }
    })
}

/// Counts an init, and writes the name of the process.
///
/// # Safety
///
/// `proc` is null or points to a place for a proc.
pub(crate) unsafe fn enter<F, E>(
    function: &'static str,
    proc: *mut CProc,
    infos: &[Info],
    connect: impl FnOnce() -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<Connection, E>> + Send + 'static,
    E: InitError,
{
    trace::start();
    let running = Library::get().enter(function, connect)?;
    // SAFETY: the caller guarantees a place or null.
    if let Some(place) = unsafe { proc.as_mut() } {
        write_into(running.me(), place)?;
    }
    if let Some(declare) = declare_model(&running.client, infos) {
        running.progress.begin_silently(declare);
    }
    Ok(())
}

/// `PMIx_Init`: connects to the server of the process. Later calls are counted, and return the name
/// again.
///
/// # Safety
///
/// `proc` is null or points to a place for a proc, `info` is null or begins an array of `ninfo`
/// infos.
#[unsafe(export_name = "PMIx_Init")]
pub unsafe extern "C" fn init(proc: *mut CProc, info: *mut CInfo, ninfo: usize) -> CStatus {
    border::status("PMIx_Init", || {
        // SAFETY: the caller guarantees `ninfo` infos.
        let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
        // SAFETY: the caller guarantees a place or null.
        unsafe { enter("PMIx_Init", proc, &infos, connect) }
    })
}

/// `PMIx_Initialized`: returns 1 between the first init and the last finalize, else 0.
#[unsafe(export_name = "PMIx_Initialized")]
pub extern "C" fn initialized() -> c_int {
    border::value("PMIx_Initialized", 0, || {
        c_int::from(Library::get().is_running())
    })
}

/// `PMIx_Finalize`: counts down. The last call closes the connection and ends the progress thread;
/// with `PMIX_EMBED_BARRIER` it fences before.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_Finalize")]
pub unsafe extern "C" fn finalize(info: *const CInfo, ninfo: usize) -> CStatus {
    border::status("PMIx_Finalize", || {
        // SAFETY: the caller guarantees `ninfo` infos.
        let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
        if infos.is_true(key::PMIX_EMBED_BARRIER) {
            let barrier = |client: Client| async move { client.fence(&[], &[]).await };
            wait_status("PMIx_Finalize", barrier)?;
        }
        Library::get().leave("PMIx_Finalize")
    })
}

/// `PMIx_Progress`: does nothing, since the progress thread needs no help.
#[unsafe(export_name = "PMIx_Progress")]
pub extern "C" fn progress() {}
