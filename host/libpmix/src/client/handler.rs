//! Event handlers of the program: the call of the C function, and its completion.
use super::{
    completions::ReturnedHandler, library::Library, operations::ProgramData,
    passed_event::PassedEvent, progress::call_program,
};
use crate::{
    abi::{CInfo, COpCallback, CProc, CStatus},
    border,
    convert::{key_from_array, read_array},
};
use peal_client::{Handler, HandlerCall, HandlerOutcome, HandlerReturn};
use peal_model::{Range, Status, code, data_type, key};
use std::{ffi::c_void, slice};

/// C function that handles events.
type HandlerFunction = unsafe extern "C" fn(
    usize,
    CStatus,
    *const CProc,
    *mut CInfo,
    usize,
    *mut CInfo,
    usize,
    crate::abi::CEventCompletion,
    *mut c_void,
);

/// Handler of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramHandler {
    function: HandlerFunction,
    /// Pointer of the registration (`PMIX_EVENT_RETURN_OBJECT`), for which the model has no place.
    object: Option<ProgramData>,
}

impl ProgramHandler {
    /// Creates the handler of a registration with these infos.
    ///
    /// # Safety
    ///
    /// `info` is null or begins an array of `ninfo` infos.
    pub(crate) unsafe fn new(
        function: HandlerFunction,
        info: *const CInfo,
        ninfo: usize,
    ) -> ProgramHandler {
        let infos = if info.is_null() {
            &[]
        } else {
            // SAFETY: the caller guarantees the array.
            unsafe { slice::from_raw_parts(info, ninfo) }
        };
        let is_object = |info: &&CInfo| {
            info.value.r#type == data_type::PMIX_POINTER.0
                && key_from_array(&info.key).is_ok_and(|key| key == key::PMIX_EVENT_RETURN_OBJECT)
        };
        let object = infos.iter().find(is_object);
        // SAFETY: the type says that the value is a pointer.
        let object = object.map(|info| ProgramData::new(unsafe { info.value.data.ptr }));
        ProgramHandler { function, object }
    }

    /// Returns the handler for the client.
    pub(crate) fn into_handler(self) -> Handler {
        Handler::completing(move |call| self.call(call))
    }

    /// Returns the handler for events of this process alone.
    pub(crate) fn into_own_handler(self) -> Handler {
        Handler::completing(move |call| match call.event().range {
            Range::ProcLocal => self.call(call),
            _ => {
                let none = HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN);
                HandlerReturn::Completed(none)
            }
        })
    }

    /// Calls the function. Unless it has said before its return that the handler has ended, a future
    /// completes when it does; until then it owns what was passed.
    fn call(self, call: &HandlerCall<'_>) -> HandlerReturn {
        let passed = call.shared(|| PassedEvent::new(call.event()));
        let arguments = passed.arguments(call, self.object);
        let completions = &Library::get().completions;
        let token = completions.call();
        let event = call.event();
        let id = usize::try_from(call.registration().0).unwrap_or(usize::MAX);
        // SAFETY: the program passed the function for this call, and what is passed lives until the
        // handler has completed.
        call_program(|| unsafe {
            (self.function)(
                id,
                event.code.0,
                arguments.source,
                arguments.infos,
                arguments.ninfos,
                arguments.results,
                arguments.nresults,
                Some(complete_handler),
                token,
            );
        });
        let completed = match completions.returned(token) {
            ReturnedHandler::Ended(outcome) => return HandlerReturn::Completed(outcome),
            ReturnedHandler::Pending(completed) => completed,
        };
        HandlerReturn::Pending(Box::pin(async move {
            let none = HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN);
            let outcome = completed.await.unwrap_or(none);
            drop(passed);
            outcome
        }))
    }
}

/// Completion of a handler (`pmix_event_notification_cbfunc_fn_t`). The program may call it from any
/// thread; of several calls the first counts. The results are copied, and the program may free them
/// in `cbfunc`.
///
/// # Safety
///
/// `results` is null or begins an array of `nresults` infos. `cbfunc` may be called with
/// `thiscbdata`. The token is not followed.
unsafe extern "C" fn complete_handler(
    status: CStatus,
    results: *mut CInfo,
    nresults: usize,
    cbfunc: COpCallback,
    thiscbdata: *mut c_void,
    token: *mut c_void,
) {
    border::value("completion of an event handler", (), || {
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(results, nresults, "results") }.unwrap_or_else(|error| {
            tracing::warn!(%error, "results of a handler not converted");
            Vec::new()
        });
        let status = Status(status);
        let outcome = HandlerOutcome { status, infos };
        Library::get().completions.complete(token, outcome);
        if let Some(callback) = cbfunc {
            // SAFETY: the program passed the function for this call.
            unsafe { callback(code::PMIX_SUCCESS.0, thiscbdata) };
        }
    });
}
