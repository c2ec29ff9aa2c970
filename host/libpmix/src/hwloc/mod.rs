//! hwloc's library, loaded when a cpuset or topology is first needed. Without it these two types are
//! not supported; all others are.
mod objects;

pub(crate) use objects::DistanceQuery;

use crate::{convert::ConvertError, memory};
use objects::Object;
use peal_model::{Bytes, Text};
use std::{
    ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulong, c_void},
    mem, ptr, slice,
    sync::{
        OnceLock,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Name of the library of hwloc 2, of which the C library uses the same.
const LIBRARY: &CStr = c"libhwloc.so.15";

/// Source that the C library gives to cpusets and topologies that it makes.
const SOURCE: &[u8] = b"hwloc";

/// Sizes of the support structures that a message has: discovery, binding of processors, binding of
/// memory. They are those of hwloc 2.4 to 2.10.
const SUPPORT: [usize; 3] = [6, 11, 15];

/// `HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED` and `HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM`, which the C
/// library sets for a topology that it received.
const RECEIVED: c_ulong = 1 | 2;

/// `HWLOC_TYPE_FILTER_KEEP_IMPORTANT`.
const KEEP_IMPORTANT: c_int = 3;

/// `HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST`.
const BLACKLIST: c_ulong = 1;

/// Topology of this machine, which [`HwlocLibrary::local_topology`] shares. A pointer and no lock:
/// the child of a fork finds it empty or ready.
static LOCAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Scope of a binding: `HWLOC_CPUBIND_PROCESS` and `HWLOC_CPUBIND_THREAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum BindingOwner {
    /// The process: all that its threads may use.
    Process = 1,
    /// The calling thread.
    Thread = 2,
}

/// `struct hwloc_topology_support`, as far as it is used.
#[repr(C)]
struct Support {
    parts: [*mut c_uchar; 3],
}

/// Functions of hwloc's library.
#[derive(Debug)]
pub(crate) struct HwlocLibrary {
    bitmap_alloc: unsafe extern "C" fn() -> *mut c_void,
    bitmap_dup: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    bitmap_free: unsafe extern "C" fn(*mut c_void),
    bitmap_list_asprintf: unsafe extern "C" fn(*mut *mut c_char, *const c_void) -> c_int,
    bitmap_list_sscanf: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    bitmap_intersects: unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
    get_cpubind: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int,
    get_type_depth: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    get_nbobjs_by_depth: unsafe extern "C" fn(*mut c_void, c_int) -> c_uint,
    get_obj_by_depth: unsafe extern "C" fn(*mut c_void, c_int, c_uint) -> *const Object,
    topology_init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    topology_dup: unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> c_int,
    topology_destroy: unsafe extern "C" fn(*mut c_void),
    topology_load: unsafe extern "C" fn(*mut c_void) -> c_int,
    topology_get_depth: unsafe extern "C" fn(*mut c_void) -> c_int,
    topology_set_components: unsafe extern "C" fn(*mut c_void, c_ulong, *const c_char) -> c_int,
    topology_set_flags: unsafe extern "C" fn(*mut c_void, c_ulong) -> c_int,
    topology_set_io_types_filter: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    topology_set_xmlbuffer: unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> c_int,
    topology_export_xmlbuffer:
        unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *mut c_int, c_ulong) -> c_int,
    free_xmlbuffer: unsafe extern "C" fn(*mut c_void, *mut c_char),
    topology_get_support: unsafe extern "C" fn(*mut c_void) -> *const Support,
}

/// Returns hwloc's library, or `None` if this machine has none.
pub(crate) fn library() -> Option<&'static HwlocLibrary> {
    static LOADED: OnceLock<Option<HwlocLibrary>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref()
}

#[allow(
    clippy::missing_transmute_annotations,
    reason = "the members have the types"
)]
fn load() -> Option<HwlocLibrary> {
    // SAFETY: the name is a string. The initializers of hwloc's library have no conditions.
    let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        tracing::debug!(library = ?LIBRARY, "hwloc not loaded; cpusets and topologies not supported");
        return None;
    }
    macro_rules! functions {
        ($($member:ident),+) => {
            HwlocLibrary { $($member: {
                let name = concat!("hwloc_", stringify!($member), "\0");
                // SAFETY: the handle is open, and stays open; the name ends with a NUL.
                let function = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                if function.is_null() {
                    return None;
                }
                // SAFETY: hwloc.h declares the function of that name with the type of the member.
                unsafe { mem::transmute(function) }
            }),+ }
        };
    }
    Some(functions!(
        bitmap_alloc,
        bitmap_dup,
        bitmap_free,
        bitmap_list_asprintf,
        bitmap_list_sscanf,
        bitmap_intersects,
        get_cpubind,
        get_type_depth,
        get_nbobjs_by_depth,
        get_obj_by_depth,
        topology_init,
        topology_dup,
        topology_destroy,
        topology_load,
        topology_get_depth,
        topology_set_components,
        topology_set_flags,
        topology_set_io_types_filter,
        topology_set_xmlbuffer,
        topology_export_xmlbuffer,
        free_xmlbuffer,
        topology_get_support
    ))
}

/// Returns true if the source of a cpuset or topology is hwloc (`hwloc`, `hwloc:2.9`).
///
/// # Safety
///
/// `source` is null or points to a string that ends with a NUL.
pub(crate) unsafe fn is_source(source: *const c_char) -> bool {
    if source.is_null() {
        return false;
    }
    // SAFETY: the caller guarantees a string.
    let source = unsafe { CStr::from_ptr(source) }.to_bytes();
    source
        .get(..SOURCE.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(SOURCE))
}

/// Returns a copy of the source of hwloc, in the C heap.
pub(crate) fn source() -> Result<*mut c_char, ConvertError> {
    memory::copy_string(SOURCE)
}

impl HwlocLibrary {
    /// Frees a bitmap; null is allowed.
    ///
    /// # Safety
    ///
    /// `bitmap` is null or a bitmap of hwloc that is used by nothing else any more.
    pub(crate) unsafe fn free_bitmap(&self, bitmap: *mut c_void) {
        // SAFETY: the caller guarantees a bitmap or null, which hwloc accepts.
        unsafe { (self.bitmap_free)(bitmap) };
    }

    /// Frees a topology. Null, and the topology that [`HwlocLibrary::local_topology`] shares, are left
    /// alone.
    ///
    /// # Safety
    ///
    /// `topology` is null, the shared one, or a topology of hwloc that is used by nothing else any
    /// more.
    pub(crate) unsafe fn free_topology(&self, topology: *mut c_void) {
        if !topology.is_null() && topology != LOCAL.load(Ordering::Acquire) {
            // SAFETY: the caller guarantees a topology.
            unsafe { (self.topology_destroy)(topology) };
        }
    }

    /// Copies a bitmap; null for null.
    ///
    /// # Safety
    ///
    /// `bitmap` is null or a bitmap of hwloc.
    pub(crate) unsafe fn copy_bitmap(
        &self,
        bitmap: *const c_void,
    ) -> Result<*mut c_void, ConvertError> {
        if bitmap.is_null() {
            return Ok(ptr::null_mut());
        }
        // SAFETY: the caller guarantees a bitmap.
        let copy = unsafe { (self.bitmap_dup)(bitmap) };
        if copy.is_null() {
            return Err(ConvertError::Hwloc { what: "cpuset" });
        }
        Ok(copy)
    }

    /// Copies a topology; null for null.
    ///
    /// # Safety
    ///
    /// `topology` is null or a loaded topology of hwloc.
    pub(crate) unsafe fn copy_topology(
        &self,
        topology: *mut c_void,
    ) -> Result<*mut c_void, ConvertError> {
        if topology.is_null() {
            return Ok(ptr::null_mut());
        }
        let mut copy = ptr::null_mut();
        // SAFETY: the caller guarantees a topology; hwloc writes another one to the pointer.
        if unsafe { (self.topology_dup)(&mut copy, topology) } != 0 {
            return Err(ConvertError::Hwloc { what: "topology" });
        }
        Ok(copy)
    }

    /// Returns the list form of a bitmap, such as `0-3,8`.
    ///
    /// # Safety
    ///
    /// `bitmap` is a bitmap of hwloc.
    pub(crate) unsafe fn bitmap_text(&self, bitmap: *const c_void) -> Result<Text, ConvertError> {
        let mut text = ptr::null_mut();
        // SAFETY: the caller guarantees a bitmap.
        let len = unsafe { (self.bitmap_list_asprintf)(&mut text, bitmap) };
        if len < 0 || text.is_null() {
            return Err(ConvertError::Hwloc { what: "cpuset" });
        }
        // SAFETY: hwloc wrote a string, which the caller of it frees with `free`.
        unsafe {
            let list = Text::from_bytes(CStr::from_ptr(text).to_bytes());
            libc::free(text.cast());
            Ok(list)
        }
    }

    /// Makes a bitmap of its list form.
    pub(crate) fn bitmap(&self, list: &CStr) -> Result<*mut c_void, ConvertError> {
        // SAFETY: the function has no conditions.
        let bitmap = unsafe { (self.bitmap_alloc)() };
        // SAFETY: the bitmap is not null, and `list` is a string.
        if bitmap.is_null() || unsafe { (self.bitmap_list_sscanf)(bitmap, list.as_ptr()) } != 0 {
            // SAFETY: the bitmap was made here.
            unsafe { self.free_bitmap(bitmap) };
            return Err(ConvertError::Hwloc { what: "cpuset" });
        }
        Ok(bitmap)
    }

    /// Returns the topology of this machine. It is loaded once, shared by all callers, and lives as
    /// long as the process.
    pub(crate) fn local_topology(&self) -> Result<*mut c_void, ConvertError> {
        let known = LOCAL.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let loaded = self.discover()?;
        let empty = ptr::null_mut();
        match LOCAL.compare_exchange(empty, loaded, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(loaded),
            Err(first) => {
                // SAFETY: the topology was loaded here, and another thread was first to share one.
                unsafe { self.free_topology(loaded) };
                Ok(first)
            }
        }
    }

    /// Loads the topology of this machine, with devices as the C library asks for them.
    fn discover(&self) -> Result<*mut c_void, ConvertError> {
        let mut topology = ptr::null_mut();
        // SAFETY: hwloc writes a topology to the pointer.
        if unsafe { (self.topology_init)(&mut topology) } != 0 {
            return Err(ConvertError::Hwloc { what: "topology" });
        }
        // SAFETY: the topology is new, and the name is a string. Component `gl` connects to an X
        // server, so the C library does without; that fails where hwloc has no such component.
        let loaded = unsafe {
            (self.topology_set_components)(topology, BLACKLIST, c"gl".as_ptr());
            (self.topology_set_io_types_filter)(topology, KEEP_IMPORTANT) == 0
                && (self.topology_load)(topology) == 0
        };
        if !loaded {
            // SAFETY: the topology was made here.
            unsafe { self.free_topology(topology) };
            return Err(ConvertError::Hwloc { what: "topology" });
        }
        Ok(topology)
    }

    /// Returns the processors that the process or the calling thread may use, as a new bitmap;
    /// `None` if the system does not tell them.
    pub(crate) fn binding(&self, owner: BindingOwner) -> Result<Option<*mut c_void>, ConvertError> {
        let topology = self.local_topology()?;
        // SAFETY: the function has no conditions.
        let bitmap = unsafe { (self.bitmap_alloc)() };
        if bitmap.is_null() {
            return Err(ConvertError::Hwloc { what: "cpuset" });
        }
        // SAFETY: the topology is loaded, and the bitmap is new.
        if unsafe { (self.get_cpubind)(topology, bitmap, owner as c_int) } != 0 {
            // SAFETY: the bitmap was made here.
            unsafe { self.free_bitmap(bitmap) };
            return Ok(None);
        }
        Ok(Some(bitmap))
    }

    /// Returns a topology as XML, and its support structures, which the XML has not.
    ///
    /// # Safety
    ///
    /// `topology` is a loaded topology of hwloc.
    pub(crate) unsafe fn topology_xml(
        &self,
        topology: *mut c_void,
    ) -> Result<(Text, Bytes), ConvertError> {
        let (mut xml, mut len) = (ptr::null_mut(), 0);
        // SAFETY: the caller guarantees a loaded topology.
        let done = unsafe { (self.topology_export_xmlbuffer)(topology, &mut xml, &mut len, 0) };
        if done != 0 || xml.is_null() {
            return Err(ConvertError::Hwloc { what: "topology" });
        }
        // SAFETY: hwloc wrote a string, which it frees itself.
        let text = unsafe {
            let text = Text::from_bytes(CStr::from_ptr(xml).to_bytes());
            (self.free_xmlbuffer)(topology, xml);
            text
        };
        let mut support = Vec::new();
        // SAFETY: a loaded topology has support structures of at least these sizes.
        unsafe {
            let parts = (*(self.topology_get_support)(topology)).parts;
            for (part, size) in parts.into_iter().zip(SUPPORT) {
                support.extend_from_slice(slice::from_raw_parts(part, size));
            }
        }
        Ok((text, Bytes::from(support)))
    }

    /// Makes a topology of XML and its support structures.
    pub(crate) fn topology(
        &self,
        xml: &Text,
        support: &Bytes,
    ) -> Result<*mut c_void, ConvertError> {
        let failed = ConvertError::Hwloc { what: "topology" };
        let mut bytes = xml.as_bytes().to_vec();
        // hwloc 2 counts the NUL.
        bytes.push(0);
        let len = c_int::try_from(bytes.len()).map_err(|_| failed.clone())?;
        let support = support.as_slice();
        if support.len() != SUPPORT.iter().sum::<usize>() {
            return Err(failed);
        }
        let mut topology = ptr::null_mut();
        // SAFETY: hwloc writes a topology to the pointer.
        if unsafe { (self.topology_init)(&mut topology) } != 0 {
            return Err(failed);
        }
        // SAFETY: the topology is new; the XML has `len` bytes and ends with a NUL.
        let loaded = unsafe {
            (self.topology_set_xmlbuffer)(topology, bytes.as_ptr().cast(), len) == 0
                && (self.topology_set_io_types_filter)(topology, KEEP_IMPORTANT) == 0
                && (self.topology_set_flags)(topology, RECEIVED) == 0
                && (self.topology_load)(topology) == 0
        };
        if !loaded {
            // SAFETY: the topology was made here.
            unsafe { self.free_topology(topology) };
            return Err(failed);
        }
        let mut rest = support;
        // SAFETY: a loaded topology has support structures of these sizes, which belong to it. The C
        // library writes to them, too: hwloc has no function for it.
        unsafe {
            let parts = (*(self.topology_get_support)(topology)).parts;
            for (part, size) in parts.into_iter().zip(SUPPORT) {
                let (these, others) = rest.split_at(size);
                part.copy_from_nonoverlapping(these.as_ptr(), size);
                rest = others;
            }
        }
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_hwloc_with_or_without_version() {
        // SAFETY: the arguments are strings or null.
        unsafe {
            assert!(is_source(c"hwloc".as_ptr()) && is_source(c"HWLOC:2.9".as_ptr()));
            assert!(!is_source(c"hwlo".as_ptr()) && !is_source(ptr::null()));
        }
    }
}
