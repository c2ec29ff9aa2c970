//! Arrays of any data type (`PMIx_Data_array_*`).
use super::families::construct_at;
use crate::{
    abi::{CDataArray, CDeviceDistance, CNodePid, CProc},
    border,
    convert::element,
    destruct::{Destruct, free_array},
    memory,
};
use peal_model::{DataType, data_type as dt};
use std::{ffi::c_void, ptr};

/// Makes an array of constructed elements. Without elements, and for a type that has none, it is
/// empty.
fn new_array(len: usize, data_type: DataType) -> CDataArray {
    let size = element::layout(data_type).map_or(0, |layout| layout.size);
    let array = memory::allocate_bytes(len, size).unwrap_or(ptr::null_mut());
    if !array.is_null() {
        for at in 0..len {
            // SAFETY: the array has `len` zeroed elements of this size.
            unsafe { construct_element(data_type, array.byte_add(at * size)) };
        }
    }
    CDataArray {
        r#type: data_type.0,
        size: if array.is_null() { 0 } else { len },
        array,
    }
}

/// Gives an element the initial contents that are not zero.
///
/// # Safety
///
/// `at` points to a zeroed element of the data type.
unsafe fn construct_element(data_type: DataType, at: *mut c_void) {
    // SAFETY: the caller guarantees an element of the data type, which is this C type.
    unsafe {
        match data_type {
            dt::PMIX_PROC => construct_at(at.cast::<CProc>()),
            dt::PMIX_DEVICE_DIST => construct_at(at.cast::<CDeviceDistance>()),
            dt::PMIX_NODE_PID => construct_at(at.cast::<CNodePid>()),
            _ => {}
        }
    }
}

/// `PMIx_Data_array_init`: initializes an array without elements.
///
/// # Safety
///
/// `array` is null or points to memory for an array.
#[unsafe(export_name = "PMIx_Data_array_init")]
pub unsafe extern "C" fn data_array_init(array: *mut CDataArray, data_type: u16) {
    border::value("PMIx_Data_array_init", (), || {
        if !array.is_null() {
            // SAFETY: the caller guarantees memory for an array.
            unsafe { array.write(new_array(0, DataType(data_type))) };
        }
    });
}

/// `PMIx_Data_array_construct`: initializes an array with constructed elements. It is empty if the
/// type is unknown or the heap has no memory left.
///
/// # Safety
///
/// `array` is null or points to memory for an array.
#[unsafe(export_name = "PMIx_Data_array_construct")]
pub unsafe extern "C" fn data_array_construct(array: *mut CDataArray, len: usize, data_type: u16) {
    border::value("PMIx_Data_array_construct", (), || {
        if !array.is_null() {
            // SAFETY: the caller guarantees memory for an array.
            unsafe { array.write(new_array(len, DataType(data_type))) };
        }
    });
}

/// `PMIx_Data_array_create`: makes an array with constructed elements; null for none.
#[unsafe(export_name = "PMIx_Data_array_create")]
pub extern "C" fn data_array_create(len: usize, data_type: u16) -> *mut CDataArray {
    border::value("PMIx_Data_array_create", ptr::null_mut(), || {
        if len == 0 {
            return ptr::null_mut();
        }
        let array: *mut CDataArray = memory::allocate(1).unwrap_or(ptr::null_mut());
        if !array.is_null() {
            // SAFETY: the memory is new.
            unsafe { array.write(new_array(len, DataType(data_type))) };
        }
        array
    })
}

/// `PMIx_Data_array_destruct`: frees the elements and what they own.
///
/// # Safety
///
/// `array` is null or points to an array, whose elements are from `malloc` and valid.
#[unsafe(export_name = "PMIx_Data_array_destruct")]
pub unsafe extern "C" fn data_array_destruct(array: *mut CDataArray) {
    border::value("PMIx_Data_array_destruct", (), || {
        // SAFETY: the caller guarantees an array or null.
        unsafe {
            if let Some(array) = array.as_mut() {
                array.destruct();
            }
        }
    });
}

/// `PMIx_Data_array_free`: frees an array with its elements.
///
/// # Safety
///
/// `array` is null or points to an array from `malloc`, as the destructor demands.
#[unsafe(export_name = "PMIx_Data_array_free")]
pub unsafe extern "C" fn data_array_free(array: *mut CDataArray) {
    // SAFETY: the caller guarantees what `free_array` demands.
    border::value("PMIx_Data_array_free", (), || unsafe {
        free_array(array, 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;

    #[test]
    fn arrays_of_all_types_are_created_and_freed() {
        let before = counter::live();
        for data_type in 1..80 {
            let array = data_array_create(3, data_type);
            // SAFETY: the array was made here.
            unsafe {
                let known = element::layout(DataType(data_type)).is_some();
                assert_eq!((*array).size, if known { 3 } else { 0 }, "{data_type}");
                data_array_free(array);
            }
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn null_and_wrong_counts_make_empty_arrays() {
        let mut array = CDataArray::zeroed();
        // SAFETY: null is allowed.
        unsafe {
            data_array_construct(&mut array, usize::MAX, dt::PMIX_INFO.0);
            assert_eq!((array.size, array.array), (0, ptr::null_mut()));
            data_array_init(ptr::null_mut(), 1);
            data_array_construct(ptr::null_mut(), 1, 1);
            data_array_destruct(ptr::null_mut());
            data_array_free(ptr::null_mut());
        }
        assert!(data_array_create(0, 1).is_null());
    }
}
