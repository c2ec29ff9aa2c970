//! Blocking and `_nb` forms of a function, on one future: the blocking form waits for its output,
//! the other one passes the output to a callback of the program.
use super::{
    library::{Library, would_block},
    progress::{self, call_program},
};
use crate::{
    abi::{CInfo, CInfoCallback, COpCallback},
    border,
    destruct::Destruct,
    heap_array::HeapArray,
};
use peal_client::{Client, ClientError};
use peal_model::{Info, Status, code};
use std::{ffi::c_void, future::Future, ptr};

/// Pointer of the program, which gets it back in a callback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramData(*mut c_void);

// SAFETY: the pointer is never followed here.
unsafe impl Send for ProgramData {}
// SAFETY: as above.
unsafe impl Sync for ProgramData {}

impl ProgramData {
    pub(crate) fn new(pointer: *mut c_void) -> ProgramData {
        ProgramData(pointer)
    }

    /// Returns the pointer. A closure that calls this captures the whole structure.
    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}

/// Returns the status of a failed call, which is logged.
pub(crate) fn refusal(function: &'static str, error: &ClientError) -> Status {
    tracing::debug!(function, %error, "call failed");
    error.status()
}

/// Waits for the output of a call.
///
/// # Errors
///
/// `PMIX_ERR_INIT` if the library is not initialized or is finalized meanwhile,
/// `PMIX_ERR_WOULD_BLOCK` on the progress thread.
pub(crate) fn wait<T, F>(
    function: &'static str,
    call: impl FnOnce(Client) -> F,
) -> Result<T, Status>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running = Library::running()?;
    if progress::is_current() {
        return Err(would_block(function));
    }
    let future = call(running.client.clone());
    let output = running.progress.wait_for_reply(&running.client, future);
    output.ok_or(code::PMIX_ERR_INIT)
}

/// Starts a call. The progress thread calls `done` with its output.
///
/// # Errors
///
/// `PMIX_ERR_INIT` if the library is not initialized.
pub(crate) fn begin<T, F>(
    call: impl FnOnce(Client) -> F,
    done: impl FnOnce(T) + Send + 'static,
) -> Result<(), Status>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running = Library::running()?;
    let future = call(running.client.clone());
    running.progress.begin(future, done);
    Ok(())
}

/// Refuses a call that needs the server if the connection to it is lost already. A call that is under
/// way at that time fails with `PMIX_ERR_LOST_CONNECTION` instead.
pub(crate) fn check_connection() -> Result<(), Status> {
    if Library::running()?.client.has_lost_server() {
        return Err(code::PMIX_ERR_UNREACH);
    }
    Ok(())
}

/// Blocking form of a function that returns only a status.
pub(crate) fn wait_status<F>(
    function: &'static str,
    call: impl FnOnce(Client) -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<(), ClientError>> + Send + 'static,
{
    check_connection()?;
    wait(function, call)?.map_err(|error| refusal(function, &error))
}

/// The `_nb` form of a function that returns only a status.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` without a callback.
pub(crate) fn begin_status<F>(
    function: &'static str,
    callback: COpCallback,
    data: *mut c_void,
    call: impl FnOnce(Client) -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<(), ClientError>> + Send + 'static,
{
    check_connection()?;
    if callback.is_none() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    wait_or_begin(function, callback, data, call)
}

/// Form of a function that is blocking without a callback, and non-blocking with one. It may need no
/// server.
pub(crate) fn wait_or_begin<F>(
    function: &'static str,
    callback: COpCallback,
    data: *mut c_void,
    call: impl FnOnce(Client) -> F,
) -> Result<(), Status>
where
    F: Future<Output = Result<(), ClientError>> + Send + 'static,
{
    let Some(callback) = callback else {
        return wait(function, call)?.map_err(|error| refusal(function, &error));
    };
    let data = ProgramData::new(data);
    begin(call, move |done| {
        let status = done.map_or_else(|error| refusal(function, &error), |()| code::PMIX_SUCCESS);
        // SAFETY: the program passed the function for this call.
        call_program(|| unsafe { callback(status.0, data.get()) });
    })
}

/// Starts a call without a callback.
///
/// # Errors
///
/// `PMIX_ERR_INIT` if the library is not initialized.
pub(crate) fn begin_silently<T, F>(call: impl FnOnce(Client) -> F) -> Result<(), Status>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let running = Library::running()?;
    let future = call(running.client.clone());
    running.progress.begin_silently(future);
    Ok(())
}

/// Answer of a function that returns infos, also with an error status.
#[derive(Debug)]
pub(crate) struct InfoAnswer {
    pub(crate) status: Status,
    pub(crate) infos: Vec<Info>,
}

impl InfoAnswer {
    /// Returns the answer to a call.
    pub(crate) fn new(function: &'static str, done: Result<Vec<Info>, ClientError>) -> InfoAnswer {
        match done {
            Ok(infos) => InfoAnswer {
                status: code::PMIX_SUCCESS,
                infos,
            },
            Err(error) => {
                let status = refusal(function, &error);
                let infos = match error {
                    ClientError::Refused { infos, .. } => infos,
                    _ => Vec::new(),
                };
                InfoAnswer { status, infos }
            }
        }
    }

    /// Converts the infos to C.
    pub(crate) fn into_c(self) -> (Status, HeapArray<CInfo>) {
        match HeapArray::from_models(&self.infos) {
            Ok(infos) => (self.status, infos),
            Err(error) => {
                tracing::warn!(%error, "answer not converted");
                (error.status(), HeapArray::default())
            }
        }
    }
}

/// Blocking form of a function that returns infos. The caller may pass null for either result.
///
/// # Safety
///
/// `results` and `nresults` are null or point to places for the results.
pub(crate) unsafe fn wait_infos<F>(
    function: &'static str,
    results: *mut *mut CInfo,
    nresults: *mut usize,
    call: impl FnOnce(Client) -> F,
) -> Result<(), Status>
where
    F: Future<Output = InfoAnswer> + Send + 'static,
{
    // SAFETY: the caller guarantees places or null.
    unsafe { give_array(HeapArray::<CInfo>::default(), results, nresults) };
    check_connection()?;
    let (status, infos) = wait(function, call)?.into_c();
    // SAFETY: as above.
    unsafe { give_array(infos, results, nresults) };
    status.ok()
}

/// Gives an array to a C caller by two places. The array is freed if one of them is missing: the
/// caller could not free it without its length.
///
/// # Safety
///
/// Both are null or point to a place for a result.
pub(crate) unsafe fn give_array<T: Destruct>(
    array: HeapArray<T>,
    place: *mut *mut T,
    count: *mut usize,
) {
    let is_wanted = !place.is_null() && !count.is_null();
    let (first, len) = if is_wanted {
        array.into_raw()
    } else {
        drop(array);
        HeapArray::<T>::default().into_raw()
    };
    // SAFETY: the caller guarantees the places.
    unsafe {
        if !place.is_null() {
            place.write(first);
        }
        if !count.is_null() {
            count.write(len);
        }
    }
}

/// The `_nb` form of a function that returns infos.
///
/// # Errors
///
/// `PMIX_ERR_BAD_PARAM` without a callback.
pub(crate) fn begin_infos<F>(
    callback: CInfoCallback,
    data: *mut c_void,
    call: impl FnOnce(Client) -> F,
) -> Result<(), Status>
where
    F: Future<Output = InfoAnswer> + Send + 'static,
{
    check_connection()?;
    let callback = callback.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    let data = ProgramData::new(data);
    begin(call, move |answer: InfoAnswer| {
        let (status, mut infos) = answer.into_c();
        let (first, len) = infos.as_raw_parts();
        if len == 0 {
            // SAFETY: the program passed the function for this call.
            call_program(|| unsafe {
                callback(
                    status.0,
                    ptr::null_mut(),
                    0,
                    data.get(),
                    None,
                    ptr::null_mut(),
                );
            });
            return;
        }
        // The program may use the infos until it calls the release function.
        let token = Library::get().releases.keep(infos);
        // SAFETY: as above; the infos live until they are released.
        call_program(|| unsafe {
            callback(status.0, first, len, data.get(), Some(release_infos), token);
        });
    })
}

/// Frees the infos of a callback. A second call does nothing.
///
/// # Safety
///
/// The token is not followed, so that it may be anything.
pub(crate) unsafe extern "C" fn release_infos(token: *mut c_void) {
    border::value("release function", (), || {
        drop(Library::get().releases.take(token));
    });
}
