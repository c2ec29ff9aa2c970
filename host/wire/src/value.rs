//! Values, and the types made of a key and a value.
use crate::{
    WireError,
    dialect::UntypedArray,
    packed::{Packed, packed},
    reader::{LEFT_OUT, MOST_LEFT_OUT, MessageReader},
    structs,
    writer::MessageWriter,
};
use peal_model::{
    Bytes, DataArray, DataType, Info, InfoFlags, JobState, Kval, LinkState, Pdata, Value,
    data_type as dt,
};

packed! {
    Value = dt::PMIX_VALUE, |r| typed(r), |value, w| put_typed(w, value)?;
    Info = dt::PMIX_INFO,
        |r| Ok(Info {
            key: Packed::unpack(r)?,
            flags: r.unsigned("flags of an info").map(InfoFlags)?,
            value: typed(r)?,
        }),
        |info, w| {
            info.key.pack(w)?;
            w.unsigned(info.flags.0);
            put_typed(w, &info.value)?;
        };
    Kval = dt::PMIX_KVAL,
        |r| Ok(Kval { key: Packed::unpack(r)?, value: typed(r)? }),
        |kval, w| {
            kval.key.pack(w)?;
            put_typed(w, &kval.value)?;
        };
    Pdata = dt::PMIX_PDATA,
        |r| Ok(Pdata { proc: Packed::unpack(r)?, key: Packed::unpack(r)?, value: typed(r)? }),
        |data, w| {
            data.proc.pack(w)?;
            data.key.pack(w)?;
            put_typed(w, &data.value)?;
        };
    DataArray = dt::PMIX_DATA_ARRAY, |r| array(r), |value, w| put_array(w, value)?;
}

/// Reads a type code and a value of that type.
fn typed(r: &mut MessageReader<'_>) -> Result<Value, WireError> {
    let data_type = r.type_code()?;
    untyped(r, data_type)
}

fn put_typed(w: &mut MessageWriter<'_>, value: &Value) -> Result<(), WireError> {
    w.type_code(value.data_type());
    put_untyped(w, value)
}

/// Reads an array: the type of its elements, their number, and the elements without type.
fn array(r: &mut MessageReader<'_>) -> Result<DataArray, WireError> {
    let element = r.type_code()?;
    let dialect = &r.codec().dialect;
    // Checked here, because an empty array has no element whose type would be checked.
    dialect.check_type(element)?;
    let type_alone = dialect.untyped_array() == UntypedArray::TypeAlone;
    // From 6.1 on neither a count nor elements follow the type.
    if element == dt::PMIX_UNDEF && type_alone {
        return Ok(DataArray::new(element, Vec::new())?);
    }
    let count: u64 = r.unsigned("elements of an array")?;
    // Elements without a type take no bytes, so nothing would bound their number. `libpmix` sends
    // none either.
    if element == dt::PMIX_UNDEF && count > 0 {
        return Err(WireError::TooLong {
            part: "array of no type",
            len: count,
            limit: 0,
        });
    }
    let items = match element {
        // The count includes elements that the library does not write after one without a type.
        dt::PMIX_DATA_ARRAY if type_alone => {
            let read = |r: &mut MessageReader<'_>| untyped(r, element);
            r.list_up_to("elements of an array", count, read, is_untyped)?
        }
        // An empty array has not even what precedes all elements.
        _ if count == 0 => Vec::new(),
        _ => items(r, element, count)?,
    };
    Ok(DataArray::new(element, items)?)
}

/// Reads values of one type, as they follow each other in an array or field.
///
/// Process ids are preceded by their type once, and pointers are one byte, however many they are.
pub(crate) fn items(
    r: &mut MessageReader<'_>,
    element: DataType,
    count: u64,
) -> Result<Vec<Value>, WireError> {
    const WHAT: &str = "elements of an array";
    r.codec().dialect.check_type(element)?;
    match element {
        dt::PMIX_PID => {
            structs::pid_type(r)?;
            r.list(WHAT, count, |r| r.unsigned("process id").map(Value::Pid))
        }
        dt::PMIX_POINTER => {
            r.byte("pointer")?;
            r.list_up_to(WHAT, count, |_| Ok(Value::Pointer), |_| true)
        }
        _ => r.list(WHAT, count, |r| untyped(r, element)),
    }
}

/// Writes what [`items`] reads.
pub(crate) fn put_items(
    w: &mut MessageWriter<'_>,
    element: DataType,
    items: &[Value],
) -> Result<(), WireError> {
    w.codec().dialect.check_type(element)?;
    match element {
        dt::PMIX_PID => {
            w.type_code(dt::PMIX_UINT32);
            for item in items {
                if let Value::Pid(pid) = item {
                    w.unsigned(*pid);
                }
            }
            Ok(())
        }
        dt::PMIX_POINTER => {
            w.byte(1);
            let left_out = items.len().saturating_sub(1) as u64;
            w.codec().limits.check(LEFT_OUT, left_out, MOST_LEFT_OUT)
        }
        _ => items.iter().try_for_each(|item| put_untyped(w, item)),
    }
}

/// Returns true if a value is an array of elements without a type.
fn is_untyped(value: &Value) -> bool {
    matches!(value, Value::DataArray(array) if array.element() == dt::PMIX_UNDEF)
}

fn put_array(w: &mut MessageWriter<'_>, array: &DataArray) -> Result<(), WireError> {
    let element = array.element();
    let items = array.items();
    w.codec().dialect.check_type(element)?;
    let type_alone = w.codec().dialect.untyped_array() == UntypedArray::TypeAlone;
    // The receiver refuses such an array: see `array`.
    if element == dt::PMIX_UNDEF && !items.is_empty() {
        return Err(WireError::TooLong {
            part: "array of no type",
            len: items.len() as u64,
            limit: 0,
        });
    }
    // Only the limit matters here. Arrays state their length as a size, not as a signed count.
    w.count("elements of an array", items.len())?;
    w.type_code(element);
    if element == dt::PMIX_UNDEF && type_alone {
        return Ok(());
    }
    w.unsigned(items.len() as u64);
    // The peer's library reads nothing after the first element without a type.
    let last = items.iter().position(|item| type_alone && is_untyped(item));
    let written = last.map_or(items.len(), |last| last + 1);
    w.codec()
        .limits
        .check(LEFT_OUT, (items.len() - written) as u64, MOST_LEFT_OUT)?;
    match items.get(..written) {
        None | Some([]) => Ok(()),
        Some(sent) => put_items(w, element, sent),
    }
}

/// Reads a value of a given type.
pub(crate) fn untyped(r: &mut MessageReader<'_>, data_type: DataType) -> Result<Value, WireError> {
    r.codec().dialect.check_type(data_type)?;
    // Values are read by recursion, so the limit on levels bounds the stack as well.
    r.deeper(|r| read(r, data_type))
}

fn put_untyped(w: &mut MessageWriter<'_>, value: &Value) -> Result<(), WireError> {
    w.codec().dialect.check_type(value.data_type())?;
    w.deeper(|w| write(w, value))
}

fn read(r: &mut MessageReader<'_>, data_type: DataType) -> Result<Value, WireError> {
    Ok(match data_type {
        dt::PMIX_UNDEF => Value::Undef,
        dt::PMIX_BOOL => Value::Bool(Packed::unpack(r)?),
        dt::PMIX_BYTE => Value::Byte(r.byte("byte")?),
        dt::PMIX_STRING => Value::String(Packed::unpack(r)?),
        dt::PMIX_SIZE => Value::Size(r.unsigned("PMIX_SIZE")?),
        dt::PMIX_PID => Value::Pid(structs::pid(r)?),
        dt::PMIX_INT => Value::Int(r.signed("PMIX_INT")?),
        dt::PMIX_INT8 => Value::Int8(r.byte("PMIX_INT8")?.cast_signed()),
        dt::PMIX_INT16 => Value::Int16(r.signed("PMIX_INT16")?),
        dt::PMIX_INT32 => Value::Int32(r.signed("PMIX_INT32")?),
        dt::PMIX_INT64 => Value::Int64(r.signed("PMIX_INT64")?),
        // The C library sends it as it sends a PMIX_INT.
        dt::PMIX_UINT => Value::Uint(r.signed::<i32>("PMIX_UINT")?.cast_unsigned()),
        dt::PMIX_UINT8 => Value::Uint8(r.byte("PMIX_UINT8")?),
        dt::PMIX_UINT16 => Value::Uint16(r.unsigned("PMIX_UINT16")?),
        dt::PMIX_UINT32 => Value::Uint32(r.unsigned("PMIX_UINT32")?),
        dt::PMIX_UINT64 => Value::Uint64(r.unsigned("PMIX_UINT64")?),
        dt::PMIX_FLOAT => Value::Float(Packed::unpack(r)?),
        dt::PMIX_DOUBLE => Value::Double(Packed::unpack(r)?),
        dt::PMIX_TIMEVAL => Value::Timeval {
            seconds: r.signed("seconds")?,
            microseconds: r.signed("microseconds")?,
        },
        dt::PMIX_TIME => Value::Time(r.unsigned("PMIX_TIME")?),
        dt::PMIX_STATUS => Value::Status(Packed::unpack(r)?),
        dt::PMIX_VALUE => Value::Value(r.boxed(Packed::unpack)?),
        dt::PMIX_PROC => Value::Proc(Packed::unpack(r)?),
        dt::PMIX_APP => Value::App(r.boxed(Packed::unpack)?),
        dt::PMIX_INFO => Value::Info(r.boxed(Packed::unpack)?),
        dt::PMIX_PDATA => Value::Pdata(r.boxed(Packed::unpack)?),
        dt::PMIX_BYTE_OBJECT => Value::ByteObject(Packed::unpack(r)?),
        dt::PMIX_KVAL => Value::Kval(r.boxed(Packed::unpack)?),
        dt::PMIX_PERSIST => Value::Persistence(Packed::unpack(r)?),
        // An address means nothing in another process. The byte is a placeholder.
        dt::PMIX_POINTER => r.byte("pointer").map(|_| Value::Pointer)?,
        dt::PMIX_SCOPE => Value::Scope(Packed::unpack(r)?),
        dt::PMIX_DATA_RANGE => Value::Range(Packed::unpack(r)?),
        dt::PMIX_COMMAND => Value::Command(r.byte("command")?),
        dt::PMIX_INFO_DIRECTIVES => Value::InfoDirectives(r.unsigned("flags of an info")?),
        dt::PMIX_DATA_TYPE => Value::DataType(Packed::unpack(r)?),
        dt::PMIX_PROC_STATE => Value::ProcState(Packed::unpack(r)?),
        dt::PMIX_PROC_INFO => Value::ProcInfo(r.boxed(Packed::unpack)?),
        dt::PMIX_DATA_ARRAY => Value::DataArray(array(r)?),
        dt::PMIX_PROC_RANK => Value::Rank(Packed::unpack(r)?),
        dt::PMIX_QUERY => Value::Query(r.boxed(Packed::unpack)?),
        DataType::COMPRESSED_STRING => Value::CompressedString(Packed::unpack(r)?),
        dt::PMIX_ALLOC_DIRECTIVE => Value::AllocDirective(r.byte("directive")?),
        dt::PMIX_IOF_CHANNEL => Value::IofChannel(Packed::unpack(r)?),
        dt::PMIX_ENVAR => Value::Envar(r.boxed(Packed::unpack)?),
        dt::PMIX_COORD => Value::Coord(r.boxed(Packed::unpack)?),
        dt::PMIX_REGATTR => Value::Regattr(r.boxed(Packed::unpack)?),
        dt::PMIX_JOB_STATE => Value::JobState(JobState(r.byte("job state")?)),
        dt::PMIX_LINK_STATE => Value::LinkState(LinkState(r.byte("link state")?)),
        dt::PMIX_PROC_CPUSET => Value::Cpuset(Packed::unpack(r)?),
        dt::PMIX_GEOMETRY => Value::Geometry(r.boxed(Packed::unpack)?),
        dt::PMIX_DEVICE_DIST => Value::DeviceDistance(r.boxed(Packed::unpack)?),
        dt::PMIX_ENDPOINT => Value::Endpoint(r.boxed(Packed::unpack)?),
        dt::PMIX_TOPO => Value::Topology(r.boxed(Packed::unpack)?),
        dt::PMIX_DEVTYPE => Value::DeviceType(r.unsigned("device type")?),
        dt::PMIX_LOCTYPE => Value::Locality(r.unsigned("locality")?),
        dt::PMIX_COMPRESSED_BYTE_OBJECT => Value::CompressedByteObject(Packed::unpack(r)?),
        dt::PMIX_PROC_NSPACE => Value::Nspace(Packed::unpack(r)?),
        DataType::DISK_STATS => Value::DiskStats(r.boxed(Packed::unpack)?),
        DataType::NET_STATS => Value::NetStats(r.boxed(Packed::unpack)?),
        DataType::NODE_STATS => Value::NodeStats(r.boxed(Packed::unpack)?),
        dt::PMIX_DATA_BUFFER => Value::DataBuffer(Packed::unpack(r)?),
        dt::PMIX_STOR_MEDIUM => Value::StorageMedium(r.unsigned("storage medium")?),
        dt::PMIX_STOR_ACCESS => Value::StorageAccess(r.unsigned("storage access")?),
        dt::PMIX_STOR_PERSIST => Value::StoragePersistence(r.unsigned("storage persistence")?),
        dt::PMIX_STOR_ACCESS_TYPE => Value::StorageAccessType(r.unsigned("storage access type")?),
        dt::PMIX_DEVICE => Value::Device(r.boxed(Packed::unpack)?),
        dt::PMIX_RESBLOCK_DIRECTIVE => Value::ResourceBlockDirective(r.byte("directive")?),
        dt::PMIX_RESOURCE_UNIT => Value::ResourceUnit(r.boxed(Packed::unpack)?),
        dt::PMIX_NODE_PID => Value::NodePid(r.boxed(Packed::unpack)?),
        dt::PMIX_ALLOC_INHERIT => Value::AllocInheritance(r.byte("inheritance")?),
        _ => {
            // `check_type` refuses these types before, as long as this list has all types of the
            // tables in `dialect.rs`.
            return Err(WireError::TypeUnknown {
                data_type,
                version: r.codec().dialect.version(),
            });
        }
    })
}

fn write(w: &mut MessageWriter<'_>, value: &Value) -> Result<(), WireError> {
    match value {
        Value::Undef => {}
        Value::Bool(truth) => truth.pack(w)?,
        Value::Byte(n)
        | Value::Uint8(n)
        | Value::Command(n)
        | Value::AllocDirective(n)
        | Value::JobState(JobState(n))
        | Value::LinkState(LinkState(n))
        | Value::ResourceBlockDirective(n)
        | Value::AllocInheritance(n) => w.byte(*n),
        // The placeholder that `libpmix` sends.
        Value::Pointer => w.byte(1),
        Value::String(text) | Value::Cpuset(text) => text.pack(w)?,
        Value::Pid(n) => structs::put_pid(w, *n),
        Value::Int8(n) => w.byte(n.cast_unsigned()),
        Value::Int16(n) => w.signed(*n),
        Value::Int(n) | Value::Int32(n) => w.signed(*n),
        Value::Int64(n) => w.signed(*n),
        Value::Uint16(n) | Value::Locality(n) | Value::StorageAccessType(n) => w.unsigned(*n),
        Value::Uint(n) => w.signed(n.cast_signed()),
        Value::Uint32(n) | Value::InfoDirectives(n) => w.unsigned(*n),
        Value::Size(n)
        | Value::Uint64(n)
        | Value::Time(n)
        | Value::DeviceType(n)
        | Value::StorageMedium(n)
        | Value::StorageAccess(n)
        | Value::StoragePersistence(n) => w.unsigned(*n),
        Value::Float(n) => n.pack(w)?,
        Value::Double(n) => n.pack(w)?,
        Value::Timeval {
            seconds,
            microseconds,
        } => {
            w.signed(*seconds);
            w.signed(*microseconds);
        }
        Value::ByteObject(bytes)
        | Value::CompressedString(bytes)
        | Value::CompressedByteObject(bytes)
        | Value::DataBuffer(bytes) => Bytes::pack(bytes, w)?,
        Value::Status(status) => status.pack(w)?,
        Value::Value(value) => value.pack(w)?,
        Value::Proc(proc) => proc.pack(w)?,
        Value::App(app) => app.pack(w)?,
        Value::Info(info) => info.pack(w)?,
        Value::Pdata(data) => data.pack(w)?,
        Value::Kval(kval) => kval.pack(w)?,
        Value::Persistence(persistence) => persistence.pack(w)?,
        Value::Scope(scope) => scope.pack(w)?,
        Value::Range(range) => range.pack(w)?,
        Value::DataType(data_type) => data_type.pack(w)?,
        Value::ProcState(state) => state.pack(w)?,
        Value::ProcInfo(info) => info.pack(w)?,
        Value::DataArray(array) => put_array(w, array)?,
        Value::Rank(rank) => rank.pack(w)?,
        Value::Query(query) => query.pack(w)?,
        Value::IofChannel(channels) => channels.pack(w)?,
        Value::Envar(envar) => envar.pack(w)?,
        Value::Coord(coord) => coord.pack(w)?,
        Value::Regattr(attribute) => attribute.pack(w)?,
        Value::Geometry(geometry) => geometry.pack(w)?,
        Value::DeviceDistance(distance) => distance.pack(w)?,
        Value::Endpoint(endpoint) => endpoint.pack(w)?,
        Value::Topology(topology) => topology.pack(w)?,
        Value::Nspace(nspace) => nspace.pack(w)?,
        Value::DiskStats(disk) => disk.pack(w)?,
        Value::NetStats(net) => net.pack(w)?,
        Value::NodeStats(node) => node.pack(w)?,
        Value::Device(device) => device.pack(w)?,
        Value::ResourceUnit(unit) => unit.pack(w)?,
        Value::NodePid(node) => node.pack(w)?,
    }
    Ok(())
}
