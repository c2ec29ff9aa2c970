//! Copies of structures, member by member.
use super::{Duplicate, copy_text};
use crate::{
    abi::{
        CApp, CByteObject, CCoord, CCpuset, CDataBuffer, CDevice, CDeviceDistance, CDiskStats,
        CEndpoint, CEnvar, CGeometry, CInfo, CNetStats, CNodePid, CNodeStats, CPdata, CProc,
        CProcInfo, CProcStats, CQuery, CRegattr, CRegex2, CResourceUnit, CTopology, CValue,
    },
    convert::{ConvertError, ReadBounds},
    destruct::{Destruct, PERSISTENT},
    hwloc, memory,
};
use peal_model::InfoFlags;
use std::{ffi::c_char, mem, ptr, slice};

/// Copies the strings of a list that ends with a null pointer into a list at `target`, which has
/// the strings copied so far after an error. Null for null.
///
/// # Safety
///
/// `argv` is null, or a list of strings that ends with a null pointer.
unsafe fn copy_argv(
    argv: *const *mut c_char,
    target: &mut *mut *mut c_char,
) -> Result<(), ConvertError> {
    if argv.is_null() {
        return Ok(());
    }
    let mut len = 0;
    // SAFETY: the caller guarantees a null pointer at the end, and this loop stops there.
    while !unsafe { *argv.add(len) }.is_null() {
        len += 1;
    }
    *target = memory::allocate(len + 1)?;
    for at in 0..len {
        // SAFETY: both lists have more than `at` places, and the first has strings there.
        unsafe { *target.add(at) = copy_text(*argv.add(at))? };
    }
    Ok(())
}

/// Copies an array of structures into one at `target`, which can be freed after an error, too. Null
/// for null.
///
/// # Safety
///
/// `first` is null, or begins an array of `len` structures as [`Duplicate::duplicate`] demands.
unsafe fn copy_array<T: Duplicate>(
    first: *const T,
    len: usize,
    target: &mut *mut T,
    target_len: &mut usize,
    bounds: &mut ReadBounds,
) -> Result<(), ConvertError> {
    if first.is_null() {
        return Ok(());
    }
    *target = memory::allocate(len)?;
    *target_len = len;
    for at in 0..len {
        // SAFETY: both arrays have more than `at` structures; the new one is zeroed.
        unsafe { (*first.add(at)).duplicate(&mut *target.add(at), bounds) }?;
    }
    Ok(())
}

/// Implements the copy of a structure by the ways in which its members are copied: a string, a
/// structure, an array with its length, a list of strings. What is not named is copied bit by bit.
macro_rules! copies {
    (@ clear string $target:ident $member:ident) => { $target.$member = ptr::null_mut() };
    (@ clear inner $target:ident $member:ident) => { $target.$member = Destruct::zeroed() };
    (@ clear argv $target:ident $member:ident) => { $target.$member = ptr::null_mut() };
    (@ clear array $target:ident $member:ident $len:ident) => {
        $target.$member = ptr::null_mut();
        $target.$len = 0;
    };
    (@ copy string $from:ident $to:ident $bounds:ident $member:ident) => {
        $to.$member = copy_text($from.$member)?
    };
    (@ copy inner $from:ident $to:ident $bounds:ident $member:ident) => {
        $from.$member.duplicate(&mut $to.$member, $bounds)?
    };
    (@ copy argv $from:ident $to:ident $bounds:ident $member:ident) => {
        copy_argv($from.$member, &mut $to.$member)?
    };
    (@ copy array $from:ident $to:ident $bounds:ident $member:ident $len:ident) => {
        copy_array($from.$member, $from.$len, &mut $to.$member, &mut $to.$len, $bounds)?
    };
    ($($type:ty { $($way:ident ($($member:ident),+)),* })+) => {$(
        impl Duplicate for $type {
            #[allow(unused_unsafe, unused_variables, reason = "some structures own nothing")]
            unsafe fn duplicate(
                &self,
                target: &mut $type,
                bounds: &mut ReadBounds,
            ) -> Result<(), ConvertError> {
                *target = *self;
                $(copies!(@ clear $way target $($member)+);)*
                // SAFETY: the caller guarantees what `Duplicate` demands of all members.
                unsafe { $(copies!(@ copy $way self target bounds $($member)+);)* }
                Ok(())
            }
        }
    )+};
}

copies! {
    u32 {}
    CProc {}
    CResourceUnit {}
    CEnvar { string(envar), string(value) }
    CPdata { inner(value) }
    CProcInfo { string(hostname), string(executable_name) }
    CApp { string(cmd), argv(argv), argv(env), string(cwd), array(info, ninfo) }
    CQuery { argv(keys), array(qualifiers, nqual) }
    CRegattr { string(name), argv(description) }
    CCoord { array(coord, dims) }
    CGeometry { string(uuid), string(osname), array(coordinates, ncoords) }
    CDeviceDistance { string(uuid), string(osname) }
    CEndpoint { string(uuid), string(osname), inner(endpt) }
    CDevice { string(uuid), string(osname) }
    CNodePid { string(hostname) }
    CProcStats { string(node), string(cmd) }
    CDiskStats { string(disk) }
    CNetStats { string(net_interface) }
    CNodeStats { string(node), array(diskstats, ndiskstats), array(netstats, nnetstats) }
}

/// Copies bytes; none for null.
///
/// # Safety
///
/// `bytes` is null or points to `size` bytes.
unsafe fn copy_memory(bytes: *const c_char, size: usize) -> Result<*mut c_char, ConvertError> {
    if bytes.is_null() || size == 0 {
        return Ok(ptr::null_mut());
    }
    // SAFETY: the caller guarantees `size` bytes.
    memory::copy_bytes(unsafe { slice::from_raw_parts(bytes.cast(), size) })
}

impl Duplicate for CByteObject {
    unsafe fn duplicate(
        &self,
        target: &mut CByteObject,
        _: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CByteObject::zeroed();
        // SAFETY: the caller guarantees `size` bytes, or null.
        target.bytes = unsafe { copy_memory(self.bytes, self.size) }?;
        if !target.bytes.is_null() {
            target.size = self.size;
        }
        Ok(())
    }
}

impl Duplicate for CRegex2 {
    unsafe fn duplicate(
        &self,
        target: &mut CRegex2,
        _: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CRegex2::zeroed();
        // SAFETY: the caller guarantees a string and `len` bytes, or null for either.
        unsafe {
            target.r#type = copy_text(self.r#type)?;
            target.bytes = copy_memory(self.bytes.cast(), self.len)?.cast();
        }
        if !target.bytes.is_null() {
            target.len = self.len;
        }
        Ok(())
    }
}

impl Duplicate for CDataBuffer {
    /// Copies what is not unpacked yet, as `PMIx_Data_copy_payload` does.
    unsafe fn duplicate(
        &self,
        target: &mut CDataBuffer,
        _: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CDataBuffer::zeroed();
        // SAFETY: the caller guarantees a buffer.
        let rest = unsafe { unpacked(self) };
        target.base_ptr = memory::copy_bytes(rest)?;
        target.unpack_ptr = target.base_ptr;
        target.pack_ptr = target.base_ptr.wrapping_add(rest.len());
        target.bytes_allocated = rest.len();
        target.bytes_used = rest.len();
        Ok(())
    }
}

/// Returns the bytes of a buffer that are not unpacked yet. A position outside of the buffer is
/// taken for its beginning.
///
/// # Safety
///
/// `base_ptr` is null or points to `bytes_used` bytes, which nothing changes while they are borrowed.
pub(crate) unsafe fn unpacked(buffer: &CDataBuffer) -> &[u8] {
    if buffer.base_ptr.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees these bytes.
    let bytes = unsafe { slice::from_raw_parts(buffer.base_ptr.cast::<u8>(), buffer.bytes_used) };
    let done = buffer
        .unpack_ptr
        .addr()
        .wrapping_sub(buffer.base_ptr.addr());
    bytes.get(done..).unwrap_or(bytes)
}

impl Duplicate for CInfo {
    /// Copies the value, unless it is persistent: then both infos point to the same memory, which
    /// neither frees.
    unsafe fn duplicate(
        &self,
        target: &mut CInfo,
        bounds: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = *self;
        if let Some(last) = target.key.last_mut() {
            *last = 0;
        }
        if InfoFlags(self.flags).contains(PERSISTENT) {
            return Ok(());
        }
        target.value = CValue::zeroed();
        // SAFETY: the caller guarantees what `Duplicate` demands, also of the value.
        unsafe { self.value.duplicate(&mut target.value, bounds) }
    }
}

impl Duplicate for CCpuset {
    unsafe fn duplicate(
        &self,
        target: &mut CCpuset,
        _: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CCpuset::zeroed();
        // SAFETY: the caller guarantees that the source is a string or null.
        if !unsafe { hwloc::is_source(self.source) } {
            return Err(ConvertError::NoHwloc { what: "cpuset" });
        }
        let library = hwloc::library().ok_or(ConvertError::NoHwloc { what: "cpuset" })?;
        // SAFETY: the source is a string, and says that the bitmap is hwloc's or null.
        unsafe {
            target.bitmap = library.copy_bitmap(self.bitmap)?;
            target.source = copy_text(self.source).inspect_err(|_| {
                library.free_bitmap(mem::replace(&mut target.bitmap, ptr::null_mut()));
            })?;
        }
        Ok(())
    }
}

impl Duplicate for CTopology {
    unsafe fn duplicate(
        &self,
        target: &mut CTopology,
        _: &mut ReadBounds,
    ) -> Result<(), ConvertError> {
        *target = CTopology::zeroed();
        // SAFETY: the caller guarantees that the source is a string or null.
        if !unsafe { hwloc::is_source(self.source) } {
            return Err(ConvertError::NoHwloc { what: "topology" });
        }
        let library = hwloc::library().ok_or(ConvertError::NoHwloc { what: "topology" })?;
        // SAFETY: the source is a string, and says that the topology is hwloc's or null.
        unsafe {
            target.topology = library.copy_topology(self.topology)?;
            target.source = copy_text(self.source).inspect_err(|_| {
                library.free_topology(mem::replace(&mut target.topology, ptr::null_mut()));
            })?;
        }
        Ok(())
    }
}
