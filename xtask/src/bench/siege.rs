//! Work of a user beside all attacks of another user at once, and without them, on one supervised
//! server: events from proc to proc, launches, and calls of the admin socket.
use super::{
    arm::Values,
    attacking::{ATTACKER, RunningAttack, VICTIM, by_user, job_of},
    launch::{self, Scratch},
    processes::give,
    programs::Programs,
    served::ServerDirectory,
};
use anyhow::{Context, Result, ensure};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// Number of components that take long to compile. Not all are compiled when the measurement ends.
const COMPONENTS: &str = "48";

/// Resources of which the attacker must hold at least this part of its share in percent.
const HELD: [(&str, u64); 3] = [("connections", 90), ("tools", 90), ("put_bytes", 50)];

/// Resources because of which the attacker must have been refused.
const REFUSED: [&str; 4] = [
    "connections",
    "pending_decisions",
    "log_requests",
    "put_bytes",
];

/// Numbers of repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SiegeCounts {
    /// Number of events.
    pub events: u32,
    /// Number of launches.
    pub launches: u32,
    /// Number of calls of the admin socket.
    pub calls: u32,
}

/// Cores of the attacker's processes and the victim's. The server runs on all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoreUse {
    /// One core each, as batch systems bind jobs of a node.
    Apart,
    /// All cores: the kernel divides them among the attacker's processes and the victim's, whatever
    /// the server does.
    Shared,
}

/// Side of a process in a siege.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Attacker,
    Victim,
}

impl CoreUse {
    /// Returns the name, which the arms have.
    pub fn name(self) -> &'static str {
        match self {
            CoreUse::Apart => "apart",
            CoreUse::Shared => "shared",
        }
    }

    /// Returns a command that runs another on the cores of its side.
    fn bound(self, side: Side, command: &Command) -> Command {
        let core = match side {
            Side::Attacker => "0",
            Side::Victim => "1",
        };
        let mut bound = match self {
            CoreUse::Apart => {
                let mut bound = Command::new("taskset");
                bound.args(["--cpu-list", core]).arg(command.get_program());
                bound
            }
            CoreUse::Shared => Command::new(command.get_program()),
        };
        bound.args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            bound.current_dir(directory);
        }
        bound
    }
}

/// Measures the median and the 99th percentile of the times of a victim's work in microseconds:
/// first alone, with `alone_` before the names, and then beside the attacks.
pub fn times(programs: &Programs, cores: CoreUse, counts: SiegeCounts) -> Result<Values> {
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    let own = directory.path("users/own");
    fs::create_dir_all(&own)?;
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755))?;
    give(&own)?;
    let server = directory.start_supervised(&configuration(programs, &directory))?;
    for uid in [ATTACKER, VICTIM] {
        let user = uid.to_string();
        let job = job_of(uid);
        directory.ask(&[
            "job", "register", &job, "-n", "16", "--uid", &user, "--gid", &user,
        ])?;
    }
    let environment = directory.ask(&["job", "environment", &job_of(VICTIM), "--rank", "0"])?;
    let site = BesiegedServer {
        programs,
        directory: &directory,
        environment: &environment,
        cores,
    };
    let alone = site.work(counts)?;
    let attacks = site.attacks()?;
    let beside = site.work(counts)?;
    attacks.into_iter().try_for_each(RunningAttack::end)?;
    directory.stop(server)?;
    let alone = alone
        .into_iter()
        .map(|(name, value)| (format!("alone_{name}"), value));
    Ok(alone.chain(beside).collect())
}

/// Returns the configuration of a server with all that the attacks need: a policy, an audit trail, a
/// store, channels of logs, and modules of users.
fn configuration(programs: &Programs, directory: &ServerDirectory<'_>) -> String {
    let [trail, store, log] =
        ["audit.db", "peal.db", "slow.log"].map(|name| directory.path(&format!("files/{name}")));
    let users = directory.path("users");
    let (policy, record, file) = (
        programs.component("same-user"),
        programs.component("record"),
        programs.component("file"),
    );
    format!(
        "[audit]\npath = {trail:?}\non_failure = \"deny\"\n\
         [store]\npath = {store:?}\n\
         [deploy]\nuser_modules_dir = {users:?}\n\
         [[sink]]\nname = \"slow\"\nfile.path = {log:?}\nfile.sync = \"each\"\n\
         [[module]]\nname = \"same-user\"\npath = {policy:?}\n\
         [[module]]\nname = \"record\"\npath = {record:?}\nchannels = [\"job_record\"]\n\
         sinks = [\"job-record\"]\ngrants = [\"sink\", \"clock\"]\n\
         [[module]]\nname = \"slow\"\npath = {file:?}\nchannels = [\"site.log.slow\"]\n\
         sinks = [\"slow\"]\ngrants = [\"sink\", \"clock\"]\nconfig = {{ sink = \"slow\" }}\n"
    )
}

/// Server with an attacker and a victim.
struct BesiegedServer<'a> {
    programs: &'a Programs,
    directory: &'a ServerDirectory<'a>,
    /// Environment of a proc of the victim.
    environment: &'a str,
    cores: CoreUse,
}

impl BesiegedServer<'_> {
    /// Measures the victim's work once.
    fn work(&self, counts: SiegeCounts) -> Result<Values> {
        let BesiegedServer {
            programs,
            directory,
            environment,
            cores,
        } = *self;
        let socket = directory.path("run/admin.sock");
        let socket = path(&socket)?;
        let measured = |command: Command| -> Result<Values> {
            let mut command = cores.bound(Side::Victim, &command);
            command.envs(environment.lines().filter_map(|line| line.split_once('=')));
            launch::values(&launch::finish(command, &Scratch::new()?)?)
        };
        let count = counts.events.to_string();
        let events = measured(by_user(programs, VICTIM, &["beside-events", &count]))?;
        let by_root = |args: [&str; 2]| {
            let mut command = Command::new(&programs.attack);
            command.args(args);
            command
        };
        let mut launcher = by_root(["beside-launches", socket]);
        launcher.args([VICTIM.to_string(), counts.launches.to_string()]);
        let mut admin = by_root(["beside-calls", socket]);
        admin.arg(counts.calls.to_string());
        Ok([events, measured(launcher)?, measured(admin)?].concat())
    }

    /// Begins all attacks, and waits until they are at work.
    fn attacks(&self) -> Result<Vec<RunningAttack>> {
        let BesiegedServer {
            programs,
            directory,
            environment,
            cores,
        } = *self;
        let address = environment.lines().find_map(|line| {
            line.strip_prefix("PMIX_SERVER_URI41=")?
                .split_once("tcp4://")
        });
        let (_, address) = address.context("no environment has the address of the server")?;
        let own = directory.path("users/own");
        // A module of the attacker that exceeds its limits, and more that take long to compile.
        let breaker = own.join("breaker.wasm");
        fs::copy(programs.component("limit-breaker"), &breaker)?;
        give(&breaker)?;
        let settings = own.join("breaker.toml");
        fs::write(
            &settings,
            "name = \"breaker\"\npath = \"breaker.wasm\"\ncodes = [-3997]\nevent_classes = \"both\"\n",
        )?;
        give(&settings)?;
        let base = directory.path("noop.wasm");
        fs::copy(programs.component("noop"), &base)?;
        let install = ["install-components", path(&own)?, path(&base)?, COMPONENTS];
        launch::finish(by_user(programs, ATTACKER, &install), &Scratch::new()?)?;
        let job = job_of(ATTACKER);
        let socket = directory.path("run/admin.sock");
        // Those with connections of their own begin before `decision-flood` takes the decisions about
        // them, and the last one all connections that are left. `many-tools` leaves seats to the
        // flood.
        let attacks: [&[&str]; 8] = [
            &["module-bombs", address, "64"],
            &["parked-values", address, &job, "16"],
            &["log-flood", address, "site.log.slow", "4", "2000"],
            &["silent-calls", path(&socket)?, "16"],
            &["many-tools", address, "54"],
            &["decision-flood", address, "4", "2000"],
            &["junk", address, "1000000000"],
            &["silent-sockets", address, "4096"],
        ];
        let started = attacks
            .iter()
            .map(|args| {
                let attack = by_user(programs, ATTACKER, args);
                RunningAttack::start(cores.bound(Side::Attacker, &attack))
            })
            .collect::<Result<Vec<_>>>()?;
        check_shares(directory)?;
        Ok(started)
    }
}

/// Fails unless the attacker has taken what it can get.
fn check_shares(directory: &ServerDirectory<'_>) -> Result<()> {
    let printed = directory.ask(&["stats", "--by-user"])?;
    let attacker = ATTACKER.to_string();
    let number = |resource: &str, column: usize| -> u64 {
        let mut rows = printed.lines().map(str::split_whitespace);
        let row = rows.find_map(|row| {
            let row: Vec<&str> = row.collect();
            (row.first() == Some(&attacker.as_str()) && row.get(1) == Some(&resource))
                .then(|| row.get(column)?.parse().ok())
        });
        row.flatten().unwrap_or_default()
    };
    for (resource, part) in HELD {
        let (held, share) = (number(resource, 2), number(resource, 3));
        ensure!(
            held * 100 >= share * part,
            "the attacker holds {held} of {share} {resource}"
        );
    }
    for resource in REFUSED {
        ensure!(
            number(resource, 4) > 0,
            "the attacker was not refused {resource}:\n{printed}"
        );
    }
    Ok(())
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path is no text")
}
