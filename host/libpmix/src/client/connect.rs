//! Connect and disconnect of procs of several jobs.
use super::{
    library::Library,
    operations::{begin_status, wait_status},
    participants::Participants,
};
use crate::{
    abi::{CInfo, COpCallback, CProc, CStatus},
    border,
};
use peal_client::{Client, ClientError};
use peal_model::{Status, code};
use std::ffi::c_void;

/// Reads the arguments of a connect or disconnect, of which at least one proc must be there.
///
/// # Safety
///
/// `procs` is null or begins an array of `nprocs` procs, `info` of `ninfo` infos.
unsafe fn read(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
) -> Result<Participants, Status> {
    Library::running()?;
    // SAFETY: the caller guarantees the arrays.
    let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
    if all.procs.is_empty() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    Ok(all)
}

async fn run_connect(all: Participants, client: Client) -> Result<(), ClientError> {
    client.connect_procs(&all.procs, &all.infos).await
}

async fn run_disconnect(all: Participants, client: Client) -> Result<(), ClientError> {
    client.disconnect_procs(&all.procs, &all.infos).await
}

/// `PMIx_Connect`: connects procs, all of which call it.
///
/// # Safety
///
/// `procs` is null or begins an array of `nprocs` procs, `info` of `ninfo` infos.
#[unsafe(export_name = "PMIx_Connect")]
pub unsafe extern "C" fn connect(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Connect", || {
        // SAFETY: the caller guarantees the arrays.
        let all = unsafe { read(procs, nprocs, info, ninfo) }?;
        wait_status("PMIx_Connect", |client| run_connect(all, client))
    })
}

/// `PMIx_Connect_nb`: connects procs, and calls back when all have called it.
///
/// # Safety
///
/// As for [`connect`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Connect_nb")]
pub unsafe extern "C" fn connect_nb(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Connect_nb", || {
        // SAFETY: the caller guarantees the arrays.
        let all = unsafe { read(procs, nprocs, info, ninfo) }?;
        begin_status("PMIx_Connect_nb", cbfunc, cbdata, |client| {
            run_connect(all, client)
        })
    })
}

/// `PMIx_Disconnect`: disconnects connected procs, all of which call it.
///
/// # Safety
///
/// As for [`connect`].
#[unsafe(export_name = "PMIx_Disconnect")]
pub unsafe extern "C" fn disconnect(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Disconnect", || {
        // SAFETY: the caller guarantees the arrays.
        let all = unsafe { read(procs, nprocs, info, ninfo) }?;
        wait_status("PMIx_Disconnect", |client| run_disconnect(all, client))
    })
}

/// `PMIx_Disconnect_nb`: disconnects procs, and calls back when all have called it.
///
/// # Safety
///
/// As for [`connect_nb`].
#[unsafe(export_name = "PMIx_Disconnect_nb")]
pub unsafe extern "C" fn disconnect_nb(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Disconnect_nb", || {
        // SAFETY: the caller guarantees the arrays.
        let all = unsafe { read(procs, nprocs, info, ninfo) }?;
        begin_status("PMIx_Disconnect_nb", cbfunc, cbdata, |client| {
            run_disconnect(all, client)
        })
    })
}
