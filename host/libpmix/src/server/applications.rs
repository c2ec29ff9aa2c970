//! Set-up of applications and nodes, values for other nodes, output, inventories, and attributes of the
//! host environment.
use super::{
    forms::{begin, wait, wait_or_begin},
    launch_variables::LaunchEnvironment,
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
        operations::{ProgramData, begin as begin_local, release_infos},
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

/// Completes a function that needs no server: without a callback at once, otherwise by the callback on
/// the progress thread.
fn complete(callback: COpCallback, data: *mut c_void) -> Result<(), Status> {
    let Some(callback) = callback else {
        return Err(code::PMIX_OPERATION_SUCCEEDED);
    };
    let program = ProgramData::new(data);
    begin_local(
        |_| async {},
        // SAFETY: the program passed the function for this call.
        move |()| call_program(|| unsafe { callback(code::PMIX_SUCCESS.0, program.get()) }),
    )
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

/// `PMIx_server_setup_application`: calls back with what the procs of a job need: variables of this
/// process's environment, as with the C library.
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
        let infos: Vec<Info> = unsafe {
            nspace_from_argument(nspace)?;
            read_array(info, ninfo, "infos")?
        };
        let variables = LaunchEnvironment::of_this_process().for_application(&infos);
        let mut infos = HeapArray::from_models(&variables)?;
        let program = ProgramData::new(cbdata);
        let answer = move |()| {
            let (first, len) = infos.as_raw_parts();
            // The program may use the infos until it says that it has copied them.
            let token = Library::get().releases.keep(infos);
            // SAFETY: the program passed the function for this call; the infos live until the release.
            call_program(|| unsafe {
                callback(
                    code::PMIX_SUCCESS.0,
                    first,
                    len,
                    program.get(),
                    Some(release_copied),
                    token,
                );
            });
        };
        begin_local(|_| async {}, answer)
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

/// `PMIx_server_setup_local_support`: prepares this node for a job. Without plugins for fabrics nothing
/// is to be done.
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
        unsafe {
            nspace_from_argument(nspace)?;
            read_array::<Info>(info, ninfo, "infos")?;
        }
        complete(cbfunc, cbdata)
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

/// `PMIx_server_collect_inventory`: calls back with the inventory of this node, which is empty without
/// plugins for fabrics and GPUs.
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
        unsafe { read_array::<Info>(directives, ndirs, "directives") }?;
        let program = ProgramData::new(cbdata);
        let answer = move |()| {
            let token = Library::get().releases.keep(HeapArray::default());
            // SAFETY: the program passed the function for this call.
            call_program(|| unsafe {
                callback(
                    code::PMIX_SUCCESS.0,
                    ptr::null_mut(),
                    0,
                    program.get(),
                    Some(release_infos),
                    token,
                );
            });
        };
        begin_local(|_| async {}, answer)
    })
}

/// `PMIx_server_deliver_inventory`: takes inventories of nodes, which only plugins for fabrics and GPUs
/// would read.
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
        unsafe {
            read_array::<Info>(info, ninfo, "infos")?;
            read_array::<Info>(directives, ndirs, "directives")?;
        }
        complete(cbfunc, cbdata)
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
