//! Values that an info can carry.
use crate::{
    App, Bytes, Coord, DataArray, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar,
    Geometry, Info, IofChannel, JobState, Kval, LinkState, NetStats, NodePid, NodeStats, Nspace,
    Pdata, Persistence, Proc, ProcInfo, ProcState, Query, Range, Rank, Regattr, ResourceUnit,
    Scope, Status, Text, Topology, data_type as dt,
};
use serde::{Deserialize, Serialize};

/// A value of one of the Standard's data types (`pmix_value_t`). Strings may be absent (a NULL
/// pointer in C).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "each member is the data type of that name; units are given where a number has one"
)]
pub enum Value {
    Undef,
    Bool(bool),
    Byte(u8),
    String(Option<Text>),
    Size(u64),
    Pid(u32),
    Int(i32),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Uint(u32),
    Uint8(u8),
    Uint16(u16),
    Uint32(u32),
    Uint64(u64),
    Float(#[serde(with = "crate::bits::single")] f32),
    Double(#[serde(with = "crate::bits::double")] f64),
    Timeval {
        seconds: i64,
        microseconds: i64,
    },
    /// Seconds since the epoch.
    Time(u64),
    Status(Status),
    Value(Box<Value>),
    Proc(Proc),
    App(Box<App>),
    Info(Box<Info>),
    Pdata(Box<Pdata>),
    ByteObject(Bytes),
    Kval(Box<Kval>),
    Persistence(Persistence),
    /// A pointer, of which only a placeholder is sent.
    Pointer,
    Scope(Scope),
    Range(Range),
    Command(u8),
    InfoDirectives(u32),
    DataType(DataType),
    ProcState(ProcState),
    ProcInfo(Box<ProcInfo>),
    DataArray(DataArray),
    Rank(Rank),
    Query(Box<Query>),
    /// A string as compressed by `libpmix`: its length in host order, then a zlib stream. Retired
    /// in 7.x.
    CompressedString(Bytes),
    AllocDirective(u8),
    IofChannel(IofChannel),
    Envar(Box<Envar>),
    Coord(Box<Coord>),
    Regattr(Box<Regattr>),
    JobState(JobState),
    LinkState(LinkState),
    /// A set of processing units: `hwloc:` and the list form of the bitmap.
    Cpuset(Option<Text>),
    Geometry(Box<Geometry>),
    DeviceDistance(Box<DeviceDistance>),
    Endpoint(Box<Endpoint>),
    Topology(Box<Topology>),
    DeviceType(u64),
    Locality(u16),
    /// A byte object as compressed by `libpmix`.
    CompressedByteObject(Bytes),
    Nspace(Nspace),
    DiskStats(Box<DiskStats>),
    NetStats(Box<NetStats>),
    NodeStats(Box<NodeStats>),
    DataBuffer(Bytes),
    StorageMedium(u64),
    StorageAccess(u64),
    StoragePersistence(u64),
    StorageAccessType(u16),
    Device(Box<Device>),
    ResourceBlockDirective(u8),
    ResourceUnit(Box<ResourceUnit>),
    NodePid(Box<NodePid>),
    AllocInheritance(u8),
}

impl Value {
    /// Makes a string value.
    pub fn string(text: &str) -> Value {
        Value::String(Some(Text::from(text)))
    }

    /// Makes an array of procs.
    pub fn procs(procs: impl IntoIterator<Item = Proc>) -> Value {
        Value::DataArray(DataArray::procs(procs))
    }

    /// Returns the data type.
    pub fn data_type(&self) -> DataType {
        match self {
            Value::Undef => dt::PMIX_UNDEF,
            Value::Bool(_) => dt::PMIX_BOOL,
            Value::Byte(_) => dt::PMIX_BYTE,
            Value::String(_) => dt::PMIX_STRING,
            Value::Size(_) => dt::PMIX_SIZE,
            Value::Pid(_) => dt::PMIX_PID,
            Value::Int(_) => dt::PMIX_INT,
            Value::Int8(_) => dt::PMIX_INT8,
            Value::Int16(_) => dt::PMIX_INT16,
            Value::Int32(_) => dt::PMIX_INT32,
            Value::Int64(_) => dt::PMIX_INT64,
            Value::Uint(_) => dt::PMIX_UINT,
            Value::Uint8(_) => dt::PMIX_UINT8,
            Value::Uint16(_) => dt::PMIX_UINT16,
            Value::Uint32(_) => dt::PMIX_UINT32,
            Value::Uint64(_) => dt::PMIX_UINT64,
            Value::Float(_) => dt::PMIX_FLOAT,
            Value::Double(_) => dt::PMIX_DOUBLE,
            Value::Timeval { .. } => dt::PMIX_TIMEVAL,
            Value::Time(_) => dt::PMIX_TIME,
            Value::Status(_) => dt::PMIX_STATUS,
            Value::Value(_) => dt::PMIX_VALUE,
            Value::Proc(_) => dt::PMIX_PROC,
            Value::App(_) => dt::PMIX_APP,
            Value::Info(_) => dt::PMIX_INFO,
            Value::Pdata(_) => dt::PMIX_PDATA,
            Value::ByteObject(_) => dt::PMIX_BYTE_OBJECT,
            Value::Kval(_) => dt::PMIX_KVAL,
            Value::Persistence(_) => dt::PMIX_PERSIST,
            Value::Pointer => dt::PMIX_POINTER,
            Value::Scope(_) => dt::PMIX_SCOPE,
            Value::Range(_) => dt::PMIX_DATA_RANGE,
            Value::Command(_) => dt::PMIX_COMMAND,
            Value::InfoDirectives(_) => dt::PMIX_INFO_DIRECTIVES,
            Value::DataType(_) => dt::PMIX_DATA_TYPE,
            Value::ProcState(_) => dt::PMIX_PROC_STATE,
            Value::ProcInfo(_) => dt::PMIX_PROC_INFO,
            Value::DataArray(_) => dt::PMIX_DATA_ARRAY,
            Value::Rank(_) => dt::PMIX_PROC_RANK,
            Value::Query(_) => dt::PMIX_QUERY,
            Value::CompressedString(_) => DataType::COMPRESSED_STRING,
            Value::AllocDirective(_) => dt::PMIX_ALLOC_DIRECTIVE,
            Value::IofChannel(_) => dt::PMIX_IOF_CHANNEL,
            Value::Envar(_) => dt::PMIX_ENVAR,
            Value::Coord(_) => dt::PMIX_COORD,
            Value::Regattr(_) => dt::PMIX_REGATTR,
            Value::JobState(_) => dt::PMIX_JOB_STATE,
            Value::LinkState(_) => dt::PMIX_LINK_STATE,
            Value::Cpuset(_) => dt::PMIX_PROC_CPUSET,
            Value::Geometry(_) => dt::PMIX_GEOMETRY,
            Value::DeviceDistance(_) => dt::PMIX_DEVICE_DIST,
            Value::Endpoint(_) => dt::PMIX_ENDPOINT,
            Value::Topology(_) => dt::PMIX_TOPO,
            Value::DeviceType(_) => dt::PMIX_DEVTYPE,
            Value::Locality(_) => dt::PMIX_LOCTYPE,
            Value::CompressedByteObject(_) => dt::PMIX_COMPRESSED_BYTE_OBJECT,
            Value::Nspace(_) => dt::PMIX_PROC_NSPACE,
            Value::DiskStats(_) => DataType::DISK_STATS,
            Value::NetStats(_) => DataType::NET_STATS,
            Value::NodeStats(_) => DataType::NODE_STATS,
            Value::DataBuffer(_) => dt::PMIX_DATA_BUFFER,
            Value::StorageMedium(_) => dt::PMIX_STOR_MEDIUM,
            Value::StorageAccess(_) => dt::PMIX_STOR_ACCESS,
            Value::StoragePersistence(_) => dt::PMIX_STOR_PERSIST,
            Value::StorageAccessType(_) => dt::PMIX_STOR_ACCESS_TYPE,
            Value::Device(_) => dt::PMIX_DEVICE,
            Value::ResourceBlockDirective(_) => dt::PMIX_RESBLOCK_DIRECTIVE,
            Value::ResourceUnit(_) => dt::PMIX_RESOURCE_UNIT,
            Value::NodePid(_) => dt::PMIX_NODE_PID,
            Value::AllocInheritance(_) => dt::PMIX_ALLOC_INHERIT,
        }
    }

    /// Returns the text of a string value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(Some(text)) => text.as_str(),
            _ => None,
        }
    }

    /// Returns the procs of a proc value or an array of them (`PMIX_EVENT_CUSTOM_RANGE` has both
    /// forms).
    pub fn as_procs(&self) -> Option<Vec<Proc>> {
        match self {
            Value::Proc(proc) => Some(vec![proc.clone()]),
            Value::DataArray(array) => array.as_procs(),
            _ => None,
        }
    }
}
