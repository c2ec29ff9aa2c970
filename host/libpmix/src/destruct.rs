//! Destructors of the C structures: what the macros `PMIX_*_DESTRUCT` of 4.2 and the functions
//! `PMIx_*_destruct` since 5.0 free. Freed pointers are cleared, so that a second call does nothing.
use crate::{
    abi::{
        CApp, CByteObject, CCoord, CCpuset, CDataArray, CDataBuffer, CDevice, CDeviceDistance,
        CDiskStats, CEndpoint, CEnvar, CFabric, CGeometry, CInfo, CNetStats, CNodePid, CNodeStats,
        CPdata, CProc, CProcInfo, CProcStats, CQuery, CRegattr, CRegex2, CResourceUnit, CTopology,
        CValue,
    },
    convert::element::{self, Storage},
    hwloc, memory,
};
use peal_model::{DataType, InfoFlags, data_type as dt, number};
use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// Flag of an info whose value its owner keeps (`PMIX_INFO_PERSISTENT`).
pub(crate) const PERSISTENT: InfoFlags = InfoFlags(number::PMIX_INFO_PERSISTENT as u32);

/// A C structure that may own memory of the C heap.
///
/// # Safety
///
/// Zeroed memory is a valid value of the type, and one that owns nothing.
pub unsafe trait Destruct: Copy {
    /// Frees all that the structure owns, and clears its pointers; not the structure itself.
    ///
    /// # Safety
    ///
    /// Each pointer is null or from `malloc`, has as many elements as the structure says, and is
    /// used by nothing else any more.
    unsafe fn destruct(&mut self);

    /// Returns a structure that owns nothing.
    fn zeroed() -> Self {
        // SAFETY: implementors guarantee that zeroed memory is a valid value.
        unsafe { std::mem::zeroed() }
    }
}

/// Destructs the structures of an array, and frees the array (`PMIX_*_FREE`). Does nothing for null.
///
/// # Safety
///
/// `first` is null or begins an array of `len` structures from `malloc`, each as
/// [`Destruct::destruct`] demands, and is used by nothing else any more.
pub unsafe fn free_array<T: Destruct>(first: *mut T, len: usize) {
    if first.is_null() {
        return;
    }
    for at in 0..len {
        // SAFETY: `at` is below `len`, and the caller guarantees the rest.
        unsafe { (*first.add(at)).destruct() };
    }
    // SAFETY: the caller guarantees that the array came from `malloc`.
    unsafe { memory::free(first) };
}

/// Frees the strings of a list that ends with a null pointer, and the list (`PMIx_Argv_free`). Does
/// nothing for null.
///
/// # Safety
///
/// `argv` is null, or a list that ends with a null pointer; it and its strings are from `malloc` and
/// used by nothing else any more.
pub unsafe fn free_argv(argv: *mut *mut c_char) {
    if argv.is_null() {
        return;
    }
    let mut at = argv;
    // SAFETY: the caller guarantees that a null pointer ends the list, and the origin of the rest.
    unsafe {
        while !(*at).is_null() {
            memory::free(*at);
            at = at.add(1);
        }
        memory::free(argv);
    }
}

/// Frees the target of a pointer, and clears the pointer.
///
/// # Safety
///
/// As [`memory::free`].
unsafe fn clear<T>(pointer: &mut *mut T) {
    // SAFETY: the caller guarantees what `memory::free` demands.
    unsafe { memory::free(ptr::replace(pointer, ptr::null_mut())) };
}

/// Frees an array of structures, and clears its pointer and length.
///
/// # Safety
///
/// As [`free_array`].
unsafe fn clear_array<T: Destruct>(first: &mut *mut T, len: &mut usize) {
    // SAFETY: the caller guarantees what `free_array` demands.
    unsafe { free_array(ptr::replace(first, ptr::null_mut()), *len) };
    *len = 0;
}

/// Frees a list of strings, and clears its pointer.
///
/// # Safety
///
/// As [`free_argv`].
unsafe fn clear_argv(argv: &mut *mut *mut c_char) {
    // SAFETY: the caller guarantees what `free_argv` demands.
    unsafe { free_argv(ptr::replace(argv, ptr::null_mut())) };
}

/// Implements the destructor of a structure by the ways in which its members are freed: a plain
/// pointer, a structure, an array with its length, a list of strings.
macro_rules! destructors {
    (@ pointer $self:ident $member:ident) => { clear(&mut $self.$member) };
    (@ inner $self:ident $member:ident) => { $self.$member.destruct() };
    (@ array $self:ident $member:ident $len:ident) => { clear_array(&mut $self.$member, &mut $self.$len) };
    (@ argv $self:ident $member:ident) => { clear_argv(&mut $self.$member) };
    ($($type:ty { $($way:ident ($($member:ident),+)),* })+) => {$(
        // SAFETY: members are numbers, pointers, and structures and unions of these, for which zero
        // is valid.
        unsafe impl Destruct for $type {
            #[allow(unused_unsafe, reason = "some structures own nothing")]
            unsafe fn destruct(&mut self) {
                // SAFETY: the caller guarantees what `Destruct` demands of all members.
                unsafe { $(destructors!(@ $way self $($member)+);)* }
            }
        }
    )+};
}

destructors! {
    u32 {}
    i32 {}
    CProc {}
    CResourceUnit {}
    CEnvar { pointer(envar), pointer(value) }
    CPdata { inner(value) }
    CProcInfo { pointer(hostname), pointer(executable_name) }
    CApp { pointer(cmd), argv(argv), argv(env), pointer(cwd), array(info, ninfo) }
    CQuery { argv(keys), array(qualifiers, nqual) }
    CRegattr { pointer(name), argv(description) }
    CRegex2 { pointer(r#type), pointer(bytes) }
    CFabric { pointer(name), array(info, ninfo) }
    CCoord { array(coord, dims) }
    CGeometry { pointer(uuid), pointer(osname), array(coordinates, ncoords) }
    CDeviceDistance { pointer(uuid), pointer(osname) }
    CEndpoint { pointer(uuid), pointer(osname), inner(endpt) }
    CDevice { pointer(uuid), pointer(osname) }
    CNodePid { pointer(hostname) }
    CProcStats { pointer(node), pointer(cmd) }
    CDiskStats { pointer(disk) }
    CNetStats { pointer(net_interface) }
    CNodeStats { pointer(node), array(diskstats, ndiskstats), array(netstats, nnetstats) }
}

// SAFETY: zero is valid for a pointer and a length.
unsafe impl Destruct for CByteObject {
    unsafe fn destruct(&mut self) {
        // SAFETY: the caller guarantees that `bytes` may be freed.
        unsafe { clear(&mut self.bytes) };
        self.size = 0;
    }
}

// SAFETY: zero is valid for pointers and lengths.
unsafe impl Destruct for CDataBuffer {
    unsafe fn destruct(&mut self) {
        // SAFETY: the caller guarantees that `base_ptr` may be freed; the others point into it.
        unsafe { memory::free(self.base_ptr) };
        *self = CDataBuffer::zeroed();
    }
}

// SAFETY: zero is valid for a key, a number and a value.
unsafe impl Destruct for CInfo {
    unsafe fn destruct(&mut self) {
        if !InfoFlags(self.flags).contains(PERSISTENT) {
            // SAFETY: the caller guarantees what `Destruct` demands, also of the value.
            unsafe { self.value.destruct() };
        }
    }
}

// SAFETY: zero is valid for pointers.
unsafe impl Destruct for CCpuset {
    unsafe fn destruct(&mut self) {
        // SAFETY: the caller guarantees that `source` is a string or null.
        if !unsafe { hwloc::is_source(self.source) } {
            return;
        }
        if let Some(hwloc) = hwloc::library() {
            // SAFETY: the source says that the bitmap is hwloc's or null.
            unsafe { hwloc.free_bitmap(self.bitmap) };
        }
        self.bitmap = ptr::null_mut();
        // SAFETY: the caller guarantees that `source` may be freed.
        unsafe { clear(&mut self.source) };
    }
}

// SAFETY: zero is valid for pointers.
unsafe impl Destruct for CTopology {
    unsafe fn destruct(&mut self) {
        // SAFETY: the caller guarantees that `source` is a string or null.
        if !unsafe { hwloc::is_source(self.source) } {
            return;
        }
        if let Some(hwloc) = hwloc::library() {
            // SAFETY: the source says that the topology is hwloc's or null.
            unsafe { hwloc.free_topology(self.topology) };
        }
        self.topology = ptr::null_mut();
        // SAFETY: the caller guarantees that `source` may be freed.
        unsafe { clear(&mut self.source) };
    }
}

// SAFETY: zero is valid for the numbers and pointers of the union, and zero is the type of no value.
unsafe impl Destruct for CValue {
    unsafe fn destruct(&mut self) {
        let data_type = DataType(self.r#type);
        match element::layout(data_type).map(|layout| layout.storage) {
            Some(Storage::Inline) => {
                // SAFETY: the type says that the union is an element of it.
                unsafe { destruct_element(data_type, (&raw mut self.data).cast()) };
            }
            Some(Storage::Pointer) => {
                // SAFETY: the type says that the union is a pointer.
                let pointer = unsafe { self.data.ptr };
                // SAFETY: the pointer is null or points to an element of the type.
                if !pointer.is_null() && unsafe { is_owned(data_type, pointer) } {
                    // SAFETY: as above, and the caller guarantees that it may be freed.
                    unsafe {
                        destruct_element(data_type, pointer);
                        memory::free(pointer);
                    }
                }
            }
            Some(Storage::ArrayOnly) | None => {}
        }
        *self = CValue::zeroed();
    }
}

/// Returns true if a value owns the structure that it points to. Before its initialization the C
/// library stores the caller's own pointer to a cpuset or topology that is not hwloc's, and never
/// frees that.
///
/// # Safety
///
/// `at` points to a structure of the data type.
unsafe fn is_owned(data_type: DataType, at: *mut c_void) -> bool {
    match data_type {
        // SAFETY: the caller guarantees the type; both structures begin with their source.
        dt::PMIX_PROC_CPUSET | dt::PMIX_TOPO => unsafe {
            hwloc::is_source(*at.cast::<*mut c_char>())
        },
        _ => true,
    }
}

// SAFETY: zero is valid for numbers and a pointer.
unsafe impl Destruct for CDataArray {
    unsafe fn destruct(&mut self) {
        let data_type = DataType(self.r#type);
        if !self.array.is_null() {
            if let Some(layout) = element::layout(data_type) {
                for at in 0..self.size {
                    // SAFETY: the caller guarantees `size` elements of the type.
                    unsafe { destruct_element(data_type, self.array.byte_add(at * layout.size)) };
                }
            }
            // SAFETY: the caller guarantees that the array may be freed.
            unsafe { memory::free(self.array) };
        }
        *self = CDataArray::zeroed();
    }
}

/// Frees all that an element of a data type owns.
///
/// # Safety
///
/// `at` points to an element of the data type, as it lies in an array, and is as
/// [`Destruct::destruct`] demands.
pub(crate) unsafe fn destruct_element(data_type: DataType, at: *mut c_void) {
    macro_rules! destruct {
        ($type:ty) => {
            // SAFETY: the caller guarantees that an element of the data type, which is this C type,
            // is there.
            unsafe { (*at.cast::<$type>()).destruct() }
        };
    }
    match data_type {
        // SAFETY: the caller guarantees that a pointer to a string is there.
        dt::PMIX_STRING => unsafe { clear(&mut *at.cast::<*mut c_char>()) },
        dt::PMIX_VALUE => destruct!(CValue),
        dt::PMIX_APP => destruct!(CApp),
        dt::PMIX_INFO => destruct!(CInfo),
        dt::PMIX_PDATA => destruct!(CPdata),
        dt::PMIX_BYTE_OBJECT
        | DataType::COMPRESSED_STRING
        | dt::PMIX_COMPRESSED_BYTE_OBJECT
        | element::REGEX => destruct!(CByteObject),
        dt::PMIX_PROC_INFO => destruct!(CProcInfo),
        dt::PMIX_DATA_ARRAY => destruct!(CDataArray),
        dt::PMIX_QUERY => destruct!(CQuery),
        dt::PMIX_ENVAR => destruct!(CEnvar),
        dt::PMIX_COORD => destruct!(CCoord),
        dt::PMIX_REGATTR => destruct!(CRegattr),
        dt::PMIX_PROC_CPUSET => destruct!(CCpuset),
        dt::PMIX_GEOMETRY => destruct!(CGeometry),
        dt::PMIX_DEVICE_DIST => destruct!(CDeviceDistance),
        dt::PMIX_ENDPOINT => destruct!(CEndpoint),
        dt::PMIX_TOPO => destruct!(CTopology),
        element::PROC_STATS => destruct!(CProcStats),
        DataType::DISK_STATS => destruct!(CDiskStats),
        DataType::NET_STATS => destruct!(CNetStats),
        DataType::NODE_STATS => destruct!(CNodeStats),
        dt::PMIX_DATA_BUFFER => destruct!(CDataBuffer),
        dt::PMIX_DEVICE => destruct!(CDevice),
        dt::PMIX_NODE_PID => destruct!(CNodePid),
        dt::PMIX_REGEX2 => destruct!(CRegex2),
        // The others are numbers, or structures of numbers.
        _ => {}
    }
}
