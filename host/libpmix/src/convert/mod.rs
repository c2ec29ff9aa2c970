//! Conversions between C values and values of the model. Both directions copy everything.
//!
//! - **From C**: [`read_one`], [`read_array`], [`text_argument`], [`argv_argument`],
//!   [`key_from_argument`], [`nspace_from_argument`]. What the caller passes is bounded by
//!   [`ReadBounds`]; more is refused with `PMIX_ERR_BAD_PARAM`.
//! - **To C**: [`write_into`] for a structure of the caller, [`HeapArray::from_models`] for arrays,
//!   [`text_to_c`], [`argv_to_c`], [`key_array`], [`nspace_array`]. The memory is what the macros of
//!   the C headers free.
//!
//! The types that convert implement [`FromC`] and [`ToC`]:
//!
//! | C | model |
//! |---|---|
//! | `CValue`, `CDataArray`, `CByteObject`, `CDataBuffer` | `Value`, `DataArray`, `Bytes`, [`BufferBytes`] |
//! | `CInfo`, `CPdata`, `CApp`, `CQuery` | `Info`, `Pdata`, `App`, `Query` |
//! | `CProc`, `CProcInfo`, `CEnvar`, `CRegattr` | `Proc`, `ProcInfo`, `Envar`, `Regattr` |
//! | `CCoord`, `CGeometry`, `CDeviceDistance`, `CEndpoint`, `CDevice`, `CResourceUnit`, `CNodePid` | the same names |
//! | `CDiskStats`, `CNetStats`, `CNodeStats` | the same names |
//! | `CCpuset`, `CTopology` | [`CpusetList`], `Topology` |
//! | `CStatus` (`c_int`), `u32` | `Status`, `u32` |
//!
//! **What is lost.** `exit_code` of a proc info, disks and interfaces of node statistics, and the
//! pointer of a `PMIX_POINTER` have no place in the model. `PMIX_REGEX` becomes a string, or a byte
//! object if it is compressed. `PMIX_INFO_PERSISTENT` concerns the caller's memory and is dropped.
//! `PMIX_PROC_STATS`, `PMIX_REGEX2` and `PMIX_KVAL` are refused with `PMIX_ERR_NOT_SUPPORTED`: the
//! model has no statistics of procs and no expressions, and the C library keeps the structure of
//! pairs private. Statistics of procs alone are packed without the model.

mod bounds;
mod devices;
pub mod element;
mod error;
mod info;
mod read;
mod stats;
mod structs;
mod text;
mod write;

pub use bounds::ReadBounds;
pub use devices::CpusetList;
pub use error::ConvertError;
pub use structs::BufferBytes;
pub(crate) use text::{copy_characters, fill_characters};
pub use text::{
    key_array, key_from_argument, key_from_array, nspace_array, nspace_from_argument,
    nspace_from_array, text_to_c,
};
pub(crate) use write::element as write_element;

#[cfg(doc)]
use crate::heap_array::HeapArray;
use crate::{
    destruct::{Destruct, free_argv},
    memory,
};
use peal_model::Text;
use std::{ffi::c_char, ptr, slice};

/// Conversion from a C type.
pub trait FromC: Sized {
    /// The C type.
    type Source;

    /// Copies a C structure and all that it points to.
    ///
    /// # Errors
    ///
    /// Fails if the structure exceeds `bounds`, or has no form in the model.
    ///
    /// # Safety
    ///
    /// Each pointer that the C declaration says to be used is null, or points to as many
    /// initialized elements as the structure says. Nothing changes them during the call.
    unsafe fn from_c(source: &Self::Source, bounds: &mut ReadBounds) -> Result<Self, ConvertError>;
}

/// Conversion to a C type.
pub trait ToC {
    /// The C type.
    type Target: Destruct;

    /// Copies the value into a zeroed structure. Whatever the result is, the structure can be
    /// destructed afterwards.
    ///
    /// # Errors
    ///
    /// Fails if the value has no C form, or the heap has no memory left.
    fn fill(&self, target: &mut Self::Target) -> Result<(), ConvertError>;
}

/// Reads one structure of a caller. `what` names it in the error for a null pointer.
///
/// # Errors
///
/// Fails if the pointer is null, and as [`FromC::from_c`].
///
/// # Safety
///
/// `source` is null or points to a structure as [`FromC::from_c`] demands.
pub unsafe fn read_one<M: FromC>(
    source: *const M::Source,
    what: &'static str,
) -> Result<M, ConvertError> {
    // SAFETY: the caller guarantees that the pointer is null or points to a structure.
    let source = unsafe { source.as_ref() }.ok_or(ConvertError::NullPointer { what })?;
    // SAFETY: the caller guarantees what `from_c` demands.
    unsafe { M::from_c(source, &mut ReadBounds::default()) }
}

/// Reads an array of a caller: a pointer and a count. No elements may have a null pointer. `what`
/// names the array in the error for a null pointer with a count.
///
/// # Errors
///
/// Fails if the pointer is null and the count is not zero, and as [`FromC::from_c`].
///
/// # Safety
///
/// `first` is null or begins an array of `count` structures as [`FromC::from_c`] demands.
pub unsafe fn read_array<M: FromC>(
    first: *const M::Source,
    count: usize,
    what: &'static str,
) -> Result<Vec<M>, ConvertError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller guarantees what `read_list` demands.
    unsafe { read_list(first, count, what, &mut ReadBounds::default()) }
}

/// Reads an array that is a member of a structure.
///
/// # Safety
///
/// As [`read_array`].
pub(crate) unsafe fn read_list<M: FromC>(
    first: *const M::Source,
    count: usize,
    what: &'static str,
    bounds: &mut ReadBounds,
) -> Result<Vec<M>, ConvertError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if first.is_null() {
        return Err(ConvertError::NullPointer { what });
    }
    bounds.count(count)?;
    // SAFETY: the caller guarantees an array of `count` structures.
    let array = unsafe { slice::from_raw_parts(first, count) };
    array
        .iter()
        // SAFETY: the caller guarantees what `from_c` demands, for each structure.
        .map(|source| unsafe { M::from_c(source, bounds) })
        .collect()
}

/// Reads a string that is an argument of a function; `None` for null.
///
/// # Errors
///
/// Fails if the string is longer than the longest in a message.
///
/// # Safety
///
/// `argument` is null or points to a string that ends with a NUL.
pub unsafe fn text_argument(argument: *const c_char) -> Result<Option<Text>, ConvertError> {
    // SAFETY: the caller guarantees a string or null.
    unsafe { text::text(argument, &mut ReadBounds::default()) }
}

/// Reads a list of strings that ends with a null pointer; empty for null.
///
/// # Errors
///
/// Fails if the list or a string is too long.
///
/// # Safety
///
/// `argument` is null, or a list of strings that ends with a null pointer.
pub unsafe fn argv_argument(
    argument: *const *mut c_char,
) -> Result<Vec<Option<Text>>, ConvertError> {
    // SAFETY: the caller guarantees a list or null.
    unsafe { text::argv(argument, &mut ReadBounds::default()) }
}

/// Writes a value into a structure of the caller, whose old contents are not freed. After an error
/// the structure is zeroed.
///
/// # Errors
///
/// As [`ToC::fill`].
pub fn write_into<M: ToC>(model: &M, target: &mut M::Target) -> Result<(), ConvertError> {
    *target = M::Target::zeroed();
    model.fill(target).inspect_err(|_| {
        // SAFETY: `fill` leaves a structure that can be destructed, and only this function has it.
        unsafe { target.destruct() };
        *target = M::Target::zeroed();
    })
}

/// Copies a list of strings to the C heap, with a null pointer at its end (`char **`); null for an
/// empty list. Absent strings are left out. The caller frees it as `PMIx_Argv_free` does.
///
/// # Errors
///
/// Fails if the heap has no memory left.
pub fn argv_to_c(texts: &[Option<Text>]) -> Result<*mut *mut c_char, ConvertError> {
    let mut argv = ptr::null_mut();
    text::fill_argv(&mut argv, texts).inspect_err(|_| {
        // SAFETY: the list was made here, and a null pointer ends it also after an error.
        unsafe { free_argv(argv) };
    })?;
    Ok(argv)
}

/// Writes an array into two members of a structure: the pointer and the count.
pub(crate) fn fill_list<M: ToC>(
    models: &[M],
    first: &mut *mut M::Target,
    count: &mut usize,
) -> Result<(), ConvertError> {
    *first = memory::allocate(models.len())?;
    *count = models.len();
    for (at, model) in models.iter().enumerate() {
        // SAFETY: the array has as many zeroed structures as there are models.
        model.fill(unsafe { &mut *first.add(at) })?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod round_trip;
#[cfg(test)]
mod stock;
