//! Families of functions that construct, destruct, create and free one C structure each
//! (`PMIx_*_construct`, `_destruct`, `_create`, `_free`). In 4.2 these are macros.
//!
//! - `construct` initializes a structure whose memory is the caller's and has no contents.
//! - `destruct` frees what the structure owns and initializes it again.
//! - `create` makes an array of constructed structures; null for none.
//! - `free` destructs the structures of an array and frees it.
//!
//! A null pointer is left alone.
use crate::{
    abi::{
        CApp, CByteObject, CCpuset, CDataBuffer, CDevice, CDeviceDistance, CDiskStats, CEndpoint,
        CEnvar, CGeometry, CInfo, CNetStats, CNodePid, CNodeStats, CPdata, CProc, CProcInfo,
        CProcStats, CQuery, CRegattr, CRegex2, CResourceUnit, CTopology, CValue,
    },
    border,
    destruct::{Destruct, free_array},
    memory,
};
use peal_model::rank;
use std::ptr;

/// A structure with initial contents.
pub(super) trait Construct: Destruct {
    /// Returns a structure with its initial contents, which own nothing.
    fn constructed() -> Self {
        Self::zeroed()
    }
}

macro_rules! construct_zeroed {
    ($($type:ty),+) => { $(impl Construct for $type {})+ };
}

construct_zeroed!(
    CApp,
    CByteObject,
    CCpuset,
    CDataBuffer,
    CDevice,
    CDiskStats,
    CEndpoint,
    CEnvar,
    CGeometry,
    CInfo,
    CNetStats,
    CNodeStats,
    CPdata,
    CProcInfo,
    CProcStats,
    CQuery,
    CRegattr,
    CRegex2,
    CResourceUnit,
    CTopology,
    CValue
);

impl Construct for CProc {
    fn constructed() -> CProc {
        CProc {
            rank: rank::PMIX_RANK_UNDEF.0,
            ..CProc::zeroed()
        }
    }
}

impl Construct for CDeviceDistance {
    fn constructed() -> CDeviceDistance {
        CDeviceDistance {
            mindist: u16::MAX,
            maxdist: u16::MAX,
            ..CDeviceDistance::zeroed()
        }
    }
}

impl Construct for CNodePid {
    fn constructed() -> CNodePid {
        CNodePid {
            nodeid: u32::MAX,
            pid: -1,
            ..CNodePid::zeroed()
        }
    }
}

/// Initializes a structure; does nothing for null.
///
/// # Safety
///
/// `at` is null or points to memory for a structure.
pub(super) unsafe fn construct_at<T: Construct>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: the caller guarantees memory for a structure.
        unsafe { at.write(T::constructed()) };
    }
}

/// Frees what a structure owns and initializes it again; does nothing for null.
///
/// # Safety
///
/// `at` is null or points to a structure as [`Destruct::destruct`] demands.
unsafe fn destruct_at<T: Construct>(at: *mut T) {
    if !at.is_null() {
        // SAFETY: the caller guarantees a structure.
        unsafe { (*at).destruct() };
    }
}

/// Makes an array of constructed structures; null for none, and if the heap has no memory left.
pub(super) fn create_array<T: Construct>(len: usize) -> *mut T {
    let first: *mut T = memory::allocate(len).unwrap_or(ptr::null_mut());
    if !first.is_null() {
        for at in 0..len {
            // SAFETY: the array has `len` structures.
            unsafe { construct_at(first.add(at)) };
        }
    }
    first
}

/// Defines the functions of families: a module for each, with their C names.
macro_rules! families {
    ($($module:ident $type:ty {
        $($function:ident $c_name:literal),+ $(,)?
    })+) => {$(
        #[doc = concat!("Functions of `", stringify!($type), "`.")]
        pub mod $module {
            use super::*;
            $(families!(@ $function $type, $c_name);)+
        }
    )+};
    (@ construct $type:ty, $c_name:literal) => {
        #[doc = concat!("`", $c_name, "`: initializes a structure.")]
        ///
        /// # Safety
        ///
        /// `at` is null or points to memory for a structure.
        #[unsafe(export_name = $c_name)]
        pub unsafe extern "C" fn construct(at: *mut $type) {
            // SAFETY: the caller guarantees what `construct_at` demands.
            border::value($c_name, (), || unsafe { construct_at(at) });
        }
    };
    (@ destruct $type:ty, $c_name:literal) => {
        #[doc = concat!("`", $c_name, "`: frees what a structure owns.")]
        ///
        /// # Safety
        ///
        /// `at` is null or points to a structure, whose pointers are null or from `malloc` and used
        /// by nothing else any more.
        #[unsafe(export_name = $c_name)]
        pub unsafe extern "C" fn destruct(at: *mut $type) {
            // SAFETY: the caller guarantees what `destruct_at` demands.
            border::value($c_name, (), || unsafe { destruct_at(at) });
        }
    };
    (@ create $type:ty, $c_name:literal) => {
        #[doc = concat!("`", $c_name, "`: makes an array; null for none, and without memory.")]
        #[unsafe(export_name = $c_name)]
        pub extern "C" fn create(len: usize) -> *mut $type {
            border::value($c_name, ptr::null_mut(), || create_array(len))
        }
    };
    (@ free $type:ty, $c_name:literal) => {
        #[doc = concat!("`", $c_name, "`: frees an array and what its structures own.")]
        ///
        /// # Safety
        ///
        /// `first` is null, or begins an array of `len` structures from `malloc`, each as the
        /// destructor demands.
        #[unsafe(export_name = $c_name)]
        pub unsafe extern "C" fn free(first: *mut $type, len: usize) {
            // SAFETY: the caller guarantees what `free_array` demands.
            border::value($c_name, (), || unsafe { free_array(first, len) });
        }
    };
    (@ release $type:ty, $c_name:literal) => {
        #[doc = concat!("`", $c_name, "`: frees one structure and what it owns.")]
        ///
        /// # Safety
        ///
        /// `at` is null, or points to a structure from `malloc`, as the destructor demands.
        #[unsafe(export_name = $c_name)]
        pub unsafe extern "C" fn release(at: *mut $type) {
            // SAFETY: the caller guarantees what `free_array` demands.
            border::value($c_name, (), || unsafe { free_array(at, 1) });
        }
    };
}

families! {
    app CApp {
        construct "PMIx_App_construct",
        destruct "PMIx_App_destruct",
        create "PMIx_App_create",
        free "PMIx_App_free",
        release "PMIx_App_release",
    }
    byte_object CByteObject {
        construct "PMIx_Byte_object_construct",
        destruct "PMIx_Byte_object_destruct",
        create "PMIx_Byte_object_create",
        free "PMIx_Byte_object_free",
    }
    cpuset CCpuset {
        construct "PMIx_Cpuset_construct",
        destruct "PMIx_Cpuset_destruct",
        create "PMIx_Cpuset_create",
        free "PMIx_Cpuset_free",
    }
    data_buffer CDataBuffer {
        construct "PMIx_Data_buffer_construct",
        destruct "PMIx_Data_buffer_destruct",
        release "PMIx_Data_buffer_release",
    }
    device CDevice {
        construct "PMIx_Device_construct",
        destruct "PMIx_Device_destruct",
        create "PMIx_Device_create",
        free "PMIx_Device_free",
    }
    device_distance CDeviceDistance {
        construct "PMIx_Device_distance_construct",
        destruct "PMIx_Device_distance_destruct",
        create "PMIx_Device_distance_create",
        free "PMIx_Device_distance_free",
    }
    disk_stats CDiskStats {
        construct "PMIx_Disk_stats_construct",
        destruct "PMIx_Disk_stats_destruct",
        create "PMIx_Disk_stats_create",
        free "PMIx_Disk_stats_free",
    }
    endpoint CEndpoint {
        construct "PMIx_Endpoint_construct",
        destruct "PMIx_Endpoint_destruct",
        create "PMIx_Endpoint_create",
        free "PMIx_Endpoint_free",
    }
    envar CEnvar {
        construct "PMIx_Envar_construct",
        destruct "PMIx_Envar_destruct",
        create "PMIx_Envar_create",
        free "PMIx_Envar_free",
    }
    geometry CGeometry {
        construct "PMIx_Geometry_construct",
        destruct "PMIx_Geometry_destruct",
        create "PMIx_Geometry_create",
        free "PMIx_Geometry_free",
    }
    info CInfo {
        construct "PMIx_Info_construct",
        destruct "PMIx_Info_destruct",
        create "PMIx_Info_create",
        free "PMIx_Info_free",
    }
    net_stats CNetStats {
        construct "PMIx_Net_stats_construct",
        destruct "PMIx_Net_stats_destruct",
        create "PMIx_Net_stats_create",
        free "PMIx_Net_stats_free",
    }
    node_pid CNodePid {
        construct "PMIx_Node_pid_construct",
        destruct "PMIx_Node_pid_destruct",
        create "PMIx_Node_pid_create",
        free "PMIx_Node_pid_free",
    }
    node_stats CNodeStats {
        construct "PMIx_Node_stats_construct",
        destruct "PMIx_Node_stats_destruct",
        create "PMIx_Node_stats_create",
        free "PMIx_Node_stats_free",
    }
    pdata CPdata {
        construct "PMIx_Pdata_construct",
        destruct "PMIx_Pdata_destruct",
        create "PMIx_Pdata_create",
        free "PMIx_Pdata_free",
    }
    proc CProc {
        construct "PMIx_Proc_construct",
        destruct "PMIx_Proc_destruct",
        create "PMIx_Proc_create",
        free "PMIx_Proc_free",
    }
    proc_info CProcInfo {
        construct "PMIx_Proc_info_construct",
        destruct "PMIx_Proc_info_destruct",
        create "PMIx_Proc_info_create",
        free "PMIx_Proc_info_free",
    }
    proc_stats CProcStats {
        construct "PMIx_Proc_stats_construct",
        destruct "PMIx_Proc_stats_destruct",
        create "PMIx_Proc_stats_create",
        free "PMIx_Proc_stats_free",
    }
    query CQuery {
        construct "PMIx_Query_construct",
        destruct "PMIx_Query_destruct",
        create "PMIx_Query_create",
        free "PMIx_Query_free",
        release "PMIx_Query_release",
    }
    regattr CRegattr {
        construct "PMIx_Regattr_construct",
        destruct "PMIx_Regattr_destruct",
        create "PMIx_Regattr_create",
        free "PMIx_Regattr_free",
    }
    regex2 CRegex2 {
        construct "PMIx_Regex2_construct",
        destruct "PMIx_Regex2_destruct",
        create "PMIx_Regex2_create",
        free "PMIx_Regex2_free",
    }
    resource_unit CResourceUnit {
        construct "PMIx_Resource_unit_construct",
        destruct "PMIx_Resource_unit_destruct",
        create "PMIx_Resource_unit_create",
        free "PMIx_Resource_unit_free",
    }
    topology CTopology {
        construct "PMIx_Topology_construct",
        destruct "PMIx_Topology_destruct",
        create "PMIx_Topology_create",
        free "PMIx_Topology_free",
    }
    value CValue {
        construct "PMIx_Value_construct",
        destruct "PMIx_Value_destruct",
        create "PMIx_Value_create",
        free "PMIx_Value_free",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;

    #[test]
    fn created_arrays_are_constructed_and_freed() {
        let before = counter::live();
        let procs = proc::create(3);
        let nodes = node_pid::create(2);
        let distances = device_distance::create(1);
        // SAFETY: the arrays were made here, with these lengths.
        unsafe {
            assert_eq!((*procs.add(2)).rank, rank::PMIX_RANK_UNDEF.0);
            assert_eq!(((*nodes).nodeid, (*nodes).pid), (u32::MAX, -1));
            assert_eq!((*distances).mindist, u16::MAX);
            proc::free(procs, 3);
            node_pid::free(nodes, 2);
            device_distance::free(distances, 1);
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn none_and_too_many_are_null_and_null_is_left_alone() {
        assert!(info::create(0).is_null() && value::create(usize::MAX).is_null());
        // SAFETY: null is allowed.
        unsafe {
            info::construct(ptr::null_mut());
            info::destruct(ptr::null_mut());
            info::free(ptr::null_mut(), 4);
            app::release(ptr::null_mut());
            query::release(ptr::null_mut());
        }
    }
}
