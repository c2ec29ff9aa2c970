//! Distances of devices that Peal's `libpmix.so.2` computes by itself: no server is asked.
use peal_needs::needs;
use peal_tests::{c_program, libpmix::Release, peal, run};
use std::fs;

/// Machine of one package with two cores, a network device and a fabric beside the first one.
const MACHINE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1"
  complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1"
   gp_index="2" local_memory="1"/>
  <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3">
   <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
  </object>
  <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
   <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
  </object>
  <object type="Bridge" gp_index="7" bridge_type="0-1" depth="0" bridge_pci="0000:[00-00]">
   <object type="PCIDev" gp_index="8" pci_busid="0000:00:01.0" pci_type="0200 [1:1] [1:1] 01" pci_link_speed="0.0">
    <object type="OSDev" gp_index="9" name="eth0" osdev_type="2"><info name="Address" value="02:00:00:00:00:01"/></object>
    <object type="OSDev" gp_index="10" name="ib0" osdev_type="3"><info name="NodeGUID" value="1:2:3:4"/>
     <info name="SysImageGUID" value="1:2:3:5"/></object>
   </object>
  </object>
 </object>
</topology>
"#;

#[needs(prepared, libpmix)]
#[test]
fn distances_are_computed_without_asking_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let machine = dir.path().join("machine.xml");
    fs::write(&machine, MACHINE).unwrap();
    let mut command = peal(["run", "-n", "1", "--"]);
    command
        .arg(c_program("distances"))
        .env("HWLOC_XMLFILE", &machine);
    let done = run(Release::peal().of(&mut command)).expect_status(0);
    let of = |call: &str| {
        format!(
            "{call}: 0, 2 devices\n{call}: eth0 ipv4://02:00:00:00:00:01 from 5 to 5\n\
             {call}: ib0 fab://1:2:3:4::1:2:3:5 from 5 to 5\n"
        )
    };
    assert_eq!(done.stdout, [of("blocking"), of("callback")].concat());
}
