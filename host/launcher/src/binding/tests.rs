//! Tests of the placement of procs.
use super::*;
use crate::processors::tests::NODE;
use proptest::prelude::*;

const UNITS: [ProcessorUnit; 4] = [
    ProcessorUnit::HardwareThread,
    ProcessorUnit::Core,
    ProcessorUnit::Numa,
    ProcessorUnit::Package,
];

fn rule(map_by: ProcessorUnit, bind_to: ProcessorUnit) -> BindingRule {
    BindingRule {
        processors: Arc::new(NodeProcessors::read(NODE, |_| true).unwrap()),
        map_by,
        bind_to,
    }
}

/// Returns the processors of each rank.
fn bound(map_by: ProcessorUnit, bind_to: ProcessorUnit, ranks: Range<u32>) -> Vec<String> {
    let bound = rule(map_by, bind_to).bind(ranks).unwrap();
    bound.iter().map(|one| ranges(&one.numbers)).collect()
}

#[test]
fn procs_take_units_by_turns_and_the_next_one_in_each() {
    use ProcessorUnit::{Core, HardwareThread, Numa, Package};
    assert_eq!(bound(Core, Core, 0..4), ["0-1", "2-3", "4-5", "6-7"]);
    assert_eq!(bound(Package, Core, 0..4), ["0-1", "4-5", "2-3", "6-7"]);
    assert_eq!(bound(Numa, HardwareThread, 0..3), ["0", "4", "1"]);
    assert_eq!(bound(Core, HardwareThread, 0..5), ["0", "2", "4", "6", "1"]);
    assert_eq!(bound(Core, Package, 0..4), ["0-3", "0-3", "4-7", "4-7"]);
    assert_eq!(bound(Package, Package, 0..3), ["0-3", "4-7", "0-3"]);
    assert_eq!(bound(Core, Core, 2..4), ["4-5", "6-7"], "of the second job");
}

#[test]
fn procs_that_would_share_a_core_are_refused() {
    use ProcessorUnit::{Core, HardwareThread, L3Cache, Package};
    let refused = |map_by, bind_to, count| {
        let refused = rule(map_by, bind_to).bind(0..count).unwrap_err();
        refused.to_string()
    };
    assert_eq!(
        refused(Core, Core, 5),
        "rank 4 would share a core with another proc; start fewer procs, or bind to none"
    );
    assert!(refused(HardwareThread, Core, 2).starts_with("rank 1 would share a core"));
    assert!(refused(Package, Package, 5).starts_with("rank 4 would share a core"));
    assert!(refused(Core, HardwareThread, 9).starts_with("rank 8 would share a hardware thread"));
    let none =
        "this node has no level-3 cache that hwloc knows; take another unit (`lstopo` shows them)";
    assert_eq!(refused(Core, L3Cache, 1), none);
    assert_eq!(refused(L3Cache, Core, 1), none);
}

proptest! {
    /// As many procs as there are cores or hardware threads have room, whatever they are placed on, and share
    /// none.
    #[test]
    fn all_procs_that_have_room_are_placed_apart(map in 0..UNITS.len(), count in 0_u32..9) {
        let (map_by, own) = (UNITS[map], |bind_to| rule(UNITS[map], bind_to).bind(0..count));
        let threads = own(ProcessorUnit::HardwareThread);
        prop_assert_eq!(threads.is_ok(), count <= 8);
        for bound in [threads, own(ProcessorUnit::Core)].into_iter().flatten() {
            let all: Vec<u32> = bound.iter().flat_map(|one| one.numbers.clone()).collect();
            let different: BTreeSet<u32> = all.iter().copied().collect();
            prop_assert_eq!(all.len(), different.len());
        }
        let is_coarse = map_by != ProcessorUnit::HardwareThread;
        prop_assert_eq!(own(ProcessorUnit::Core).is_ok(), count <= if is_coarse { 4 } else { 1 });
    }
}

#[test]
fn process_inherits_its_processors_and_the_thread_keeps_its_own() {
    let own = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU)
        .find(|number| own.is_set(*number))
        .unwrap();
    let binding = Binding {
        numbers: BTreeSet::from([u32::try_from(first).unwrap()]),
        locality: String::new(),
        picture: String::new(),
    };
    let mut script = std::process::Command::new("grep");
    script.args(["Cpus_allowed_list:", "/proc/self/status"]);
    let output = binding.start(|| script.output()).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        printed.split_whitespace().last(),
        Some(first.to_string().as_str())
    );
    let after = sched_getaffinity(None).unwrap();
    let count = |set: &CpuSet| {
        (0..CpuSet::MAX_CPU)
            .filter(|number| set.is_set(*number))
            .count()
    };
    assert_eq!(count(&after), count(&own));
}
