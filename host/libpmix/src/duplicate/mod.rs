//! Copies of C structures with all that they own (`PMIx_*_xfer`, `PMIx_Data_copy`). Unlike the
//! conversions of [`crate::convert`] they lose nothing: what the model lacks is copied, too.

mod element;
mod structures;

pub(crate) use element::{duplicate_alone, duplicate_element, duplicate_target};
pub(crate) use structures::unpacked;

use crate::{
    convert::{ConvertError, ReadBounds},
    destruct::Destruct,
    memory,
};
use std::{
    ffi::{CStr, c_char},
    ptr,
};

/// A C structure that can be copied with all that it owns.
pub trait Duplicate: Destruct {
    /// Copies the structure. Whatever the result is, the target can be destructed afterwards. Its
    /// old contents are not freed. A null pointer stays one, whatever the count beside it is.
    ///
    /// # Errors
    ///
    /// Fails if values are nested too deeply, if a data type is unknown, or if the heap has no
    /// memory left.
    ///
    /// # Safety
    ///
    /// Each pointer of the structure is null, or points to as many initialized elements as the
    /// structure says.
    unsafe fn duplicate(
        &self,
        target: &mut Self,
        bounds: &mut ReadBounds,
    ) -> Result<(), ConvertError>;
}

/// Copies a structure into one whose old contents are not freed. After an error the target is
/// zeroed.
///
/// # Errors
///
/// As [`Duplicate::duplicate`].
///
/// # Safety
///
/// As [`Duplicate::duplicate`].
pub unsafe fn duplicate_into<T: Duplicate>(source: &T, target: &mut T) -> Result<(), ConvertError> {
    let mut copy = T::zeroed();
    // SAFETY: the caller guarantees what `duplicate` demands.
    let copied = unsafe { source.duplicate(&mut copy, &mut ReadBounds::default()) };
    if copied.is_err() {
        // SAFETY: `duplicate` leaves a structure that can be destructed, and nothing else has it.
        unsafe { copy.destruct() };
        copy = T::zeroed();
    }
    *target = copy;
    copied
}

/// Copies a string to the C heap; null for null.
///
/// # Errors
///
/// Fails if the heap has no memory left.
///
/// # Safety
///
/// `text` is null or points to a string that ends with a NUL.
pub(crate) unsafe fn copy_text(text: *const c_char) -> Result<*mut c_char, ConvertError> {
    if text.is_null() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: the caller guarantees a string.
    memory::copy_string(unsafe { CStr::from_ptr(text) }.to_bytes())
}
