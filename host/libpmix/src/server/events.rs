//! Events that the host environment raises.
use super::forms::begin;
use crate::{
    abi::{COpCallback, CProc},
    client::{
        library::Library,
        operations::{ProgramData, begin as begin_local},
        progress::call_program,
    },
    convert::{ConvertError, read_one},
};
use peal_client::Client;
use peal_model::{Event, Proc, Range, Status, code};
use peal_stub::HostRequest;
use std::ffi::c_void;

/// Reads the source of an event, which a host environment may leave out.
///
/// # Safety
///
/// `source` is null or points to a proc.
pub(crate) unsafe fn source_of(source: *const CProc) -> Result<Option<Proc>, ConvertError> {
    if source.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees a proc.
    unsafe { read_one(source, "source") }.map(Some)
}

/// Raises an event of the host environment for the procs of this node. One of range
/// `PMIX_RANGE_PROC_LOCAL` stays in this process. The function returns when the event is sent.
pub(crate) fn notify(event: Event, callback: COpCallback, data: *mut c_void) -> Result<(), Status> {
    const FUNCTION: &str = "PMIx_Notify_event";
    let data = ProgramData::new(data);
    let done = move |status: Status| match callback {
        // SAFETY: the program passed the function for this call.
        Some(callback) => call_program(|| unsafe { callback(status.0, data.get()) }),
        None if status == code::PMIX_SUCCESS => {}
        None => tracing::warn!(%status, "event of the host environment not raised"),
    };
    if event.range == Range::ProcLocal {
        let me = Library::running()?.me().clone();
        let source = event.source.clone().unwrap_or(me);
        let event = Event {
            source: Some(source),
            ..event
        };
        let deliver = |client: Client| async move { client.deliver(event).await };
        return begin_local(deliver, move |()| done(code::PMIX_SUCCESS));
    }
    begin(FUNCTION, HostRequest::Notify { event }, move |reply| {
        done(reply.map_or_else(|status| status, |_| code::PMIX_SUCCESS));
    })
}
