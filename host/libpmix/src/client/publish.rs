//! Publish, lookup and unpublish of data.
use super::{
    library::Library,
    operations::{ProgramData, begin, begin_status, refusal, wait, wait_status},
    progress::call_program,
};
use crate::{
    abi::{CInfo, CLookupCallback, COpCallback, CPdata, CStatus},
    border,
    convert::{ConvertError, argv_argument, key_from_array, read_array, write_into},
    heap_array::HeapArray,
};
use peal_client::{Client, ClientError};
use peal_model::{Info, Key, Pdata, Status, Text, code};
use std::{
    ffi::{c_char, c_void},
    slice,
};

/// Keys and directives of a lookup or unpublish.
struct Keys {
    keys: Vec<Key>,
    infos: Vec<Info>,
}

impl Keys {
    /// Reads a list of keys, and directives.
    ///
    /// # Safety
    ///
    /// `keys` is null or a list of strings that ends with a null pointer, `info` is null or begins an
    /// array of `ninfo` infos.
    unsafe fn read(
        keys: *mut *mut c_char,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<Keys, Status> {
        // SAFETY: the caller guarantees the list.
        let texts = unsafe { argv_argument(keys) }?;
        let key = |text: &Text| {
            let text = text.as_str().ok_or(ConvertError::NotUtf8 { what: "key" })?;
            Ok::<Key, ConvertError>(Key::new(text)?)
        };
        let keys = texts.iter().flatten().map(key).collect::<Result<_, _>>()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(info, ninfo, "infos") }?;
        Ok(Keys { keys, infos })
    }

    async fn lookup(self, client: Client) -> Result<Vec<Pdata>, ClientError> {
        client.lookup(&self.keys, &self.infos).await
    }

    async fn unpublish(self, client: Client) -> Result<(), ClientError> {
        client.unpublish(&self.keys, &self.infos).await
    }
}

/// Reads the data of a publish, of which there must be some.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos.
unsafe fn read_data(info: *const CInfo, ninfo: usize) -> Result<Vec<Info>, Status> {
    // SAFETY: the caller guarantees the array.
    let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
    if infos.is_empty() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    Ok(infos)
}

/// `PMIx_Publish`: publishes data, and waits until they can be found.
///
/// # Safety
///
/// `info` is null or begins an array of `ninfo` infos.
#[unsafe(export_name = "PMIx_Publish")]
pub unsafe extern "C" fn publish(info: *const CInfo, ninfo: usize) -> CStatus {
    border::status("PMIx_Publish", || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_data(info, ninfo) }?;
        let publish = |client: Client| async move { client.publish(&infos).await };
        wait_status("PMIx_Publish", publish)
    })
}

/// `PMIx_Publish_nb`: publishes data, and calls back when they can be found.
///
/// # Safety
///
/// As for [`publish`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Publish_nb")]
pub unsafe extern "C" fn publish_nb(
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Publish_nb", || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_data(info, ninfo) }?;
        let publish = |client: Client| async move { client.publish(&infos).await };
        begin_status("PMIx_Publish_nb", cbfunc, cbdata, publish)
    })
}

/// `PMIx_Lookup`: writes published data into the elements that name their keys. An element without
/// data has the type `PMIX_UNDEF` afterwards.
///
/// # Safety
///
/// `data` is null or begins an array of `ndata` elements with keys, `info` one of `ninfo` infos.
#[unsafe(export_name = "PMIx_Lookup")]
pub unsafe extern "C" fn lookup(
    data: *mut CPdata,
    ndata: usize,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Lookup", || {
        Library::running()?;
        if data.is_null() || ndata == 0 {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees the array, which nothing else uses during the call.
        let data = unsafe { slice::from_raw_parts_mut(data, ndata) };
        let keys = data.iter().map(|element| key_from_array(&element.key));
        let keys = keys.collect::<Result<Vec<Key>, _>>()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(info, ninfo, "infos") }?;
        let asked = keys.iter().filter(|key| !key.as_str().is_empty());
        let asked = Keys {
            keys: asked.cloned().collect(),
            infos,
        };
        let found = wait("PMIx_Lookup", |client| asked.lookup(client))?;
        let found = found.map_err(|error| refusal("PMIx_Lookup", &error))?;
        for (element, key) in data.iter_mut().zip(keys) {
            if let Some(published) = found.iter().find(|published| published.key == key) {
                write_into(published, element)?;
            }
        }
        Ok(())
    })
}

/// `PMIx_Lookup_nb`: calls back with published data, which are freed after the callback.
///
/// # Safety
///
/// `keys` is null or a list of strings that ends with a null pointer, `info` is null or begins an array
/// of `ninfo` infos. `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Lookup_nb")]
pub unsafe extern "C" fn lookup_nb(
    keys: *mut *mut c_char,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: CLookupCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Lookup_nb", || {
        Library::running()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        if keys.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees what `Keys::read` demands.
        let asked = unsafe { Keys::read(keys, info, ninfo) }?;
        let user = ProgramData::new(cbdata);
        begin(
            |client| asked.lookup(client),
            move |found| {
                let found = found.map_err(|error| refusal("PMIx_Lookup_nb", &error));
                let converted = found.and_then(|data| Ok(HeapArray::from_models(&data)?));
                let (status, mut data) = match converted {
                    Ok(data) => (code::PMIX_SUCCESS, data),
                    Err(status) => (status, HeapArray::default()),
                };
                let (first, len) = data.as_raw_parts();
                // SAFETY: the program passed the function for this call; the data live until then.
                call_program(|| unsafe { callback(status.0, first, len, user.get()) });
            },
        )
    })
}

/// `PMIx_Unpublish`: removes the caller's data under these keys, or all of its data.
///
/// # Safety
///
/// `keys` is null or a list of strings that ends with a null pointer, `info` is null or begins an array
/// of `ninfo` infos.
#[unsafe(export_name = "PMIx_Unpublish")]
pub unsafe extern "C" fn unpublish(
    keys: *mut *mut c_char,
    info: *const CInfo,
    ninfo: usize,
) -> CStatus {
    border::status("PMIx_Unpublish", || {
        // SAFETY: the caller guarantees what `Keys::read` demands.
        let named = unsafe { Keys::read(keys, info, ninfo) }?;
        wait_status("PMIx_Unpublish", |client| named.unpublish(client))
    })
}

/// `PMIx_Unpublish_nb`: removes data, and calls back when they are gone.
///
/// # Safety
///
/// As for [`unpublish`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Unpublish_nb")]
pub unsafe extern "C" fn unpublish_nb(
    keys: *mut *mut c_char,
    info: *const CInfo,
    ninfo: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Unpublish_nb", || {
        // SAFETY: the caller guarantees what `Keys::read` demands.
        let named = unsafe { Keys::read(keys, info, ninfo) }?;
        let unpublish = |client| named.unpublish(client);
        begin_status("PMIx_Unpublish_nb", cbfunc, cbdata, unpublish)
    })
}
