//! Procs that connect and finalize. Nothing waits for the host environment: Slurm's never calls back.
use super::super::HostServer;
use crate::{abi::CStatus, client::progress::call_program};
use peal_model::{Proc, Status, code};
use std::{ffi::c_void, ptr};

/// Callback that nothing waits for.
///
/// # Safety
///
/// The pointer is not followed.
unsafe extern "C" fn ignore(_status: CStatus, _data: *mut c_void) {}

impl HostServer {
    /// Tells the host environment that a proc has connected.
    pub(in super::super) fn client_connected(&self, proc: &Proc) {
        self.tell_of(proc, |name, object| {
            // SAFETY: the host passed the functions for these calls, and the name lives longer than
            // they do.
            unsafe {
                match (
                    self.module.0.client_connected2,
                    self.module.0.client_connected,
                ) {
                    (Some(function), _) => {
                        let none = ptr::null_mut();
                        function(name, object, none, 0, Some(ignore), ptr::null_mut())
                    }
                    (None, Some(function)) => function(name, object, Some(ignore), ptr::null_mut()),
                    (None, None) => code::PMIX_SUCCESS.0,
                }
            }
        });
    }

    /// Tells the host environment that a proc has finalized.
    pub(in super::super) fn client_finalized(&self, proc: &Proc) {
        self.tell_of(proc, |name, object| {
            let Some(function) = self.module.0.client_finalized else {
                return code::PMIX_SUCCESS.0;
            };
            // SAFETY: as above.
            unsafe { function(name, object, Some(ignore), ptr::null_mut()) }
        });
    }

    fn tell_of(
        &self,
        proc: &Proc,
        call: impl FnOnce(*const crate::abi::CProc, *mut c_void) -> CStatus,
    ) {
        let client = match self.clients.passed(proc) {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!(%proc, %error, "host environment not told of a proc");
                return;
            }
        };
        let mut returned = code::PMIX_SUCCESS;
        call_program(|| returned = Status(call(client.name.as_ptr(), client.object.get())));
        if ![code::PMIX_SUCCESS, code::PMIX_OPERATION_SUCCEEDED].contains(&returned) {
            tracing::warn!(%proc, status = %returned, "host environment refuses a proc");
        }
    }
}
