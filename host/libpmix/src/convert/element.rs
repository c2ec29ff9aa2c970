//! Sizes of the elements of each data type, and where a value keeps its element.
use crate::abi::{
    CApp, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDevice, CDeviceDistance,
    CDiskStats, CEndpoint, CEnvar, CGeometry, CInfo, CNetStats, CNodePid, CNodeStats, CNspace,
    CPdata, CProc, CProcInfo, CProcStats, CQuery, CRegattr, CRegex2, CResourceUnit, CTimeval,
    CTopology, CValue,
};
use peal_model::{DataType, data_type as dt, number};
use std::ffi::{c_char, c_void};

/// Regular expression of hosts or ranks. A program passes one to its server; messages have none.
pub const REGEX: DataType = DataType(number::PMIX_REGEX as u16);
/// Statistics of a process. The model has none, so they can be copied and freed, but not converted.
pub const PROC_STATS: DataType = DataType(number::PMIX_PROC_STATS as u16);

/// Place of an element in a `pmix_value_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// In the union.
    Inline,
    /// Behind the pointer in the union.
    Pointer,
    /// Nowhere: such elements are in arrays only.
    ArrayOnly,
}

/// Size of an element in an array, and its place in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementLayout {
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Place in a value.
    pub storage: Storage,
}

/// Returns the layout of a data type; `None` if it has no public C type.
///
/// `PMIX_KVAL` and `PMIX_BUFFER` have none: their structures are private to the C library.
pub fn layout(data_type: DataType) -> Option<ElementLayout> {
    macro_rules! layouts {
        ($storage:ident $type:ty) => {
            ElementLayout {
                size: size_of::<$type>(),
                align: align_of::<$type>(),
                storage: Storage::$storage,
            }
        };
    }
    Some(match data_type {
        dt::PMIX_UNDEF => layouts!(Inline()),
        dt::PMIX_BOOL
        | dt::PMIX_BYTE
        | dt::PMIX_INT8
        | dt::PMIX_UINT8
        | dt::PMIX_PERSIST
        | dt::PMIX_SCOPE
        | dt::PMIX_DATA_RANGE
        | dt::PMIX_COMMAND
        | dt::PMIX_PROC_STATE
        | dt::PMIX_ALLOC_DIRECTIVE
        | dt::PMIX_JOB_STATE
        | dt::PMIX_LINK_STATE
        | dt::PMIX_RESBLOCK_DIRECTIVE
        | dt::PMIX_ALLOC_INHERIT => layouts!(Inline u8),
        dt::PMIX_INT16
        | dt::PMIX_UINT16
        | dt::PMIX_DATA_TYPE
        | dt::PMIX_IOF_CHANNEL
        | dt::PMIX_LOCTYPE
        | dt::PMIX_STOR_ACCESS_TYPE => layouts!(Inline u16),
        dt::PMIX_PID
        | dt::PMIX_INT
        | dt::PMIX_INT32
        | dt::PMIX_UINT
        | dt::PMIX_UINT32
        | dt::PMIX_STATUS
        | dt::PMIX_PROC_RANK
        | dt::PMIX_INFO_DIRECTIVES => layouts!(Inline u32),
        dt::PMIX_SIZE
        | dt::PMIX_INT64
        | dt::PMIX_UINT64
        | dt::PMIX_TIME
        | dt::PMIX_DEVTYPE
        | dt::PMIX_STOR_MEDIUM
        | dt::PMIX_STOR_ACCESS
        | dt::PMIX_STOR_PERSIST => layouts!(Inline u64),
        dt::PMIX_FLOAT => layouts!(Inline f32),
        dt::PMIX_DOUBLE => layouts!(Inline f64),
        dt::PMIX_TIMEVAL => layouts!(Inline CTimeval),
        dt::PMIX_STRING => layouts!(Inline *mut c_char),
        dt::PMIX_POINTER => layouts!(Inline *mut c_void),
        dt::PMIX_BYTE_OBJECT
        | DataType::COMPRESSED_STRING
        | dt::PMIX_COMPRESSED_BYTE_OBJECT
        | REGEX => layouts!(Inline CByteObject),
        dt::PMIX_ENVAR => layouts!(Inline CEnvar),
        dt::PMIX_PROC => layouts!(Pointer CProc),
        dt::PMIX_PROC_NSPACE => layouts!(Pointer CNspace),
        dt::PMIX_PROC_INFO => layouts!(Pointer CProcInfo),
        dt::PMIX_DATA_ARRAY => layouts!(Pointer CDataArray),
        dt::PMIX_COORD => layouts!(Pointer CCoord),
        dt::PMIX_REGATTR => layouts!(Pointer CRegattr),
        dt::PMIX_PROC_CPUSET => layouts!(Pointer CCpuset),
        dt::PMIX_GEOMETRY => layouts!(Pointer CGeometry),
        dt::PMIX_DEVICE_DIST => layouts!(Pointer CDeviceDistance),
        dt::PMIX_ENDPOINT => layouts!(Pointer CEndpoint),
        dt::PMIX_TOPO => layouts!(Pointer CTopology),
        PROC_STATS => layouts!(Pointer CProcStats),
        DataType::DISK_STATS => layouts!(Pointer CDiskStats),
        DataType::NET_STATS => layouts!(Pointer CNetStats),
        DataType::NODE_STATS => layouts!(Pointer CNodeStats),
        dt::PMIX_DATA_BUFFER => layouts!(Pointer CDataBuffer),
        dt::PMIX_DEVICE => layouts!(Pointer CDevice),
        dt::PMIX_RESOURCE_UNIT => layouts!(Pointer CResourceUnit),
        dt::PMIX_NODE_PID => layouts!(Pointer CNodePid),
        dt::PMIX_REGEX2 => layouts!(Pointer CRegex2),
        dt::PMIX_VALUE => layouts!(ArrayOnly CValue),
        dt::PMIX_APP => layouts!(ArrayOnly CApp),
        dt::PMIX_INFO => layouts!(ArrayOnly CInfo),
        dt::PMIX_PDATA => layouts!(ArrayOnly CPdata),
        dt::PMIX_QUERY => layouts!(ArrayOnly CQuery),
        _ => return None,
    })
}
