//! Benchmarks of components: time, instructions and memory of calls, and the time until a component
//! is ready.
use crate::module_test::{CallRecords, Candidate, Case, CaseRunner, Cases, TrialError};
use peal_sandbox::{CallFailure, Engine, FormatError, ModuleLimits, Role, inspect};
use serde::{Serialize, Serializer};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use thiserror::Error;

/// Number of fresh instances that are started to measure the start.
const STARTS: usize = 50;

/// Extent of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Limit of measured calls of a case. A tenth as many come before, to warm up.
    pub calls: usize,
    /// Time after which no further call of a case starts.
    pub time: Duration,
}

impl Default for Effort {
    /// Returns 10,000 calls or two seconds.
    fn default() -> Effort {
        Effort {
            calls: 10_000,
            time: Duration::from_secs(2),
        }
    }
}

/// Reason why a component cannot be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The bytes are not a component.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The component cannot be run with the cases.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// There are no cases to call the component with.
    #[error("there are no cases, and none of its own for a module with these roles: [{roles}]")]
    NoCases {
        /// Roles of the component.
        roles: String,
    },
}

/// Results of a component.
#[derive(Clone, Debug, Serialize)]
pub struct BenchResult {
    /// Time to check, compile and link the component and to start its first instance.
    #[serde(rename = "compile_us", serialize_with = "microseconds")]
    pub compile: Duration,
    /// Median time to start a fresh instance.
    #[serde(rename = "start_us", serialize_with = "microseconds_if_measured")]
    pub start: Option<Duration>,
    /// Results of each case.
    pub cases: Vec<MeasuredCase>,
}

/// Results of a case.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredCase {
    /// Name of the case.
    pub case: String,
    /// Number of measured calls.
    pub calls: usize,
    /// Time of the first call of the first instance, after its init.
    #[serde(rename = "first_us", serialize_with = "microseconds")]
    pub first: Duration,
    /// Time that half of the calls do not exceed; `None` if no call was measured.
    #[serde(rename = "median_us", serialize_with = "microseconds_if_measured")]
    pub median: Option<Duration>,
    /// Time that 95% of the calls do not exceed.
    #[serde(rename = "p95_us", serialize_with = "microseconds_if_measured")]
    pub p95: Option<Duration>,
    /// Time that 99% of the calls do not exceed.
    #[serde(rename = "p99_us", serialize_with = "microseconds_if_measured")]
    pub p99: Option<Duration>,
    /// Fuel of a warm call, which is roughly its number of instructions.
    pub fuel: Option<u64>,
    /// Peak size of the instance's memories and tables, in bytes.
    pub memory: usize,
    /// Failure of a call, if one failed; the case then ends.
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

/// Component to measure.
#[derive(Clone, Copy)]
pub struct BenchedComponent<'a> {
    /// Name of the module.
    pub name: &'a str,
    /// Bytes of the component.
    pub bytes: &'a [u8],
    /// Limits of its calls.
    pub limits: ModuleLimits,
}

/// Engines of a benchmark.
#[derive(Clone, Copy)]
pub struct BenchEngines<'a> {
    /// Engine in which calls are timed. It caches no compiled code, so that the compilation is
    /// timed too.
    pub timing: &'a Engine,
    /// Engine that counts fuel, which makes calls slower.
    pub counting: &'a Engine,
}

/// Factor of the time limit of a call while fuel is counted.
const COUNTING: u32 = 20;

/// Measures a component. `report` is called with the current step, after the compilation.
pub fn measure(
    component: BenchedComponent<'_>,
    engines: BenchEngines<'_>,
    cases: Option<&Cases>,
    effort: Effort,
    mut report: impl FnMut(&str),
) -> Result<BenchResult, BenchError> {
    let BenchedComponent {
        name,
        bytes,
        limits,
    } = component;
    // Declared here, because it has to outlive the match below, which borrows it.
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
        records: CallRecords::None,
    };
    // The time limit of a site must not stop a call that is slow only because it is counted.
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
        records: CallRecords::None,
    };
    let mut compile = Duration::ZERO;
    let mut measured = Vec::new();
    let mut last = None;
    for case in cases.iter() {
        let mut run = CaseRunner::new(&of, cases);
        let mut count = CaseRunner::new(&counted, cases);
        let began = Instant::now();
        run.ready(case)?;
        // Each case compiles the same bytes; the first time is enough.
        if measured.is_empty() {
            compile = began.elapsed();
        }
        report(&format!("calling: {}", case.name()));
        let mut of_case = timed(&run, case, effort);
        report(&format!(
            "compiling again, to count instructions, and calling: {}",
            case.name()
        ));
        count.ready(case)?;
        // The first call of an instance may do work that later calls need not repeat.
        let twice = count.again(case).and_then(|()| {
            count.sweep();
            count.again(case)
        });
        // A failure is part of the result of `timed`. Here only the number is missing.
        if twice.is_ok() {
            of_case.fuel = count.consumption().fuel;
        }
        measured.push(of_case);
        // The last runner holds the compiled component, which the starts below need.
        last = Some((run, count));
    }
    report("starting instances");
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
    // The reset between calls is not part of their time.
    run.sweep();
    let mut failure: Option<CallFailure> = done.err();
    let mut again = |most: usize, time: Duration| {
        let mut times = Vec::new();
        let end = Instant::now() + time;
        // One call is measured even if it takes longer than the whole time.
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
    // A slow component has no warm-up, rather than no measured call.
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
        memory: run.consumption().memory,
        failure: failure.map(|failure| failure.to_string()),
    }
}

/// Returns the time that this percentage of the times does not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    // The result is a time that was measured, not a mean of two.
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied()
}

/// Built-in cases for components without case files, by role.
const BUILT_IN_CASES: [(Role, &str); 10] = [
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
    let cases = BUILT_IN_CASES
        .iter()
        .filter(|(role, _)| roles.contains(role));
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
    // A test checks that the built-in cases are valid.
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
        for (role, case) in BUILT_IN_CASES {
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
