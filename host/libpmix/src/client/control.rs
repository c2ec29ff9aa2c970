//! Job control, monitoring and allocation.
use super::{
    library::Library,
    operations::{InfoAnswer, begin_infos, begin_silently, wait_infos},
};
use crate::{
    abi::{CAllocDirective, CInfo, CInfoCallback, CProc, CStatus},
    border,
    convert::{read_array, read_one},
};
use peal_client::{Client, ClientError};
use peal_model::{Info, Proc, Reply, Request, Status, key};
use std::ffi::c_void;

/// Arguments of a job-control request.
struct JobControl {
    targets: Vec<Proc>,
    directives: Vec<Info>,
}

impl JobControl {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `targets` is null or begins an array of `ntargets` procs, `directives` of `ndirs` infos.
    unsafe fn read(
        targets: *const CProc,
        ntargets: usize,
        directives: *const CInfo,
        ndirs: usize,
    ) -> Result<JobControl, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees the arrays.
        unsafe {
            Ok(JobControl {
                targets: read_array(targets, ntargets, "targets")?,
                directives: read_array(directives, ndirs, "directives")?,
            })
        }
    }

    async fn run(self, function: &'static str, client: Client) -> InfoAnswer {
        let done = client.job_control(&self.targets, &self.directives).await;
        InfoAnswer::new(function, done)
    }
}

/// `PMIx_Job_control`: controls procs, or the caller's job. The caller frees the results.
///
/// # Safety
///
/// `targets` is null or begins an array of `ntargets` procs, `directives` of `ndirs` infos. `results`
/// and `nresults` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Job_control")]
pub unsafe extern "C" fn job_control(
    targets: *const CProc,
    ntargets: usize,
    directives: *const CInfo,
    ndirs: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Job_control";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees the arrays.
        let request = unsafe { JobControl::read(targets, ntargets, directives, ndirs) }?;
        let control = |client| request.run(FUNCTION, client);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, control) }
    })
}

/// `PMIx_Job_control_nb`: controls procs, and calls back with the results. Without a callback nothing
/// tells them.
///
/// # Safety
///
/// As for [`job_control`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Job_control_nb")]
pub unsafe extern "C" fn job_control_nb(
    targets: *const CProc,
    ntargets: usize,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Job_control_nb";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees the arrays.
        let request = unsafe { JobControl::read(targets, ntargets, directives, ndirs) }?;
        if cbfunc.is_none() {
            // Open MPI 4.1 registers what it leaves behind without waiting for an answer.
            return begin_silently(|client| request.run(FUNCTION, client));
        }
        begin_infos(cbfunc, cbdata, |client| request.run(FUNCTION, client))
    })
}

/// Arguments of a monitoring request.
struct Monitor {
    monitor: Info,
    error: Status,
    directives: Vec<Info>,
}

impl Monitor {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `monitor` is null or points to an info, `directives` is null or begins an array of `ndirs`
    /// infos.
    unsafe fn read(
        monitor: *const CInfo,
        error: CStatus,
        directives: *const CInfo,
        ndirs: usize,
    ) -> Result<Monitor, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees an info, and the array.
        unsafe {
            Ok(Monitor {
                monitor: read_one(monitor, "monitor")?,
                error: Status(error),
                directives: read_array(directives, ndirs, "directives")?,
            })
        }
    }

    /// Returns true for a heartbeat (`PMIX_SEND_HEARTBEAT`), which has no answer.
    fn is_heartbeat(&self) -> bool {
        self.monitor.key == key::PMIX_SEND_HEARTBEAT
    }

    async fn run(self, function: &'static str, client: Client) -> InfoAnswer {
        let done = if self.is_heartbeat() {
            client.beat().await.map(|()| Vec::new())
        } else {
            let Monitor {
                monitor,
                error,
                directives,
            } = self;
            client.monitor(monitor, error, &directives).await
        };
        InfoAnswer::new(function, done)
    }
}

/// `PMIx_Process_monitor`: starts monitoring, or sends a heartbeat. The caller frees the results.
///
/// # Safety
///
/// `monitor` is null or points to an info, `directives` is null or begins an array of `ndirs` infos.
/// `results` and `nresults` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Process_monitor")]
pub unsafe extern "C" fn process_monitor(
    monitor: *const CInfo,
    error: CStatus,
    directives: *const CInfo,
    ndirs: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Process_monitor";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees an info, and the array.
        let request = unsafe { Monitor::read(monitor, error, directives, ndirs) }?;
        let start = |client| request.run(FUNCTION, client);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, start) }
    })
}

/// `PMIx_Process_monitor_nb`: starts monitoring, and calls back with the results. A heartbeat needs no
/// callback.
///
/// # Safety
///
/// As for [`process_monitor`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Process_monitor_nb")]
pub unsafe extern "C" fn process_monitor_nb(
    monitor: *const CInfo,
    error: CStatus,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Process_monitor_nb";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees an info, and the array.
        let request = unsafe { Monitor::read(monitor, error, directives, ndirs) }?;
        if cbfunc.is_none() && request.is_heartbeat() {
            return begin_silently(|client| request.run(FUNCTION, client));
        }
        begin_infos(cbfunc, cbdata, |client| request.run(FUNCTION, client))
    })
}

/// `PMIx_Heartbeat`: sends a heartbeat, since 6.1. It returns when the heartbeat is queued.
#[unsafe(export_name = "PMIx_Heartbeat")]
pub extern "C" fn heartbeat() {
    const FUNCTION: &str = "PMIx_Heartbeat";
    border::value(FUNCTION, (), || {
        let beat = |client: Client| async move { client.beat().await };
        if let Err(status) = begin_silently(beat) {
            tracing::debug!(%status, "heartbeat not sent");
        }
    });
}

/// Requests an allocation, and returns the infos of the answer.
async fn allocate(
    function: &'static str,
    client: Client,
    directive: CAllocDirective,
    infos: Vec<Info>,
) -> InfoAnswer {
    let answer = client
        .send_request(Request::Allocate { directive, infos })
        .await;
    InfoAnswer::new(function, answer.and_then(infos_of))
}

/// Returns the infos of a reply.
pub(crate) fn infos_of(reply: Reply) -> Result<Vec<Info>, ClientError> {
    match reply {
        Reply::Infos { infos, .. } => Ok(infos),
        _ => Ok(Vec::new()),
    }
}

/// `PMIx_Allocation_request`: requests an allocation of resources. The caller frees the results.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos. `results` and `nresults` are null or point to
/// places for the results.
#[unsafe(export_name = "PMIx_Allocation_request")]
pub unsafe extern "C" fn allocation_request(
    directive: CAllocDirective,
    info: *mut CInfo,
    ninfo: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Allocation_request";
    border::status(FUNCTION, || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(info, ninfo, "infos") }?;
        let request = |client| allocate(FUNCTION, client, directive, infos);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, request) }
    })
}

/// `PMIx_Allocation_request_nb`: requests an allocation, and calls back with the results.
///
/// # Safety
///
/// As for [`allocation_request`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Allocation_request_nb")]
pub unsafe extern "C" fn allocation_request_nb(
    directive: CAllocDirective,
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Allocation_request_nb";
    border::status(FUNCTION, || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(info, ninfo, "infos") }?;
        let request = |client| allocate(FUNCTION, client, directive, infos);
        begin_infos(cbfunc, cbdata, request)
    })
}
