//! Objects of a topology: its devices, and their distances from processors.
//!
//! A distance is a number of levels. A device is below an object that has processors; the deeper the
//! object that it shares with a processor, the closer it is. If they share only the machine, the
//! distance is larger than any other one. The numbers are those of the C library.
use super::HwlocLibrary;
use peal_model::{DeviceDistance, Text, names::number};
use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    iter,
    mem::offset_of,
    ptr, slice,
};

/// `HWLOC_OBJ_PU`.
const PROCESSOR: c_int = 3;

/// `HWLOC_TYPE_DEPTH_OS_DEVICE`.
const DEVICES: c_int = -6;

/// `HWLOC_TYPE_DEPTH_NUMANODE`.
const MEMORY_NODES: c_int = -3;

/// Parts of a machine that have letters in localities: their types in hwloc.
const PARTS: [(c_int, &str); 7] = [
    (1, "SK"),
    (2, "CR"),
    (PROCESSOR, "HT"),
    (4, "L1"),
    (5, "L2"),
    (6, "L3"),
    (13, "NM"),
];

/// Name of the info of the machine that has hwloc's release.
const RELEASE: &[u8] = b"hwlocVersion";

/// Kinds of devices that have distances: their numbers in hwloc (`HWLOC_OBJ_OSDEV_GPU`, `_NETWORK`,
/// `_OPENFABRICS`) and in PMIx. Others have none in the C library.
const KINDS: [(c_int, u64); 3] = [
    (1, number::PMIX_DEVTYPE_GPU),
    (2, number::PMIX_DEVTYPE_NETWORK),
    (3, number::PMIX_DEVTYPE_OPENFABRICS),
];

/// `struct hwloc_obj` of hwloc 2.
#[repr(C)]
#[derive(Debug)]
#[allow(dead_code, reason = "members that are not read have a place, too")]
pub(super) struct Object {
    object_type: c_int,
    subtype: *const c_char,
    os_index: c_uint,
    name: *const c_char,
    total_memory: u64,
    /// Begins with the kind if the object is a device.
    attributes: *const c_int,
    depth: c_int,
    logical_index: c_uint,
    cousins: [*const Object; 2],
    parent: *const Object,
    sibling_rank: c_uint,
    siblings: [*const Object; 2],
    arity: c_uint,
    children: [*const c_void; 3],
    symmetric_subtree: c_int,
    memory_arity: c_uint,
    memory_first_child: *const Object,
    io_arity: c_uint,
    io_first_child: *const Object,
    misc_arity: c_uint,
    misc_first_child: *const Object,
    cpuset: *const c_void,
    other_sets: [*const c_void; 3],
    infos: *const ObjectInfo,
    infos_count: c_uint,
}

/// `struct hwloc_info_s`.
#[repr(C)]
#[derive(Debug)]
struct ObjectInfo {
    name: *const c_char,
    value: *const c_char,
}

// As `offsetof` says of hwloc.h.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(offset_of!(Object, name) == 24);
    assert!(offset_of!(Object, attributes) == 40);
    assert!(offset_of!(Object, depth) == 48);
    assert!(offset_of!(Object, parent) == 72);
    assert!(offset_of!(Object, cpuset) == 184);
    assert!(offset_of!(Object, infos) == 216);
    assert!(offset_of!(Object, infos_count) == 224);
};

/// Returns a string of hwloc; empty for null.
///
/// # Safety
///
/// `text` is null or a string that lives as long as the topology.
unsafe fn string<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees a string.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The members of an object are as hwloc made them: pointers are null or lead to parts of the same
/// topology, which nothing changes after it was loaded.
impl Object {
    fn name(&self) -> &[u8] {
        // SAFETY: hwloc's names are strings or null.
        unsafe { string(self.name) }
    }

    fn parent(&self) -> Option<&Object> {
        // SAFETY: the parent is an object or null.
        unsafe { self.parent.as_ref() }
    }

    /// Returns the object and all above it.
    fn ancestors(&self) -> impl Iterator<Item = &Object> {
        iter::successors(Some(self), |object| object.parent())
    }

    /// Returns the value of an info.
    fn info(&self, name: &[u8]) -> Option<&[u8]> {
        if self.infos.is_null() {
            return None;
        }
        // SAFETY: hwloc's object has as many infos.
        let infos = unsafe { slice::from_raw_parts(self.infos, self.infos_count as usize) };
        let mut infos = infos.iter();
        // SAFETY: names and values of hwloc's infos are strings or null.
        infos.find_map(|info| unsafe {
            let found = string(info.name).eq_ignore_ascii_case(name);
            found.then(|| string(info.value))
        })
    }

    /// Returns the kind of a device.
    fn kind(&self) -> Option<c_int> {
        // SAFETY: the attributes of a device begin with its kind; it may have none.
        unsafe { self.attributes.as_ref() }.copied()
    }

    /// Returns the identifier of a device in the Standard's form; `None` if hwloc does not know what
    /// it takes.
    fn uuid(&self, device_type: u64, hostname: &str) -> Option<Vec<u8>> {
        let text = match device_type {
            number::PMIX_DEVTYPE_NETWORK => {
                let address = self.info(b"Address")?;
                let scheme: &[u8] = match address.iter().filter(|byte| **byte == b':').count() {
                    5 => b"ipv4://",
                    19 => b"ipv6://",
                    _ => return None,
                };
                [scheme, address].concat()
            }
            number::PMIX_DEVTYPE_OPENFABRICS => {
                let (node, image) = (self.info(b"NodeGUID")?, self.info(b"SysImageGUID")?);
                [b"fab://", node, b"::", image].concat()
            }
            // hwloc has cards twice, by the names of the kernel and of their own library.
            _ if self.name().starts_with(b"card") => return None,
            _ => [b"gpu://", hostname.as_bytes(), b"::", self.name()].concat(),
        };
        Some(text)
    }
}

/// Distances that are asked for.
#[derive(Debug)]
pub(crate) struct DistanceQuery<'a> {
    /// Types of devices (`PMIX_DEVTYPE_*`), as bits.
    pub(crate) types: u64,
    /// Identifiers or names of devices; all if empty.
    pub(crate) ids: &'a [&'a str],
    /// Name of this node, which is part of some identifiers.
    pub(crate) hostname: &'a str,
}

impl DistanceQuery<'_> {
    fn includes(&self, uuid: &[u8], name: &[u8]) -> bool {
        self.ids.is_empty()
            || self.ids.iter().any(|id| {
                let id = id.as_bytes();
                id.eq_ignore_ascii_case(uuid) || id.eq_ignore_ascii_case(name)
            })
    }
}

impl HwlocLibrary {
    /// Returns the objects of a depth.
    ///
    /// # Safety
    ///
    /// `topology` is a loaded topology of hwloc that lives as long as the objects are used.
    unsafe fn objects(&self, topology: *mut c_void, depth: c_int) -> impl Iterator<Item = &Object> {
        // SAFETY: the caller guarantees a loaded topology.
        let count = unsafe { (self.get_nbobjs_by_depth)(topology, depth) };
        (0..count).filter_map(move |at| {
            // SAFETY: as above; hwloc returns an object of it or null.
            unsafe { (self.get_obj_by_depth)(topology, depth, at).as_ref() }
        })
    }

    /// Returns the release of hwloc that made a topology, such as `2.9.0`.
    ///
    /// # Safety
    ///
    /// `topology` is a loaded topology of hwloc.
    pub(crate) unsafe fn release(&self, topology: *mut c_void) -> Option<Vec<u8>> {
        // SAFETY: the caller guarantees a loaded topology.
        let machine = unsafe { self.objects(topology, 0) }.next()?;
        machine.info(RELEASE).map(<[u8]>::to_vec)
    }

    /// Returns where the processors of a bitmap are, such as `SK0:CR0-1:HT0-1:NM0`: the parts of the
    /// machine that have them, from the largest to the smallest, and then the memory nodes.
    ///
    /// # Safety
    ///
    /// `topology` is a loaded topology of hwloc, `cpuset` a bitmap of hwloc.
    pub(crate) unsafe fn locality(&self, topology: *mut c_void, cpuset: *const c_void) -> String {
        // SAFETY: the caller guarantees a loaded topology.
        let levels = unsafe { (self.topology_get_depth)(topology) };
        let mut parts = Vec::new();
        for depth in (1..levels).chain([MEMORY_NODES]) {
            // SAFETY: as above.
            let objects: Vec<&Object> = unsafe { self.objects(topology, depth) }.collect();
            let kind = objects.first().map(|object| object.object_type);
            let Some((_, letters)) = PARTS.iter().find(|(part, _)| Some(*part) == kind) else {
                continue;
            };
            let shared = objects.iter().filter(|object| {
                // SAFETY: both are bitmaps of hwloc.
                !object.cpuset.is_null()
                    && unsafe { (self.bitmap_intersects)(object.cpuset, cpuset) } != 0
            });
            let numbers: Vec<u32> = shared.map(|object| object.logical_index).collect();
            if !numbers.is_empty() {
                parts.push(format!("{letters}{}", ranges(&numbers)));
            }
        }
        parts.join(":")
    }

    /// Returns the distances of devices from the processors of a bitmap.
    ///
    /// # Safety
    ///
    /// `topology` is a loaded topology of hwloc, `cpuset` a bitmap of hwloc.
    pub(crate) unsafe fn distances(
        &self,
        topology: *mut c_void,
        cpuset: *const c_void,
        query: &DistanceQuery<'_>,
    ) -> Vec<DeviceDistance> {
        // SAFETY: the caller guarantees a loaded topology.
        let (levels, depth) = unsafe {
            let levels = (self.topology_get_depth)(topology);
            (levels, (self.get_type_depth)(topology, PROCESSOR))
        };
        // SAFETY: as above.
        let processors = unsafe { self.objects(topology, depth) };
        let processors: Vec<&Object> = processors
            .filter(|processor| {
                // SAFETY: both are bitmaps of hwloc.
                !processor.cpuset.is_null()
                    && unsafe { (self.bitmap_intersects)(processor.cpuset, cpuset) } != 0
            })
            .collect();
        let mut distances = Vec::new();
        let kinds = KINDS.iter().filter(|(_, bit)| query.types & bit != 0);
        for (kind, device_type) in kinds {
            // SAFETY: as above.
            let devices = unsafe { self.objects(topology, DEVICES) };
            for device in devices.filter(|device| device.kind() == Some(*kind)) {
                let Some(uuid) = device.uuid(*device_type, query.hostname) else {
                    continue;
                };
                if !query.includes(&uuid, device.name()) {
                    continue;
                }
                let (min, max) = range(&processors, device, levels);
                distances.push(DeviceDistance {
                    uuid: Some(Text::from_bytes(&uuid)),
                    osname: Some(Text::from_bytes(device.name())),
                    device_type: *device_type,
                    min,
                    max,
                });
            }
        }
        distances
    }
}

/// Returns the list form of numbers in ascending order, such as `0-3,8`.
fn ranges(numbers: &[u32]) -> String {
    let follows = |first: &u32, second: &u32| first.checked_add(1) == Some(*second);
    let parts = numbers.chunk_by(follows).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        run => run.iter().map(u32::to_string).collect(),
    });
    parts.collect::<Vec<String>>().join(",")
}

/// Returns the smallest and the largest distance of a device from processors; `u16::MAX` if they are
/// unknown.
fn range(processors: &[&Object], device: &Object, levels: c_int) -> (u16, u16) {
    let place = device.ancestors().find(|object| !object.cpuset.is_null());
    let distances = processors.iter().filter_map(|processor| {
        let shared = place?.ancestors().find(|object| {
            let mut above = processor.ancestors();
            above.any(|other| ptr::eq(other, *object))
        })?;
        let distance = match shared.depth {
            0 => processor.depth.checked_add(levels)?,
            depth => levels.checked_sub(depth)?,
        };
        u16::try_from(distance).ok()
    });
    let (mut min, mut max) = (u16::MAX, None);
    for distance in distances {
        min = min.min(distance);
        max = max.max(Some(distance));
    }
    (min, max.unwrap_or(u16::MAX))
}
