//! Upcalls that are not answered, and the callbacks by which the host environment answers.
//!
//! A callback copies the result and sends it. What is left of the upcall goes to the progress thread
//! ([`Leftovers`]).
use super::{
    super::link::HostLink,
    UpcallArguments,
    leftovers::{Leftover, Leftovers, ReleaseCall},
};
use crate::{
    abi::{CByteObject, CInfo, CPdata, CProc, CReleaseCallback, CStatus},
    border,
    client::library::Library,
    convert::{ConvertError, nspace_from_argument, read_array, read_one},
};
use peal_model::{Bytes, Status, code};
use peal_stub::{UpcallNumber, UpcallResult};
use std::{
    ffi::{c_char, c_void},
    slice,
    sync::Arc,
};

/// Way of answers to the server.
#[derive(Debug, Clone)]
pub(in super::super) struct AnswerPath {
    link: Arc<HostLink>,
    leftovers: Arc<Leftovers>,
}

impl AnswerPath {
    pub(in super::super) fn new(link: Arc<HostLink>, leftovers: Arc<Leftovers>) -> AnswerPath {
        AnswerPath { link, leftovers }
    }

    /// Answers an upcall that the host environment does not know of.
    pub(super) fn answer(&self, number: UpcallNumber, answer: Result<UpcallResult, Status>) {
        self.link.answer(number, answer);
    }
}

/// Upcall that the host environment has not answered.
#[derive(Debug)]
pub(crate) struct PendingUpcall {
    number: UpcallNumber,
    path: AnswerPath,
    arguments: UpcallArguments,
}

impl PendingUpcall {
    pub(super) fn new(
        number: UpcallNumber,
        path: AnswerPath,
        arguments: UpcallArguments,
    ) -> PendingUpcall {
        PendingUpcall {
            number,
            path,
            arguments,
        }
    }

    /// Answers the upcall.
    pub(super) fn answer(self, answer: Result<UpcallResult, Status>, release: Option<ReleaseCall>) {
        self.path.link.answer(self.number, answer);
        let leftover = Leftover::new(release, self.arguments);
        self.path.leftovers.add(leftover);
    }
}

/// Answers the upcall of a token. `result` copies what the callback got.
fn answer(
    callback: &'static str,
    token: *mut c_void,
    status: CStatus,
    release: Option<ReleaseCall>,
    result: impl FnOnce() -> Result<UpcallResult, ConvertError>,
) {
    border::value(callback, (), || {
        let Some(pending) = Library::get().upcalls.take(token) else {
            tracing::warn!(
                callback,
                "upcall answered twice, or by no token of this library"
            );
            return;
        };
        let result = result().map_err(|error| {
            tracing::warn!(callback, %error, "answer of the host environment not converted");
            error.status()
        });
        pending.answer(with_status(Status(status), result), release);
    });
}

/// Joins the status of a callback and what came with it.
fn with_status(
    status: Status,
    result: Result<UpcallResult, Status>,
) -> Result<UpcallResult, Status> {
    if [code::PMIX_SUCCESS, code::PMIX_OPERATION_SUCCEEDED].contains(&status) {
        return result;
    }
    let has_more = match &result {
        Ok(UpcallResult::Infos(infos)) => !infos.is_empty(),
        Ok(UpcallResult::Published(data)) => !data.is_empty(),
        _ => false,
    };
    match result {
        Ok(result) if has_more => Ok(UpcallResult::WithStatus {
            status,
            result: Box::new(result),
        }),
        _ => Err(status),
    }
}

/// Answers an upcall without results (`pmix_op_cbfunc_t`).
///
/// # Safety
///
/// The token is not followed.
pub(super) unsafe extern "C" fn answer_done(status: CStatus, token: *mut c_void) {
    answer("pmix_op_cbfunc_t", token, status, None, || {
        Ok(UpcallResult::Done)
    });
}

/// Answers an upcall with infos (`pmix_info_cbfunc_t`).
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos. `release` may be called with `data` later. The
/// token is not followed.
pub(super) unsafe extern "C" fn answer_infos(
    status: CStatus,
    info: *mut CInfo,
    ninfo: usize,
    token: *mut c_void,
    release: CReleaseCallback,
    data: *mut c_void,
) {
    let release = ReleaseCall::new(release, data);
    answer("pmix_info_cbfunc_t", token, status, release, || {
        // SAFETY: the caller guarantees the array.
        unsafe { read_array(info, ninfo, "infos") }.map(UpcallResult::Infos)
    });
}

/// Answers a fence or direct modex (`pmix_modex_cbfunc_t`).
///
/// # Safety
///
/// `bytes` is null or begins `len` bytes. `release` may be called with `data` later. The token is not
/// followed.
pub(super) unsafe extern "C" fn answer_modex(
    status: CStatus,
    bytes: *const c_char,
    len: usize,
    token: *mut c_void,
    release: CReleaseCallback,
    data: *mut c_void,
) {
    let release = ReleaseCall::new(release, data);
    answer("pmix_modex_cbfunc_t", token, status, release, || {
        let bytes: &[u8] = if bytes.is_null() {
            &[]
        } else {
            // SAFETY: the caller guarantees the bytes.
            unsafe { slice::from_raw_parts(bytes.cast(), len) }
        };
        Ok(UpcallResult::Data(Bytes::from(bytes)))
    });
}

/// Answers a lookup (`pmix_lookup_cbfunc_t`).
///
/// # Safety
///
/// `data` is null or begins an array of `ndata` elements. The token is not followed.
pub(super) unsafe extern "C" fn answer_lookup(
    status: CStatus,
    data: *mut CPdata,
    ndata: usize,
    token: *mut c_void,
) {
    answer("pmix_lookup_cbfunc_t", token, status, None, || {
        // SAFETY: the caller guarantees the array.
        unsafe { read_array(data, ndata, "data") }.map(UpcallResult::Published)
    });
}

/// Answers a spawn (`pmix_spawn_cbfunc_t`).
///
/// # Safety
///
/// `nspace` is null, a string or a `pmix_nspace_t`. The token is not followed.
pub(super) unsafe extern "C" fn answer_spawn(
    status: CStatus,
    nspace: *mut c_char,
    token: *mut c_void,
) {
    answer("pmix_spawn_cbfunc_t", token, status, None, || {
        // SAFETY: the caller guarantees a namespace or null.
        unsafe { nspace_from_argument(nspace) }.map(UpcallResult::Spawned)
    });
}

/// Answers the connection of a tool (`pmix_tool_connection_cbfunc_t`).
///
/// # Safety
///
/// `proc` is null or points to a proc. The token is not followed.
pub(super) unsafe extern "C" fn answer_tool(status: CStatus, proc: *mut CProc, token: *mut c_void) {
    answer("pmix_tool_connection_cbfunc_t", token, status, None, || {
        // SAFETY: the caller guarantees a proc or null.
        unsafe { read_one(proc, "proc") }.map(UpcallResult::Tool)
    });
}

/// Answers the request of a credential (`pmix_credential_cbfunc_t`).
///
/// # Safety
///
/// `credential` is null or points to a byte object, `info` is null or begins an array of `ninfo` infos.
/// The token is not followed.
pub(super) unsafe extern "C" fn answer_credential(
    status: CStatus,
    credential: *mut CByteObject,
    info: *mut CInfo,
    ninfo: usize,
    token: *mut c_void,
) {
    answer("pmix_credential_cbfunc_t", token, status, None, || {
        // SAFETY: the caller guarantees a byte object, and the array.
        unsafe {
            Ok(UpcallResult::Credential {
                credential: read_one(credential, "credential")?,
                infos: read_array(info, ninfo, "infos")?,
            })
        }
    });
}

/// Answers the validation of a credential (`pmix_validation_cbfunc_t`).
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos. The token is not followed.
pub(super) unsafe extern "C" fn answer_validation(
    status: CStatus,
    info: *mut CInfo,
    ninfo: usize,
    token: *mut c_void,
) {
    // SAFETY: the caller guarantees the array.
    unsafe { answer_infos(status, info, ninfo, token, None, std::ptr::null_mut()) };
}
