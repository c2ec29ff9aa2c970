//! Lists of infos that grow (`PMIx_Info_list_*`). The program has a pointer to the list, which it
//! gives back to `PMIx_Info_list_release`.

mod list;
#[cfg(test)]
mod tests;

use super::info;
use crate::{
    abi::{CBool, CDataArray, CInfo, CStatus, CValue},
    border,
    convert::ConvertError,
    destruct::{Destruct, PERSISTENT},
    duplicate::{Duplicate, duplicate_into},
    heap_array::HeapArray,
};
use list::{InfoList, add_unique};
use peal_model::{DataType, Status, code, data_type as dt};
use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// Returns the list of a pointer.
///
/// # Safety
///
/// `list` is null or came from [`info_list_start`] and was not released; nothing else uses it.
unsafe fn list_mut<'a>(list: *mut c_void) -> Result<&'a mut InfoList, Status> {
    // SAFETY: the caller guarantees a list or null.
    unsafe { list.cast::<InfoList>().as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)
}

/// Returns an info with a key and the copy of a value.
///
/// # Safety
///
/// `key` is null, or a string or a key; `value` is null or points to a value.
unsafe fn with_value(key: *const c_char, value: *const CValue) -> Result<CInfo, ConvertError> {
    // SAFETY: the caller guarantees a value or null.
    let value = unsafe { value.as_ref() }.ok_or(ConvertError::NullPointer { what: "value" })?;
    // SAFETY: the caller guarantees a string, a key or null, and null is allowed as data.
    let mut info = unsafe { info::load(key, ptr::null(), dt::PMIX_UNDEF) }?;
    // SAFETY: the caller guarantees that the value is valid.
    unsafe { duplicate_into(value, &mut info.value) }?;
    Ok(info)
}

/// `PMIx_Info_list_start`: makes an empty list.
#[unsafe(export_name = "PMIx_Info_list_start")]
pub extern "C" fn info_list_start() -> *mut c_void {
    border::value("PMIx_Info_list_start", ptr::null_mut(), || {
        Box::into_raw(Box::new(InfoList::new())).cast()
    })
}

/// `PMIx_Info_list_release`: frees a list with its infos; does nothing for null.
///
/// # Safety
///
/// `list` is null or came from [`info_list_start`] and was not released.
#[unsafe(export_name = "PMIx_Info_list_release")]
pub unsafe extern "C" fn info_list_release(list: *mut c_void) {
    border::value("PMIx_Info_list_release", (), || {
        if !list.is_null() {
            // SAFETY: the caller guarantees a list.
            drop(unsafe { Box::from_raw(list.cast::<InfoList>()) });
        }
    });
}

/// `PMIx_Info_list_add`: adds an info with a copy of data at the end.
///
/// # Safety
///
/// `list` is null or a list; the others are as for `PMIx_Info_load`.
#[unsafe(export_name = "PMIx_Info_list_add")]
pub unsafe extern "C" fn info_list_add(
    list: *mut c_void,
    key: *const c_char,
    data: *const c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Info_list_add", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe { list_mut(list)?.add(info::load(key, data, DataType(data_type))?, true) };
        Ok(())
    })
}

/// `PMIx_Info_list_prepend`: adds an info with a copy of data at the beginning.
///
/// # Safety
///
/// As [`info_list_add`].
#[unsafe(export_name = "PMIx_Info_list_prepend")]
pub unsafe extern "C" fn info_list_prepend(
    list: *mut c_void,
    key: *const c_char,
    data: *const c_void,
    data_type: u16,
) -> CStatus {
    border::status("PMIx_Info_list_prepend", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe { list_mut(list)?.add(info::load(key, data, DataType(data_type))?, false) };
        Ok(())
    })
}

/// `PMIx_Info_list_add_unique`: adds an info, or replaces the value of the one with its key if
/// `overwrite` says so.
///
/// # Safety
///
/// As [`info_list_add`].
#[unsafe(export_name = "PMIx_Info_list_add_unique")]
pub unsafe extern "C" fn info_list_add_unique(
    list: *mut c_void,
    key: *const c_char,
    data: *const c_void,
    data_type: u16,
    overwrite: CBool,
) -> CStatus {
    border::status("PMIx_Info_list_add_unique", || {
        // SAFETY: the caller guarantees what these demand.
        let (list, info) =
            unsafe { (list_mut(list)?, info::load(key, data, DataType(data_type))?) };
        add_unique(list, info, overwrite != 0);
        Ok(())
    })
}

/// `PMIx_Info_list_add_value`: adds an info with the copy of a value.
///
/// # Safety
///
/// `list` is null or a list; `key` is null, or a string or a key; `value` is null or points to a
/// value.
#[unsafe(export_name = "PMIx_Info_list_add_value")]
pub unsafe extern "C" fn info_list_add_value(
    list: *mut c_void,
    key: *const c_char,
    value: *const CValue,
) -> CStatus {
    border::status("PMIx_Info_list_add_value", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe { list_mut(list)?.add(with_value(key, value)?, true) };
        Ok(())
    })
}

/// `PMIx_Info_list_add_value_unique`: adds an info with the copy of a value, or replaces the value of
/// the one with its key if `overwrite` says so.
///
/// # Safety
///
/// As [`info_list_add_value`].
#[unsafe(export_name = "PMIx_Info_list_add_value_unique")]
pub unsafe extern "C" fn info_list_add_value_unique(
    list: *mut c_void,
    key: *const c_char,
    value: *const CValue,
    overwrite: CBool,
) -> CStatus {
    border::status("PMIx_Info_list_add_value_unique", || {
        // SAFETY: the caller guarantees what these demand.
        let (list, info) = unsafe { (list_mut(list)?, with_value(key, value)?) };
        add_unique(list, info, overwrite != 0);
        Ok(())
    })
}

/// `PMIx_Info_list_insert`: adds an info whose value stays the caller's, who frees it after the list.
///
/// # Safety
///
/// `list` is null or a list; `info` is null or points to an info.
#[unsafe(export_name = "PMIx_Info_list_insert")]
pub unsafe extern "C" fn info_list_insert(list: *mut c_void, info: *const CInfo) -> CStatus {
    border::status("PMIx_Info_list_insert", || {
        // SAFETY: the caller guarantees a list and an info, or null.
        let (list, info) = unsafe { (list_mut(list)?, info.as_ref()) };
        let mut info = *info.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        info.flags |= PERSISTENT.0;
        list.add(info, true);
        Ok(())
    })
}

/// Returns a copy of an info.
///
/// # Safety
///
/// `info` is null or points to an info.
unsafe fn copied(info: *const CInfo) -> Result<CInfo, ConvertError> {
    // SAFETY: the caller guarantees an info or null.
    let info = unsafe { info.as_ref() }.ok_or(ConvertError::NullPointer { what: "info" })?;
    let mut copy = CInfo::zeroed();
    // SAFETY: the caller guarantees that the info is valid.
    unsafe { duplicate_into(info, &mut copy) }?;
    Ok(copy)
}

/// `PMIx_Info_list_xfer`: adds the copy of an info.
///
/// # Safety
///
/// As [`info_list_insert`].
#[unsafe(export_name = "PMIx_Info_list_xfer")]
pub unsafe extern "C" fn info_list_xfer(list: *mut c_void, info: *const CInfo) -> CStatus {
    border::status("PMIx_Info_list_xfer", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe { list_mut(list)?.add(copied(info)?, true) };
        Ok(())
    })
}

/// `PMIx_Info_list_xfer_unique`: adds the copy of an info, or replaces the value of the one with its
/// key if `overwrite` says so.
///
/// # Safety
///
/// As [`info_list_insert`].
#[unsafe(export_name = "PMIx_Info_list_xfer_unique")]
pub unsafe extern "C" fn info_list_xfer_unique(
    list: *mut c_void,
    info: *const CInfo,
    overwrite: CBool,
) -> CStatus {
    border::status("PMIx_Info_list_xfer_unique", || {
        // SAFETY: the caller guarantees what these demand.
        let (list, info) = unsafe { (list_mut(list)?, copied(info)?) };
        add_unique(list, info, overwrite != 0);
        Ok(())
    })
}

/// `PMIx_Info_list_convert`: copies the infos of a list into an array, whose old contents are not
/// freed. Of an empty list it makes an empty array, and returns `PMIX_ERR_EMPTY`.
///
/// # Safety
///
/// `list` is null or a list; `array` is null or points to memory for an array.
#[unsafe(export_name = "PMIx_Info_list_convert")]
pub unsafe extern "C" fn info_list_convert(list: *mut c_void, array: *mut CDataArray) -> CStatus {
    border::status("PMIx_Info_list_convert", || {
        // SAFETY: the caller guarantees a list or null.
        let list = unsafe { list_mut(list) }?;
        if array.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let empty = CDataArray {
            r#type: dt::PMIX_INFO.0,
            ..CDataArray::zeroed()
        };
        // SAFETY: the caller guarantees memory for an array.
        unsafe { array.write(empty) };
        if list.len == 0 {
            return Err(code::PMIX_ERR_EMPTY);
        }
        let mut copies = HeapArray::<CInfo>::zeroed(list.len)?;
        for (info, copy) in list.infos().zip(copies.as_mut_slice()) {
            // SAFETY: the infos of the list are valid.
            unsafe { info.duplicate(copy, &mut crate::convert::ReadBounds::default()) }?;
        }
        let (first, size) = copies.into_raw();
        let full = CDataArray {
            array: first.cast(),
            size,
            ..empty
        };
        // SAFETY: as above.
        unsafe { array.write(full) };
        Ok(())
    })
}

/// `PMIx_Info_list_get_info`: returns the info after those before, beginning with a null pointer, and
/// writes the pointer for the next call; null after the last info. The infos stay the list's.
///
/// # Safety
///
/// `list` is null or a list; `at` is null or was written by this function for the same list, from
/// which nothing was removed; `next` is null or points to a variable.
#[unsafe(export_name = "PMIx_Info_list_get_info")]
pub unsafe extern "C" fn info_list_get_info(
    list: *mut c_void,
    at: *mut c_void,
    next: *mut *mut c_void,
) -> *mut CInfo {
    border::value("PMIx_Info_list_get_info", ptr::null_mut(), || {
        // SAFETY: the caller guarantees a list, a node of it, and a variable, or null.
        unsafe {
            let Ok(list) = list_mut(list) else {
                return ptr::null_mut();
            };
            let node = if at.is_null() { list.first } else { at.cast() };
            let following = node.as_ref().map_or(ptr::null_mut(), |node| node.next);
            if let Some(next) = next.as_mut() {
                *next = following.cast();
            }
            node.as_mut()
                .map_or(ptr::null_mut(), |node| &raw mut node.info)
        }
    })
}

/// `PMIx_Info_list_get_size`: returns the number of infos; zero for null.
///
/// # Safety
///
/// `list` is null or a list.
#[unsafe(export_name = "PMIx_Info_list_get_size")]
pub unsafe extern "C" fn info_list_get_size(list: *mut c_void) -> usize {
    border::value("PMIx_Info_list_get_size", 0, || {
        // SAFETY: the caller guarantees a list or null.
        unsafe { list_mut(list) }.map_or(0, |list| list.len)
    })
}
