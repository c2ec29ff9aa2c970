//! The process of `peal serve`: it leaves no core files, and uses nothing from the environment of a
//! user for whom root starts it.
use peal_needs::needs;
use peal_tests::daemon::Place;
use std::fs;

/// Returns the soft and the hard limit of a process's core files in bytes.
fn core_limits(pid: u32) -> [u64; 2] {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"))
        .unwrap();
    let mut numbers = line
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(u64::MAX));
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

#[needs(prepared)]
#[test]
fn server_and_its_observer_leave_no_core_files() {
    let place = Place::new();
    let daemon = place.start();
    let pid = daemon.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let observers: Vec<u32> = children
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(
        observers.len(),
        1,
        "the confined server has one process beside it"
    );
    for pid in [pid, observers[0]] {
        // The kernel writes no core file of this size, and starts no program for it.
        assert!(
            core_limits(pid).iter().all(|bytes| *bytes <= 1),
            "{:?}",
            core_limits(pid)
        );
    }
}

/// Starts a server as root on behalf of a user, with directories and settings in the environment.
/// Returns the server's variables, and the files in these directories afterwards.
fn started_for(requester: &str) -> (Vec<String>, Vec<String>) {
    let place = Place::new();
    let theirs = place.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let daemon = place.start_under(|mut serve| {
        serve
            .args(["--set", "tools.enable=false"])
            .env("SUDO_UID", requester)
            .env("LANG", "C.UTF-8");
        serve
            .env("PEAL_AUDIT_PATH", theirs.join("audit.db"))
            .env("PEAL_AUDIT_ON_FAILURE", "deny");
        serve
            .env("XDG_CACHE_HOME", &theirs)
            .env("HOME", &theirs)
            .env("TMPDIR", &theirs);
        serve
    });
    let environment = fs::read(format!("/proc/{}/environ", daemon.pid())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let name = |variable: &str| variable.split_once('=').map(|(name, _)| name.to_owned());
    let mut variables: Vec<String> = environment.split('\0').filter_map(name).collect();
    variables.sort();
    let files = fs::read_dir(&theirs)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (variables, files.collect())
}

#[needs(prepared, root)]
#[test]
fn environment_of_sudo_user_is_ignored_by_root_server() {
    let (variables, files) = started_for("0");
    assert!(
        variables.iter().any(|name| name == "PEAL_AUDIT_PATH"),
        "{variables:?}"
    );
    assert!(
        files.iter().any(|name| name == "audit.db"),
        "root's own environment counts: {files:?}"
    );
    let (variables, files) = started_for("65531");
    let kept = [
        "COLORTERM",
        "LANG",
        "NOTIFY_SOCKET",
        "NO_COLOR",
        "PATH",
        "RUST_BACKTRACE",
        "TERM",
    ];
    assert!(
        variables
            .iter()
            .all(|name| kept.contains(&name.as_str()) || name.starts_with("LC_")),
        "{variables:?}"
    );
    assert!(
        ["LANG", "NOTIFY_SOCKET", "PATH"]
            .iter()
            .all(|kept| variables.iter().any(|name| name == kept))
    );
    assert!(files.is_empty(), "{files:?}");
}
