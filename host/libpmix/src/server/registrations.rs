//! Registration of jobs and their procs, of resources and of process sets.
use super::{
    forms::{wait, wait_or_begin, wait_or_begin_void},
    model_variables, server,
};
use crate::{
    abi::{CInfo, COpCallback, CProc, CStatus},
    border,
    client::operations::ProgramData,
    convert::{ConvertError, nspace_from_argument, read_array, read_one, text_argument},
};
use peal_model::{Info, Proc, Status, Text, code};
use peal_stub::HostRequest;
use std::ffi::{c_char, c_int, c_void};

/// `PMIx_server_register_nspace`: registers a job with its data, or adds to its data. With a callback it
/// returns `PMIX_SUCCESS` at once; without one it waits, and returns `PMIX_OPERATION_SUCCEEDED`.
///
/// # Safety
///
/// `nspace` is null, a string or a `pmix_nspace_t`; `info` is null or begins an array of `ninfo` infos.
/// `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_server_register_nspace")]
pub unsafe extern "C" fn server_register_nspace(
    nspace: *const c_char,
    nlocalprocs: c_int,
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_register_nspace";
    border::status(FUNCTION, || {
        server()?;
        // SAFETY: the caller guarantees a namespace and the array.
        let (nspace, infos) = unsafe {
            let infos: Vec<Info> = read_array(info, ninfo, "infos")?;
            (nspace_from_argument(nspace)?, infos)
        };
        model_variables::describe(&nspace, &infos);
        let request = HostRequest::RegisterNamespace {
            nspace,
            local: nlocalprocs,
            infos,
        };
        wait_or_begin(FUNCTION, cbfunc, cbdata, request)
    })
}

/// `PMIx_server_deregister_nspace`: removes a job. The callback gets every status.
///
/// # Safety
///
/// `nspace` is null, a string or a `pmix_nspace_t`. `cbfunc` may be called with `cbdata`, also from
/// another thread.
#[unsafe(export_name = "PMIx_server_deregister_nspace")]
pub unsafe extern "C" fn server_deregister_nspace(
    nspace: *const c_char,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) {
    const FUNCTION: &str = "PMIx_server_deregister_nspace";
    border::value(FUNCTION, (), || {
        let request = || {
            let host = server()?;
            // SAFETY: the caller guarantees a namespace or null.
            let nspace = unsafe { nspace_from_argument(nspace) }?;
            host.clients.forget_job(&nspace);
            model_variables::forget(&nspace);
            Ok(HostRequest::DeregisterNamespace { nspace })
        };
        wait_or_begin_void(FUNCTION, cbfunc, cbdata, request());
    });
}

/// `PMIx_server_register_client`: registers a proc of this node, which will connect.
/// `server_object` is passed to the host's callbacks about the proc.
///
/// # Safety
///
/// `proc` is null or points to a proc. `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_server_register_client")]
pub unsafe extern "C" fn server_register_client(
    proc: *const CProc,
    uid: libc::uid_t,
    gid: libc::gid_t,
    server_object: *mut c_void,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_register_client";
    border::status(FUNCTION, || {
        let host = server()?;
        // SAFETY: the caller guarantees a proc or null.
        let proc: Proc = unsafe { read_one(proc, "proc") }?;
        host.clients
            .add(proc.clone(), ProgramData::new(server_object))?;
        let request = HostRequest::RegisterClient { proc, uid, gid };
        wait_or_begin(FUNCTION, cbfunc, cbdata, request)
    })
}

/// `PMIx_server_deregister_client`: removes a proc of this node. The callback gets every status.
///
/// # Safety
///
/// `proc` is null or points to a proc. `cbfunc` may be called with `cbdata`, also from another thread.
#[unsafe(export_name = "PMIx_server_deregister_client")]
pub unsafe extern "C" fn server_deregister_client(
    proc: *const CProc,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) {
    const FUNCTION: &str = "PMIx_server_deregister_client";
    border::value(FUNCTION, (), || {
        let request = || {
            let host = server()?;
            // SAFETY: the caller guarantees a proc or null.
            let proc: Proc = unsafe { read_one(proc, "proc") }?;
            host.clients.forget(&proc);
            Ok(HostRequest::DeregisterClient { proc })
        };
        wait_or_begin_void(FUNCTION, cbfunc, cbdata, request());
    });
}

/// Sends a request about resources.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos.
unsafe fn resources(
    function: &'static str,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
    request: impl FnOnce(Vec<Info>) -> HostRequest,
) -> Result<(), Status> {
    server()?;
    // SAFETY: the caller guarantees the array.
    let infos = unsafe { read_array(info, ninfo, "infos") }?;
    wait_or_begin(function, cbfunc, cbdata, request(infos))
}

/// `PMIx_server_register_resources`: registers resources that belong to no job.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos. `cbfunc` may be called with `cbdata` from another
/// thread.
#[unsafe(export_name = "PMIx_server_register_resources")]
pub unsafe extern "C" fn server_register_resources(
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_register_resources";
    border::status(FUNCTION, || {
        let request = |infos| HostRequest::RegisterResources { infos };
        // SAFETY: the caller guarantees the array.
        unsafe { resources(FUNCTION, info, ninfo, cbfunc, cbdata, request) }
    })
}

/// `PMIx_server_deregister_resources`: removes resources that belong to no job.
///
/// # Safety
///
/// As for [`server_register_resources`].
#[unsafe(export_name = "PMIx_server_deregister_resources")]
pub unsafe extern "C" fn server_deregister_resources(
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_deregister_resources";
    border::status(FUNCTION, || {
        let request = |infos| HostRequest::DeregisterResources { infos };
        // SAFETY: the caller guarantees the array.
        unsafe { resources(FUNCTION, info, ninfo, cbfunc, cbdata, request) }
    })
}

/// Reads the name of a process set.
///
/// # Safety
///
/// `name` is null or a string.
unsafe fn set_name(name: *const c_char) -> Result<Text, ConvertError> {
    let what = "name of a process set";
    // SAFETY: the caller guarantees a string or null.
    unsafe { text_argument(name) }?.ok_or(ConvertError::NullPointer { what })
}

/// `PMIx_server_define_process_set`: defines a process set. It waits, and returns
/// `PMIX_OPERATION_SUCCEEDED`.
///
/// # Safety
///
/// `members` is null or begins an array of `nmembers` procs, `pset_name` is null or a string.
#[unsafe(export_name = "PMIx_server_define_process_set")]
pub unsafe extern "C" fn server_define_process_set(
    members: *const CProc,
    nmembers: usize,
    pset_name: *const c_char,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_define_process_set";
    border::status(FUNCTION, || {
        server()?;
        // SAFETY: the caller guarantees the array and the string.
        let request = unsafe {
            HostRequest::DefineProcessSet {
                name: set_name(pset_name)?,
                members: read_array(members, nmembers, "members")?,
            }
        };
        wait(FUNCTION, request)?;
        Err(code::PMIX_OPERATION_SUCCEEDED)
    })
}

/// `PMIx_server_delete_process_set`: deletes a process set. It waits, and returns
/// `PMIX_OPERATION_SUCCEEDED`.
///
/// # Safety
///
/// `pset_name` is null or a string.
#[unsafe(export_name = "PMIx_server_delete_process_set")]
pub unsafe extern "C" fn server_delete_process_set(pset_name: *mut c_char) -> CStatus {
    const FUNCTION: &str = "PMIx_server_delete_process_set";
    border::status(FUNCTION, || {
        server()?;
        // SAFETY: the caller guarantees a string or null.
        let name = unsafe { set_name(pset_name) }?;
        wait(FUNCTION, HostRequest::DeleteProcessSet { name })?;
        Err(code::PMIX_OPERATION_SUCCEEDED)
    })
}
