//! Copies of values, arrays and their elements, by data type.
use super::{Duplicate, copy_text};
use crate::{
    abi::{
        CApp, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDevice, CDeviceDistance,
        CDiskStats, CEndpoint, CEnvar, CGeometry, CInfo, CNetStats, CNodePid, CNodeStats, CPdata,
        CProcInfo, CProcStats, CQuery, CRegattr, CRegex2, CTopology, CValue,
    },
    convert::{
        ConvertError, ReadBounds,
        element::{self, Storage},
    },
    destruct::{Destruct, destruct_element},
    hwloc, memory,
};
use peal_model::{DataType, data_type as dt};
use std::ffi::{c_char, c_void};

impl Duplicate for CValue {
    unsafe fn duplicate(
        &self,
        target: &mut CValue,
        bounds: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CValue::zeroed();
        let data_type = DataType(self.r#type);
        let layout = element::layout(data_type).ok_or(ConvertError::UnknownType(data_type))?;
        match layout.storage {
            Storage::Inline => {
                target.r#type = self.r#type;
                let from = (&raw const self.data).cast();
                // SAFETY: the type says that the union is an element of it, and the target is
                // zeroed.
                unsafe { duplicate_element(data_type, from, (&raw mut target.data).cast(), bounds) }
            }
            Storage::Pointer => {
                // SAFETY: the type says that the union is a pointer.
                let from = unsafe { self.data.ptr };
                // SAFETY: the pointer is null or points to an element of the type.
                target.data.ptr = unsafe { duplicate_target(data_type, from, bounds) }?;
                target.r#type = self.r#type;
                Ok(())
            }
            Storage::ArrayOnly => Err(ConvertError::UnsupportedType {
                data_type,
                place: "in a value",
            }),
        }
    }
}

impl Duplicate for CDataArray {
    unsafe fn duplicate(
        &self,
        target: &mut CDataArray,
        bounds: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CDataArray::zeroed();
        target.r#type = self.r#type;
        let data_type = DataType(self.r#type);
        if self.array.is_null() || self.size == 0 || data_type == dt::PMIX_UNDEF {
            return Ok(());
        }
        let layout = element::layout(data_type).ok_or(ConvertError::UnknownType(data_type))?;
        target.array = memory::allocate_bytes(self.size, layout.size)?;
        target.size = self.size;
        bounds.nested(|bounds| {
            for at in 0..self.size {
                let offset = at * layout.size;
                // SAFETY: both arrays have `size` elements of the type; the new one is zeroed.
                unsafe {
                    let from = self.array.byte_add(offset);
                    duplicate_element(data_type, from, target.array.byte_add(offset), bounds)
                }?;
            }
            Ok(())
        })
    }
}

/// Copies the structure that a value points to, into new memory; null for null. A cpuset or topology
/// that is not hwloc's cannot be copied: the copy has the same pointer, as in the C library, and the
/// destructor of a value leaves it alone.
///
/// # Safety
///
/// `from` is null or points to an element of the data type, as [`Duplicate::duplicate`] demands.
pub(crate) unsafe fn duplicate_target(
    data_type: DataType,
    from: *mut c_void,
    bounds: &mut ReadBounds,
) -> Result<*mut c_void, ConvertError> {
    if from.is_null() {
        return Ok(from);
    }
    if matches!(data_type, dt::PMIX_PROC_CPUSET | dt::PMIX_TOPO) {
        // SAFETY: the caller guarantees the type; both structures begin with their source.
        if !unsafe { hwloc::is_source(*from.cast::<*mut c_char>()) } {
            return Ok(from);
        }
    }
    // SAFETY: the caller guarantees an element.
    unsafe { duplicate_alone(data_type, from, bounds) }
}

/// Copies an element into new memory of its own.
///
/// # Safety
///
/// `from` points to an element of the data type, as [`Duplicate::duplicate`] demands.
pub(crate) unsafe fn duplicate_alone(
    data_type: DataType,
    from: *const c_void,
    bounds: &mut ReadBounds,
) -> Result<*mut c_void, ConvertError> {
    let layout = element::layout(data_type).ok_or(ConvertError::UnknownType(data_type))?;
    let to = memory::allocate_bytes(1, layout.size)?;
    // SAFETY: the caller guarantees an element, and the new memory is zeroed and large enough. After
    // an error it can be destructed.
    unsafe {
        duplicate_element(data_type, from, to, bounds).inspect_err(|_| {
            destruct_element(data_type, to);
            memory::free(to);
        })?;
    }
    Ok(to)
}

/// Copies an element as it lies in an array. Whatever the result is, the copy can be destructed.
///
/// # Safety
///
/// `from` points to an element of the data type, as [`Duplicate::duplicate`] demands, and `to` to
/// zeroed memory for one.
pub(crate) unsafe fn duplicate_element(
    data_type: DataType,
    from: *const c_void,
    to: *mut c_void,
    bounds: &mut ReadBounds,
) -> Result<(), ConvertError> {
    macro_rules! duplicate {
        ($type:ty) => {
            // SAFETY: the caller guarantees elements of the data type, which is this C type.
            bounds.nested(|bounds| unsafe {
                (*from.cast::<$type>()).duplicate(&mut *to.cast::<$type>(), bounds)
            })
        };
    }
    match data_type {
        dt::PMIX_STRING => {
            // SAFETY: the caller guarantees a pointer to a string, and room for another one.
            unsafe { *to.cast::<*mut c_char>() = copy_text(*from.cast::<*const c_char>())? };
            Ok(())
        }
        dt::PMIX_VALUE => duplicate!(CValue),
        dt::PMIX_APP => duplicate!(CApp),
        dt::PMIX_INFO => duplicate!(CInfo),
        dt::PMIX_PDATA => duplicate!(CPdata),
        dt::PMIX_BYTE_OBJECT
        | DataType::COMPRESSED_STRING
        | dt::PMIX_COMPRESSED_BYTE_OBJECT
        | element::REGEX => duplicate!(CByteObject),
        dt::PMIX_PROC_INFO => duplicate!(CProcInfo),
        dt::PMIX_DATA_ARRAY => duplicate!(CDataArray),
        dt::PMIX_QUERY => duplicate!(CQuery),
        dt::PMIX_ENVAR => duplicate!(CEnvar),
        dt::PMIX_COORD => duplicate!(CCoord),
        dt::PMIX_REGATTR => duplicate!(CRegattr),
        dt::PMIX_PROC_CPUSET => duplicate!(CCpuset),
        dt::PMIX_GEOMETRY => duplicate!(CGeometry),
        dt::PMIX_DEVICE_DIST => duplicate!(CDeviceDistance),
        dt::PMIX_ENDPOINT => duplicate!(CEndpoint),
        dt::PMIX_TOPO => duplicate!(CTopology),
        element::PROC_STATS => duplicate!(CProcStats),
        DataType::DISK_STATS => duplicate!(CDiskStats),
        DataType::NET_STATS => duplicate!(CNetStats),
        DataType::NODE_STATS => duplicate!(CNodeStats),
        dt::PMIX_DATA_BUFFER => duplicate!(CDataBuffer),
        dt::PMIX_DEVICE => duplicate!(CDevice),
        dt::PMIX_NODE_PID => duplicate!(CNodePid),
        dt::PMIX_REGEX2 => duplicate!(CRegex2),
        // The others are numbers, or structures of numbers.
        _ => {
            let layout = element::layout(data_type).ok_or(ConvertError::UnknownType(data_type))?;
            // SAFETY: the caller guarantees an element, and room for another one.
            unsafe {
                to.cast::<u8>()
                    .copy_from_nonoverlapping(from.cast(), layout.size);
            }
            Ok(())
        }
    }
}
