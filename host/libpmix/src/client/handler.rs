//! Event handlers of the program: the call of the C function, and its completion.
use super::{library::Library, operations::ProgramData, progress::call_program};
use crate::{
    abi::{CInfo, COpCallback, CProc, CStatus, CValue, CValueData},
    border,
    convert::{ToC, key_array, key_from_array, read_array},
    destruct::Destruct,
    heap_array::HeapArray,
};
use peal_client::{Handler, HandlerCall, HandlerOutcome};
use peal_model::{Info, Proc, Status, Value, code, data_type, key, rank};
use std::{ffi::c_void, future::Future, slice};
use tokio::sync::oneshot;

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
        Handler::deferred(move |call| self.call(call))
    }

    /// Calls the function. The future completes when the program says that the handler has ended;
    /// until then it owns what was passed.
    fn call(self, call: &HandlerCall<'_>) -> impl Future<Output = HandlerOutcome> + use<> {
        let mut passed = Passed::new(call, self.object);
        let (complete, completed) = oneshot::channel();
        let token = Library::get().completions.keep(complete);
        let event = call.event();
        let id = usize::try_from(call.registration().0).unwrap_or(usize::MAX);
        // SAFETY: the program passed the function for this call, and what is passed lives until the
        // handler has completed.
        call_program(|| unsafe {
            (self.function)(
                id,
                event.code.0,
                passed.source.as_mut_ptr(),
                passed.infos.as_mut_ptr(),
                passed.infos.len(),
                passed.results.as_mut_ptr(),
                passed.results.len(),
                Some(complete_handler),
                token,
            );
        });
        async move {
            let none = HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN);
            let outcome = completed.await.unwrap_or(none);
            drop(passed);
            outcome
        }
    }
}

/// Arguments of a call of a handler.
struct Passed {
    source: HeapArray<CProc>,
    infos: HeapArray<CInfo>,
    results: HeapArray<CInfo>,
}

impl Passed {
    /// Converts an event, with the name and the object of the registration behind its infos, and the
    /// results of earlier handlers.
    fn new(call: &HandlerCall<'_>, object: Option<ProgramData>) -> Passed {
        let event = call.event();
        let nowhere = || Proc::new(Default::default(), rank::PMIX_RANK_UNDEF);
        let source = event.source.clone().unwrap_or_else(nowhere);
        let mut infos = event.infos.clone();
        if !call.name().is_empty() {
            let name = Value::string(call.name());
            infos.push(Info::new(key::PMIX_EVENT_HDLR_NAME, name));
        }
        if let Some(object) = call.object().filter(|_| object.is_none()) {
            infos.push(Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone()));
        }
        Passed {
            source: converted(slice::from_ref(&source), &[]),
            infos: converted(
                &infos,
                &object.map(object_info).into_iter().collect::<Vec<_>>(),
            ),
            results: converted(&call.results(), &[]),
        }
    }
}

/// Returns the info with the object of a registration.
fn object_info(object: ProgramData) -> CInfo {
    let mut info = CInfo::zeroed();
    info.key = key_array(&key::PMIX_EVENT_RETURN_OBJECT.into());
    info.value = CValue {
        r#type: data_type::PMIX_POINTER.0,
        data: CValueData { ptr: object.get() },
    };
    info
}

/// Converts models, with structures that own nothing behind them. A model without a C form is left
/// out: the handler must learn of the event all the same.
fn converted<M: ToC<Target = T> + std::fmt::Debug, T: Destruct>(
    models: &[M],
    more: &[T],
) -> HeapArray<T> {
    let mut targets = Vec::with_capacity(models.len());
    for model in models {
        let mut target = T::zeroed();
        match model.fill(&mut target) {
            Ok(()) => targets.push(target),
            Err(error) => {
                tracing::warn!(?model, %error, "part of an event left out");
                // SAFETY: `fill` leaves a structure that can be destructed, and nothing else has it.
                unsafe { target.destruct() };
            }
        }
    }
    targets.extend(more);
    match HeapArray::zeroed(targets.len()) {
        Ok(mut array) => {
            array.as_mut_slice().copy_from_slice(&targets);
            array
        }
        Err(error) => {
            tracing::warn!(%error, "event passed without its parts");
            for mut target in targets {
                // SAFETY: the structures are owned by this function alone.
                unsafe { target.destruct() };
            }
            HeapArray::default()
        }
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
        match Library::get().completions.take(token) {
            Some(complete) => {
                let status = Status(status);
                // The receiver is gone after the finalization.
                let _ = complete.send(HandlerOutcome { status, infos });
            }
            None => tracing::warn!("handler completed twice"),
        }
        if let Some(callback) = cbfunc {
            // SAFETY: the program passed the function for this call.
            unsafe { callback(code::PMIX_SUCCESS.0, thiscbdata) };
        }
    });
}
