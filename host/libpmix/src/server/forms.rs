//! Blocking and non-blocking forms of a function, on one request to the server.
use super::{link::PendingReply, server};
use crate::{
    abi::COpCallback,
    client::{
        library::{Library, would_block},
        operations::ProgramData,
        progress::{self, call_program},
    },
};
use peal_model::{Status, code};
use peal_stub::{HostReply, HostRequest};
use std::ffi::c_void;

/// Waits for the reply to a request.
///
/// # Errors
///
/// `PMIX_ERR_WOULD_BLOCK` on the progress thread, `PMIX_ERR_INIT` if the library is not initialized
/// or is finalized meanwhile, the status of the reply.
pub(super) fn wait(function: &'static str, request: HostRequest) -> Result<HostReply, Status> {
    let host = server()?;
    if progress::is_current() {
        return Err(would_block(function));
    }
    let pending = host.request(request)?;
    let reply = Library::running()?.progress.wait(pending.reply());
    reply
        .unwrap_or(Err(code::PMIX_ERR_INIT))
        .inspect_err(|status| tracing::debug!(function, %status, "server refused a request"))
}

/// Sends a request. The progress thread calls `done` with its reply.
pub(super) fn begin(
    function: &'static str,
    request: HostRequest,
    done: impl FnOnce(Result<HostReply, Status>) + Send + 'static,
) -> Result<(), Status> {
    let pending: PendingReply = server()?.request(request)?;
    let done = move |reply: Result<HostReply, Status>| {
        if let Err(status) = &reply {
            tracing::debug!(function, %status, "server refused a request");
        }
        done(reply);
    };
    Library::running()?.progress.begin(pending.reply(), done);
    Ok(())
}

/// Form of a function that is blocking without a callback, and then ends with
/// `PMIX_OPERATION_SUCCEEDED` as in the C library. With a callback it returns at once, always with
/// `PMIX_SUCCESS` if the request was sent: hosts take `PMIX_OPERATION_SUCCEEDED` for an error there.
pub(super) fn wait_or_begin(
    function: &'static str,
    callback: COpCallback,
    data: *mut c_void,
    request: HostRequest,
) -> Result<(), Status> {
    let Some(callback) = callback else {
        wait(function, request)?;
        return Err(code::PMIX_OPERATION_SUCCEEDED);
    };
    let data = ProgramData::new(data);
    begin(function, request, move |reply| {
        let status = reply.map_or_else(|status| status, |_| code::PMIX_SUCCESS);
        // SAFETY: the program passed the function for this call.
        call_program(|| unsafe { callback(status.0, data.get()) });
    })
}

/// Form of a function that returns nothing: the callback gets every status. Without a callback it
/// waits, and logs a failure.
pub(super) fn wait_or_begin_void(
    function: &'static str,
    callback: COpCallback,
    data: *mut c_void,
    request: Result<HostRequest, Status>,
) {
    let begun = request.and_then(|request| wait_or_begin(function, callback, data, request));
    let status = match begun {
        Ok(()) | Err(code::PMIX_OPERATION_SUCCEEDED) => return,
        Err(status) => status,
    };
    match callback {
        // SAFETY: the program passed the function for this call. Nothing was begun, so that it comes
        // once.
        Some(callback) => call_program(|| unsafe { callback(status.0, data) }),
        None => tracing::warn!(function, %status, "request to the server failed"),
    }
}
