//! Get of values of procs and jobs.
use super::{
    library::{Library, Running},
    operations::{ProgramData, begin, refusal, wait},
    progress::call_program,
};
use crate::{
    abi::{CInfo, CProc, CStatus, CValue, CValueCallback},
    border,
    convert::{key_from_argument, nspace_from_array, read_array, write_into},
    heap_array::HeapArray,
    values::compress::decompress,
};
use peal_client::{Client, ClientError};
use peal_model::{
    DataArray, Info, Infos, Key, KeyName, Kval, Proc, Rank, Status, Text, Value, code, key, rank,
};
use std::{
    ffi::{c_char, c_void},
    ptr, slice,
};

/// Arguments of a get, at least one of which is given.
struct Get {
    proc: Option<Proc>,
    key: Option<Key>,
    infos: Vec<Info>,
}

impl Get {
    /// Reads the arguments. Without a namespace the proc is one of the caller's job.
    ///
    /// # Safety
    ///
    /// `proc` is null or points to a proc, `key` is null or a string, `info` is null or begins an
    /// array of `ninfo` infos.
    unsafe fn read(
        running: &Running,
        proc: *const CProc,
        key: *const c_char,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<Get, Status> {
        // SAFETY: the caller guarantees a proc or null.
        let proc = match unsafe { proc.as_ref() } {
            Some(proc) if proc.nspace.first() == Some(&0) => {
                Some(Proc::new(running.me().nspace.clone(), Rank(proc.rank)))
            }
            Some(proc) => Some(Proc::new(nspace_from_array(&proc.nspace)?, Rank(proc.rank))),
            None => None,
        };
        let key = if key.is_null() {
            None
        } else {
            // SAFETY: the caller guarantees a string.
            Some(unsafe { key_from_argument(key) }?)
        };
        match (&proc, &key) {
            (None, None) => return Err(code::PMIX_ERR_BAD_PARAM),
            (Some(proc), None) if proc.rank == rank::PMIX_RANK_WILDCARD => {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            _ => {}
        }
        // SAFETY: the caller guarantees `ninfo` infos.
        let mut infos = unsafe { read_array(info, ninfo, "infos") }?;
        if running.host.is_some() {
            // A host environment gets what its server has: the server would pass the request on to the
            // host environment, whose thread waits here.
            infos.push(flag(key::PMIX_IMMEDIATE));
        }
        Ok(Get { proc, key, infos })
    }

    /// Returns the value.
    async fn run(self, client: Client) -> Result<Value, ClientError> {
        let me = client.me().clone();
        let Get {
            proc,
            key,
            mut infos,
        } = self;
        // A key without a proc is one that only one proc of the job has.
        let unique = Proc::new(me.nspace.clone(), rank::PMIX_RANK_UNDEF);
        let Some(key) = key else {
            return Ok(all_values(&client, proc.unwrap_or(unique)));
        };
        match &proc {
            None if key == key::PMIX_PROCID => return Ok(Value::Proc(me)),
            Some(proc)
                if proc.rank == rank::PMIX_RANK_INVALID
                    && proc.nspace == me.nspace
                    && key == key::PMIX_RANK =>
            {
                return Ok(Value::Rank(me.rank));
            }
            _ => {}
        }
        let proc = proc.unwrap_or(unique);
        if let Some(value) = of_the_job(&client, &proc, &key).await {
            return Ok(value);
        }
        if proc.nspace == me.nspace && needs_immediate(&key, &infos) {
            infos.push(flag(key::PMIX_IMMEDIATE));
        }
        client.get(&proc, key, &infos).await.map(decompressed)
    }
}

/// Returns true if a get of a proc of the caller's job is to be answered at once, as the C library
/// requests it. Values of reserved keys come from the server; for one that is not there, a server of
/// the C library would wait until a proc puts it.
fn needs_immediate(key: &Key, infos: &[Info]) -> bool {
    let directives = [
        key::PMIX_IMMEDIATE,
        key::PMIX_GET_REFRESH_CACHE,
        key::PMIX_NODE_INFO,
        key::PMIX_APP_INFO,
        key::PMIX_SESSION_INFO,
    ];
    key.is_reserved() && !directives.into_iter().any(|name| infos.is_true(name))
}

/// Returns a compressed text as a string, as release 4.2 does. The C library compresses the long
/// strings that procs put, if it is built with zlib; releases since 5.0 return them as they are.
fn decompressed(value: Value) -> Value {
    let Value::CompressedString(bytes) = &value else {
        return value;
    };
    let bytes = bytes.as_slice();
    match decompress(bytes) {
        Some(text) => Value::String(Some(Text::from_bytes(&text))),
        None => {
            tracing::warn!(bytes = bytes.len(), "compressed text not readable");
            value
        }
    }
}

/// Returns all known values of a proc, as an array of infos.
fn all_values(client: &Client, proc: Proc) -> Value {
    let infos = client.known_values(&proc).into_iter();
    let infos = infos.map(|Kval { key, value }| Info {
        key,
        value: decompressed(value),
        flags: peal_model::InfoFlags::NONE,
    });
    Value::DataArray(DataArray::infos(infos))
}

/// Returns the value of a job for a key without a proc.
async fn of_the_job(client: &Client, proc: &Proc, key: &Key) -> Option<Value> {
    if proc.rank != rank::PMIX_RANK_UNDEF {
        return None;
    }
    let job = Proc::all(proc.nspace.clone());
    let optional = [flag(key::PMIX_OPTIONAL)];
    client.get(&job, key.clone(), &optional).await.ok()
}

fn flag(key: KeyName) -> Info {
    Info::new(key, Value::Bool(true))
}

/// `PMIx_Get`: returns a value, which the caller frees. With `PMIX_GET_STATIC_VALUES` it is written
/// into the value that `*val` points to. With `PMIX_GET_POINTER_VALUES` it stays the library's, until
/// the last finalize.
///
/// # Safety
///
/// `proc` is null or points to a proc, `key` is null or a string, `info` is null or begins an array of
/// `ninfo` infos. `val` is null or points to a place for a pointer, which with
/// `PMIX_GET_STATIC_VALUES` is null or points to a value.
#[unsafe(export_name = "PMIx_Get")]
pub unsafe extern "C" fn get(
    proc: *const CProc,
    key: *const c_char,
    info: *const CInfo,
    ninfo: usize,
    val: *mut *mut CValue,
) -> CStatus {
    border::status("PMIx_Get", || {
        let running = Library::running()?;
        // SAFETY: the caller guarantees what `Get::read` demands.
        let get = unsafe { Get::read(&running, proc, key, info, ninfo) }?;
        let is_static = get.infos.is_true(key::PMIX_GET_STATIC_VALUES);
        let is_kept = get.infos.is_true(key::PMIX_GET_POINTER_VALUES);
        let found = wait("PMIx_Get", |client| get.run(client))?;
        // SAFETY: the caller guarantees a place or null.
        let place = unsafe { val.as_mut() };
        let value = match found {
            Ok(value) => value,
            Err(error) => {
                if let Some(place) = place.filter(|_| !is_static) {
                    *place = ptr::null_mut();
                }
                return Err(refusal("PMIx_Get", &error));
            }
        };
        let Some(place) = place else {
            return Ok(());
        };
        // SAFETY: with this directive, the caller guarantees a value or null.
        if is_static && let Some(target) = unsafe { place.as_mut() } {
            return Ok(write_into(&value, target)?);
        }
        let array = HeapArray::from_models(slice::from_ref(&value))?;
        *place = if is_kept {
            running.keep_value(array)
        } else {
            array.into_raw().0
        };
        Ok(())
    })
}

/// `PMIx_Get_nb`: calls back with a value, which is freed after the callback.
///
/// # Safety
///
/// As for [`get`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Get_nb")]
pub unsafe extern "C" fn get_nb(
    proc: *const CProc,
    key: *const c_char,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CValueCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Get_nb", || {
        let running = Library::running()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees what `Get::read` demands.
        let get = unsafe { Get::read(&running, proc, key, info, ninfo) }?;
        let data = ProgramData::new(cbdata);
        begin(
            |client| get.run(client),
            move |found| {
                let found = found.map_err(|error| refusal("PMIx_Get_nb", &error));
                let converted =
                    found.and_then(|value| Ok(HeapArray::from_models(slice::from_ref(&value))?));
                let (status, mut value) = match converted {
                    Ok(value) => (code::PMIX_SUCCESS, value),
                    Err(status) => (status, HeapArray::default()),
                };
                let pointer = value.as_mut_ptr();
                // SAFETY: the program passed the function for this call; the value lives until then.
                call_program(|| unsafe { callback(status.0, pointer, data.get()) });
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::compress::compress;
    use peal_model::Bytes;

    #[test]
    fn absent_reserved_keys_are_answered_at_once() {
        let reserved = Key::from(key::PMIX_PSET_NAME);
        assert!(needs_immediate(&reserved, &[]));
        assert!(!needs_immediate(&Key::new("mine").unwrap(), &[]));
        for name in [key::PMIX_IMMEDIATE, key::PMIX_GET_REFRESH_CACHE] {
            assert!(!needs_immediate(&reserved, &[flag(name)]));
        }
    }

    #[test]
    fn compressed_texts_become_strings_and_others_stay() {
        let text = "text ".repeat(1000);
        let bytes = compress(text.as_bytes()).unwrap();
        let compressed = Value::CompressedString(Bytes::from(bytes));
        assert_eq!(decompressed(compressed), Value::string(&text));
        for value in [
            Value::CompressedString(Bytes::from(vec![1, 2, 3])),
            Value::Int(3),
        ] {
            assert_eq!(decompressed(value.clone()), value);
        }
    }
}
