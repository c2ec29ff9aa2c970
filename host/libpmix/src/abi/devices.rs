//! C structures of devices, fabrics and the topology of a node.
#![allow(missing_docs, reason = "members have the names of the C members")]
use super::{CByteObject, CDeviceType};
use std::ffi::{c_char, c_void};

/// `pmix_coord_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CCoord {
    pub view: u8,
    pub coord: *mut u32,
    pub dims: usize,
}

/// `pmix_cpuset_t`: `bitmap` is an `hwloc_bitmap_t` if `source` begins with `hwloc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CCpuset {
    pub source: *mut c_char,
    pub bitmap: *mut c_void,
}

/// `pmix_topology_t`: `topology` is an `hwloc_topology_t` if `source` begins with `hwloc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CTopology {
    pub source: *mut c_char,
    pub topology: *mut c_void,
}

/// `pmix_geometry_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CGeometry {
    pub fabric: usize,
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub coordinates: *mut CCoord,
    pub ncoords: usize,
}

/// `pmix_device_distance_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CDeviceDistance {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub r#type: CDeviceType,
    pub mindist: u16,
    pub maxdist: u16,
}

/// `pmix_endpoint_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CEndpoint {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub endpt: CByteObject,
}

/// `pmix_device_t`, since 6.1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CDevice {
    pub uuid: *mut c_char,
    pub osname: *mut c_char,
    pub r#type: CDeviceType,
}

/// `pmix_resource_unit_t`, since 6.1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CResourceUnit {
    pub r#type: CDeviceType,
    pub count: usize,
}

/// `pmix_node_pid_t`, since 6.1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CNodePid {
    pub hostname: *mut c_char,
    pub nodeid: u32,
    pub pid: libc::pid_t,
}
