//! The C library, loaded beside this one.
use crate::abi::{CDataBuffer, CInfo, CProc, CStatus, CValue};
use std::{
    ffi::{CString, c_char, c_int, c_uint, c_void},
    mem,
    process::Command,
    ptr,
    sync::OnceLock,
};

/// Defines the functions of the C library that the tests call.
macro_rules! functions {
    ($($name:ident $c_name:literal: $type:ty;)+) => {
        /// Functions of the C library.
        #[allow(missing_docs, reason = "members have the names of the functions")]
        pub(super) struct StockLibrary { $(pub $name: $type),+ }

        /// Looks the functions up.
        ///
        /// # Safety
        ///
        /// `handle` is that of the C library.
        #[allow(clippy::missing_transmute_annotations, reason = "the members have the types")]
        unsafe fn look_up(handle: *mut c_void) -> StockLibrary {
            StockLibrary { $($name: {
                let name = concat!($c_name, "\0");
                // SAFETY: the handle is open, the name is a string, and the headers of the C library
                // declare the function with this type.
                unsafe {
                    let function = libc::dlsym(handle, name.as_ptr().cast());
                    assert!(!function.is_null(), "{} is missing", $c_name);
                    mem::transmute(function)
                }
            }),+ }
        }
    };
}

type TextOf<T> = unsafe extern "C" fn(T) -> *const c_char;
type Generate = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> CStatus;

functions! {
    init "PMIx_Init": unsafe extern "C" fn(*mut CProc, *mut CInfo, usize) -> CStatus;
    error_string "PMIx_Error_string": TextOf<c_int>;
    proc_state_string "PMIx_Proc_state_string": TextOf<u8>;
    job_state_string "PMIx_Job_state_string": TextOf<u8>;
    scope_string "PMIx_Scope_string": TextOf<u8>;
    persistence_string "PMIx_Persistence_string": TextOf<u8>;
    data_range_string "PMIx_Data_range_string": TextOf<u8>;
    alloc_directive_string "PMIx_Alloc_directive_string": TextOf<u8>;
    link_state_string "PMIx_Link_state_string": TextOf<u8>;
    data_type_string "PMIx_Data_type_string": TextOf<u16>;
    iof_channel_string "PMIx_IOF_channel_string": TextOf<u16>;
    device_type_string "PMIx_Device_type_string": TextOf<u64>;
    value_comparison_string "PMIx_Value_comparison_string": TextOf<c_uint>;
    info_directives_string "PMIx_Info_directives_string":
        unsafe extern "C" fn(u32) -> *mut c_char;
    get_attribute_name "PMIx_Get_attribute_name": TextOf<*const c_char>;
    get_attribute_string "PMIx_Get_attribute_string": TextOf<*const c_char>;
    value_string "PMIx_Value_string": unsafe extern "C" fn(*const CValue) -> *mut c_char;
    info_string "PMIx_Info_string": unsafe extern "C" fn(*const CInfo) -> *mut c_char;
    value_compare "PMIx_Value_compare": unsafe extern "C" fn(*const CValue, *const CValue) -> c_uint;
    data_pack "PMIx_Data_pack":
        unsafe extern "C" fn(*const CProc, *mut CDataBuffer, *const c_void, i32, u16) -> CStatus;
    data_unpack "PMIx_Data_unpack":
        unsafe extern "C" fn(*const CProc, *mut CDataBuffer, *mut c_void, *mut i32, u16) -> CStatus;
    data_decompress "PMIx_Data_decompress":
        unsafe extern "C" fn(*const u8, usize, *mut *mut u8, *mut usize) -> bool;
    generate_regex "PMIx_generate_regex": Generate;
    generate_ppn "PMIx_generate_ppn": Generate;
}

/// Returns the path of the C library.
fn path() -> CString {
    let mut command = Command::new("pkg-config");
    let output = command
        .args(["--variable=libdir", "pmix"])
        .output()
        .unwrap();
    let dir = String::from_utf8(output.stdout).unwrap();
    CString::new(format!("{}/libpmix.so.2", dir.trim())).unwrap()
}

/// Returns the C library, initialized. Without a server its initialization fails, but what it needs
/// to pack is there then.
pub(super) fn stock() -> &'static StockLibrary {
    static LOADED: OnceLock<StockLibrary> = OnceLock::new();
    LOADED.get_or_init(|| {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
        // SAFETY: the path is a string. By its own scope the library calls its own functions, not
        // those of the same names here. The proc has room for what is written.
        unsafe {
            let handle = libc::dlopen(path().as_ptr(), flags);
            assert!(!handle.is_null(), "{:?} is missing", path());
            let library = look_up(handle);
            let mut proc: CProc = mem::zeroed();
            (library.init)(&mut proc, ptr::null_mut(), 0);
            library
        }
    })
}
