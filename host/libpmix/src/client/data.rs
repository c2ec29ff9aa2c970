//! Values of procs and jobs: put, commit and store.
use super::{library::Library, operations::wait_status};
use crate::{
    abi::{CProc, CScope, CStatus, CValue},
    border,
    convert::{ConvertError, key_from_argument, read_one},
};
use peal_client::Client;
use peal_model::{Scope, Value};
use std::ffi::c_char;

/// `PMIx_Put`: keeps a value for the next commit, and for gets of this process.
///
/// # Safety
///
/// `key` is null or a string, `val` is null or points to a value.
#[unsafe(export_name = "PMIx_Put")]
pub unsafe extern "C" fn put(scope: CScope, key: *const c_char, val: *mut CValue) -> CStatus {
    border::status("PMIx_Put", || {
        let running = Library::running()?;
        // SAFETY: the caller guarantees a string or null.
        let key = unsafe { key_from_argument(key) }?;
        // SAFETY: the caller guarantees a value or null.
        let value: Value = unsafe { read_one(val, "value") }?;
        let scope = Scope::try_from(scope).map_err(ConvertError::from)?;
        let client = &running.client;
        client.store(client.me().clone(), key.clone(), value.clone());
        client.put(scope, key, value);
        Ok(())
    })
}

/// `PMIx_Commit`: sends the values of all puts to the server.
#[unsafe(export_name = "PMIx_Commit")]
pub extern "C" fn commit() -> CStatus {
    border::status("PMIx_Commit", || {
        wait_status("PMIx_Commit", |client: Client| async move {
            client.commit().await
        })
    })
}

/// `PMIx_Store_internal`: keeps a value of any proc for gets of this process alone.
///
/// # Safety
///
/// `proc` is null or points to a proc, `key` is null or a string, `val` is null or points to a value.
#[unsafe(export_name = "PMIx_Store_internal")]
pub unsafe extern "C" fn store_internal(
    proc: *const CProc,
    key: *const c_char,
    val: *mut CValue,
) -> CStatus {
    border::status("PMIx_Store_internal", || {
        let running = Library::running()?;
        // SAFETY: the caller guarantees a proc or null.
        let proc = unsafe { read_one(proc, "proc") }?;
        // SAFETY: the caller guarantees a string or null.
        let key = unsafe { key_from_argument(key) }?;
        // SAFETY: the caller guarantees a value or null.
        let value: Value = unsafe { read_one(val, "value") }?;
        running.client.store(proc, key, value);
        Ok(())
    })
}
