//! Abort of procs: the function `PMIx_Abort`.
use super::operations::wait_status;
use crate::{
    abi::{CProc, CStatus},
    border,
    convert::{read_array, text_argument},
};
use peal_client::Client;
use peal_model::{Proc, Request, Status};
use std::ffi::{c_char, c_int};

/// `PMIx_Abort`: requests that the server ends these procs, or the whole job, with this exit status.
///
/// # Safety
///
/// `msg` is null or a string, `procs` is null or begins an array of `nprocs` procs.
#[unsafe(export_name = "PMIx_Abort")]
pub unsafe extern "C" fn abort(
    status: c_int,
    msg: *const c_char,
    procs: *mut CProc,
    nprocs: usize,
) -> CStatus {
    border::status("PMIx_Abort", || {
        // SAFETY: the caller guarantees a string or null.
        let message = unsafe { text_argument(msg) }?;
        // SAFETY: the caller guarantees the array.
        let targets: Vec<Proc> = unsafe { read_array(procs, nprocs, "procs") }?;
        let request = Request::Abort {
            status: Status(status),
            message,
            targets,
        };
        let abort = |client: Client| async move { client.send_request(request).await.map(drop) };
        wait_status("PMIx_Abort", abort)
    })
}
