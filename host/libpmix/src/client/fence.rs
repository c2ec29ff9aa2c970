//! Fences, blocking and non-blocking.
use super::{
    operations::{begin_status, wait_status},
    participants::Participants,
};
use crate::{
    abi::{CInfo, COpCallback, CProc, CStatus},
    border,
};
use peal_client::{Client, ClientError};
use std::ffi::c_void;

async fn run(all: Participants, client: Client) -> Result<(), ClientError> {
    client.fence(&all.procs, &all.infos).await
}

/// `PMIx_Fence`: waits until all of the procs, or the whole job, have called it.
///
/// # Safety
///
/// `procs` is null or begins an array of `nprocs` procs, `info` of `ninfo` infos.
#[unsafe(export_name = "PMIx_Fence")]
pub unsafe extern "C" fn fence(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Fence", || {
        // SAFETY: the caller guarantees the arrays.
        let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
        wait_status("PMIx_Fence", |client| run(all, client))
    })
}

/// `PMIx_Fence_nb`: calls back when all of the procs, or the whole job, have called it.
///
/// # Safety
///
/// As for [`fence`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Fence_nb")]
pub unsafe extern "C" fn fence_nb(
    procs: *const CProc,
    nprocs: usize,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Fence_nb", || {
        // SAFETY: the caller guarantees the arrays.
        let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
        begin_status("PMIx_Fence_nb", cbfunc, cbdata, |client| run(all, client))
    })
}
