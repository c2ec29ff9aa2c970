//! Credentials, and their validation.
use super::{
    control::infos_of,
    library::Library,
    operations::{InfoAnswer, ProgramData, begin, refusal, wait, wait_infos},
    progress::call_program,
};
use crate::{
    abi::{CByteObject, CCredentialCallback, CInfo, CStatus, CValidationCallback},
    border,
    convert::{read_array, read_one, write_into},
    heap_array::HeapArray,
};
use peal_client::{Client, ClientError};
use peal_model::{Bytes, Info, Reply, Request, Status, code};
use std::{ffi::c_void, slice};

/// Credential, and what the server says about it.
struct Credential {
    credential: Bytes,
    infos: Vec<Info>,
}

async fn request(client: Client, directives: Vec<Info>) -> Result<Credential, ClientError> {
    let request = Request::GetCredential { directives };
    Ok(match client.send_request(request).await? {
        Reply::Credential {
            credential, infos, ..
        } => Credential { credential, infos },
        _ => Credential {
            credential: Bytes::from(&[][..]),
            infos: Vec::new(),
        },
    })
}

/// `PMIx_Get_credential`: returns a credential of the caller, which the caller frees.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos, `credential` is null or points to a place for a
/// byte object.
#[unsafe(export_name = "PMIx_Get_credential")]
pub unsafe extern "C" fn get_credential(
    info: *const CInfo,
    ninfo: usize,
    credential: *mut CByteObject,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Get_credential";
    border::status(FUNCTION, || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let directives = unsafe { read_array(info, ninfo, "infos") }?;
        // SAFETY: the caller guarantees a place or null.
        let place = unsafe { credential.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        let found = wait(FUNCTION, |client| request(client, directives))?;
        let found = found.map_err(|error| refusal(FUNCTION, &error))?;
        Ok(write_into(&found.credential, place)?)
    })
}

/// `PMIx_Get_credential_nb`: calls back with a credential, which is freed after the callback.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos. `cbfunc` may be called with `cbdata` from another
/// thread.
#[unsafe(export_name = "PMIx_Get_credential_nb")]
pub unsafe extern "C" fn get_credential_nb(
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CCredentialCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Get_credential_nb";
    border::status(FUNCTION, || {
        Library::running()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees the array.
        let directives = unsafe { read_array(info, ninfo, "infos") }?;
        let data = ProgramData::new(cbdata);
        begin(
            |client| request(client, directives),
            move |found| {
                let found = found.map_err(|error| refusal(FUNCTION, &error));
                let converted = found.and_then(|found| {
                    let credential = HeapArray::from_models(slice::from_ref(&found.credential))?;
                    Ok((credential, HeapArray::from_models(&found.infos)?))
                });
                let (status, (mut credential, mut infos)) = match converted {
                    Ok(converted) => (code::PMIX_SUCCESS, converted),
                    Err(status) => (status, Default::default()),
                };
                let credential = credential.as_mut_ptr();
                let (first, len) = infos.as_raw_parts();
                // SAFETY: the program passed the function for this call; all that is passed lives
                // until then.
                call_program(|| unsafe {
                    callback(status.0, credential, first, len, data.get());
                });
            },
        )
    })
}

/// Arguments of a validation.
struct Validation {
    credential: Bytes,
    directives: Vec<Info>,
}

impl Validation {
    /// Reads the arguments.
    ///
    /// # Safety
    ///
    /// `credential` is null or points to a byte object, `info` is null or begins an array of `ninfo`
    /// infos.
    unsafe fn read(
        credential: *const CByteObject,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<Validation, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees a byte object, and the array.
        unsafe {
            Ok(Validation {
                credential: read_one(credential, "credential")?,
                directives: read_array(info, ninfo, "infos")?,
            })
        }
    }

    async fn run(self, function: &'static str, client: Client) -> InfoAnswer {
        let request = Request::ValidateCredential {
            credential: self.credential,
            directives: self.directives,
        };
        let reply = client.send_request(request).await;
        InfoAnswer::new(function, reply.and_then(infos_of))
    }
}

/// `PMIx_Validate_credential`: asks the server whether a credential is valid. The caller frees the
/// results.
///
/// # Safety
///
/// `cred` is null or points to a byte object, `info` is null or begins an array of `ninfo` infos.
/// `results` and `nresults` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Validate_credential")]
pub unsafe extern "C" fn validate_credential(
    cred: *const CByteObject,
    info: *const CInfo,
    ninfo: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Validate_credential";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees a byte object, and the array.
        let validation = unsafe { Validation::read(cred, info, ninfo) }?;
        let validate = |client| validation.run(FUNCTION, client);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos(FUNCTION, results, nresults, validate) }
    })
}

/// `PMIx_Validate_credential_nb`: calls back with the server's answer, which is freed after the
/// callback.
///
/// # Safety
///
/// As for [`validate_credential`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Validate_credential_nb")]
pub unsafe extern "C" fn validate_credential_nb(
    cred: *const CByteObject,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CValidationCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Validate_credential_nb";
    border::status(FUNCTION, || {
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees a byte object, and the array.
        let validation = unsafe { Validation::read(cred, info, ninfo) }?;
        let data = ProgramData::new(cbdata);
        begin(
            |client| validation.run(FUNCTION, client),
            move |answer| {
                let (status, mut infos) = answer.into_c();
                let (first, len) = infos.as_raw_parts();
                // SAFETY: the program passed the function for this call; the infos live until then.
                call_program(|| unsafe { callback(status.0, first, len, data.get()) });
            },
        )
    })
}
