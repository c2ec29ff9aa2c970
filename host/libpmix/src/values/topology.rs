//! The topology of this machine, the processors of this process, and distances between the two.
//! Everything here needs hwloc's library; without it the functions return `PMIX_ERR_NOT_SUPPORTED`.
use crate::{
    abi::{CBindEnvelope, CCpuset, CStatus, CTopology},
    border,
    client::check_initialized,
    hwloc::{self, BindingOwner, DistanceQuery, HwlocLibrary},
    memory,
};
use peal_model::{DeviceDistance, Info, Status, Value, code, key, names::number};
use std::{
    env,
    ffi::{CStr, c_char, c_void},
};

/// Environment variable with the name of the node, as servers set it.
const HOSTNAME: &str = "PMIX_HOSTNAME";

/// Returns hwloc's library.
fn library() -> Result<&'static HwlocLibrary, Status> {
    hwloc::library().ok_or(code::PMIX_ERR_NOT_SUPPORTED)
}

/// Returns the source of the shared topology, such as `hwloc:2.9.0`.
fn source_of(library: &HwlocLibrary, topology: *mut c_void) -> Vec<u8> {
    // SAFETY: the topology is loaded, and lives as long as the process.
    match unsafe { library.release(topology) } {
        Some(release) => [b"hwloc:", release.as_slice()].concat(),
        None => b"hwloc".to_vec(),
    }
}

/// `PMIx_Load_topology`: returns the topology of this machine. If the program has set the source
/// (`hwloc`, `hwloc:2.9`), it begins that of the topology, or there is none.
///
/// The topology belongs to the library, which shares it: `PMIx_Topology_destruct` leaves it alone. A
/// source that was not set is a string that the program may free.
///
/// # Safety
///
/// `topology` is null or points to a topology whose source is null or a string.
#[unsafe(export_name = "PMIx_Load_topology")]
pub unsafe extern "C" fn load_topology(topology: *mut CTopology) -> CStatus {
    border::status("PMIx_Load_topology", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `load` demands.
        unsafe { load(topology) }
    })
}

/// Loads the topology, whether the library is initialized or not.
///
/// # Safety
///
/// As for [`load_topology`].
pub(crate) unsafe fn load(topology: *mut CTopology) -> Result<(), Status> {
    // SAFETY: the caller guarantees a topology or null.
    let target = unsafe { topology.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    // SAFETY: the caller guarantees a string or null.
    if !target.source.is_null() && !unsafe { hwloc::is_source(target.source) } {
        return Err(code::PMIX_ERR_NOT_SUPPORTED);
    }
    let library = library()?;
    let local = library.local_topology()?;
    let source = source_of(library, local);
    if target.source.is_null() {
        target.source = memory::copy_string(&source)?;
    } else {
        // SAFETY: the caller guarantees a string.
        let wanted = unsafe { CStr::from_ptr(target.source) }.to_bytes();
        let begin = source.get(..wanted.len());
        if !begin.is_some_and(|begin| begin.eq_ignore_ascii_case(wanted)) {
            return Err(code::PMIX_ERR_NOT_SUPPORTED);
        }
    }
    target.topology = local;
    Ok(())
}

/// `PMIx_Get_cpuset`: returns the processors that the process (`PMIX_CPUBIND_PROCESS`) or the calling
/// thread (`PMIX_CPUBIND_THREAD`) may use.
///
/// # Safety
///
/// `cpuset` is null or points to a cpuset whose source is null or a string. An older bitmap is not
/// freed.
#[unsafe(export_name = "PMIx_Get_cpuset")]
pub unsafe extern "C" fn get_cpuset(cpuset: *mut CCpuset, envelope: CBindEnvelope) -> CStatus {
    border::status("PMIx_Get_cpuset", || {
        check_initialized()?;
        // SAFETY: the caller guarantees what `bound_cpuset` demands.
        unsafe { bound_cpuset(cpuset, envelope) }
    })
}

/// Returns the processors, whether the library is initialized or not.
///
/// # Safety
///
/// As for [`get_cpuset`].
pub(crate) unsafe fn bound_cpuset(
    cpuset: *mut CCpuset,
    envelope: CBindEnvelope,
) -> Result<(), Status> {
    // SAFETY: the caller guarantees a cpuset or null.
    let target = unsafe { cpuset.as_mut() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    // SAFETY: the caller guarantees a string or null.
    if !target.source.is_null() && !unsafe { hwloc::is_source(target.source) } {
        return Err(code::PMIX_ERR_NOT_SUPPORTED);
    }
    let owner = match u64::from(envelope) {
        number::PMIX_CPUBIND_PROCESS => BindingOwner::Process,
        number::PMIX_CPUBIND_THREAD => BindingOwner::Thread,
        _ => return Err(code::PMIX_ERR_BAD_PARAM),
    };
    let library = library()?;
    let bitmap = library.binding(owner)?.ok_or(code::PMIX_ERR_NOT_FOUND)?;
    if target.source.is_null() {
        target.source = hwloc::source().inspect_err(|_| {
            // SAFETY: the bitmap was made here.
            unsafe { library.free_bitmap(bitmap) };
        })?;
    }
    target.bitmap = bitmap;
    Ok(())
}

/// Returns what a topology or cpuset of the program points to.
///
/// # Safety
///
/// `source` is null or a string.
unsafe fn of_hwloc(source: *const c_char, pointer: *mut c_void) -> Result<*mut c_void, Status> {
    if source.is_null() || pointer.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    // SAFETY: the caller guarantees a string.
    if !unsafe { hwloc::is_source(source) } {
        return Err(code::PMIX_ERR_NOT_SUPPORTED);
    }
    Ok(pointer)
}

/// Returns the name of this node as servers have it: without its domain.
fn hostname() -> String {
    if let Ok(name) = env::var(HOSTNAME) {
        return name;
    }
    let mut name = [0_u8; 256];
    // SAFETY: the array has room for a name and its NUL, which the length leaves out.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = name.split(|byte| matches!(byte, 0 | b'.')).next();
    String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
}

/// Returns the distances from processors to the devices of a topology, for `PMIx_Compute_distances`
/// before a server is asked. For null they are those of this machine and this process.
///
/// `infos` choose devices by their types (`PMIX_DEVICE_TYPE`; networks, fabrics and GPUs if there is
/// none) and by identifiers or names (`PMIX_DEVICE_ID`). Devices of other types have no distances, as
/// in the C library. Differences from it: a network device without an address, such as `lo`, is left
/// out where that of 4.2 fails for all devices; and distances of processors in several packages are
/// those of each of them, where that of 4.2 returns `PMIX_ERR_NOT_AVAILABLE`.
///
/// # Errors
///
/// `PMIX_ERR_NOT_FOUND` if no device is chosen, `PMIX_ERR_NOT_SUPPORTED` without hwloc's library and
/// for other sources than hwloc, `PMIX_ERR_BAD_PARAM` for a topology or cpuset without contents.
///
/// # Safety
///
/// `topology` and `cpuset` are null or point to such structures, whose sources are null or strings. A
/// source that begins with `hwloc` says that the other pointer is hwloc's.
pub unsafe fn device_distances(
    topology: *const CTopology,
    cpuset: *const CCpuset,
    infos: &[Info],
) -> Result<Vec<DeviceDistance>, Status> {
    let (mut types, mut ids) = (0, Vec::new());
    for info in infos {
        if info.key == key::PMIX_DEVICE_TYPE {
            let Value::DeviceType(these) = info.value else {
                return Err(code::PMIX_ERR_BAD_PARAM);
            };
            types |= these;
        } else if info.key == key::PMIX_DEVICE_ID {
            ids.push(info.value.as_str().ok_or(code::PMIX_ERR_BAD_PARAM)?);
        }
    }
    if types == 0 {
        types = u64::MAX;
    }
    // SAFETY: the caller guarantees structures or null, and their sources.
    let (topology, cpuset) = unsafe {
        let topology = topology.as_ref();
        let topology = topology.map(|given| of_hwloc(given.source, given.topology));
        let cpuset = cpuset.as_ref();
        let cpuset = cpuset.map(|given| of_hwloc(given.source, given.bitmap));
        (topology.transpose()?, cpuset.transpose()?)
    };
    let library = library()?;
    let topology = match topology {
        Some(topology) => topology,
        None => library.local_topology()?,
    };
    let hostname = hostname();
    let query = DistanceQuery {
        types,
        ids: &ids,
        hostname: &hostname,
    };
    let distances = match cpuset {
        // SAFETY: the sources say that both are hwloc's.
        Some(cpuset) => unsafe { library.distances(topology, cpuset, &query) },
        None => {
            let own = library.binding(BindingOwner::Process)?;
            let own = own.ok_or(code::PMIX_ERR_NOT_FOUND)?;
            // SAFETY: as above, and the bitmap was made here.
            unsafe {
                let distances = library.distances(topology, own, &query);
                library.free_bitmap(own);
                distances
            }
        }
    };
    if distances.is_empty() {
        return Err(code::PMIX_ERR_NOT_FOUND);
    }
    Ok(distances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        convert::{CpusetList, FromC, ReadBounds, write_into},
        destruct::Destruct,
        memory::counter,
        values::cpuset::{get_relative_locality, parse_cpuset_string},
    };
    use peal_model::{Bytes, Text, Topology};
    use peal_needs::needs;
    use std::{mem, ptr, thread};

    const BAD: Result<(), Status> = Err(code::PMIX_ERR_BAD_PARAM);
    const UNSUPPORTED: Result<(), Status> = Err(code::PMIX_ERR_NOT_SUPPORTED);

    /// Two packages of two cores each. The first one has a network, the second one a fabric and a GPU;
    /// `lo` belongs to the machine and has no address.
    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf"
  nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0xf" complete_cpuset="0xf" nodeset="0x1"
   complete_nodeset="0x1" gp_index="2" local_memory="1"/>
  PACKAGE0
  PACKAGE1
  <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[00-00]">
   <object type="PCIDev" gp_index="21" pci_busid="0000:00:01.0" pci_type="0200 [1:1] [1:1] 01"
    pci_link_speed="0.0">
    <object type="OSDev" gp_index="22" name="lo" osdev_type="2"/>
   </object>
  </object>
 </object>
</topology>
"#;

    /// Returns a package of two cores.
    fn package(at: u64, devices: &str) -> String {
        let (index, set) = (100 * (at + 1), 3 << (2 * at));
        let sets = |set: u64| {
            format!(
                "cpuset=\"{set:#x}\" complete_cpuset=\"{set:#x}\" nodeset=\"0x1\" complete_nodeset=\"0x1\""
            )
        };
        let cores = (0..2).map(|core| {
            let (number, sets) = (2 * at + core, sets(1 << (2 * at + core)));
            let (first, second) = (index + 10 * core + 1, index + 10 * core + 2);
            format!(
                "<object type=\"Core\" os_index=\"{number}\" {sets} gp_index=\"{first}\"><object type=\"PU\" \
                 os_index=\"{number}\" {sets} gp_index=\"{second}\"/></object>"
            )
        });
        let cores: String = cores.collect();
        let sets = sets(set);
        format!(
            "<object type=\"Package\" os_index=\"{at}\" {sets} gp_index=\"{index}\">{cores}\
             <object type=\"Bridge\" gp_index=\"{}\" bridge_type=\"0-1\" depth=\"0\" \
             bridge_pci=\"000{at}:[01-01]\"><object type=\"PCIDev\" gp_index=\"{}\" \
             pci_busid=\"000{at}:01:01.0\" pci_type=\"0200 [1:1] [1:1] 01\" pci_link_speed=\"0.0\">\
             {devices}</object></object></object>",
            index + 50,
            index + 51
        )
    }

    /// Returns the topology of [`XML`].
    fn two_packages() -> CTopology {
        let first = "<object type=\"OSDev\" gp_index=\"60\" name=\"eth0\" osdev_type=\"2\">\
             <info name=\"Address\" value=\"02:00:00:00:00:01\"/></object>";
        let second = "<object type=\"OSDev\" gp_index=\"61\" name=\"ib0\" osdev_type=\"3\">\
             <info name=\"NodeGUID\" value=\"1:2:3:4\"/><info name=\"SysImageGUID\" value=\"1:2:3:5\"/>\
             </object><object type=\"OSDev\" gp_index=\"62\" name=\"card0\" osdev_type=\"1\"/>\
             <object type=\"OSDev\" gp_index=\"63\" name=\"nvml0\" osdev_type=\"1\"/>";
        let xml = XML
            .replace("PACKAGE0", &package(0, first))
            .replace("PACKAGE1", &package(1, second));
        let mut target = CTopology::zeroed();
        let topology = Topology {
            xml: Some((Text::from_bytes(xml.as_bytes()), Bytes::from(vec![0; 32]))),
        };
        write_into(&topology, &mut target).unwrap();
        target
    }

    /// Returns the cpuset of a list.
    fn cpuset_of(list: &str) -> CCpuset {
        let mut cpuset = CCpuset::zeroed();
        write_into(&CpusetList(Some(Text::from(list))), &mut cpuset).unwrap();
        cpuset
    }

    /// Returns a cpuset as a list, and frees it.
    fn list_of(mut cpuset: CCpuset) -> String {
        // SAFETY: the cpuset was made by this library, and is not used afterwards.
        unsafe {
            let CpusetList(list) = FromC::from_c(&cpuset, &mut ReadBounds::default()).unwrap();
            cpuset.destruct();
            list.unwrap().as_str().unwrap().to_owned()
        }
    }

    #[test]
    fn bad_arguments_are_refused() {
        let mut source = *b"other\0";
        let mut topology = CTopology::zeroed();
        let mut cpuset = CCpuset::zeroed();
        // SAFETY: the sources are strings or null; the cpusets and topologies have no contents.
        unsafe {
            assert_eq!(load(ptr::null_mut()), BAD);
            assert_eq!(bound_cpuset(ptr::null_mut(), 0), BAD);
            assert_eq!(bound_cpuset(&mut cpuset, 2), BAD);
            topology.source = source.as_mut_ptr().cast();
            cpuset.source = topology.source;
            assert_eq!(load(&mut topology), UNSUPPORTED);
            assert_eq!(bound_cpuset(&mut cpuset, 0), UNSUPPORTED);
            let refused = device_distances(&topology, ptr::null(), &[]);
            assert_eq!(refused, Err(code::PMIX_ERR_BAD_PARAM));
            topology.topology = source.as_mut_ptr().cast();
            let refused = device_distances(&topology, ptr::null(), &[]);
            assert_eq!(refused, Err(code::PMIX_ERR_NOT_SUPPORTED));
            let info = Info::new(key::PMIX_DEVICE_TYPE, Value::Bool(true));
            let refused = device_distances(ptr::null(), ptr::null(), &[info]);
            assert_eq!(refused, Err(code::PMIX_ERR_BAD_PARAM));
        }
    }

    #[test]
    fn uninitialized_library_has_no_topology() {
        let init = code::PMIX_ERR_INIT.0;
        let (mut topology, mut cpuset) = (CTopology::zeroed(), CCpuset::zeroed());
        let mut locality = 0;
        // SAFETY: the structures are empty, and the texts are strings.
        unsafe {
            assert_eq!(load_topology(&mut topology), init);
            assert_eq!(get_cpuset(&mut cpuset, 0), init);
            let list = c"hwloc:0".as_ptr();
            assert_eq!(parse_cpuset_string(list, &mut cpuset), init);
            assert_eq!(get_relative_locality(list, list, &mut locality), init);
        }
        assert!(topology.topology.is_null() && cpuset.bitmap.is_null());
    }

    #[needs(libpmix)]
    #[test]
    fn topology_is_shared_and_survives_its_destructor() {
        let before = counter::live();
        let (mut first, mut second) = (CTopology::zeroed(), CTopology::zeroed());
        // SAFETY: the topologies are empty or were loaded here.
        unsafe {
            assert_eq!(load(&mut first), Ok(()));
            let source = CStr::from_ptr(first.source).to_bytes().to_vec();
            assert!(source.starts_with(b"hwloc:2."), "{source:?}");
            let address = first.topology;
            first.destruct();
            let mut begin = *b"HWLOC:2\0";
            second.source = begin.as_mut_ptr().cast();
            assert_eq!(load(&mut second), Ok(()));
            assert_eq!(second.topology, address);
            let mut newer = *b"hwloc:99\0";
            second.source = newer.as_mut_ptr().cast();
            assert_eq!(load(&mut second), UNSUPPORTED);
        }
        assert_eq!(counter::live(), before);
    }

    #[needs(libpmix)]
    #[test]
    fn cpuset_of_a_thread_is_its_binding() {
        let before = counter::live();
        let mut process = CCpuset::zeroed();
        // SAFETY: the cpuset is empty.
        assert_eq!(unsafe { bound_cpuset(&mut process, 0) }, Ok(()));
        let all = list_of(process);
        assert_eq!(counter::live(), before);
        let bound = thread::spawn(|| {
            // SAFETY: a set of zeros is empty, and the sets have the size that is passed.
            unsafe {
                let mut set: libc::cpu_set_t = mem::zeroed();
                libc::sched_getaffinity(0, size_of_val(&set), &mut set);
                let first = (0..libc::CPU_SETSIZE as usize).find(|at| libc::CPU_ISSET(*at, &set));
                libc::CPU_ZERO(&mut set);
                libc::CPU_SET(first.unwrap(), &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
                let mut cpuset = CCpuset::zeroed();
                assert_eq!(bound_cpuset(&mut cpuset, 1), Ok(()));
                (first.unwrap(), list_of(cpuset))
            }
        });
        let (first, list) = bound.join().unwrap();
        assert_eq!(list, first.to_string());
        assert!(all.starts_with(&list), "{all} {list}");
    }

    #[needs(libpmix)]
    #[test]
    fn distances_are_those_of_each_processor_and_device() {
        let mut topology = two_packages();
        let distances = |cpus: &str, infos: &[Info]| {
            let mut cpuset = cpuset_of(cpus);
            // SAFETY: both were made here.
            unsafe {
                let distances = device_distances(&topology, &cpuset, infos);
                cpuset.destruct();
                distances.map(|distances| {
                    let text = |text: Option<Text>| text.unwrap().as_str().unwrap().to_owned();
                    let distances = distances.into_iter();
                    distances
                        .map(|found| (text(found.osname), text(found.uuid), found.min, found.max))
                        .collect::<Vec<_>>()
                })
            }
        };
        // Machine, packages, cores and processors are four levels.
        let gpu = format!("gpu://{}::nvml0", hostname());
        let expected = |near: (u16, u16), far: (u16, u16)| {
            let device = |name: &str, uuid: &str, range: (u16, u16)| {
                (name.to_owned(), uuid.to_owned(), range.0, range.1)
            };
            vec![
                device("nvml0", &gpu, far),
                device("eth0", "ipv4://02:00:00:00:00:01", near),
                device("ib0", "fab://1:2:3:4::1:2:3:5", far),
            ]
        };
        assert_eq!(distances("0", &[]), Ok(expected((3, 3), (7, 7))));
        assert_eq!(distances("2-3", &[]), Ok(expected((7, 7), (3, 3))));
        assert_eq!(distances("0-3", &[]), Ok(expected((3, 7), (3, 7))));
        let unknown = (u16::MAX, u16::MAX);
        assert_eq!(distances("9", &[]), Ok(expected(unknown, unknown)));
        let types = number::PMIX_DEVTYPE_GPU | number::PMIX_DEVTYPE_NETWORK;
        let types = Info::new(key::PMIX_DEVICE_TYPE, Value::DeviceType(types));
        let id = Info::new(key::PMIX_DEVICE_ID, Value::string("IB0"));
        let names = |infos: &[Info]| {
            let found = distances("0", infos)?;
            Ok(found.into_iter().map(|found| found.0).collect::<Vec<_>>())
        };
        assert_eq!(
            names(std::slice::from_ref(&types)),
            Ok(vec!["nvml0".to_owned(), "eth0".to_owned()])
        );
        assert_eq!(names(std::slice::from_ref(&id)), Ok(vec!["ib0".to_owned()]));
        assert_eq!(names(&[types, id]), Err(code::PMIX_ERR_NOT_FOUND));
        // SAFETY: the topology was made here, and is not used afterwards.
        unsafe { topology.destruct() };
    }
}
