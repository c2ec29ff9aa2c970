//! Topology, cpusets and distances.
use super::library::stock;
use crate::{
    abi::{CCpuset, CInfo, CProc, CTopology},
    convert::{CpusetList, FromC, ReadBounds},
    destruct::Destruct,
    heap_array::HeapArray,
    values::{
        cpuset,
        topology::{bound_cpuset, device_distances, load},
    },
};
use peal_model::{DeviceDistance, Info, Status, Value, key};
use peal_needs::needs;
use std::{ffi::CStr, mem, ptr};

/// Returns the list of a cpuset.
fn list_of(cpuset: &CCpuset) -> CpusetList {
    // SAFETY: the cpuset is hwloc's.
    unsafe { CpusetList::from_c(cpuset, &mut ReadBounds::default()) }.unwrap()
}

/// The C library answers after its initialization only: as a tool it needs no server.
#[needs(libpmix)]
#[test]
fn topology_cpuset_and_distances_are_those_of_the_c_library() {
    let stock = stock();
    let infos = [Info::new(key::PMIX_TOOL_DO_NOT_CONNECT, Value::Bool(true))];
    let mut infos = HeapArray::<CInfo>::from_models(&infos).unwrap();
    let (mut ours, mut theirs) = (CTopology::zeroed(), CTopology::zeroed());
    // SAFETY: the arguments have the types of the functions; what these return is hwloc's, or was
    // allocated by them.
    unsafe {
        let mut proc: CProc = mem::zeroed();
        let status = (stock.tool_init)(&mut proc, infos.as_mut_ptr(), infos.len());
        assert_eq!(status, 0);
        assert_eq!((stock.load_topology)(&mut theirs), 0);
        assert_eq!(load(&mut ours), Ok(()));
        assert_eq!(CStr::from_ptr(ours.source), CStr::from_ptr(theirs.source));
        for envelope in [0, 1, 2] {
            let (mut ours, mut theirs) = (CCpuset::zeroed(), CCpuset::zeroed());
            let status = (stock.get_cpuset)(&mut theirs, envelope);
            assert_eq!(bound_cpuset(&mut ours, envelope), Status(status).ok());
            assert_eq!(list_of(&ours), list_of(&theirs));
            assert_eq!(ours.source.is_null(), theirs.source.is_null());
            ours.destruct();
            theirs.destruct();
        }
    }
    // SAFETY: as above; each topology is used with the library that returned it.
    unsafe {
        let mut cpuset = CCpuset::zeroed();
        let parsed = cpuset::parse(c"hwloc:0".as_ptr(), &mut cpuset);
        assert_eq!(parsed, Ok(()));
        let (mut array, mut len) = (ptr::null_mut(), 0);
        let status = (stock.compute_distances)(
            &mut theirs,
            &mut cpuset,
            ptr::null_mut(),
            0,
            &mut array,
            &mut len,
        );
        let array = HeapArray::from_raw(array, len);
        let mut bounds = ReadBounds::default();
        let read = |distance| DeviceDistance::from_c(distance, &mut bounds).unwrap();
        let expected: Vec<DeviceDistance> = array.as_slice().iter().map(read).collect();
        // A machine may have no such device. The C library asks its server then.
        if status == 0 {
            let found = device_distances(&ours, &cpuset, &[]);
            assert_eq!(found, Ok(expected));
        }
        cpuset.destruct();
        ours.destruct();
    }
}
