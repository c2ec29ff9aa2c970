//! Loading and copying of structures other than values and infos, and the families that are unlike
//! the others.
use super::{families::create_array, keys::bounded, value};
use crate::{
    abi::{
        CApp, CByteObject, CCoord, CEnvar, CFabric, CInfo, CPdata, CProc, CQuery, CRegattr,
        KEY_SIZE,
    },
    border,
    convert::{ConvertError, fill_characters},
    destruct::{Destruct, free_array},
    duplicate::{copy_text, duplicate_into},
    memory,
};
use peal_model::DataType;
use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// Runs a conversion whose failure the C function cannot tell: it has no result.
fn run(function: &'static str, body: impl FnOnce() -> Result<(), ConvertError>) {
    border::value(function, (), || {
        if let Err(error) = body() {
            tracing::warn!(function, %error, "structure not loaded");
        }
    });
}

/// `PMIx_Byte_object_load`: gives bytes of the caller to a byte object, without a copy. A null object
/// leaves them with the caller.
///
/// # Safety
///
/// `object` is null or points to a byte object; `bytes` is null or points to `size` bytes.
#[unsafe(export_name = "PMIx_Byte_object_load")]
pub unsafe extern "C" fn byte_object_load(
    object: *mut CByteObject,
    bytes: *mut c_char,
    size: usize,
) {
    border::value("PMIx_Byte_object_load", (), || {
        if !object.is_null() {
            // SAFETY: the caller guarantees a byte object.
            unsafe { object.write(CByteObject { bytes, size }) };
        }
    });
}

/// `PMIx_Envar_load`: copies strings into a variable, whose old contents are not freed.
///
/// # Safety
///
/// `envar` is null or points to memory for a variable; the texts are null or strings.
#[unsafe(export_name = "PMIx_Envar_load")]
pub unsafe extern "C" fn envar_load(
    envar: *mut CEnvar,
    name: *const c_char,
    text: *const c_char,
    separator: c_char,
) {
    run("PMIx_Envar_load", || {
        if envar.is_null() {
            return Ok(());
        }
        let mut loaded = CEnvar {
            separator,
            ..CEnvar::zeroed()
        };
        // SAFETY: the caller guarantees strings or null, and memory for a variable.
        unsafe {
            loaded.envar = copy_text(name)?;
            loaded.value = copy_text(text).inspect_err(|_| loaded.destruct())?;
            envar.write(loaded);
        }
        Ok(())
    });
}

/// `PMIx_Regattr_load`: copies a description into a structure, whose old contents are not freed.
///
/// # Safety
///
/// `target` is null or points to memory for a description; `name` and `description` are null or
/// strings, `key` is null, a string or a key.
#[unsafe(export_name = "PMIx_Regattr_load")]
pub unsafe extern "C" fn regattr_load(
    target: *mut CRegattr,
    name: *const c_char,
    key: *const c_char,
    data_type: u16,
    description: *const c_char,
) {
    run("PMIx_Regattr_load", || {
        if target.is_null() {
            return Ok(());
        }
        let mut loaded = CRegattr::zeroed();
        loaded.r#type = data_type;
        // SAFETY: the caller guarantees strings or null. The list has a place for the description
        // and a null pointer at its end.
        let filled = unsafe {
            fill_characters(&mut loaded.string, bounded(key, KEY_SIZE - 1));
            (|| {
                loaded.name = copy_text(name)?;
                if !description.is_null() {
                    loaded.description = memory::allocate(2)?;
                    *loaded.description = copy_text(description)?;
                }
                Ok(())
            })()
        };
        if filled.is_err() {
            // SAFETY: the structure was made here.
            unsafe { loaded.destruct() };
        }
        // SAFETY: the caller guarantees memory for a description. After an error it is empty.
        unsafe { target.write(loaded) };
        filled
    });
}

/// `PMIx_Regattr_xfer`: copies a description, whose target's old contents are not freed.
///
/// # Safety
///
/// Both are null or point to a description, of which the target needs no contents.
#[unsafe(export_name = "PMIx_Regattr_xfer")]
pub unsafe extern "C" fn regattr_xfer(target: *mut CRegattr, source: *const CRegattr) {
    run("PMIx_Regattr_xfer", || {
        // SAFETY: the caller guarantees what `duplicate_into` demands, or null.
        unsafe {
            match (target.as_mut(), source.as_ref()) {
                (Some(target), Some(source)) => duplicate_into(source, target),
                _ => Ok(()),
            }
        }
    });
}

/// `PMIx_Pdata_load`: copies published data into a structure, whose old contents are not freed.
///
/// # Safety
///
/// `target` is null or points to memory for published data; `proc` is null or points to a proc; the
/// others are as for `PMIx_Info_load`.
#[unsafe(export_name = "PMIx_Pdata_load")]
pub unsafe extern "C" fn pdata_load(
    target: *mut CPdata,
    proc: *const CProc,
    key: *const c_char,
    data: *const c_void,
    data_type: u16,
) {
    run("PMIx_Pdata_load", || {
        if target.is_null() {
            return Ok(());
        }
        let mut loaded = CPdata::zeroed();
        // SAFETY: the caller guarantees a proc, a string or key, and data of the type, or null.
        let filled = unsafe {
            if let Some(proc) = proc.as_ref() {
                loaded.proc = *proc;
            }
            fill_characters(&mut loaded.key, bounded(key, KEY_SIZE - 1));
            value::load(data, DataType(data_type)).map(|value| loaded.value = value)
        };
        // SAFETY: the caller guarantees memory for published data.
        unsafe { target.write(loaded) };
        filled
    });
}

/// `PMIx_Pdata_xfer`: copies published data, whose target's old contents are not freed.
///
/// # Safety
///
/// Both are null or point to published data, of which the target needs no contents.
#[unsafe(export_name = "PMIx_Pdata_xfer")]
pub unsafe extern "C" fn pdata_xfer(target: *mut CPdata, source: *const CPdata) {
    run("PMIx_Pdata_xfer", || {
        // SAFETY: the caller guarantees what `duplicate_into` demands, or null.
        unsafe {
            match (target.as_mut(), source.as_ref()) {
                (Some(target), Some(source)) => duplicate_into(source, target),
                _ => Ok(()),
            }
        }
    });
}

/// `PMIx_App_info_create`: makes infos for an application. Old ones are not freed.
///
/// # Safety
///
/// `app` is null or points to an application.
#[unsafe(export_name = "PMIx_App_info_create")]
pub unsafe extern "C" fn app_info_create(app: *mut CApp, len: usize) {
    border::value("PMIx_App_info_create", (), || {
        // SAFETY: the caller guarantees an application or null.
        if let Some(app) = unsafe { app.as_mut() } {
            app.info = create_array::<CInfo>(len);
            app.ninfo = if app.info.is_null() { 0 } else { len };
        }
    });
}

/// `PMIx_Query_qualifiers_create`: makes qualifiers for a query. Old ones are not freed.
///
/// # Safety
///
/// `query` is null or points to a query.
#[unsafe(export_name = "PMIx_Query_qualifiers_create")]
pub unsafe extern "C" fn query_qualifiers_create(query: *mut CQuery, len: usize) {
    border::value("PMIx_Query_qualifiers_create", (), || {
        // SAFETY: the caller guarantees a query or null.
        if let Some(query) = unsafe { query.as_mut() } {
            query.qualifiers = create_array::<CInfo>(len);
            query.nqual = if query.qualifiers.is_null() { 0 } else { len };
        }
    });
}

/// `PMIx_Fabric_construct`: initializes a fabric that is not registered.
///
/// # Safety
///
/// `fabric` is null or points to memory for a fabric.
#[unsafe(export_name = "PMIx_Fabric_construct")]
pub unsafe extern "C" fn fabric_construct(fabric: *mut CFabric) {
    border::value("PMIx_Fabric_construct", (), || {
        if !fabric.is_null() {
            let initial = CFabric {
                index: usize::MAX,
                ..CFabric::zeroed()
            };
            // SAFETY: the caller guarantees memory for a fabric.
            unsafe { fabric.write(initial) };
        }
    });
}

/// `PMIx_Coord_construct`: initializes coordinates without dimensions.
///
/// # Safety
///
/// `coord` is null or points to memory for coordinates.
#[unsafe(export_name = "PMIx_Coord_construct")]
pub unsafe extern "C" fn coord_construct(coord: *mut CCoord) {
    border::value("PMIx_Coord_construct", (), || {
        if !coord.is_null() {
            // SAFETY: the caller guarantees memory for coordinates.
            unsafe { coord.write(CCoord::zeroed()) };
        }
    });
}

/// `PMIx_Coord_destruct`: frees what coordinates own.
///
/// # Safety
///
/// `coord` is null or points to coordinates, whose array is null or from `malloc`.
#[unsafe(export_name = "PMIx_Coord_destruct")]
pub unsafe extern "C" fn coord_destruct(coord: *mut CCoord) {
    border::value("PMIx_Coord_destruct", (), || {
        // SAFETY: the caller guarantees coordinates or null.
        unsafe {
            if let Some(coord) = coord.as_mut() {
                coord.destruct();
                coord.view = 0;
            }
        }
    });
}

/// `PMIx_Coord_create`: makes an array of coordinates, all of them with the same number of
/// dimensions; null for none. The C library gives dimensions to the first alone.
#[unsafe(export_name = "PMIx_Coord_create")]
pub extern "C" fn coord_create(dims: usize, len: usize) -> *mut CCoord {
    border::value("PMIx_Coord_create", ptr::null_mut(), || {
        let first: *mut CCoord = memory::allocate(len).unwrap_or(ptr::null_mut());
        if first.is_null() {
            return first;
        }
        for at in 0..len {
            let Ok(numbers) = memory::allocate(dims) else {
                // SAFETY: the array was made here; what is not filled yet is zeroed.
                unsafe { free_array(first, len) };
                return ptr::null_mut();
            };
            // SAFETY: the array has `len` coordinates.
            unsafe {
                (*first.add(at)).coord = numbers;
                (*first.add(at)).dims = dims;
            }
        }
        first
    })
}

/// `PMIx_Coord_free`: frees an array of coordinates and what they own.
///
/// # Safety
///
/// `first` is null, or begins an array of `len` coordinates from `malloc`, as the destructor demands.
#[unsafe(export_name = "PMIx_Coord_free")]
pub unsafe extern "C" fn coord_free(first: *mut CCoord, len: usize) {
    // SAFETY: the caller guarantees what `free_array` demands.
    border::value("PMIx_Coord_free", (), || unsafe { free_array(first, len) });
}

/// Loads an info for tests of other modules.
#[cfg(test)]
pub(super) fn text_info(key: &std::ffi::CStr, text: &std::ffi::CStr) -> CInfo {
    // SAFETY: both are strings.
    unsafe {
        super::info::load(
            key.as_ptr(),
            text.as_ptr().cast(),
            peal_model::data_type::PMIX_STRING,
        )
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;
    use peal_model::data_type as dt;

    #[test]
    fn structures_are_loaded_copied_and_freed() {
        let before = counter::live();
        let (mut first, mut second) = (CRegattr::zeroed(), CRegattr::zeroed());
        let (mut data, mut copy) = (CPdata::zeroed(), CPdata::zeroed());
        let mut envar = CEnvar::zeroed();
        // SAFETY: the structures and strings are valid.
        unsafe {
            regattr_load(&mut first, c"n".as_ptr(), c"k".as_ptr(), 3, c"d".as_ptr());
            regattr_xfer(&mut second, &first);
            assert_eq!(bounded(*second.description, 9), b"d");
            let text = c"text".as_ptr().cast();
            pdata_load(
                &mut data,
                &CProc::zeroed(),
                c"k".as_ptr(),
                text,
                dt::PMIX_STRING.0,
            );
            pdata_xfer(&mut copy, &data);
            assert_eq!(bounded(copy.value.data.string, 9), b"text");
            envar_load(&mut envar, c"A".as_ptr(), ptr::null(), 58);
            for at in [&mut first, &mut second] {
                at.destruct();
            }
            for at in [&mut data, &mut copy] {
                at.destruct();
            }
            envar.destruct();
            let coords = coord_create(3, 2);
            assert_eq!(((*coords.add(1)).dims, *(*coords.add(1)).coord), (3, 0));
            coord_free(coords, 2);
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn null_structures_are_left_alone() {
        let (null, text) = (ptr::null_mut(), c"k".as_ptr());
        // SAFETY: null is allowed.
        unsafe {
            byte_object_load(ptr::null_mut(), null, 3);
            envar_load(ptr::null_mut(), text, text, 0);
            regattr_load(ptr::null_mut(), text, text, 1, text);
            regattr_xfer(ptr::null_mut(), ptr::null());
            pdata_load(ptr::null_mut(), ptr::null(), text, ptr::null(), 1);
            pdata_xfer(ptr::null_mut(), ptr::null());
            app_info_create(ptr::null_mut(), 1);
            query_qualifiers_create(ptr::null_mut(), 1);
            fabric_construct(ptr::null_mut());
            coord_construct(ptr::null_mut());
            coord_destruct(ptr::null_mut());
            coord_free(ptr::null_mut(), 2);
            assert!(coord_create(2, 0).is_null());
            let mut app = CApp::zeroed();
            app_info_create(&mut app, usize::MAX);
            assert_eq!(app.ninfo, 0);
        }
    }
}
