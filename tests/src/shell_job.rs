//! `peal run` with a job of shell procs, and commands that attach to it as tools.
use crate::{Done, PATIENCE, drain, finish, peal, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc,
};
use tempfile::TempDir;

/// Running job.
pub struct ShellJob {
    dir: TempDir,
    peal: Option<Child>,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// Standard error, which is read while the job runs: a full pipe would stop it.
    errors: mpsc::Receiver<String>,
}

impl ShellJob {
    /// Starts `procs` procs of this shell script, and waits until each has printed that it is
    /// ready.
    #[track_caller]
    pub fn start(procs: usize, more: &[&str], script: &str) -> ShellJob {
        let dir = tempfile::tempdir().unwrap();
        let mut command = peal(["run", "-n", &procs.to_string()]);
        command.args(more).args(["--", "sh", "-c", script]);
        command
            .env("PMIX_SYSTEM_TMPDIR", dir.path())
            .env_remove("PMIX_SERVER_TMPDIR");
        let mut peal = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(peal.stdout.take().unwrap()).lines();
        let errors = drain(peal.stderr.take());
        let mut running = ShellJob {
            dir,
            peal: Some(peal),
            lines,
            errors,
        };
        for _ in 0..procs {
            assert_eq!(running.line(), "ready");
        }
        running
    }

    /// Starts procs that sleep until they receive a signal.
    #[track_caller]
    pub fn asleep(procs: usize, more: &[&str]) -> ShellJob {
        ShellJob::start(procs, more, "echo ready; exec sleep 1000")
    }

    /// Returns the directory for files of servers.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the process id of `peal run`.
    pub fn pid(&self) -> u32 {
        self.peal.as_ref().unwrap().id()
    }

    /// Returns the next line that a proc prints.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let Some(line) = self.lines.next() else {
            panic!(
                "the job has ended: {:?}",
                self.errors.recv_timeout(PATIENCE)
            );
        };
        line.unwrap()
    }

    /// Returns a command that finds this server and no other, not started yet.
    pub fn verb(&self, args: &[&str]) -> Command {
        let mut command = peal(args);
        command
            .env("PMIX_SYSTEM_TMPDIR", self.dir.path())
            .env_remove("PMIX_SERVER_URI41");
        command.env_remove("PMIX_SERVER_TMPDIR");
        command
    }

    /// Runs a command that uses this server, and returns its output and exit status.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Done {
        run(&mut self.verb(args))
    }

    /// Returns its job as `peal ps -o json` shows it.
    #[track_caller]
    pub fn job(&self) -> Value {
        let told = self.ask(&["ps", "-o", "json"]).expect_status(0).stdout;
        let jobs: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(jobs.as_array().map(Vec::len), Some(1), "{told}");
        jobs[0].clone()
    }

    /// Returns the name of its job.
    #[track_caller]
    pub fn nspace(&self) -> String {
        self.job()["nspace"].as_str().unwrap().to_owned()
    }

    /// Returns the states of its procs, by rank.
    #[track_caller]
    pub fn states(&self) -> Vec<String> {
        let job = self.job();
        let procs = job["procs"].as_array().unwrap().iter();
        procs
            .map(|proc| proc["state"].as_str().unwrap_or("-").to_owned())
            .collect()
    }

    /// Returns the process ids of its running procs, by rank.
    #[track_caller]
    pub fn pids(&self) -> Vec<u64> {
        self.job()["procs"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|proc| proc["pid"].as_u64())
            .collect()
    }

    /// Requests the end of the job, and waits for it.
    #[track_caller]
    pub fn interrupt(self) -> Done {
        self.ask_to_end();
        self.ends()
    }

    /// Requests the end of the job. SIGINT is not used: a shell ignores it in background processes.
    #[track_caller]
    pub fn ask_to_end(&self) {
        kill_process(
            Pid::from_raw(self.pid().cast_signed()).unwrap(),
            Signal::TERM,
        )
        .unwrap();
    }

    /// Waits for the end of the job. The later output of its procs is on its standard output.
    #[track_caller]
    pub fn ends(mut self) -> Done {
        let rest: Vec<String> = self.lines.by_ref().map(Result::unwrap).collect();
        let done = finish(self.peal.take().unwrap());
        let errors = self.errors.recv_timeout(PATIENCE);
        Done {
            stdout: rest.join("\n"),
            stderr: errors.expect("another process holds the output open"),
            ..done
        }
    }
}

impl Drop for ShellJob {
    fn drop(&mut self) {
        if let Some(peal) = &mut self.peal {
            // Its procs end with it only if the end is requested.
            let _ = kill_process(
                Pid::from_raw(peal.id().cast_signed()).unwrap(),
                Signal::TERM,
            );
            let _ = peal.wait();
        }
    }
}
