//! The shipped unit under systemd, on a system of its own: control groups of users' processes, restarts,
//! reload and stop.
use peal_needs::needs;
use peal_tests::{guests, program, root, service_unit, virtual_machine};
use std::fs;

#[needs(virtual_machine, prepared)]
#[test]
fn service_limits_users_and_is_started_again() {
    let files = tempfile::tempdir().unwrap();
    let place = |name: &str| files.path().join(name);
    virtual_machine::copy_stripped(&program("peal"), &place("peal"));
    let packaging = service_unit::path();
    for name in ["peal.service", "peal.sysusers"] {
        fs::copy(packaging.with_file_name(name), place(name)).unwrap();
    }
    for name in ["same-user.wasm", "limit-breaker.wasm"] {
        fs::copy(guests().join(name), place(name)).unwrap();
    }
    fs::copy(root().join("tests/vm/service.sh"), place("run.sh")).unwrap();
    let printed = virtual_machine::run_script(files.path());
    assert!(printed.contains("== all is well"), "{printed}");
}
