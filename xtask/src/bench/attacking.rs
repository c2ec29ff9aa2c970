//! Times of a victim's work, beside an attacker of another user and without one.
use super::{
    arm::Values,
    launch::{self, Scratch},
    programs::Programs,
    served::ServerDirectory,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

/// Users: the attacker, the victim, and a user without a job at the server.
pub const ATTACKER: u32 = 65_531;
pub const VICTIM: u32 = 65_532;
const OTHER_USER: u32 = 65_530;

/// Measured work of a victim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VictimWork {
    /// Connects as a tool.
    Connect,
    /// Raises events that a policy decides about, with an audit trail.
    Decide,
    /// Logs to a file.
    Log,
    /// Logs to the record of its job.
    LogToRecord,
}

/// Attack by `peal-attack`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attack {
    /// Name in names of arms and in the table.
    pub name: &'static str,
    /// Command of `peal-attack`.
    command: &'static str,
    /// User that attacks.
    by: Attacking,
    /// Arguments after the address.
    args: &'static [&'static str],
}

/// User that attacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attacking {
    /// User with a job at the server.
    User,
    /// User without a job.
    OtherUser,
}

impl Attack {
    /// Returns the command of the attacker.
    fn command(self, programs: &Programs, address: &str) -> Command {
        let uid = match self.by {
            Attacking::User => ATTACKER,
            Attacking::OtherUser => OTHER_USER,
        };
        by_user(
            programs,
            uid,
            &[&[self.command, address], self.args].concat(),
        )
    }
}

impl VictimWork {
    /// All kinds of work, with the attacks beside which each is measured.
    pub const ALL: [(VictimWork, &'static [Attack]); 4] = [
        (
            VictimWork::Connect,
            &[
                Attack {
                    name: "silent-sockets",
                    command: "silent-sockets",
                    by: Attacking::User,
                    args: &["4096"],
                },
                Attack {
                    name: "partial-frames",
                    command: "partial-frames",
                    by: Attacking::User,
                    args: &["16", "67108864"],
                },
                Attack {
                    name: "many-tools",
                    command: "many-tools",
                    by: Attacking::User,
                    args: &["256"],
                },
                Attack {
                    name: "junk",
                    command: "junk",
                    by: Attacking::User,
                    // More than can happen: the attack must not end before the victim's work.
                    args: &["1000000000"],
                },
            ],
        ),
        (
            VictimWork::Decide,
            &[
                Attack {
                    name: "junk",
                    command: "junk",
                    by: Attacking::User,
                    args: &["1000000000"],
                },
                Attack {
                    name: "long-handshakes",
                    command: "long-handshakes",
                    by: Attacking::OtherUser,
                    args: &["1000000000", "20", "6000"],
                },
                Attack {
                    name: "large-secrets",
                    command: "large-secrets",
                    by: Attacking::User,
                    args: &["1000000000"],
                },
            ],
        ),
        (
            VictimWork::Log,
            &[Attack {
                name: "log-flood",
                command: "log-flood",
                by: Attacking::User,
                args: &["site.log.slow", "4", "2000"],
            }],
        ),
        (
            VictimWork::LogToRecord,
            &[
                Attack {
                    name: "events-about-it",
                    command: "raise-about",
                    by: Attacking::User,
                    args: &["job-of-65532", "1000000000", "64"],
                },
                Attack {
                    name: "events-about-own-job",
                    command: "raise-about",
                    by: Attacking::User,
                    args: &["job-of-65531", "1000000000", "64"],
                },
            ],
        ),
    ];

    /// Returns the name in names of arms and in the table.
    pub fn name(self) -> &'static str {
        match self {
            VictimWork::Connect => "connect",
            VictimWork::Decide => "decide",
            VictimWork::Log => "log",
            VictimWork::LogToRecord => "record",
        }
    }

    /// Returns the arguments of `peal-attack` for the victim's work.
    fn args(self, address: &str, count: u32) -> Vec<String> {
        let job = job_of(VICTIM);
        let count = count.to_string();
        let args: &[&str] = match self {
            VictimWork::Connect => &["connect", address, &count],
            VictimWork::Decide => &["decide", address, &count],
            VictimWork::Log => &["log", address, &job, "site.log.quick", &count],
            VictimWork::LogToRecord => &["log", address, &job, "pmix.log.jrec", &count],
        };
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    /// Returns the configuration of a server for the work.
    fn configuration(self, programs: &Programs, directory: &ServerDirectory<'_>) -> String {
        let module = |name: &str, component: &str, rest: &str| {
            let path = programs.component(component);
            format!("[[module]]\nname = {name:?}\npath = {path:?}\n{rest}\n")
        };
        let trail = format!(
            "[audit]\npath = {:?}\non_failure = \"deny\"\n",
            directory.path("files/audit.db")
        );
        let file = |name: &str, more: &str| {
            let channel = format!(
                "channels = [\"site.log.{name}\"]\nsinks = [\"{name}\"]\ngrants = [\"sink\", \"clock\"]\n\
                 config = {{ sink = \"{name}\" }}"
            );
            let path = directory.path(&format!("files/{name}.log"));
            format!(
                "[[sink]]\nname = \"{name}\"\nfile.path = {path:?}\n{more}\n{}",
                module(name, "file", &channel)
            )
        };
        match self {
            VictimWork::Connect => trail,
            VictimWork::Decide => trail + &module("same-user", "same-user", ""),
            VictimWork::Log => file("slow", "file.sync = \"each\"") + &file("quick", ""),
            VictimWork::LogToRecord => {
                let store = format!("[store]\npath = {:?}\n", directory.path("files/peal.db"));
                let channel = "channels = [\"job_record\"]\nsinks = [\"job-record\"]\ngrants = [\"sink\", \"clock\"]";
                store + &module("record", "record", channel)
            }
        }
    }
}

/// Returns the name of a user's job.
pub fn job_of(uid: u32) -> String {
    format!("job-of-{uid}")
}

/// Measures the times of the victim's work in microseconds, beside an attack or without one.
pub fn time(
    programs: &Programs,
    work: VictimWork,
    attack: Option<Attack>,
    count: u32,
) -> Result<Values> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "attacks between users can only be measured by root"
    );
    let scratch = Scratch::new()?;
    let directory = ServerDirectory::new(programs, &scratch);
    // The directory is not that of the configuration, which the server watches.
    fs::create_dir(directory.path("files"))?;
    let server = directory.start(&work.configuration(programs, &directory))?;
    for uid in [ATTACKER, VICTIM] {
        let user = uid.to_string();
        directory.ask(&[
            "job",
            "register",
            &job_of(uid),
            "-n",
            "1",
            "--uid",
            &user,
            "--gid",
            &user,
        ])?;
    }
    let environment = directory.ask(&["job", "environment", &job_of(VICTIM), "--rank", "0"])?;
    let address = environment.lines().find_map(|line| {
        line.strip_prefix("PMIX_SERVER_URI41=")?
            .split_once("tcp4://")
    });
    let (_, address) = address.context("no environment has the address of the server")?;
    let attacker = attack
        .map(|attack| RunningAttack::start(attack.command(programs, address)))
        .transpose()?;
    // The attack is under way: it prints its first line then, which `start` waits for.
    let measured = launch::finish(
        by_user(programs, VICTIM, &work.args(address, count)),
        &Scratch::new()?,
    )?;
    if let Some(attacker) = attacker {
        attacker.end()?;
    }
    directory.stop(server)?;
    launch::values(
        &measured
            .lines()
            .filter(|line| line.contains("_us "))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// Returns the command that runs `peal-attack` as a user.
pub fn by_user<S: AsRef<str>>(programs: &Programs, uid: u32, args: &[S]) -> Command {
    let mut command = as_user(uid, &programs.attack);
    command.args(args.iter().map(AsRef::as_ref));
    command
}

/// Returns a command that runs a program as a user.
pub fn as_user(uid: u32, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        format!("--reuid={uid}"),
        format!("--regid={uid}"),
        "--clear-groups".to_owned(),
    ]);
    // The user may not be able to enter the directory of this process.
    command.arg(program).current_dir("/");
    command
}

/// Running attacker, which the drop ends.
pub struct RunningAttack {
    child: Child,
    /// Output of the attacker, kept open so that it can go on printing.
    _output: BufReader<ChildStdout>,
}

impl RunningAttack {
    /// Starts an attacker, and waits for its first line.
    pub fn start(mut command: Command) -> Result<RunningAttack> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.context("starting the attacker")?;
        let mut output = BufReader::new(child.stdout.take().context("the attacker has no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        ensure!(
            !line.is_empty(),
            "the attacker ended before it was at work: {:?}",
            command.get_args()
        );
        Ok(RunningAttack {
            child,
            _output: output,
        })
    }

    /// Ends the attacker, which must still run.
    pub fn end(mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(
            ended.is_none(),
            "the attack ended before the victim's work did: {ended:?}"
        );
        Ok(())
    }
}

impl Drop for RunningAttack {
    fn drop(&mut self) {
        // The process may have ended just now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
