//! Values and arrays of values, from C.
use super::{
    BufferBytes, ConvertError, CpusetList, FromC, ReadBounds,
    element::{self, PROC_STATS, REGEX, Storage},
    text::{nspace_from_array, text},
};
use crate::abi::{CDataArray, CNspace, CTimeval, CValue};
use peal_model::{
    App, Bytes, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar,
    Geometry, Info, IofChannel, JobState, LinkState, NetStats, NodePid, NodeStats, Pdata,
    Persistence, Proc, ProcInfo, ProcState, Query, Range, Rank, Regattr, ResourceUnit, Scope,
    Status, Text, Topology, Value, data_type as dt,
};
use std::ffi::{c_char, c_void};

impl FromC for Value {
    type Source = CValue;

    unsafe fn from_c(source: &CValue, bounds: &mut ReadBounds) -> Result<Value, ConvertError> {
        let data_type = DataType(source.r#type);
        let layout = known(data_type)?;
        let at: *const c_void = match layout.storage {
            Storage::Inline => (&raw const source.data).cast(),
            // SAFETY: the type says that the union is a pointer.
            Storage::Pointer => unsafe { source.data.ptr },
            Storage::ArrayOnly => {
                return Err(ConvertError::UnsupportedType {
                    data_type,
                    place: "in a value",
                });
            }
        };
        if at.is_null() {
            return absent(data_type);
        }
        check_alignment(at, data_type, layout.align)?;
        bounds.nested(|bounds| {
            // SAFETY: the caller guarantees an element of the type in the union, or behind the
            // pointer, which is not null and aligned.
            let value = unsafe { element(data_type, at, bounds) }?;
            Ok(if data_type == REGEX {
                regex(value)
            } else {
                value
            })
        })
    }
}

impl FromC for DataArray {
    type Source = CDataArray;

    unsafe fn from_c(
        source: &CDataArray,
        bounds: &mut ReadBounds,
    ) -> Result<DataArray, ConvertError> {
        let data_type = DataType(source.r#type);
        // Elements of the model are of one type, and compressed expressions are no strings.
        let model_type = if data_type == REGEX {
            dt::PMIX_BYTE_OBJECT
        } else {
            data_type
        };
        let count = if data_type == dt::PMIX_UNDEF {
            0
        } else {
            source.size
        };
        let mut items = Vec::new();
        if count > 0 {
            let layout = known(data_type)?;
            if source.array.is_null() {
                return Err(ConvertError::NullPointer { what: "array" });
            }
            check_alignment(source.array, data_type, layout.align)?;
            bounds.count(count)?;
            items.reserve_exact(count);
            for at in 0..count {
                // SAFETY: the caller guarantees `size` elements of the type, and `at` is below it.
                let item = bounds.nested(|bounds| unsafe {
                    element(data_type, source.array.byte_add(at * layout.size), bounds)
                })?;
                items.push(item);
            }
        }
        DataArray::new(model_type, items).map_err(|mixed| ConvertError::UnsupportedType {
            data_type: mixed.found,
            place: "in an array",
        })
    }
}

/// Returns the layout of a type that the model has.
fn known(data_type: DataType) -> Result<element::ElementLayout, ConvertError> {
    match element::layout(data_type) {
        Some(layout) if data_type != PROC_STATS && data_type != dt::PMIX_REGEX2 => Ok(layout),
        None if data_type != dt::PMIX_KVAL => Err(ConvertError::UnknownType(data_type)),
        _ => Err(ConvertError::UnsupportedType {
            data_type,
            place: "by the model",
        }),
    }
}

/// Checks the address of one element or more. An address that is no multiple is a mistake of the
/// caller, such as a wrong type.
fn check_alignment(at: *const c_void, element: DataType, align: usize) -> Result<(), ConvertError> {
    if at.addr().is_multiple_of(align) {
        Ok(())
    } else {
        Err(ConvertError::Misaligned { element, align })
    }
}

/// Returns the value for a null pointer. The C library sends an absent cpuset or topology for one,
/// and follows it for all other types.
fn absent(data_type: DataType) -> Result<Value, ConvertError> {
    match data_type {
        dt::PMIX_PROC_CPUSET => Ok(Value::Cpuset(None)),
        dt::PMIX_TOPO => Ok(Value::Topology(Box::new(Topology { xml: None }))),
        _ => Err(ConvertError::NullPointer {
            what: "data of a value",
        }),
    }
}

/// Returns a regular expression as a string, or as bytes if it is compressed and has a NUL before
/// its end.
fn regex(value: Value) -> Value {
    let Value::ByteObject(bytes) = &value else {
        return value;
    };
    let text = bytes.as_slice();
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.contains(&0) {
        return value;
    }
    Value::String(Some(Text::from_bytes(text)))
}

/// Reads one element of a data type.
///
/// # Safety
///
/// `at` points to an element of the type, as it lies in an array, aligned, and as
/// [`FromC::from_c`] demands.
unsafe fn element(
    data_type: DataType,
    at: *const c_void,
    bounds: &mut ReadBounds,
) -> Result<Value, ConvertError> {
    macro_rules! number {
        ($type:ty) => {
            // SAFETY: the caller guarantees an element of the data type, which is this C type.
            unsafe { at.cast::<$type>().read() }
        };
    }
    macro_rules! compound {
        ($type:ty) => {
            // SAFETY: the caller guarantees an element of the data type, which is the C type of this
            // type, and what `from_c` demands of it.
            unsafe { <$type>::from_c(&*at.cast::<<$type as FromC>::Source>(), bounds) }?
        };
    }
    Ok(match data_type {
        dt::PMIX_UNDEF => Value::Undef,
        dt::PMIX_BOOL => Value::Bool(number!(u8) != 0),
        dt::PMIX_BYTE => Value::Byte(number!(u8)),
        dt::PMIX_STRING => {
            let string = number!(*const c_char);
            // SAFETY: the caller guarantees a pointer to a string, or null.
            Value::String(unsafe { text(string, bounds) }?)
        }
        dt::PMIX_SIZE => Value::Size(number!(u64)),
        dt::PMIX_PID => Value::Pid(number!(u32)),
        dt::PMIX_INT => Value::Int(number!(i32)),
        dt::PMIX_INT8 => Value::Int8(number!(i8)),
        dt::PMIX_INT16 => Value::Int16(number!(i16)),
        dt::PMIX_INT32 => Value::Int32(number!(i32)),
        dt::PMIX_INT64 => Value::Int64(number!(i64)),
        dt::PMIX_UINT => Value::Uint(number!(u32)),
        dt::PMIX_UINT8 => Value::Uint8(number!(u8)),
        dt::PMIX_UINT16 => Value::Uint16(number!(u16)),
        dt::PMIX_UINT32 => Value::Uint32(number!(u32)),
        dt::PMIX_UINT64 => Value::Uint64(number!(u64)),
        dt::PMIX_FLOAT => Value::Float(number!(f32)),
        dt::PMIX_DOUBLE => Value::Double(number!(f64)),
        dt::PMIX_TIMEVAL => {
            let time = number!(CTimeval);
            Value::Timeval {
                seconds: time.tv_sec,
                microseconds: time.tv_usec,
            }
        }
        dt::PMIX_TIME => Value::Time(number!(u64)),
        dt::PMIX_STATUS => Value::Status(Status(number!(i32))),
        dt::PMIX_VALUE => Value::Value(Box::new(compound!(Value))),
        dt::PMIX_PROC => Value::Proc(compound!(Proc)),
        dt::PMIX_APP => Value::App(Box::new(compound!(App))),
        dt::PMIX_INFO => Value::Info(Box::new(compound!(Info))),
        dt::PMIX_PDATA => Value::Pdata(Box::new(compound!(Pdata))),
        dt::PMIX_BYTE_OBJECT | REGEX => Value::ByteObject(compound!(Bytes)),
        dt::PMIX_PERSIST => Value::Persistence(Persistence::try_from(number!(u8))?),
        dt::PMIX_POINTER => Value::Pointer,
        dt::PMIX_SCOPE => Value::Scope(Scope::try_from(number!(u8))?),
        dt::PMIX_DATA_RANGE => Value::Range(Range::try_from(number!(u8))?),
        dt::PMIX_COMMAND => Value::Command(number!(u8)),
        dt::PMIX_INFO_DIRECTIVES => Value::InfoDirectives(number!(u32)),
        dt::PMIX_DATA_TYPE => Value::DataType(DataType(number!(u16))),
        dt::PMIX_PROC_STATE => Value::ProcState(ProcState(number!(u8))),
        dt::PMIX_PROC_INFO => Value::ProcInfo(Box::new(compound!(ProcInfo))),
        dt::PMIX_DATA_ARRAY => Value::DataArray(compound!(DataArray)),
        dt::PMIX_PROC_RANK => Value::Rank(Rank(number!(u32))),
        dt::PMIX_QUERY => Value::Query(Box::new(compound!(Query))),
        DataType::COMPRESSED_STRING => Value::CompressedString(compound!(Bytes)),
        dt::PMIX_ALLOC_DIRECTIVE => Value::AllocDirective(number!(u8)),
        dt::PMIX_IOF_CHANNEL => Value::IofChannel(IofChannel(number!(u16))),
        dt::PMIX_ENVAR => Value::Envar(Box::new(compound!(Envar))),
        dt::PMIX_COORD => Value::Coord(Box::new(compound!(Coord))),
        dt::PMIX_REGATTR => Value::Regattr(Box::new(compound!(Regattr))),
        dt::PMIX_JOB_STATE => Value::JobState(JobState(number!(u8))),
        dt::PMIX_LINK_STATE => Value::LinkState(LinkState(number!(u8))),
        dt::PMIX_PROC_CPUSET => Value::Cpuset(compound!(CpusetList).0),
        dt::PMIX_GEOMETRY => Value::Geometry(Box::new(compound!(Geometry))),
        dt::PMIX_DEVICE_DIST => Value::DeviceDistance(Box::new(compound!(DeviceDistance))),
        dt::PMIX_ENDPOINT => Value::Endpoint(Box::new(compound!(Endpoint))),
        dt::PMIX_TOPO => Value::Topology(Box::new(compound!(Topology))),
        dt::PMIX_DEVTYPE => Value::DeviceType(number!(u64)),
        dt::PMIX_LOCTYPE => Value::Locality(number!(u16)),
        dt::PMIX_COMPRESSED_BYTE_OBJECT => Value::CompressedByteObject(compound!(Bytes)),
        dt::PMIX_PROC_NSPACE => {
            // SAFETY: the caller guarantees a namespace.
            let nspace = unsafe { &*at.cast::<CNspace>() };
            Value::Nspace(nspace_from_array(nspace)?)
        }
        DataType::DISK_STATS => Value::DiskStats(Box::new(compound!(DiskStats))),
        DataType::NET_STATS => Value::NetStats(Box::new(compound!(NetStats))),
        DataType::NODE_STATS => Value::NodeStats(Box::new(compound!(NodeStats))),
        dt::PMIX_DATA_BUFFER => Value::DataBuffer(compound!(BufferBytes).0),
        dt::PMIX_STOR_MEDIUM => Value::StorageMedium(number!(u64)),
        dt::PMIX_STOR_ACCESS => Value::StorageAccess(number!(u64)),
        dt::PMIX_STOR_PERSIST => Value::StoragePersistence(number!(u64)),
        dt::PMIX_STOR_ACCESS_TYPE => Value::StorageAccessType(number!(u16)),
        dt::PMIX_DEVICE => Value::Device(Box::new(compound!(Device))),
        dt::PMIX_RESBLOCK_DIRECTIVE => Value::ResourceBlockDirective(number!(u8)),
        dt::PMIX_RESOURCE_UNIT => Value::ResourceUnit(Box::new(compound!(ResourceUnit))),
        dt::PMIX_NODE_PID => Value::NodePid(Box::new(compound!(NodePid))),
        dt::PMIX_ALLOC_INHERIT => Value::AllocInheritance(number!(u8)),
        _ => return Err(ConvertError::UnknownType(data_type)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::{CByteObject, CInfo},
        convert::{read_array, read_one},
        destruct::Destruct,
    };
    use peal_model::{code, key};
    use std::ptr;

    fn value(data_type: DataType) -> CValue {
        CValue {
            r#type: data_type.0,
            ..CValue::zeroed()
        }
    }

    fn read(source: &CValue) -> Result<Value, ConvertError> {
        // SAFETY: the tests make values that agree with their types.
        unsafe { Value::from_c(source, &mut ReadBounds::default()) }
    }

    #[test]
    fn null_pointers_are_absent_or_refused() {
        assert_eq!(read(&value(dt::PMIX_STRING)), Ok(Value::String(None)));
        assert_eq!(read(&value(dt::PMIX_PROC_CPUSET)), Ok(Value::Cpuset(None)));
        for data_type in [dt::PMIX_PROC, dt::PMIX_DATA_ARRAY, dt::PMIX_PROC_NSPACE] {
            let error = read(&value(data_type)).unwrap_err();
            assert_eq!(error.status(), code::PMIX_ERR_BAD_PARAM, "{data_type}");
        }
        // SAFETY: null pointers are allowed.
        unsafe {
            assert_eq!(read_array::<Info>(ptr::null(), 0, "infos"), Ok(Vec::new()));
            let error = read_array::<Info>(ptr::null(), 1, "infos").unwrap_err();
            assert_eq!(error.to_string(), "infos is a null pointer");
            assert!(read_one::<Proc>(ptr::null(), "proc").is_err());
        }
    }

    #[test]
    fn types_without_form_are_refused_by_status() {
        for (data_type, status) in [
            (DataType(499), code::PMIX_ERR_UNKNOWN_DATA_TYPE),
            (dt::PMIX_INFO, code::PMIX_ERR_NOT_SUPPORTED),
            (dt::PMIX_KVAL, code::PMIX_ERR_NOT_SUPPORTED),
            (PROC_STATS, code::PMIX_ERR_NOT_SUPPORTED),
        ] {
            assert_eq!(
                read(&value(data_type)).unwrap_err().status(),
                status,
                "{data_type}"
            );
        }
        let mut range = value(dt::PMIX_DATA_RANGE);
        range.data.range = 255;
        assert_eq!(read(&range).unwrap_err().status(), code::PMIX_ERR_BAD_PARAM);
    }

    #[test]
    fn any_number_but_zero_is_true() {
        let mut truth = value(dt::PMIX_BOOL);
        truth.data.flag = 2;
        assert_eq!(read(&truth), Ok(Value::Bool(true)));
    }

    #[test]
    fn array_within_itself_and_wrong_counts_are_refused() {
        let mut array = CDataArray {
            r#type: dt::PMIX_DATA_ARRAY.0,
            size: 1,
            array: ptr::null_mut(),
        };
        let itself: *mut CDataArray = &mut array;
        // SAFETY: the array is its own only element, which is valid to read.
        let error = unsafe {
            (*itself).array = itself.cast();
            read_one::<DataArray>(itself, "array").unwrap_err()
        };
        assert!(matches!(
            error,
            ConvertError::TooLarge {
                what: "depth of nested values",
                ..
            }
        ));
        let info = CInfo::zeroed();
        // SAFETY: the count is refused before anything is read.
        let error = unsafe { read_array::<Info>(&info, usize::MAX, "infos") }.unwrap_err();
        assert_eq!(error.status(), code::PMIX_ERR_BAD_PARAM);
    }

    #[test]
    fn misaligned_array_is_refused() {
        let numbers = [0u64; 2];
        let array = CDataArray {
            r#type: dt::PMIX_UINT64.0,
            size: 1,
            array: ptr::from_ref(&numbers)
                .cast_mut()
                .wrapping_byte_add(1)
                .cast(),
        };
        // SAFETY: the address is refused before anything is read.
        let error = unsafe { read_one::<DataArray>(&array, "array") }.unwrap_err();
        assert!(matches!(error, ConvertError::Misaligned { align: 8, .. }));
    }

    #[test]
    fn regex_is_text_unless_compressed() {
        for (bytes, expected) in [
            (&b"pmix[n[1:1-4]]\0"[..], Value::string("pmix[n[1:1-4]]")),
            (
                b"blob:\0x",
                Value::ByteObject(Bytes::from(&b"blob:\0x"[..])),
            ),
        ] {
            let mut source = value(REGEX);
            source.data.bo = CByteObject {
                bytes: bytes.as_ptr().cast_mut().cast(),
                size: bytes.len(),
            };
            assert_eq!(read(&source), Ok(expected));
        }
    }

    #[test]
    fn persistent_flag_stays_with_the_caller() {
        let mut source = CInfo::zeroed();
        source.key = super::super::key_array(&key::PMIX_COLLECT_DATA.into());
        source.flags = 0x11;
        // SAFETY: the info has no pointers.
        let info = unsafe { read_one::<Info>(&source, "info") }.unwrap();
        assert_eq!((info.flags.0, info.value), (1, Value::Undef));
    }
}
