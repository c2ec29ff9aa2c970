//! Tests of the reading of topologies, compared with hwloc's own programs.
use super::*;
use peal_needs::needs;
use std::process::Command;

const UNITS: [(ProcessorUnit, &str); 5] = [
    (ProcessorUnit::HardwareThread, "pu"),
    (ProcessorUnit::Core, "core"),
    (ProcessorUnit::L3Cache, "l3cache"),
    (ProcessorUnit::Numa, "numanode"),
    (ProcessorUnit::Package, "package"),
];

fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[needs(hwloc)]
#[test]
fn units_and_localities_are_those_of_hwloc() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("node.xml");
    let path = file.to_str().unwrap();
    for node in [
        "package:1 core:2 pu:1",
        "package:2 [numa] l3:2 l2:2 l1:1 core:1 pu:2",
        "numa:2 package:2 core:3 pu:2(indexes=core:pu)",
        "package:4 [numa] l3:4 core:8 pu:2(indexes=pu:core)",
    ] {
        let xml = printed("lstopo-no-graphics", &["-i", node, "--of", "xml"]);
        std::fs::write(&file, &xml).unwrap();
        let found = NodeProcessors::read(&xml, |_| true).unwrap();
        for (unit, name) in UNITS {
            let count = printed("hwloc-calc", &["-i", path, "-N", name, "all"]);
            let units = found.units(unit);
            // It prints nothing about a kind that the node does not have.
            let count: usize = count.trim().parse().unwrap_or_default();
            assert_eq!(units.len(), count, "{node}: {name}");
            for (index, processors) in units {
                let place = format!("{name}:{index}");
                let args = ["-i", path, "--physical-output", "-I", "pu", &place];
                let expected = printed("hwloc-calc", &args);
                let numbers: Vec<String> = processors
                    .iter()
                    .map(|one| one.number.to_string())
                    .collect();
                assert_eq!(numbers.join(","), expected.trim(), "{node}: {place}");
            }
        }
    }
}

/// XML of a node with two packages, each with a NUMA node, two cores and four processors.
pub(crate) const NODE: &str = "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\">
<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0xff\">
<object type=\"Package\"><object type=\"NUMANode\" cpuset=\"0x0000000f\"/>
<object type=\"Core\"><object type=\"PU\" os_index=\"0\"/><object type=\"PU\" os_index=\"1\"/></object>
<object type=\"Core\"><object type=\"PU\" os_index=\"2\"/><object type=\"PU\" os_index=\"3\"/></object></object>
<object type=\"Package\"><object type=\"NUMANode\" cpuset=\"0x000000f0\"/>
<object type=\"Core\"><object type=\"PU\" os_index=\"4\"/><object type=\"PU\" os_index=\"5\"/></object>
<object type=\"Core\"><object type=\"PU\" os_index=\"6\"/><object type=\"PU\" os_index=\"7\"/></object></object>
</object></topology>";

#[test]
fn locality_and_picture_name_the_units() {
    let node = NodeProcessors::read(NODE, |_| true).unwrap();
    let of = |numbers: &[u32]| {
        let numbers = numbers.iter().copied().collect();
        (node.locality(&numbers), node.picture(&numbers))
    };
    let expected = |locality: &str, picture: &str| (locality.to_owned(), picture.to_owned());
    assert_eq!(of(&[5]), expected("SK1:CR2:HT5:NM1", "[../..][.B/..]"));
    assert_eq!(
        of(&[0, 1, 2, 3, 6]),
        expected("SK0-1:CR0-1,3:HT0-3,6:NM0-1", "[BB/BB][../B.]")
    );
}

#[test]
fn processors_of_others_are_left_out() {
    let node = NodeProcessors::read(NODE, |number| number > 3).unwrap();
    let threads = node.units(ProcessorUnit::HardwareThread);
    let numbers: Vec<u32> = threads.values().flatten().map(|one| one.number).collect();
    assert_eq!(numbers, [4, 5, 6, 7]);
    // Units keep their numbers, as in hwloc's pictures of the whole node.
    assert_eq!(
        node.units(ProcessorUnit::Package)
            .into_keys()
            .collect::<Vec<_>>(),
        [1]
    );
    let none = NodeProcessors::read(NODE, |_| false).unwrap_err();
    assert_eq!(
        none.to_string(),
        "the topology has no processor that this process may use"
    );
    assert!(NodeProcessors::read("Machine (16GB)", |_| true).is_err());
}

#[test]
fn bitmaps_have_their_highest_word_first() {
    assert!(bitmap_contains("0x00000001,0x80000000", 31));
    assert!(bitmap_contains("0x00000001,0x80000000", 32));
    assert!(!bitmap_contains("0x00000001,0x80000000", 33));
    assert!(!bitmap_contains("0x00000001", 500));
    assert!(bitmap_contains("0xf...f,0x00000001", 500));
    assert!(bitmap_contains("0xf...f,0x00000001", 0) && !bitmap_contains("0xf...f,0x00000001", 1));
    assert!(bitmap_contains("0x00000001,,0x00000001", 64) && !bitmap_contains("0x1,,0x1", 40));
}
