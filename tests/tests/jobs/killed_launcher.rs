//! Procs of a `peal run` that is killed: they end with it, unless it is configured otherwise.
use peal_needs::needs;
use peal_system::process::RunningProcess;
use peal_tests::{peal, until};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// Program of a proc: it prints its own process id and those of two descendants, one of them in a session
/// of its own and one without an environment, and waits.
const PROGRAM: &str = "setsid sleep 1000 & one=$!; env -i sleep 1000 & echo $$ $one $!; wait";

/// Running job, and all processes of its procs.
struct RunningJob {
    command: Child,
    processes: Vec<RunningProcess>,
}

fn start(options: &[&str]) -> RunningJob {
    let mut run: Command = peal([options, &["run", "-n", "2", "--", "sh", "-c", PROGRAM]].concat());
    let mut command = run.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(command.stdout.take().unwrap());
    let lines = output.lines().take(2).map(Result::unwrap);
    let processes: Vec<RunningProcess> = lines
        .flat_map(|line| {
            line.split(' ')
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<u32>>()
        })
        .map(|pid| RunningProcess::of(pid).unwrap())
        .collect();
    assert_eq!(processes.len(), 6);
    RunningJob { command, processes }
}

impl RunningJob {
    fn kill_command(&mut self) {
        self.command.kill().unwrap();
        self.command.wait().unwrap();
    }

    fn has_processes(&self) -> bool {
        self.processes.iter().any(RunningProcess::is_there)
    }
}

#[needs(prepared)]
#[test]
fn guarded_procs_end_with_a_killed_launcher() {
    let mut job = start(&[]);
    job.kill_command();
    until("the procs have ended", || !job.has_processes());
}

#[needs(prepared)]
#[test]
fn unguarded_procs_outlive_a_killed_launcher() {
    let mut job = start(&["--set", "run.on_kill=continue"]);
    let mut guarded = start(&[]);
    job.kill_command();
    // The guard of another job leaves them alone.
    guarded.kill_command();
    until("the procs of the other job have ended", || {
        !guarded.has_processes()
    });
    assert!(job.processes.iter().all(RunningProcess::is_there));
    for process in &job.processes {
        process.signal(Signal::KILL).unwrap();
    }
}
