//! Connect and disconnect of procs of several jobs.
use super::{
    library::Library,
    operations::{begin_status, wait_status},
};
use crate::{
    abi::{CInfo, COpCallback, CProc, CStatus},
    border,
    convert::read_array,
};
use peal_client::{Client, ClientError};
use peal_model::{Info, Proc, Status, code};
use std::ffi::c_void;

/// Arguments of a connect or disconnect.
struct Participants {
    procs: Vec<Proc>,
    infos: Vec<Info>,
}

impl Participants {
    /// Reads the arguments, of which at least one proc must be there.
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
        let (procs, infos): (Vec<Proc>, _) = unsafe {
            (
                read_array(procs, nprocs, "procs")?,
                read_array(info, ninfo, "infos")?,
            )
        };
        if procs.is_empty() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        Ok(Participants { procs, infos })
    }

    async fn connect(self, client: Client) -> Result<(), ClientError> {
        client.connect_procs(&self.procs, &self.infos).await
    }

    async fn disconnect(self, client: Client) -> Result<(), ClientError> {
        client.disconnect_procs(&self.procs, &self.infos).await
    }
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
        let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
        wait_status("PMIx_Connect", |client| all.connect(client))
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
        let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
        begin_status("PMIx_Connect_nb", cbfunc, cbdata, |client| {
            all.connect(client)
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
        let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
        wait_status("PMIx_Disconnect", |client| all.disconnect(client))
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
        let all = unsafe { Participants::read(procs, nprocs, info, ninfo) }?;
        begin_status("PMIx_Disconnect_nb", cbfunc, cbdata, |client| {
            all.disconnect(client)
        })
    })
}
