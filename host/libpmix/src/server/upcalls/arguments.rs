//! Arguments of upcalls in their C form, which live until the host environment has answered.
use crate::{
    abi::{CApp, CByteObject, CInfo, CProc, CQuery, CStatus},
    convert::{ConvertError, ToC, argv_to_c},
    destruct::{Destruct, free_argv},
    heap_array::HeapArray,
};
use peal_model::{Proc, Text};
use std::{
    ffi::{CString, c_char},
    ptr, slice,
};

/// Arguments of one upcall. What it does not have is empty.
#[derive(Debug, Default)]
pub(super) struct UpcallArguments {
    /// The requester, or the source.
    pub(super) source: HeapArray<CProc>,
    /// Procs or targets.
    pub(super) procs: HeapArray<CProc>,
    /// Infos, or data.
    pub(super) infos: HeapArray<CInfo>,
    /// Directives, if there are other infos.
    pub(super) directives: HeapArray<CInfo>,
    pub(super) apps: HeapArray<CApp>,
    pub(super) queries: HeapArray<CQuery>,
    pub(super) codes: HeapArray<CStatus>,
    pub(super) bytes: HeapArray<CByteObject>,
    pub(super) keys: KeyList,
    pub(super) text: CString,
}

/// Converts one value to an array of one structure.
pub(super) fn one<M: ToC>(model: M) -> Result<HeapArray<M::Target>, ConvertError>
where
    M::Target: Destruct,
{
    HeapArray::from_models(slice::from_ref(&model))
}

impl UpcallArguments {
    /// Returns arguments with a source.
    pub(super) fn of(source: Proc) -> Result<UpcallArguments, ConvertError> {
        Ok(UpcallArguments {
            source: one(source)?,
            ..UpcallArguments::default()
        })
    }
}

/// Returns a text for C; it ends at a NUL.
pub(super) fn text_of(text: &Text) -> CString {
    // A text has no NUL.
    CString::new(text.as_bytes()).unwrap_or_default()
}

/// List of keys that ends with a null pointer.
#[derive(Debug)]
pub(super) struct KeyList(*mut *mut c_char);

// SAFETY: the list and its strings belong to this value alone, and the C heap has no threads.
unsafe impl Send for KeyList {}

impl Default for KeyList {
    fn default() -> KeyList {
        KeyList(ptr::null_mut())
    }
}

impl KeyList {
    /// Copies keys; null for none.
    pub(super) fn new(keys: Vec<Text>) -> Result<KeyList, ConvertError> {
        let keys: Vec<Option<Text>> = keys.into_iter().map(Some).collect();
        argv_to_c(&keys).map(KeyList)
    }

    pub(super) fn as_ptr(&self) -> *mut *mut c_char {
        self.0
    }
}

impl Drop for KeyList {
    fn drop(&mut self) {
        // SAFETY: the list was made by `argv_to_c`, and is freed once.
        unsafe { free_argv(self.0) };
    }
}
