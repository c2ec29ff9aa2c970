//! C structures of the client interface: procs, infos, arrays, applications and queries.
#![allow(missing_docs, reason = "members have the names of the C members")]
use super::{CDataType, CInfoDirectives, CKey, CNspace, CProcState, CRank, CValue};
use std::ffi::{c_char, c_int, c_void};

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CProc {
    pub nspace: CNspace,
    pub rank: CRank,
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CByteObject {
    pub bytes: *mut c_char,
    pub size: usize,
}

/// `pmix_regex2_t`, since 7.0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CRegex2 {
    pub r#type: *mut c_char,
    pub bytes: *mut u8,
    pub len: usize,
}

/// `pmix_envar_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CEnvar {
    pub envar: *mut c_char,
    pub value: *mut c_char,
    pub separator: c_char,
}

/// `pmix_data_array_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CDataArray {
    pub r#type: CDataType,
    pub size: usize,
    pub array: *mut c_void,
}

/// `pmix_data_buffer_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CDataBuffer {
    pub base_ptr: *mut c_char,
    pub pack_ptr: *mut c_char,
    pub unpack_ptr: *mut c_char,
    pub bytes_allocated: usize,
    pub bytes_used: usize,
}

/// `pmix_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CInfo {
    pub key: CKey,
    pub flags: CInfoDirectives,
    pub value: CValue,
}

/// `pmix_pdata_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CPdata {
    pub proc: CProc,
    pub key: CKey,
    pub value: CValue,
}

/// `pmix_proc_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CProcInfo {
    pub proc: CProc,
    pub hostname: *mut c_char,
    pub executable_name: *mut c_char,
    pub pid: libc::pid_t,
    pub exit_code: c_int,
    pub state: CProcState,
}

/// `pmix_app_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CApp {
    pub cmd: *mut c_char,
    pub argv: *mut *mut c_char,
    pub env: *mut *mut c_char,
    pub cwd: *mut c_char,
    pub maxprocs: c_int,
    pub info: *mut CInfo,
    pub ninfo: usize,
}

/// `pmix_query_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CQuery {
    pub keys: *mut *mut c_char,
    pub qualifiers: *mut CInfo,
    pub nqual: usize,
}

/// `pmix_regattr_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CRegattr {
    pub name: *mut c_char,
    pub string: CKey,
    pub r#type: CDataType,
    pub description: *mut *mut c_char,
}

/// `pmix_fabric_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFabric {
    pub name: *mut c_char,
    pub index: usize,
    pub info: *mut CInfo,
    pub ninfo: usize,
    pub module: *mut c_void,
}
