//! A user's components that take long to compile delay no other user, and their compilation ends at
//! its time-out.
use super::{ATTACKER, attack_beside};
use peal_needs::needs;
use peal_server::admin::{ModuleList, ModuleState};
use peal_tests::{
    attacks::large_components::{self, LARGE},
    daemon::{Daemon, Place},
    guest,
    processes::is_running,
    run, until,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Bound below which times depend more on the machine than on the server.
const FLOOR: Duration = Duration::from_millis(400);

/// Starts a server with a directory in which a user installs modules.
fn installing(place: &Place, settings: &str) -> (Daemon, PathBuf) {
    let below = place.path("users");
    let own = place.path("users/own");
    for directory in [place.path(""), below.clone(), own.clone()] {
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    }
    chown(&own, Some(ATTACKER), None).unwrap();
    let cache = place.path("cache");
    place.configure(&format!(
        "[deploy]\ndebounce_ms = 20\nuser_modules_dir = {below:?}\n{settings}\n[sandbox]\ncache_dir = {cache:?}\n"
    ));
    (place.start(), own)
}

fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o644)).unwrap();
    chown(&new, Some(ATTACKER), None).unwrap();
    fs::rename(new, path).unwrap();
}

fn compiling(list: &ModuleList) -> usize {
    list.modules
        .iter()
        .filter(|module| module.state == ModuleState::Compiling)
        .count()
}

/// Returns the processes that compile a component for a server.
fn compilations(daemon_of: u32) -> Vec<u32> {
    let children = |parent: u32| -> Vec<u32> {
        let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
            .unwrap_or_default();
        text.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    };
    let compiles = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).nth(1) == Some(b"compile".as_slice())
    };
    children(daemon_of)
        .into_iter()
        .flat_map(children)
        .filter(compiles)
        .collect()
}

fn time(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Measures the median times of another user's requests.
fn victim(daemon: &Daemon, name: &str) -> [Duration; 2] {
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let register = |number| {
        time(|| drop(daemon.tell(&["job", "register", &format!("{name}-{number}"), "-n", "1"])))
    };
    let reload = |_| time(|| drop(daemon.tell(&["reload"])));
    [
        median((0..9).map(register).collect()),
        median((0..5).map(reload).collect()),
    ]
}

#[needs(prepared, root)]
#[test]
fn large_components_of_a_user_delay_no_other_user() {
    let quiet = Place::new();
    let (daemon, _) = installing(&quiet, "");
    let without = victim(&daemon, "without");
    let stop_without = time(|| drop(daemon.tell(&["stop", "--wait"])));
    drop(daemon);

    let place = Place::new();
    let (daemon, own) = installing(&place, "");
    let base = place.path("noop.wasm");
    fs::copy(guest("noop"), &base).unwrap();
    let args = [
        "install-components",
        own.to_str().unwrap(),
        base.to_str().unwrap(),
        "6",
    ];
    run(&mut attack_beside(ATTACKER, &args)).expect_status(0);
    until("six are compiled", || compiling(&place.modules()) == 6);
    until("one is being compiled", || {
        compilations(daemon.pid()).len() == 1
    });
    let status = daemon.tell(&["status"]);
    assert!(status.contains("compiling    6 user modules"), "{status}");
    let under = victim(&daemon, "under");
    assert_eq!(
        compilations(daemon.pid()).len(),
        1,
        "one at a time for each user"
    );
    assert!(
        compiling(&place.modules()) > 0,
        "it was too short to be measured"
    );
    for ((under, without), what) in under.into_iter().zip(without).zip(["register", "reload"]) {
        assert!(
            under <= (without * 2).max(FLOOR),
            "{what}: {under:?}, without {without:?}"
        );
    }
    let compilation = compilations(daemon.pid());
    let stop_under = time(|| drop(daemon.tell(&["stop", "--wait"])));
    assert!(
        stop_under <= (stop_without * 2).max(FLOOR * 2),
        "stop: {stop_under:?}, without {stop_without:?}"
    );
    daemon.ends();
    until("the compilation ends with its server", || {
        !compilation.iter().any(|pid| is_running(*pid))
    });
}

#[needs(prepared, root)]
#[test]
fn compilation_past_its_timeout_is_killed_and_not_tried_again() {
    let place = Place::new();
    let settings = "compile_timeout_ms = 10000\n[tenant]\nmax_component_bytes = 33554432";
    let (daemon, own) = installing(&place, settings);
    let base = fs::read(guest("noop")).unwrap();
    let told = |what: &str| {
        until(what, || {
            place
                .modules()
                .refused
                .iter()
                .any(|refused| refused.why.contains(what))
        });
    };
    put(
        &own.join("large.wasm"),
        // Fast machines compile the usual one in five seconds. A lower timeout would on slow ones also
        // end the compilation of the valid component below.
        large_components::component(&base, 0, 4 * LARGE),
    );
    put(
        &own.join("large.toml"),
        "name = \"large\"\npath = \"large.wasm\"\n",
    );
    told("compilation took longer than 10s (deploy.compile_timeout_ms)");
    assert_eq!(compilations(daemon.pid()), Vec::<u32>::new());
    // The bytes are the same, the settings differ.
    put(
        &own.join("large.toml"),
        "name = \"other\"\npath = \"large.wasm\"\n",
    );
    told("module other: compilation took longer than 10s");
    // A valid component waits for its turn, and runs then.
    put(&own.join("large.wasm"), &base);
    until("it runs", || {
        place
            .modules()
            .modules
            .iter()
            .any(|module| module.state == ModuleState::Active)
    });
    assert!(place.modules().refused.is_empty());
    // The size is above the limit.
    put(&own.join("large.wasm"), vec![0_u8; 33_554_433]);
    told("the limit for components of users is 33554432 (tenant.max_component_bytes)");
    daemon.tell(&["stop", "--wait"]);
}
