//! Instructions of a server for a unit of work of its procs, counted by valgrind.
use super::{
    arm::{Hosts, JobMeasurement, Side, Values},
    launch::{self, Scratch},
    programs::Programs,
};
use anyhow::{Context, Result};
use std::{env, fs, path::Path, process::Command};

/// Work of two jobs, whose difference is counted: the start of the server cancels out.
#[derive(Clone, Copy, Debug)]
pub struct CountedWork {
    /// Server and clients.
    pub side: Side,
    /// Mode of the measuring program.
    pub mode: &'static str,
    /// Modules of Peal's server.
    pub hosts: Hosts,
    /// Job that does less.
    pub less: CountedJob,
    /// Job that does more.
    pub more: CountedJob,
    /// Units of work that the second job does more than the first.
    pub units: u32,
}

/// Size of a job.
#[derive(Clone, Copy, Debug)]
pub struct CountedJob {
    /// Number of procs.
    pub procs: u32,
    /// Number of repetitions.
    pub count: u32,
}

impl CountedWork {
    /// Returns work of `procs` procs that is repeated few times and many times. Its unit is a repetition.
    pub fn repeated(
        side: Side,
        mode: &'static str,
        procs: u32,
        [few, many]: [u32; 2],
    ) -> CountedWork {
        CountedWork {
            side,
            mode,
            hosts: Hosts::Nothing,
            less: CountedJob { procs, count: few },
            more: CountedJob { procs, count: many },
            units: many - few,
        }
    }

    /// Returns the same work, whose unit is a proc's part of a repetition.
    pub fn for_each_proc(self) -> CountedWork {
        CountedWork {
            units: self.units * self.more.procs,
            ..self
        }
    }

    /// Returns work that each of few procs does once, and each of many. Its unit is the work of a proc.
    pub fn grown(side: Side, mode: &'static str, [few, many]: [u32; 2]) -> CountedWork {
        let job = |procs| CountedJob { procs, count: 1 };
        CountedWork {
            side,
            mode,
            hosts: Hosts::Nothing,
            less: job(few),
            more: job(many),
            units: many - few,
        }
    }

    /// Returns the same work, of a server with these modules.
    pub fn under(self, hosts: Hosts) -> CountedWork {
        CountedWork { hosts, ..self }
    }

    /// Counts the instructions of a unit.
    pub fn measure(&self, programs: &Programs) -> Result<Values> {
        Ok(vec![("instructions".to_owned(), self.count(programs)?)])
    }

    /// Counts the instructions of a unit.
    pub fn count(&self, programs: &Programs) -> Result<f64> {
        if self.hosts != Hosts::Nothing {
            // The first job compiles the modules.
            self.of_job(programs, self.less)?;
        }
        let less = self.of_job(programs, self.less)?;
        let more = self.of_job(programs, self.more)?;
        Ok((more - less) / f64::from(self.units))
    }

    fn of_job(&self, programs: &Programs, size: CountedJob) -> Result<f64> {
        let scratch = Scratch::new()?;
        let job = JobMeasurement {
            side: self.side,
            procs: size.procs,
            mode: self.mode,
            count: size.count,
            warm: 1,
            extra: 0,
            hosts: self.hosts,
        };
        let log = scratch.path().join("valgrind");
        let counted = under_valgrind(&job.command(programs, &scratch)?, &log);
        launch::finish(counted, &scratch).context("valgrind counts (Debian: valgrind)")?;
        let log = fs::read_to_string(&log)?;
        let count = log
            .lines()
            .find_map(|line| line.split_once("I   refs:"))
            .context("valgrind has counted no instructions")?;
        Ok(count.1.trim().replace(',', "").parse()?)
    }
}

/// Variables of this process that the counted command has too.
const INHERITED: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

/// Returns the command under valgrind. The procs of the job, which are children, are not counted.
fn under_valgrind(command: &Command, log: &Path) -> Command {
    let mut counted = Command::new("valgrind");
    // The server passes its environment on to each proc, so that each further variable is work for it.
    counted.env_clear();
    counted.envs(
        env::vars_os().filter(|(name, _)| INHERITED.iter().any(|inherited| name == inherited)),
    );
    counted.args(["--tool=cachegrind", "--cache-sim=no"]);
    // Only the sum is of use, which is in the log.
    counted.arg("--cachegrind-out-file=/dev/null");
    counted.arg(format!("--log-file={}", log.display()));
    counted.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => counted.env(name, value),
            None => counted.env_remove(name),
        };
    }
    counted
}
