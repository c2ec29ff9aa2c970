//! Measurements: what a module's calls take, in time, instructions and memory, and how long it takes to be ready.
use crate::module_test::{Candidate, Case, CaseRunner, Cases, TrialError};
use peal_sandbox::{CallFailure, Engine, FormatError, ModuleLimits, Role, inspect};
use serde::{Serialize, Serializer};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use thiserror::Error;

/// How many fresh instances are started to tell how long that takes.
const STARTS: usize = 50;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// The most calls of a case that are measured; a tenth as many come before, to warm up.
    pub calls: usize,
    /// No more calls of a case are begun after so long.
    pub time: Duration,
}

impl Default for Effort {
    /// 10,000 calls or two seconds.
    fn default() -> Effort {
        Effort {
            calls: 10_000,
            time: Duration::from_secs(2),
        }
    }
}

/// Why nothing can be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The bytes are no component.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The module cannot be tried.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// There is nothing to call it with.
    #[error("there are no cases, and none of its own for a module with these roles: [{roles}]")]
    NoCases {
        /// Its roles.
        roles: String,
    },
}

/// What was measured of a module.
#[derive(Clone, Debug, Serialize)]
pub struct BenchResult {
    /// How long it takes to check, compile and link it, and to start its first instance.
    #[serde(rename = "compile_us", serialize_with = "microseconds")]
    pub compile: Duration,
    /// How long a fresh instance takes to start, in the median.
    #[serde(rename = "start_us", serialize_with = "microseconds_if_measured")]
    pub start: Option<Duration>,
    /// Each case.
    pub cases: Vec<MeasuredCase>,
}

/// What was measured of a case.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredCase {
    /// Which case.
    pub case: String,
    /// How many calls were measured.
    pub calls: usize,
    /// The first call of the first instance, after its init.
    #[serde(rename = "first_us", serialize_with = "microseconds")]
    pub first: Duration,
    /// The time that half of the calls do not exceed; none where no call was measured.
    #[serde(rename = "median_us", serialize_with = "microseconds_if_measured")]
    pub median: Option<Duration>,
    /// The time that 95 of a hundred calls do not exceed.
    #[serde(rename = "p95_us", serialize_with = "microseconds_if_measured")]
    pub p95: Option<Duration>,
    /// The time that 99 of a hundred calls do not exceed.
    #[serde(rename = "p99_us", serialize_with = "microseconds_if_measured")]
    pub p99: Option<Duration>,
    /// Units of fuel that a warm call takes: roughly its instructions.
    pub fuel: Option<u64>,
    /// Bytes of memories and tables of the instance after all calls: its peak.
    pub memory: usize,
    /// How a call failed, if one did; then no more were made.
    pub failure: Option<String>,
}

fn microseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64() * 1e6)
}

fn microseconds_if_measured<S: Serializer>(
    time: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => microseconds(time, to),
        None => to.serialize_none(),
    }
}

/// A component that is measured.
#[derive(Clone, Copy)]
pub struct BenchedComponent<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What its calls may use.
    pub limits: ModuleLimits,
}

/// The engines that measurements take.
#[derive(Clone, Copy)]
pub struct BenchEngines<'a> {
    /// The one in which calls are timed. It keeps no compiled code, so that compiling is timed as well.
    pub timing: &'a Engine,
    /// The one that counts fuel, which makes calls slower.
    pub counting: &'a Engine,
}

/// How much longer than its limit a call may take where fuel is counted.
const COUNTING: u32 = 20;

/// Measures a component. `tell` hears what is being done once it is compiled.
pub fn measure(
    component: BenchedComponent<'_>,
    engines: BenchEngines<'_>,
    cases: Option<&Cases>,
    effort: Effort,
    mut tell: impl FnMut(&str),
) -> Result<BenchResult, BenchError> {
    let BenchedComponent {
        name,
        bytes,
        limits,
    } = component;
    let own;
    let cases = match cases {
        Some(cases) => cases,
        None => {
            own = usual(bytes)?;
            &own
        }
    };
    let sinks = ["stdout".to_owned(), "stderr".to_owned()];
    let of = Candidate {
        engine: engines.timing,
        name,
        bytes,
        sinks: &sinks,
        limits,
    };
    let limits = ModuleLimits {
        call_time: limits.call_time.saturating_mul(COUNTING),
        ..limits
    };
    let counted = Candidate {
        engine: engines.counting,
        name,
        bytes,
        sinks: &sinks,
        limits,
    };
    let mut compile = Duration::ZERO;
    let mut measured = Vec::new();
    let mut last = None;
    for case in cases.iter() {
        let (mut run, mut count) = (
            CaseRunner::new(&of, cases),
            CaseRunner::new(&counted, cases),
        );
        let began = Instant::now();
        run.ready(case)?;
        if measured.is_empty() {
            compile = began.elapsed();
        }
        tell(&format!("calling: {}", case.name()));
        let mut of_case = timed(&run, case, effort);
        tell(&format!(
            "compiling again, to count instructions, and calling: {}",
            case.name()
        ));
        count.ready(case)?;
        // The first call of an instance may do what later ones find done.
        let twice = count.again(case).and_then(|()| {
            count.sweep();
            count.again(case)
        });
        if twice.is_ok() {
            of_case.fuel = count.taken().fuel;
        }
        measured.push(of_case);
        // Whatever it is, one has the component compiled.
        last = Some((run, count));
    }
    tell("starting instances");
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        if last.as_ref().is_some_and(|(run, _)| run.start().is_ok()) {
            starts.push(began.elapsed());
        }
    }
    starts.sort();
    Ok(BenchResult {
        compile,
        start: quantile(&starts, 50),
        cases: measured,
    })
}

fn timed(run: &CaseRunner<'_>, case: &Case, effort: Effort) -> MeasuredCase {
    let call = || {
        let began = Instant::now();
        let done = run.again(case);
        (began.elapsed(), done)
    };
    let (first, done) = call();
    run.sweep();
    let mut failure: Option<CallFailure> = done.err();
    let mut again = |most: usize, time: Duration| {
        let (mut times, end) = (Vec::new(), Instant::now() + time);
        while failure.is_none() && times.len() < most && (times.is_empty() || Instant::now() < end)
        {
            let (time, done) = call();
            match done {
                Ok(()) => times.push(time),
                Err(how) => failure = Some(how),
            }
            run.sweep();
        }
        times
    };
    // A slow module is measured at all rather than warm.
    drop(again(effort.calls / 10, effort.time / 10));
    let mut times = again(effort.calls, effort.time);
    times.sort();
    MeasuredCase {
        case: case.name().to_owned(),
        calls: times.len(),
        first,
        median: quantile(&times, 50),
        p95: quantile(&times, 95),
        p99: quantile(&times, 99),
        fuel: None,
        memory: run.taken().memory,
        failure: failure.map(|failure| failure.to_string()),
    }
}

/// The time that so many of a hundred do not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

/// What modules without cases are called with, by their roles.
const USUAL: [(Role, &str); 10] = [
    (
        Role::EventHandler,
        "event = { code = -3001, source = \"solver:0\", user = 1000, infos = [\"site.load=5\"] }",
    ),
    (
        Role::ConnectionPolicy,
        "request = { hook = \"connection\", kind = \"client\", requester = \"solver:0\", user = 1000, \
         targets = [{ proc = \"solver:0\", owner = 1000 }] }",
    ),
    (
        Role::EventPolicy,
        "request = { hook = \"event\", code = -3001, requester = \"solver:0\", user = 1000 }",
    ),
    (
        Role::JobControlPolicy,
        "request = { hook = \"job-control\", requester = \"solver:0\", user = 1000, \
         targets = [{ proc = \"other:*\", owner = 1000 }], directives = [\"PMIX_JOB_CTRL_KILL=true\"] }",
    ),
    (
        Role::MonitorPolicy,
        "request = { hook = \"monitor\", requester = \"solver:0\", user = 1000, \
         infos = [\"PMIX_MONITOR_HEARTBEAT=true\"], directives = [\"PMIX_MONITOR_HEARTBEAT_TIME=5\"] }",
    ),
    (
        Role::ProvisionPolicy,
        "request = { hook = \"provision\", requester = \"solver:0\", user = 1000, nodes = [\"node01\", \"node02\"], \
         image = \"rescue\" }",
    ),
    (
        Role::LogPolicy,
        "request = { hook = \"log\", requester = \"solver:0\", user = 1000, infos = [\"PMIX_LOG_STDOUT=a line\"] }",
    ),
    (
        Role::GroupPolicy,
        "request = { hook = \"group\", kind = \"construct\", name = \"crew\", requester = \"solver:0\", user = 1000, \
         targets = [{ proc = \"solver:*\", owner = 1000 }] }",
    ),
    (
        Role::SpawnPolicy,
        "request = { hook = \"spawn\", requester = \"solver:0\", user = 1000, \
         applications = [{ command = \"/usr/bin/worker\", procs = 4 }], directives = [\"PMIX_NOTIFY_COMPLETION=true\"] }",
    ),
    (
        Role::LogChannel,
        "log = { channel = \"stdout\", source = \"solver:0\", user = 1000, data = [\"PMIX_LOG_STDOUT=a line\"] }",
    ),
];

fn usual(bytes: &[u8]) -> Result<Cases, BenchError> {
    let roles = inspect(bytes)?.roles;
    let cases = USUAL.iter().filter(|(role, _)| roles.contains(role));
    let text: String = cases
        .map(|(role, case)| format!("[[case]]\nname = \"{}\"\n{case}\n", role.name()))
        .collect();
    let none = || BenchError::NoCases {
        roles: roles
            .iter()
            .map(|role| role.name())
            .collect::<Vec<_>>()
            .join(", "),
    };
    // They are as they must be; a test says so.
    Cases::parse(Path::new("built-in"), &text)
        .ok()
        .filter(|cases| !cases.is_empty())
        .ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_cases_are_as_they_must_be() {
        for (role, case) in USUAL {
            let text = format!("[[case]]\nname = \"{}\"\n{case}\n", role.name());
            assert_eq!(
                Cases::parse(Path::new("built-in"), &text)
                    .map(|cases| cases.len())
                    .map_err(|error| error.to_string()),
                Ok(1)
            );
        }
    }

    #[test]
    fn quantiles_are_measured_values() {
        let times: Vec<Duration> = (1..=100).map(Duration::from_micros).collect();
        let at = |percent| quantile(&times, percent).unwrap().as_micros();
        assert_eq!((at(50), at(95), at(99)), (50, 95, 99));
        assert_eq!(
            (quantile(&times[..1], 99), quantile(&[], 50)),
            (Some(Duration::from_micros(1)), None)
        );
    }
}
