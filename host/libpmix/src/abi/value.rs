//! `pmix_value_t` and its union.
use super::{
    CAllocDirective, CBool, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDataRange,
    CDataType, CDevice, CDeviceDistance, CDeviceType, CDiskStats, CEndpoint, CEnvar, CGeometry,
    CJobState, CLinkState, CLocality, CNetStats, CNodePid, CNodeStats, CNspace, CPersistence,
    CProc, CProcInfo, CProcState, CProcStats, CRank, CRegex2, CResourceBlockDirective,
    CResourceUnit, CScope, CStatus, CTimeval, CTopology,
};
use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    fmt,
};

/// `pmix_value_t`: a data type, and a value of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CValue {
    /// Data type, which says which member of `data` is valid.
    pub r#type: CDataType,
    /// The value.
    pub data: CValueData,
}

/// Union of `pmix_value_t`, of all releases from 4.2 to 7.0.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "members have the names of the C members")]
pub union CValueData {
    pub flag: CBool,
    pub byte: u8,
    pub string: *mut c_char,
    pub size: usize,
    pub pid: libc::pid_t,
    pub integer: c_int,
    pub int8: i8,
    pub int16: i16,
    pub int32: i32,
    pub int64: i64,
    pub uint: c_uint,
    pub uint8: u8,
    pub uint16: u16,
    pub uint32: u32,
    pub uint64: u64,
    pub fval: f32,
    pub dval: f64,
    pub tv: CTimeval,
    pub time: libc::time_t,
    pub status: CStatus,
    pub rank: CRank,
    pub nspace: *mut CNspace,
    pub proc: *mut CProc,
    pub bo: CByteObject,
    pub persist: CPersistence,
    pub scope: CScope,
    pub range: CDataRange,
    pub state: CProcState,
    pub pinfo: *mut CProcInfo,
    pub darray: *mut CDataArray,
    pub ptr: *mut c_void,
    pub adir: CAllocDirective,
    pub rbdir: CResourceBlockDirective,
    pub envar: CEnvar,
    pub coord: *mut CCoord,
    pub linkstate: CLinkState,
    pub jstate: CJobState,
    pub topo: *mut CTopology,
    pub cpuset: *mut CCpuset,
    pub locality: CLocality,
    pub geometry: *mut CGeometry,
    pub devtype: CDeviceType,
    pub device: *mut CDevice,
    pub devdist: *mut CDeviceDistance,
    pub endpoint: *mut CEndpoint,
    pub dbuf: *mut CDataBuffer,
    pub resunit: *mut CResourceUnit,
    pub nodepid: *mut CNodePid,
    pub regex2: *mut CRegex2,
    pub pstats: *mut CProcStats,
    pub dkstats: *mut CDiskStats,
    pub netstats: *mut CNetStats,
    pub ndstats: *mut CNodeStats,
}

impl fmt::Debug for CValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The union is left out: nothing here knows which of its bytes are valid.
        write!(f, "CValue of data type {}", self.r#type)
    }
}
