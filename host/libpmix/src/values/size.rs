//! Memory that values take (`PMIx_Value_get_size`, `PMIx_Info_get_size`): the structures and what they
//! own, each string with its NUL, as 6.1 of the C library counts them.
use super::{compress, keys::bounded};
use crate::{
    abi::{
        CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDevice, CDeviceDistance, CEndpoint,
        CEnvar, CGeometry, CInfo, CNodePid, CProcInfo, CRegattr, CStatus, CValue, KEY_SIZE,
        NSPACE_SIZE,
    },
    border,
    convert::{
        CpusetList, FromC, ReadBounds,
        element::{self, Storage},
    },
};
use peal_model::{DataType, Status, code, data_type as dt};
use std::{
    ffi::{c_char, c_void},
    slice,
};

/// Returns the length of a string with its NUL; that of an empty one for null.
///
/// # Safety
///
/// `text` is null or a string.
unsafe fn text(text: *const c_char) -> usize {
    if text.is_null() {
        return 1;
    }
    // SAFETY: the caller guarantees a string.
    unsafe { libc::strlen(text) }.saturating_add(1)
}

/// Returns the memory of a value.
///
/// # Errors
///
/// Fails with `PMIX_ERR_UNKNOWN_DATA_TYPE` for a value without type, and with
/// `PMIX_ERR_NOT_SUPPORTED` for an array of arrays, values or applications.
///
/// # Safety
///
/// The value is valid.
pub(super) unsafe fn of_value(value: &CValue) -> Result<usize, Status> {
    let data_type = DataType(value.r#type);
    let layout = element::layout(data_type).ok_or(code::PMIX_ERR_UNKNOWN_DATA_TYPE)?;
    let at: *const c_void = match layout.storage {
        Storage::Inline => (&raw const value.data).cast(),
        // SAFETY: the type says that the union is a pointer.
        Storage::Pointer => unsafe { value.data.ptr },
        Storage::ArrayOnly => return Err(code::PMIX_ERR_NOT_SUPPORTED),
    };
    if at.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    // SAFETY: the value is valid, and the pointer is not null.
    let size = unsafe {
        match data_type {
            dt::PMIX_STRING => text(value.data.string),
            DataType::COMPRESSED_STRING | dt::PMIX_COMPRESSED_BYTE_OBJECT => {
                decompressed(data_type, &value.data.bo)
            }
            dt::PMIX_DATA_ARRAY => {
                let array = &*value.data.darray;
                of_elements(array)?.saturating_add(size_of::<CDataArray>())
            }
            _ => of_element(data_type, at)?,
        }
    };
    Ok(size.saturating_add(size_of::<CValue>()))
}

/// Returns the length of compressed bytes when they are not, a string's with its NUL.
///
/// # Safety
///
/// The object is valid.
unsafe fn decompressed(data_type: DataType, object: &CByteObject) -> usize {
    if object.bytes.is_null() {
        return 0;
    }
    // SAFETY: the caller guarantees `size` bytes.
    let bytes = unsafe { slice::from_raw_parts(object.bytes.cast::<u8>(), object.size) };
    let len = compress::decompress(bytes).map_or(0, |bytes| bytes.len());
    len.saturating_add(usize::from(data_type == DataType::COMPRESSED_STRING))
}

/// Returns the memory of the elements of an array.
///
/// # Safety
///
/// The array is valid.
unsafe fn of_elements(array: &CDataArray) -> Result<usize, Status> {
    let data_type = DataType(array.r#type);
    if data_type == dt::PMIX_UNDEF {
        return Err(code::PMIX_ERR_UNKNOWN_DATA_TYPE);
    }
    let layout = element::layout(data_type).ok_or(code::PMIX_ERR_UNKNOWN_DATA_TYPE)?;
    if array.array.is_null() {
        return Ok(0);
    }
    let mut total: usize = 0;
    for at in 0..array.size {
        // SAFETY: the array has `size` elements of the type.
        let size = unsafe { of_element(data_type, array.array.byte_add(at * layout.size)) }?;
        total = total.saturating_add(size);
    }
    Ok(total)
}

/// Returns the memory of an element and of what it owns.
///
/// # Safety
///
/// `at` points to a valid element of the data type.
unsafe fn of_element(data_type: DataType, at: *const c_void) -> Result<usize, Status> {
    let layout = element::layout(data_type).ok_or(code::PMIX_ERR_UNKNOWN_DATA_TYPE)?;
    macro_rules! owned {
        ($type:ty, |$it:ident| $size:expr) => {{
            let $it = &*at.cast::<$type>();
            $size
        }};
    }
    // SAFETY: the caller guarantees an element of the data type, which is this C type.
    let owned = unsafe {
        match data_type {
            dt::PMIX_UNDEF => return Err(code::PMIX_ERR_UNKNOWN_DATA_TYPE),
            dt::PMIX_DATA_ARRAY
            | dt::PMIX_VALUE
            | dt::PMIX_APP
            | dt::PMIX_PDATA
            | dt::PMIX_QUERY
            | dt::PMIX_TOPO => return Err(code::PMIX_ERR_NOT_SUPPORTED),
            dt::PMIX_PROC_NSPACE => return Ok(NSPACE_SIZE - 1),
            dt::PMIX_INFO => return owned!(CInfo, |info| of_info(info)),
            dt::PMIX_STRING => owned!(*const c_char, |string| text(*string)),
            dt::PMIX_BYTE_OBJECT | element::REGEX => owned!(CByteObject, |object| {
                if object.bytes.is_null() {
                    0
                } else {
                    object.size
                }
            }),
            DataType::COMPRESSED_STRING | dt::PMIX_COMPRESSED_BYTE_OBJECT => {
                let len = owned!(CByteObject, |object| decompressed(data_type, object));
                return Ok(len.saturating_add(size_of::<*mut c_void>()));
            }
            dt::PMIX_PROC_INFO => owned!(CProcInfo, |info| {
                text(info.hostname).saturating_add(text(info.executable_name))
            }),
            dt::PMIX_ENVAR => owned!(CEnvar, |envar| {
                text(envar.envar).saturating_add(text(envar.value))
            }),
            dt::PMIX_COORD => owned!(CCoord, |coord| numbers(coord)),
            dt::PMIX_GEOMETRY => owned!(CGeometry, |geometry| of_geometry(geometry)),
            dt::PMIX_DEVICE => owned!(CDevice, |device| {
                text(device.uuid).saturating_add(text(device.osname))
            }),
            dt::PMIX_DEVICE_DIST => owned!(CDeviceDistance, |distance| {
                text(distance.uuid).saturating_add(text(distance.osname))
            }),
            dt::PMIX_ENDPOINT => owned!(CEndpoint, |endpoint| {
                let names = text(endpoint.uuid).saturating_add(text(endpoint.osname));
                names.saturating_add(endpoint.endpt.size)
            }),
            dt::PMIX_REGATTR => owned!(CRegattr, |attribute| of_regattr(attribute)),
            dt::PMIX_DATA_BUFFER => owned!(CDataBuffer, |buffer| buffer.bytes_used),
            dt::PMIX_NODE_PID => owned!(CNodePid, |node| {
                if node.hostname.is_null() {
                    0
                } else {
                    text(node.hostname)
                }
            }),
            dt::PMIX_PROC_CPUSET => owned!(CCpuset, |cpuset| {
                let list = CpusetList::from_c(cpuset, &mut ReadBounds::default())?.0;
                list.map_or(0, |list| list.as_bytes().len().saturating_add(1))
            }),
            _ => 0,
        }
    };
    Ok(layout.size.saturating_add(owned))
}

/// Returns the memory of the numbers of coordinates.
fn numbers(coord: &CCoord) -> usize {
    coord.dims.saturating_mul(size_of::<u32>())
}

/// Returns the memory that a geometry owns.
///
/// # Safety
///
/// The geometry is valid.
unsafe fn of_geometry(geometry: &CGeometry) -> usize {
    // SAFETY: the caller guarantees strings and `ncoords` coordinates, or null.
    unsafe {
        let mut size = text(geometry.uuid).saturating_add(text(geometry.osname));
        if !geometry.coordinates.is_null() {
            for at in 0..geometry.ncoords {
                let coord = numbers(&*geometry.coordinates.add(at));
                size = size
                    .saturating_add(size_of::<CCoord>())
                    .saturating_add(coord);
            }
        }
        size
    }
}

/// Returns the memory that the description of an attribute owns.
///
/// # Safety
///
/// The description is valid.
unsafe fn of_regattr(attribute: &CRegattr) -> usize {
    // SAFETY: the caller guarantees a string, and a list that ends with a null pointer, or null.
    unsafe {
        let mut size = text(attribute.name);
        let mut at = attribute.description;
        while !at.is_null() && !(*at).is_null() {
            size = size.saturating_add(text(*at));
            at = at.add(1);
        }
        size
    }
}

/// Returns the memory of an info: the structure, its key and its value.
///
/// # Errors
///
/// As [`of_value`].
///
/// # Safety
///
/// The info is valid.
pub(super) unsafe fn of_info(info: &CInfo) -> Result<usize, Status> {
    // SAFETY: the caller guarantees a valid value; the key is an array of that size.
    let (value, key) = unsafe {
        (
            of_value(&info.value)?,
            bounded(info.key.as_ptr(), KEY_SIZE - 1).len(),
        )
    };
    let key = (key + 1).min(KEY_SIZE - 1);
    Ok(value.saturating_add(key).saturating_add(size_of::<CInfo>()))
}

/// `PMIx_Value_get_size`: writes the number of bytes of a value and of what it owns.
///
/// # Safety
///
/// `value` is null or points to a value; `size` is null or points to a variable.
#[unsafe(export_name = "PMIx_Value_get_size")]
pub unsafe extern "C" fn value_get_size(value: *const CValue, size: *mut usize) -> CStatus {
    border::status("PMIx_Value_get_size", || {
        // SAFETY: the caller guarantees a value and a variable, or null.
        let (Some(value), Some(size)) = (unsafe { (value.as_ref(), size.as_mut()) }) else {
            return Err(code::PMIX_ERR_BAD_PARAM);
        };
        // SAFETY: the caller guarantees that the value is valid.
        *size = unsafe { of_value(value) }?;
        Ok(())
    })
}

/// `PMIx_Info_get_size`: writes the number of bytes of an info and of what it owns.
///
/// # Safety
///
/// `info` is null or points to an info; `size` is null or points to a variable.
#[unsafe(export_name = "PMIx_Info_get_size")]
pub unsafe extern "C" fn info_get_size(info: *const CInfo, size: *mut usize) -> CStatus {
    border::status("PMIx_Info_get_size", || {
        // SAFETY: the caller guarantees an info and a variable, or null.
        let (Some(info), Some(size)) = (unsafe { (info.as_ref(), size.as_mut()) }) else {
            return Err(code::PMIX_ERR_BAD_PARAM);
        };
        // SAFETY: the caller guarantees that the info is valid.
        *size = unsafe { of_info(info) }?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::write_into, destruct::Destruct, values::records::text_info};
    use peal_model::{DataArray, Info, Value, key};
    use std::ptr;

    fn size_of_model(model: &Value) -> Result<usize, Status> {
        let mut value = CValue::zeroed();
        write_into(model, &mut value).unwrap();
        // SAFETY: the value was written here.
        unsafe {
            let size = of_value(&value);
            value.destruct();
            size
        }
    }

    #[test]
    fn sizes_count_structures_and_what_they_own() {
        assert_eq!(size_of_model(&Value::Int(1)), Ok(32 + 4));
        assert_eq!(size_of_model(&Value::string("abc")), Ok(32 + 4));
        assert_eq!(
            size_of_model(&Value::ByteObject([1, 2][..].into())),
            Ok(32 + 16 + 2)
        );
        let infos = [Info::new(key::PMIX_HOST, Value::string("abc"))];
        let info = 36 + "pmix.host".len() + 1 + 552;
        assert_eq!(
            size_of_model(&Value::DataArray(DataArray::infos(infos))),
            Ok(32 + 24 + info)
        );
        let strings = DataArray::strings(["a".into(), "b".into()]);
        assert_eq!(
            size_of_model(&Value::DataArray(strings)),
            Ok(32 + 24 + 2 * (8 + 2))
        );
        assert_eq!(
            size_of_model(&Value::Undef),
            Err(code::PMIX_ERR_UNKNOWN_DATA_TYPE)
        );
    }

    #[test]
    fn null_pointers_are_refused() {
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let mut info = text_info(c"k", c"text");
        let mut size = 0;
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(value_get_size(ptr::null(), &mut size), bad);
            assert_eq!(value_get_size(&info.value, ptr::null_mut()), bad);
            assert_eq!(info_get_size(ptr::null(), &mut size), bad);
            assert_eq!(info_get_size(&info, &mut size), 0);
            assert_eq!(size, 32 + 5 + 2 + 552);
            info.destruct();
            let mut value = CValue::zeroed();
            value.r#type = dt::PMIX_PROC_INFO.0;
            assert_eq!(value_get_size(&value, &mut size), bad);
        }
    }
}
