//! The systemd unit that ships with Peal: it agrees with the rules of the confinement and with the
//! book, and systemd reads it.
use peal_confinement::ProcessRole;
use peal_needs::needs;
use peal_tests::{program, root, run, service_unit};
use std::{collections::BTreeSet, fs, process::Command};

/// Exposure of the service by `systemd-analyze security`, in tenths. Below 50 it is "OK".
const EXPOSURE: &str = "40";

/// Capability with which the supervisor creates directories and the key of the audit trail. It drops it
/// then.
const OF_THE_START: &str = "CAP_DAC_OVERRIDE";

#[test]
fn unit_has_capabilities_of_supervisor_and_its_start() {
    let allowed: BTreeSet<String> = service_unit::words("CapabilityBoundingSet").collect();
    let of_role = ProcessRole::Supervisor.access().capability_names();
    let needed = of_role.into_iter().chain([OF_THE_START.to_owned()]);
    assert_eq!(allowed, needed.collect());
}

#[test]
fn book_shows_shipped_unit() {
    let page = root().join("docs/src/admin/server.md");
    let text = fs::read_to_string(&page).unwrap();
    let shown = text
        .split_once("{{#include ")
        .and_then(|(_, rest)| rest.split_once("}}"))
        .map(|(path, _)| page.with_file_name(path).canonicalize().unwrap());
    assert_eq!(shown, Some(service_unit::path().canonicalize().unwrap()));
}

#[needs(systemd, prepared)]
#[test]
fn systemd_reads_unit_and_finds_it_confined() {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("peal.service");
    let peal = program("peal").display().to_string();
    let text = service_unit::text().replace("ExecStart=peal ", &format!("ExecStart={peal} "));
    fs::write(&copy, text).unwrap();
    let read = run(Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&copy))
    .expect_status(0);
    assert_eq!(read.stderr, "", "systemd has no complaint");
    let threshold = format!("--threshold={EXPOSURE}");
    run(Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", &threshold])
        .arg(&copy))
    .expect_status(0);
}

/// Returns the calls of a group of systemd, such as `@file-system`, with those of the groups in it.
fn calls_of(group: &str) -> BTreeSet<String> {
    let printed = run(Command::new("systemd-analyze").args(["syscall-filter", group]));
    let printed = printed.expect_status(0).stdout;
    let words = printed.lines().skip(1).map(str::trim);
    let words = words.filter(|word| !word.is_empty() && !word.starts_with('#'));
    words.flat_map(named).collect()
}

/// Returns the calls that a word of `SystemCallFilter=` names.
fn named(word: &str) -> BTreeSet<String> {
    match word.strip_prefix('@') {
        Some(_) => calls_of(word),
        None => BTreeSet::from([word.to_owned()]),
    }
}

#[needs(systemd)]
#[test]
fn unit_lets_pass_system_calls_of_all_roles() {
    let lines = service_unit::values("SystemCallFilter");
    let mut passed = BTreeSet::new();
    for line in &lines {
        match line.strip_prefix('~') {
            Some(refused) => {
                let refused: BTreeSet<String> =
                    refused.split_whitespace().flat_map(named).collect();
                passed.retain(|call| !refused.contains(call));
            }
            None => passed.extend(line.split_whitespace().flat_map(named)),
        }
    }
    for role in ProcessRole::ALL {
        let calls = role
            .access()
            .groups
            .iter()
            .flat_map(|group| group.call_names());
        let lacking: BTreeSet<&str> = calls.filter(|call| !passed.contains(*call)).collect();
        assert!(lacking.is_empty(), "{} lacks {lacking:?}", role.name());
    }
}
