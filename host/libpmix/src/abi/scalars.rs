//! C types that are numbers, and the two arrays of characters.
use peal_model::{Key, Nspace};
use std::ffi::{c_char, c_int, c_uint};

/// `bool`, as a byte: zero is false, every other number is true.
pub type CBool = u8;
/// `pmix_status_t`.
pub type CStatus = c_int;
/// `pmix_rank_t`.
pub type CRank = u32;
/// `pmix_data_type_t`.
pub type CDataType = u16;
/// `pmix_scope_t`.
pub type CScope = u8;
/// `pmix_data_range_t`.
pub type CDataRange = u8;
/// `pmix_persistence_t`.
pub type CPersistence = u8;
/// `pmix_info_directives_t`.
pub type CInfoDirectives = u32;
/// `pmix_alloc_directive_t`.
pub type CAllocDirective = u8;
/// `pmix_resource_block_directive_t`, since 6.1.
pub type CResourceBlockDirective = u8;
/// `pmix_iof_channel_t`.
pub type CIofChannel = u16;
/// `pmix_proc_state_t`.
pub type CProcState = u8;
/// `pmix_job_state_t`.
pub type CJobState = u8;
/// `pmix_link_state_t`.
pub type CLinkState = u8;
/// `pmix_locality_t`.
pub type CLocality = u16;
/// `pmix_device_type_t`.
pub type CDeviceType = u64;
/// `pmix_bind_envelope_t`.
pub type CBindEnvelope = u8;
/// `pmix_value_cmp_t`.
pub type CValueComparison = c_uint;
/// `pmix_group_opt_t`: 0 declines, 1 accepts.
pub type CGroupOption = c_uint;
/// `pmix_group_operation_t`: 0 constructs, 1 destructs.
pub type CGroupOperation = c_uint;
/// `pmix_fabric_operation_t`: 0 requests information, 1 updates it.
pub type CFabricOperation = c_uint;
/// `struct timeval`.
pub type CTimeval = libc::timeval;

/// Size of a key in bytes, with its NUL.
pub const KEY_SIZE: usize = Key::MAX + 1;
/// Size of a namespace in bytes, with its NUL.
pub const NSPACE_SIZE: usize = Nspace::MAX + 1;

/// `pmix_key_t`.
pub type CKey = [c_char; KEY_SIZE];
/// `pmix_nspace_t`.
pub type CNspace = [c_char; NSPACE_SIZE];
