//! Kills of each process of a supervised server under load: no decision that a client was told is
//! missing in the audit trail.
use super::audit_trail::{kills, seed};
use peal_audit::{AuditEntry, DecisionKind, TrailSource};
use peal_needs::needs;
use peal_store::Filter;
use peal_tests::{
    attacks::trail::{EVENT, NUMBER},
    daemon::{Daemon, Place},
    guest, peal, program,
    rng::SplitMix64,
    run, until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// User that raises events, and that has a module which handles them.
const USER: u32 = 54_321;
/// Number of rounds with one trail. All of it is verified after each kill, so that the work grows with the
/// square.
const ROUNDS_OF_A_TRAIL: u32 = 10;
/// Longest time between the beginning of the load and a kill, in milliseconds.
const LONGEST: usize = 100;

/// Process of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    Helper,
    AuditSigner,
    Compiler,
    TenantRuntime,
    Server,
    Supervisor,
}

impl Victim {
    const ALL: [Victim; 6] = [
        Victim::Helper,
        Victim::AuditSigner,
        Victim::Compiler,
        Victim::TenantRuntime,
        Victim::Server,
        Victim::Supervisor,
    ];

    /// Returns the process, if it runs.
    fn process(self, daemon: &Daemon) -> Option<u32> {
        let verb = match self {
            Victim::Helper => "helper",
            Victim::AuditSigner => "audit-signer",
            Victim::Compiler => "compiler",
            Victim::TenantRuntime => "tenant",
            Victim::Server => "serve",
            Victim::Supervisor => return Some(daemon.pid()),
        };
        daemon.child(verb)
    }

    /// Returns true if the service ends with it.
    fn is_server(self) -> bool {
        matches!(self, Victim::Server | Victim::Supervisor)
    }
}

/// Numbers of the decisions that clients were told.
type Told = Arc<Mutex<BTreeSet<u64>>>;

/// Process of the user that raises events. The drop ends it.
struct Raiser {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl Raiser {
    fn start(server: &str, first: u64, told: &Told) -> Raiser {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={USER}"), format!("--regid={USER}")]);
        command
            .arg("--clear-groups")
            .arg(program("peal-attack"))
            .args(["raise-numbered", server, &first.to_string()])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = told.clone();
        let reader = thread::spawn(move || {
            for line in lines {
                told.lock().unwrap().insert(line.unwrap().parse().unwrap());
            }
        });
        Raiser {
            child,
            reader: Some(reader),
        }
    }
}

impl Drop for Raiser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// Directory of a server with a policy, and with a module of the user.
struct Site {
    place: Place,
    /// Number of the next component that no server has compiled.
    next_component: u32,
}

/// Writes a file of the user.
fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::set_permissions(&new, Permissions::from_mode(0o644)).unwrap();
    chown(&new, Some(USER), Some(USER)).unwrap();
    fs::rename(new, path).unwrap();
}

impl Site {
    fn new() -> Site {
        let place = Place::of_server_user();
        let [users, trail] = ["users", "audit.db"].map(|name| place.path(name));
        let policy = guest("same-user");
        place.configure_supervised(&format!(
            "[audit]\npath = {trail:?}\non_failure = \"deny\"\n\
             [deploy]\ndebounce_ms = 20\nuser_modules_dir = {users:?}\n\
             [[module]]\nname = \"same-user\"\npath = {policy:?}\n"
        ));
        let own = users.join("own");
        fs::create_dir_all(&own).unwrap();
        chown(&own, Some(USER), Some(USER)).unwrap();
        let site = Site {
            place,
            next_component: 0,
        };
        site.install("echo", &fs::read(guest("echo")).unwrap());
        site
    }

    fn install(&self, name: &str, component: &[u8]) {
        let own = self.place.path("users/own");
        put(&own.join(name).with_extension("wasm"), component);
        let code = EVENT.0;
        let settings = format!("name = {name:?}\npath = \"{name}.wasm\"\ncodes = [{code}]\n");
        put(&own.join(name).with_extension("toml"), settings);
    }

    /// Installs a component that has to be compiled.
    fn install_new(&mut self) {
        let mut component = fs::read(guest("echo")).unwrap();
        // A section that means nothing: its name and four bytes.
        component.extend([0, 6, 1, b'n']);
        component.extend(self.next_component.to_le_bytes());
        self.next_component += 1;
        self.install("new", &component);
    }

    /// Starts a server as a service manager does. Returns it and its address.
    fn start(&self) -> (Daemon, String) {
        let daemon = self.place.start();
        // A component whose compilation was killed is not compiled again by the same server.
        until("the module of the user is active", || {
            let modules = self.place.modules().modules;
            let mut active = modules
                .iter()
                .filter(|module| module.state.to_string() == "active");
            active.any(|module| module.name == format!("{USER}/echo"))
        });
        let user = USER.to_string();
        daemon.tell(&[
            "job", "register", "job", "-n", "1", "--uid", &user, "--gid", &user,
        ]);
        let environment = daemon.environment("job", 0);
        let uri = environment
            .iter()
            .find(|(name, _)| name == "PMIX_SERVER_URI41");
        let address = uri.unwrap().1.split_once("tcp4://").unwrap().1.to_owned();
        (daemon, address)
    }

    /// Returns the numbers of the events that were granted, from this record of the trail on, and the
    /// number of the last record.
    fn granted(&self, from: u64) -> (BTreeSet<u64>, u64) {
        let filter = Filter {
            from: Some(from),
            ..Filter::default()
        };
        let source = TrailSource::open(&self.place.path("audit.db")).unwrap();
        let rows = source.last(&filter, u32::MAX).unwrap();
        let last = rows.iter().map(|row| row.seq).max().unwrap_or(from);
        let number = |entry: AuditEntry| {
            let AuditEntry::Decision(decision) = entry else {
                return None;
            };
            let infos = decision.request.subject.infos();
            let info = infos.iter().find(|info| info.key == NUMBER)?;
            (decision.verdict == DecisionKind::Granted).then(|| info.value.as_u64())?
        };
        let entries = rows.iter().map(|row| AuditEntry::read(&row.body).unwrap());
        (entries.filter_map(number).collect(), last)
    }

    fn verify(&self) {
        let config = self.place.path("peal.toml");
        run(peal(["audit", "verify", "--config"]).arg(config)).expect_status(0);
    }
}

#[needs(prepared, root)]
#[test]
fn told_decisions_are_in_trail_after_each_process_is_killed() {
    let mut site = Site::new();
    let mut random = SplitMix64(seed());
    let told = Told::default();
    let count = || told.lock().unwrap().len();
    let kills = kills().unwrap_or(3);
    let (mut next, mut checked, mut last) = (0, 0, 0);
    let (mut daemon, mut address) = site.start();
    for round in 0..kills {
        if round > 0 && round % ROUNDS_OF_A_TRAIL == 0 {
            daemon.tell(&["stop", "--wait"]);
            site = Site::new();
            last = 0;
            (daemon, address) = site.start();
        }
        for victim in Victim::ALL {
            let mut raise = |address: &str| {
                next += 1_000_000;
                Raiser::start(address, next, &told)
            };
            let before = count();
            let raisers = [raise(&address), raise(&address)];
            if victim == Victim::Compiler {
                site.install_new();
            }
            let mut process = None;
            until("the process runs, and decisions are told", || {
                process = victim.process(&daemon);
                process.is_some() && count() > before
            });
            let end = Instant::now() + Duration::from_millis(random.below(LONGEST) as u64);
            while Instant::now() < end {
                thread::yield_now();
            }
            let process = Pid::from_raw(process.unwrap().cast_signed()).unwrap();
            kill_process(process, Signal::KILL).unwrap();
            if victim.is_server() {
                daemon.ends();
                (daemon, address) = site.start();
            }
            // A new client is served, too: it is found by the helper.
            let after = count();
            let another = raise(&address);
            until("decisions are told after the kill", || count() > after);
            drop((raisers, another));
            let mut told = std::mem::take(&mut *told.lock().unwrap());
            checked += told.len();
            until("all decisions that were told are in the trail", || {
                let (granted, end) = site.granted(last);
                told.retain(|number| !granted.contains(number));
                // What is missing comes later, if it comes.
                last = end;
                told.is_empty()
            });
            site.verify();
            println!("round {round}, {victim:?}: {checked} decisions");
        }
    }
}
