//! Confinement of `peal serve`: resources that a running server cannot use although its user could.
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    guest, peal, run,
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Returns the lines of each thread's status about system call filters and new privileges.
fn threads(daemon: &Daemon) -> Vec<(String, String)> {
    let tasks = PathBuf::from(format!("/proc/{}/task", daemon.pid()));
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
