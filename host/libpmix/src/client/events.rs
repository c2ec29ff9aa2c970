//! Registration of event handlers, and events of the program.
use super::{
    handler::ProgramHandler,
    library::Library,
    operations::{
        ProgramData, begin, begin_silently, check_connection, refusal, wait, wait_or_begin,
    },
    progress::{self, call_program},
};
use crate::{
    abi::{CDataRange, CEventHandler, CInfo, COpCallback, CProc, CRegistrationCallback, CStatus},
    border,
    convert::{ConvertError, read_array},
    server,
};
use peal_client::{ClassFilter, Client, ClientError, RegistrationId};
use peal_model::{Event, Info, Range, Status, code};
use std::ffi::c_void;

/// Arguments of a registration.
struct Registration {
    codes: Vec<Status>,
    directives: Vec<Info>,
    handler: ProgramHandler,
    hears: HeardEvents,
}

/// Events that a handler is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeardEvents {
    /// All that its registration includes.
    Registered,
    /// Of these, those of this process alone: the default handler of a host environment. Some end
    /// their job whatever they hear, so that events of programs are not for them.
    OfProcess,
}

impl Registration {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `codes` is null or begins an array of `ncodes` statuses, `info` of `ninfo` infos. The handler
    /// may be called from another thread.
    unsafe fn read(
        codes: *const CStatus,
        ncodes: usize,
        info: *const CInfo,
        ninfo: usize,
        handler: CEventHandler,
    ) -> Result<Registration, Status> {
        let function = handler.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees the arrays.
        let mut registration = unsafe {
            Registration {
                codes: read_array(codes, ncodes, "codes")?,
                directives: read_array(info, ninfo, "infos")?,
                handler: ProgramHandler::new(function, info, ninfo),
                hears: HeardEvents::Registered,
            }
        };
        if registration.codes.is_empty() && Library::running()?.host.is_some() {
            registration.hears = HeardEvents::OfProcess;
        }
        registration.choose_classes();
        Ok(registration)
    }

    /// Requests events of both classes unless the program chooses: programs for the C library know
    /// of no classes, and rely on all events.
    fn choose_classes(&mut self) {
        let classes = ClassFilter::of(&self.directives, ClassFilter::Both);
        self.directives.extend(classes.directives());
    }

    async fn run(self, client: Client) -> Result<usize, ClientError> {
        let Registration {
            codes,
            directives,
            handler,
            hears,
        } = self;
        let id = match hears {
            HeardEvents::Registered => {
                let handler = handler.into_handler();
                client.register(&codes, &directives, handler).await?
            }
            HeardEvents::OfProcess => {
                client.register_here(&codes, &directives, handler.into_own_handler())?
            }
        };
        Ok(usize::try_from(id.0).unwrap_or(usize::MAX))
    }
}

/// `PMIx_Register_event_handler`: registers a handler for these codes, or for all. Without a callback
/// it waits, and returns the id of the registration, or a negative status.
///
/// # Safety
///
/// `codes` is null or begins an array of `ncodes` statuses, `info` of `ninfo` infos. `evhdlr`, and
/// `cbfunc` with `cbdata`, may be called from another thread.
#[unsafe(export_name = "PMIx_Register_event_handler")]
pub unsafe extern "C" fn register_event_handler(
    codes: *mut CStatus,
    ncodes: usize,
    info: *mut CInfo,
    ninfo: usize,
    evhdlr: CEventHandler,
    cbfunc: CRegistrationCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Register_event_handler";
    let register = || {
        Library::running()?;
        // SAFETY: the caller guarantees what `Registration::read` demands.
        let registration = unsafe { Registration::read(codes, ncodes, info, ninfo, evhdlr) }?;
        let Some(callback) = cbfunc else {
            let id = wait(FUNCTION, |client| registration.run(client))?;
            let id = id.map_err(|error| refusal(FUNCTION, &error))?;
            return CStatus::try_from(id).map_err(|_| code::PMIX_ERR_OUT_OF_RESOURCE);
        };
        let data = ProgramData::new(cbdata);
        begin(
            |client| registration.run(client),
            move |registered| {
                let (status, id) = match registered {
                    Ok(id) => (code::PMIX_SUCCESS, id),
                    Err(error) => (refusal(FUNCTION, &error), usize::MAX),
                };
                // SAFETY: the program passed the function for this call.
                call_program(|| unsafe { callback(status.0, id, data.get()) });
            },
        )?;
        Ok(code::PMIX_SUCCESS.0)
    };
    border::value(FUNCTION, code::PMIX_ERROR.0, || {
        register().unwrap_or_else(|status: Status| status.0)
    })
}

/// `PMIx_Deregister_event_handler`: removes a handler. Without a callback it waits, except in a
/// callback of the program, such as the handler itself: there it only starts.
///
/// # Safety
///
/// `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Deregister_event_handler")]
pub unsafe extern "C" fn deregister_event_handler(
    evhdlr_ref: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Deregister_event_handler";
    border::status(FUNCTION, || {
        let id = RegistrationId(evhdlr_ref as u64);
        let deregister = move |client: Client| async move { client.deregister(id).await };
        if cbfunc.is_none() && progress::is_current() {
            return begin_silently(|client| log_failure(FUNCTION, deregister(client)));
        }
        wait_or_begin(FUNCTION, cbfunc, cbdata, deregister)
    })
}

/// Logs the failure of a call that nothing waits for.
async fn log_failure(function: &'static str, call: impl Future<Output = Result<(), ClientError>>) {
    if let Err(error) = call.await {
        tracing::warn!(function, %error, "call in a callback failed");
    }
}

/// `PMIx_Notify_event`: raises an event of this proc, or of any source in a host environment. Without a
/// callback it returns when the event is sent, and a refusal by the server is only logged, as in the C
/// library.
///
/// # Safety
///
/// `source` is null or points to a proc, `info` is null or begins an array of `ninfo` infos. `cbfunc` may be called with `cbdata` from
/// another thread.
#[unsafe(export_name = "PMIx_Notify_event")]
pub unsafe extern "C" fn notify_event(
    status: CStatus,
    source: *const CProc,
    range: CDataRange,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Notify_event";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees the array.
        let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
        let range = Range::try_from(range).map_err(ConvertError::from)?;
        let code = Status(status);
        if Library::running()?.host.is_some() {
            // SAFETY: the caller guarantees a proc or null.
            let source = unsafe { server::source_of(source) }?;
            let event = Event {
                code,
                source,
                range,
                infos,
            };
            return server::notify(event, cbfunc, cbdata);
        }
        if range != Range::ProcLocal {
            check_connection()?;
        }
        if cbfunc.is_some() {
            let notify =
                move |client: Client| async move { client.notify(code, range, infos).await };
            return wait_or_begin(FUNCTION, cbfunc, cbdata, notify);
        }
        let raise = move |client: Client| async move { client.raise(code, range, infos).await };
        if progress::is_current() {
            return begin_silently(|client| log_failure(FUNCTION, raise(client)));
        }
        wait(FUNCTION, raise)?.map_err(|error| refusal(FUNCTION, &error))
    })
}
