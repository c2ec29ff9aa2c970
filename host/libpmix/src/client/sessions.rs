//! Control of sessions and blocks of resources, since 5.0 and 6.1.
use super::{
    control::infos_of,
    library::Library,
    operations::{InfoAnswer, begin_infos, begin_silently, begin_status, wait_status},
};
use crate::{
    abi::{CInfo, CInfoCallback, COpCallback, CResourceBlockDirective, CResourceUnit, CStatus},
    border,
    convert::{read_array, text_argument},
};
use peal_client::{Client, ClientError};
use peal_model::{Request, Status};
use std::ffi::{c_char, c_void};

/// `PMIx_Session_control`: controls a session. With a callback it returns at once, and calls back with
/// the results; without one nothing tells them.
///
/// # Safety
///
/// `directives` is null or begins an array of `ndirs` infos. `cbfunc` may be called with `cbdata` from
/// another thread.
#[unsafe(export_name = "PMIx_Session_control")]
pub unsafe extern "C" fn session_control(
    session: u32,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Session_control";
    border::status(FUNCTION, || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(directives, ndirs, "directives") }?;
        let control = |client: Client| async move {
            let request = Request::SessionControl { session, infos };
            let reply = client.send_request(request).await;
            InfoAnswer::new(FUNCTION, reply.and_then(infos_of))
        };
        match cbfunc {
            Some(_) => begin_infos(cbfunc, cbdata, control),
            None => begin_silently(control),
        }
    })
}

/// Reads a request about a block of resources.
///
/// # Safety
///
/// `block` is null or a string, `units` is null or begins an array of `nunits` units, `info` of `ninfo`
/// infos.
unsafe fn read_block(
    directive: CResourceBlockDirective,
    block: *const c_char,
    units: *const CResourceUnit,
    nunits: usize,
    info: *const CInfo,
    ninfo: usize,
) -> Result<Request, Status> {
    Library::running()?;
    // SAFETY: the caller guarantees a string, and the arrays.
    unsafe {
        Ok(Request::ResourceBlock {
            directive,
            block: text_argument(block)?,
            units: read_array(units, nunits, "units")?,
            infos: read_array(info, ninfo, "infos")?,
        })
    }
}

async fn send(client: Client, request: Request) -> Result<(), ClientError> {
    client.send_request(request).await.map(drop)
}

/// `PMIx_Resource_block`: defines or changes a block of resources.
///
/// # Safety
///
/// `block` is null or a string, `res` is null or begins an array of `nres` units, `info` of `ninfo` infos.
#[unsafe(export_name = "PMIx_Resource_block")]
pub unsafe extern "C" fn resource_block(
    directive: CResourceBlockDirective,
    block: *mut c_char,
    res: *const CResourceUnit,
    nres: usize,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Resource_block", || {
        // SAFETY: the caller guarantees what `read_block` demands.
        let request = unsafe { read_block(directive, block, res, nres, info, ninfo) }?;
        wait_status("PMIx_Resource_block", |client| send(client, request))
    })
}

/// `PMIx_Resource_block_nb`: defines or changes a block of resources, and calls back.
///
/// # Safety
///
/// As for [`resource_block`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Resource_block_nb")]
pub unsafe extern "C" fn resource_block_nb(
    directive: CResourceBlockDirective,
    block: *mut c_char,
    res: *const CResourceUnit,
    nres: usize,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Resource_block_nb", || {
        // SAFETY: the caller guarantees what `read_block` demands.
        let request = unsafe { read_block(directive, block, res, nres, info, ninfo) }?;
        begin_status("PMIx_Resource_block_nb", cbfunc, cbdata, |client| {
            send(client, request)
        })
    })
}
