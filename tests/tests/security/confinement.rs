//! Confinement of `peal serve`: resources that a running server cannot use although its user could.
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    guest, peal, run, until,
};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    path::{Path, PathBuf},
};

/// Returns the lines of each thread's status about system call filters and new privileges.
fn threads(daemon: &Daemon) -> Vec<(String, String)> {
    threads_of(daemon.pid())
}

fn threads_of(pid: u32) -> Vec<(String, String)> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let of = |status: &str, key: &str| {
        let line = status.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_whitespace().nth(1))
            .unwrap_or_default()
            .to_owned()
    };
    let each = fs::read_dir(tasks)
        .unwrap()
        .map(|task| fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    each.map(|status| (of(&status, "Seccomp:"), of(&status, "NoNewPrivs:")))
        .collect()
}

fn module(component: &Path, more: &str) -> String {
    format!("[[module]]\nname = \"late\"\npath = {component:?}\n{more}\n")
}

fn reload(place: &Place) -> peal_tests::Done {
    run(peal(["reload", "--socket"]).arg(place.socket()))
}

#[needs(prepared, landlock)]
#[test]
fn all_threads_of_server_reach_only_configured_paths() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let known = tempfile::tempdir().unwrap();
    let component = elsewhere.path().join("late.wasm");
    fs::copy(guest("namespace-only"), &component).unwrap();
    fs::copy(guest("namespace-only"), known.path().join("known.wasm")).unwrap();
    // The directory is not below the system's directory for temporary files, which is permitted.
    let base = format!(
        "[deploy]\nwatch = false\n[events]\nspill_dir = {:?}\n[tools]\nsystem_dir = {:?}\n[confinement]\nmode = \"require\"\n\
         inaccessible_paths = [{:?}]\n",
        place.path("."),
        place.path("."),
        elsewhere.path()
    );
    place.configure(&base);
    let daemon = place.start();
    let threads = threads(&daemon);
    assert!(
        threads.len() > 3
            && threads
                .iter()
                .all(|found| *found == ("2".into(), "1".into())),
        "{threads:?}"
    );

    place.configure(&format!("{base}{}", module(&component, "")));
    let refused = reload(&place).expect_status(125).stderr;
    assert!(
        refused.contains("confinement keeps module late from"),
        "{refused}"
    );
    assert!(
        refused.contains("in confinement.read_only_paths if more files will be added there"),
        "{refused}"
    );
    let lent = format!(
        "grants = [\"files\"]\nfiles = [{{ name = \"in\", path = {:?}, mode = \"read-write\" }}]",
        known.path()
    );
    place.configure(&format!(
        "{base}{}",
        module(&known.path().join("known.wasm"), &lent)
    ));
    let refused = reload(&place).expect_status(125).stderr;
    assert!(
        refused.contains("in confinement.read_write_paths if more files will be added there"),
        "{refused}"
    );
    place.configure(&format!(
        "{base}{}",
        module(&known.path().join("known.wasm"), "")
    ));
    reload(&place).expect_status(0);

    // Accesses that the server does not foresee are denied by the kernel, also for root.
    fs::write(elsewhere.path().join("out.toml"), "").unwrap();
    fs::create_dir(place.path("modules.d")).unwrap();
    symlink(
        elsewhere.path().join("out.toml"),
        place.path("modules.d/out.toml"),
    )
    .unwrap();
    let refused = reload(&place).expect_status(125).stderr;
    assert!(refused.contains("Permission denied"), "{refused}");
}

/// Capabilities of root that no server needs, by their numbers: `FSETID`, `NET_ADMIN`, `NET_RAW`,
/// `SYS_MODULE`, `SYS_RAWIO`, `SYS_PTRACE`, `SYS_ADMIN`, `MKNOD`, `SETFCAP`.
const SPARE_CAPABILITIES: [u32; 9] = [4, 12, 13, 16, 17, 19, 21, 27, 31];

#[needs(prepared, landlock, root)]
#[test]
fn server_reaches_no_raw_device_and_has_no_spare_capability() {
    let place = Place::new();
    place.configure("[deploy]\nwatch = false\n");
    let daemon = place.start();
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    for key in ["CapPrm:", "CapEff:", "CapBnd:", "CapInh:", "CapAmb:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let set = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
        let spare: Vec<u32> = SPARE_CAPABILITIES
            .into_iter()
            .filter(|number| set & 1 << number != 0)
            .collect();
        assert!(spare.is_empty(), "{key} {spare:?}");
    }

    let devices = fs::read_dir("/dev").unwrap().map(|entry| entry.unwrap());
    let raw = devices
        .filter(|entry| entry.file_type().unwrap().is_block_device())
        .map(|entry| entry.path())
        .find(|path| fs::File::open(path).is_ok());
    // A machine without disks has kernel messages at least.
    let raw = raw.unwrap_or_else(|| PathBuf::from("/dev/kmsg"));
    fs::create_dir(place.path("modules.d")).unwrap();
    symlink(&raw, place.path("modules.d/disk.toml")).unwrap();
    let refused = reload(&place).expect_status(125).stderr;
    assert!(refused.contains("Permission denied"), "{raw:?}: {refused}");
}

#[needs(prepared, landlock)]
#[test]
fn all_processes_of_server_are_confined() {
    let place = Place::new();
    let users = place.path("users");
    fs::create_dir(&users).unwrap();
    place.configure(&format!("[deploy]\nuser_modules_dir = {users:?}\n"));
    let daemon = place.start();
    let pid = daemon.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let children: Vec<u32> = children
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(
        children.len() >= 2,
        "an observer and a compiler: {children:?}"
    );
    for child in children {
        // It confines itself before anything else.
        until("a process beside the server is confined", || {
            threads_of(child) == [("2".into(), "1".into())]
        });
    }
}

#[needs(prepared)]
#[test]
fn a_site_may_do_without() {
    let place = Place::new();
    place.configure("[confinement]\nmode = \"off\"\n");
    let daemon = place.start();
    assert!(
        threads(&daemon)
            .iter()
            .all(|found| *found == ("0".into(), "0".into()))
    );
}
