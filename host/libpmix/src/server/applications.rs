//! Set-up of applications and nodes, values for other nodes, output, inventories, and attributes of the
//! host environment.
use super::{
    forms::{begin, wait, wait_or_begin},
    server,
};
use crate::{
    abi::{
        CByteObject, CDmodexCallback, CInfo, CInfoCallback, CIofChannel, COpCallback, CProc,
        CSetupApplicationCallback, CStatus,
    },
    border,
    client::{
        library::Library,
        operations::{ProgramData, release_infos},
        progress::call_program,
    },
    convert::{
        ConvertError, argv_argument, nspace_from_argument, read_array, read_one, text_argument,
    },
    heap_array::HeapArray,
    memory,
};
use peal_model::{Bytes, Info, IofChannel, Status, code};
use peal_stub::{HostReply, HostRequest};
use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// Converts the infos of a reply, or returns its status without any.
fn infos_of(reply: Result<HostReply, Status>) -> (Status, HeapArray<CInfo>) {
    let infos: Vec<Info> = match reply {
        Ok(HostReply::Infos(infos)) => infos,
        Ok(_) => Vec::new(),
        Err(status) => return (status, HeapArray::default()),
    };
    match HeapArray::from_models(&infos) {
        Ok(infos) => (code::PMIX_SUCCESS, infos),
        Err(error) => {
            tracing::warn!(%error, "reply of the server not converted");
            (error.status(), HeapArray::default())
        }
    }
}

/// `PMIx_server_dmodex_request`: calls back with what a proc of this node has put for other nodes, which
/// is freed after the callback.
///
/// # Safety
///
/// `proc` is null or points to a proc. `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_server_dmodex_request")]
pub unsafe extern "C" fn server_dmodex_request(
    proc: *const CProc,
    cbfunc: CDmodexCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_dmodex_request";
    border::status(FUNCTION, || {
        server()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees a proc or null.
        let proc = unsafe { read_one(proc, "proc") }?;
        let program = ProgramData::new(cbdata);
        begin(FUNCTION, HostRequest::Modex { proc }, move |reply| {
            let (status, data) = match reply {
                Ok(HostReply::Data(data)) => (code::PMIX_SUCCESS, data),
                Ok(_) => (code::PMIX_SUCCESS, Bytes::default()),
                Err(status) => (status, Bytes::default()),
            };
            let copied = memory::copy_bytes(data.as_slice());
            let (status, copy, len) = match copied {
                Ok(copy) => (status, copy, data.as_slice().len()),
                Err(error) => (error.status(), ptr::null_mut(), 0),
            };
            // SAFETY: the program passed the function for this call; the copy lives until then.
            call_program(|| unsafe { callback(status.0, copy, len, program.get()) });
            // SAFETY: the copy was made here.
            unsafe { memory::free(copy) };
        })
    })
}

/// `PMIx_server_setup_application`: calls back with what the servers of a job's nodes need before its
/// procs start.
///
/// # Safety
///
/// `nspace` is null, a string or a `pmix_nspace_t`; `info` is null or begins an array of `ninfo` infos.
/// `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_server_setup_application")]
pub unsafe extern "C" fn server_setup_application(
    nspace: *const c_char,
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: CSetupApplicationCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_setup_application";
    border::status(FUNCTION, || {
        server()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees a namespace and the array.
        let request = unsafe {
            HostRequest::SetupApplication {
                nspace: nspace_from_argument(nspace)?,
                infos: read_array(info, ninfo, "infos")?,
            }
        };
        let program = ProgramData::new(cbdata);
        begin(FUNCTION, request, move |reply| {
            let (status, mut infos) = infos_of(reply);
            let (first, len) = infos.as_raw_parts();
            // The program may use the infos until it says that it has copied them.
            let token = Library::get().releases.keep(infos);
            // SAFETY: the program passed the function for this call; the infos live until the release.
            call_program(|| unsafe {
                callback(
                    status.0,
                    first,
                    len,
                    program.get(),
                    Some(release_copied),
                    token,
                );
            });
        })
    })
}

/// Frees the infos that a program has copied. A second call does nothing.
///
/// # Safety
///
/// The token is not followed, so that it may be anything.
unsafe extern "C" fn release_copied(_status: CStatus, token: *mut c_void) {
    // SAFETY: any token is allowed.
    unsafe { release_infos(token) };
}

/// `PMIx_server_setup_local_support`: prepares this node for a job, with what
/// `PMIx_server_setup_application` returned.
///
/// # Safety
///
/// As for [`server_setup_application`].
#[unsafe(export_name = "PMIx_server_setup_local_support")]
pub unsafe extern "C" fn server_setup_local_support(
    nspace: *const c_char,
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_setup_local_support";
    border::status(FUNCTION, || {
        server()?;
        // SAFETY: the caller guarantees a namespace and the array.
        let request = unsafe {
            HostRequest::SetupLocalSupport {
                nspace: nspace_from_argument(nspace)?,
                infos: read_array(info, ninfo, "infos")?,
            }
        };
        wait_or_begin(FUNCTION, cbfunc, cbdata, request)
    })
}

/// `PMIx_server_IOF_deliver`: passes output of a proc to the clients and tools that pull it.
///
/// # Safety
///
/// `source` is null or points to a proc, `bo` is null or points to a byte object, `info` is null or begins
/// an array of `ninfo` infos. `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_server_IOF_deliver")]
pub unsafe extern "C" fn server_iof_deliver(
    source: *const CProc,
    channel: CIofChannel,
    bo: *const CByteObject,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_IOF_deliver";
    border::status(FUNCTION, || {
        server()?;
        // SAFETY: the caller guarantees what is read, or null.
        let request = unsafe {
            HostRequest::ForwardOutput {
                source: read_one(source, "source")?,
                channel: IofChannel(channel),
                data: if bo.is_null() {
                    Bytes::default()
                } else {
                    read_one(bo, "output")?
                },
                infos: read_array(info, ninfo, "infos")?,
            }
        };
        wait_or_begin(FUNCTION, cbfunc, cbdata, request)
    })
}

/// `PMIx_server_collect_inventory`: calls back with the inventory of this node.
///
/// # Safety
///
/// `directives` is null or begins an array of `ndirs` infos. `cbfunc` may be called with `cbdata` from
/// another thread.
#[unsafe(export_name = "PMIx_server_collect_inventory")]
pub unsafe extern "C" fn server_collect_inventory(
    directives: *mut CInfo,
    ndirs: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_collect_inventory";
    border::status(FUNCTION, || {
        server()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees the array.
        let directives = unsafe { read_array(directives, ndirs, "directives") }?;
        let program = ProgramData::new(cbdata);
        let request = HostRequest::CollectInventory { directives };
        begin(FUNCTION, request, move |reply| {
            let (status, mut infos) = infos_of(reply);
            let (first, len) = infos.as_raw_parts();
            let token = Library::get().releases.keep(infos);
            // SAFETY: the program passed the function for this call; the infos live until the release.
            call_program(|| unsafe {
                callback(
                    status.0,
                    first,
                    len,
                    program.get(),
                    Some(release_infos),
                    token,
                );
            });
        })
    })
}

/// `PMIx_server_deliver_inventory`: stores inventories of nodes.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos, `directives` of `ndirs`. `cbfunc` may be called with
/// `cbdata` from another thread.
#[unsafe(export_name = "PMIx_server_deliver_inventory")]
pub unsafe extern "C" fn server_deliver_inventory(
    info: *mut CInfo,
    ninfo: usize,
    directives: *mut CInfo,
    ndirs: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_server_deliver_inventory";
    border::status(FUNCTION, || {
        server()?;
        // SAFETY: the caller guarantees the arrays.
        let request = unsafe {
            HostRequest::DeliverInventory {
                infos: read_array(info, ninfo, "infos")?,
                directives: read_array(directives, ndirs, "directives")?,
            }
        };
        wait_or_begin(FUNCTION, cbfunc, cbdata, request)
    })
}

/// `PMIx_Register_attributes`: names the attributes that the host environment supports in a function.
///
/// # Safety
///
/// `function` is null or a string, `attrs` is null or a list of strings that ends with a null pointer.
#[unsafe(export_name = "PMIx_Register_attributes")]
pub unsafe extern "C" fn register_attributes(
    function: *mut c_char,
    attrs: *mut *mut c_char,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Register_attributes";
    border::status(FUNCTION, || {
        server()?;
        let missing = ConvertError::NullPointer { what: "function" };
        // SAFETY: the caller guarantees a string and a list, or null.
        let (function, attributes) = unsafe {
            (
                text_argument(function)?.ok_or(missing)?,
                argv_argument(attrs)?,
            )
        };
        let request = HostRequest::RegisterAttributes {
            function,
            attributes: attributes.into_iter().flatten().collect(),
        };
        wait(FUNCTION, request).map(drop)
    })
}
