//! Procs that connect and finalize. No connection waits for the host environment: Slurm's never calls
//! back.
use super::{
    super::HostServer, ABSENT, PreparedUpcall, answers::answer_done, arguments::UpcallArguments,
};
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
        let client = match self.clients.passed(proc) {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!(%proc, %error, "host environment not notified of a proc");
                return;
            }
        };
        let (name, object) = (client.name.as_ptr(), client.object.get());
        let mut returned = code::PMIX_SUCCESS;
        call_program(|| {
            // SAFETY: the host passed the functions for these calls, and the name lives longer than
            // they do.
            returned = Status(unsafe {
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
            });
        });
        if ![code::PMIX_SUCCESS, code::PMIX_OPERATION_SUCCEEDED].contains(&returned) {
            tracing::warn!(%proc, status = %returned, "host environment refuses a proc");
        }
    }

    pub(super) fn client_finalized(&self, proc: Proc) -> Result<PreparedUpcall, Status> {
        let function = self.module.0.client_finalized.ok_or(ABSENT)?;
        let object = self.clients.object(&proc);
        let mut arguments = UpcallArguments::of(proc)?;
        let source = arguments.source.as_mut_ptr();
        Ok(PreparedUpcall {
            arguments,
            // SAFETY: the host passed the function for this call, and the arguments live until it
            // answers.
            call: Box::new(move |token| unsafe {
                function(source, object.get(), Some(answer_done), token)
            }),
        })
    }
}
