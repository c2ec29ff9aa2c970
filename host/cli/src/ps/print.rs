//! Jobs and procs as a table, and for programs.
use super::gather::{GatheredJob, GatheredJobs, GatheredProc};
use crate::{
    args::OutputFormat,
    listing::{ListColumn, ListItem, ListOrder, ListSelection, NONE, listed, names},
    monitor::usage::MeasuredUsage,
    units, users,
};
use anyhow::Result;
use peal_model::{NodeName, ProcState, Rank, Text, names::number};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Placement of a table after a previous one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TablePlacement {
    /// There is no previous one.
    First,
    /// Below the previous one.
    Below,
    /// In the place of the previous one, on a terminal.
    Replacing,
}

/// Row of the table: a proc, or a job without known procs.
#[derive(Clone, Debug)]
pub struct ProcRow {
    /// Node of the cluster, if several are listed.
    node: Option<String>,
    /// Server of the job, if several are listed.
    server: Option<String>,
    job: String,
    uid: Option<u32>,
    /// Rank of the proc; none for a job without known procs.
    rank: Option<u32>,
    /// Number of procs of the job.
    size: Option<u64>,
    state: &'static str,
    pid: Option<u32>,
    /// Time since the start of the proc, or of the job, in seconds.
    elapsed: Option<f64>,
    usage: Option<MeasuredUsage>,
    /// Host of the process.
    host: Option<String>,
    executable: Option<String>,
    command: Option<String>,
}

impl ProcRow {
    /// Formats the rank, or all ranks of the job.
    fn ranks(&self) -> String {
        let of_job = self
            .size
            .map(|size| format!("0-{}", size.saturating_sub(1)));
        let rank = self.rank.map(|rank| Rank(rank).to_string());
        rank.or(of_job).unwrap_or_else(|| NONE.to_owned())
    }

    fn amount(&self, of: fn(&MeasuredUsage) -> Option<f64>) -> Option<f64> {
        self.usage.as_ref().and_then(of)
    }
}

impl ListItem for ProcRow {
    const COLUMNS: &'static [ListColumn<ProcRow>] = &[
        ListColumn::<ProcRow>::optional_text("node", |row| row.node.clone()).if_given(),
        ListColumn::<ProcRow>::optional_text("server", |row| row.server.clone()).if_given(),
        ListColumn::<ProcRow>::text("job", |row| row.job.clone()),
        ListColumn::<ProcRow>::optional_text("user", |row| row.uid.map(users::shown)),
        ListColumn::<ProcRow>::numbered_text("rank", ProcRow::ranks, |row| row.rank.map(f64::from)),
        ListColumn::<ProcRow>::text("state", |row| row.state.to_owned()),
        ListColumn::<ProcRow>::number("pid", |row| row.pid.map(f64::from), units::count),
        ListColumn::<ProcRow>::number("elapsed", |row| row.elapsed, units::seconds),
        ListColumn::<ProcRow>::number(
            "cpu%",
            |row| row.amount(|usage| usage.cpu_percent),
            |cpu| format!("{cpu:.1}"),
        ),
        ListColumn::<ProcRow>::number(
            "cpu time",
            |row| row.amount(|usage| usage.cpu_seconds),
            units::seconds,
        )
        .wide(),
        ListColumn::<ProcRow>::number(
            "memory",
            |row| row.amount(MeasuredUsage::memory_mb),
            units::megabytes,
        ),
        ListColumn::<ProcRow>::number(
            "threads",
            |row| row.amount(|usage| usage.threads.map(|threads| threads as f64)),
            units::count,
        )
        .wide(),
        ListColumn::<ProcRow>::optional_text("host", |row| row.host.clone()).wide(),
        ListColumn::<ProcRow>::optional_text("executable", |row| row.executable.clone()).wide(),
        ListColumn::<ProcRow>::optional_text("command", |row| row.command.clone()),
    ];

    const STATES: &'static [&'static str] = &[
        "prepared",
        "starting",
        "restarting",
        "ending",
        "running",
        "stopped",
        "connected",
        "ended",
        "killed",
        "aborted",
        "failed",
        "not started",
        "silent",
        "other",
    ];
}

/// Escape sequence that clears the terminal.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Formats the running jobs, with the last line end.
pub fn snapshot(
    GatheredJobs { jobs, is_complete }: &GatheredJobs,
    format: OutputFormat,
    order: Option<&ListOrder>,
) -> Result<String> {
    Ok(match format {
        OutputFormat::Data(form) => form.document(&as_json(jobs))?,
        OutputFormat::Name => job_names(jobs),
        _ if jobs.is_empty() && *is_complete => "no jobs run here\n".to_owned(),
        _ if jobs.is_empty() => "no jobs run at the servers that answer\n".to_owned(),
        _ => {
            let mut rows: Vec<ProcRow> = jobs.iter().flat_map(rows).collect();
            if let Some(order) = order {
                order.sort(&mut rows);
            }
            listed(&rows, format)
        }
    })
}

/// Returns the jobs and procs that a selection has, in its order. A job has the place of its first proc.
pub fn selected(jobs: Vec<GatheredJob>, selection: &ListSelection) -> Vec<GatheredJob> {
    let jobs = jobs.into_iter();
    let mut jobs: Vec<GatheredJob> = jobs.filter(|job| selection.has_user(job.uid)).collect();
    if !selection.states.is_empty() {
        for job in &mut jobs {
            job.procs.retain(|proc| selection.has_state(state(proc)));
        }
        jobs.retain(|job| !job.procs.is_empty());
    }
    if let Some(order) = &selection.order {
        for job in &mut jobs {
            let of_job = job_row(job);
            let row = |proc: &GatheredProc| proc_row(&of_job, proc);
            job.procs.sort_by_cached_key(|proc| order.key(&row(proc)));
        }
        jobs.sort_by_cached_key(|job| rows(job).first().map(|row| order.key(row)));
    }
    jobs
}

/// Formats the running jobs at one of several times.
pub fn update(
    jobs: &GatheredJobs,
    format: OutputFormat,
    order: Option<&ListOrder>,
    placement: TablePlacement,
) -> Result<String> {
    match (format, placement) {
        (OutputFormat::Data(form), _) => form.record(&as_json(&jobs.jobs)),
        (_, TablePlacement::Replacing) => Ok(format!("{CLEAR}{}", snapshot(jobs, format, order)?)),
        (OutputFormat::Name, _) | (_, TablePlacement::First) => snapshot(jobs, format, order),
        (_, TablePlacement::Below) => Ok(format!("\n{}", snapshot(jobs, format, order)?)),
    }
}

/// Running jobs of a node.
pub struct NodeJobs<'a> {
    pub node: &'a NodeName,
    pub jobs: &'a [GatheredJob],
}

/// Formats the running jobs of nodes as a table or as names.
pub fn of_nodes<'a>(
    nodes: impl Iterator<Item = NodeJobs<'a>>,
    format: OutputFormat,
    order: Option<&ListOrder>,
) -> String {
    let mut all = Vec::new();
    for NodeJobs { node, jobs } in nodes {
        all.extend(jobs.iter().flat_map(rows).map(|row| ProcRow {
            node: Some(node.to_string()),
            ..row
        }));
    }
    if let Some(order) = order {
        order.sort(&mut all);
    }
    if format == OutputFormat::Name {
        return each_name(all.iter().map(|row| row.job.as_str()));
    }
    if all.is_empty() {
        return "no jobs run in the cluster\n".to_owned();
    }
    listed(&all, format)
}

/// Returns running jobs as JSON.
pub fn as_json(jobs: &[GatheredJob]) -> Vec<Value> {
    jobs.iter().map(job_json).collect()
}

fn job_names(jobs: &[GatheredJob]) -> String {
    each_name(jobs.iter().map(|job| job.nspace.as_str()))
}

/// Formats names, each once. Several nodes and servers may have a job.
fn each_name<'a>(jobs: impl Iterator<Item = &'a str>) -> String {
    let mut printed = BTreeSet::new();
    names(jobs.filter(|job| printed.insert(*job)))
}

/// Returns a row for each proc; a job without known procs has one row.
fn rows(job: &GatheredJob) -> Vec<ProcRow> {
    let of_job = job_row(job);
    if job.procs.is_empty() {
        return vec![of_job];
    }
    let procs = job.procs.iter();
    procs.map(|proc| proc_row(&of_job, proc)).collect()
}

/// Returns the row of a job without known procs.
fn job_row(job: &GatheredJob) -> ProcRow {
    ProcRow {
        node: None,
        server: job.server.clone(),
        job: job.nspace.as_str().to_owned(),
        uid: job.uid,
        rank: None,
        size: job.size,
        state: NONE,
        pid: None,
        elapsed: job.elapsed.map(|seconds| seconds as f64),
        usage: None,
        host: None,
        executable: None,
        command: job.command.clone(),
    }
}

fn proc_row(of_job: &ProcRow, listed: &GatheredProc) -> ProcRow {
    let GatheredProc { info, usage } = listed;
    ProcRow {
        rank: Some(info.proc.rank.0),
        state: state(listed),
        pid: pid(listed),
        elapsed: usage.as_ref().and_then(|usage| usage.elapsed_seconds),
        usage: usage.clone(),
        host: text(&info.hostname),
        executable: text(&info.executable),
        ..of_job.clone()
    }
}

/// Returns the process id. A server reports 0 for a proc without a process.
fn pid(listed: &GatheredProc) -> Option<u32> {
    Some(listed.info.pid).filter(|pid| *pid != 0)
}

fn text(text: &Option<Text>) -> Option<String> {
    text.as_ref()
        .map(|text| text.to_string_lossy().into_owned())
}

/// Returns the state of a proc in a word. A stopped process is known to the operating system only.
fn state(listed: &GatheredProc) -> &'static str {
    match u64::from(listed.info.state.0) {
        _ if listed.info.state == ProcState::RUNNING
            && listed.usage.as_ref().is_some_and(MeasuredUsage::is_stopped) =>
        {
            "stopped"
        }
        number::PMIX_PROC_STATE_PREPPED => "prepared",
        number::PMIX_PROC_STATE_LAUNCH_UNDERWAY => "starting",
        number::PMIX_PROC_STATE_RESTART => "restarting",
        number::PMIX_PROC_STATE_TERMINATE => "ending",
        number::PMIX_PROC_STATE_RUNNING => "running",
        number::PMIX_PROC_STATE_CONNECTED => "connected",
        number::PMIX_PROC_STATE_TERMINATED => "ended",
        number::PMIX_PROC_STATE_KILLED_BY_CMD => "killed",
        number::PMIX_PROC_STATE_ABORTED
        | number::PMIX_PROC_STATE_ABORTED_BY_SIG
        | number::PMIX_PROC_STATE_CALLED_ABORT => "aborted",
        number::PMIX_PROC_STATE_TERM_NON_ZERO | number::PMIX_PROC_STATE_TERM_WO_SYNC => "failed",
        number::PMIX_PROC_STATE_FAILED_TO_START | number::PMIX_PROC_STATE_FAILED_TO_LAUNCH => {
            "not started"
        }
        number::PMIX_PROC_STATE_HEARTBEAT_FAILED => "silent",
        number::PMIX_PROC_STATE_UNDEF => NONE,
        _ => "other",
    }
}

fn job_json(job: &GatheredJob) -> Value {
    let procs: Vec<Value> = job.procs.iter().map(proc_json).collect();
    json!({ "server": job.server, "nspace": job.nspace.as_str(), "uid": job.uid, "user": job.uid.and_then(users::name), "size": job.size, "elapsed": job.elapsed, "command": job.command, "procs": procs })
}

fn proc_json(listed: &GatheredProc) -> Value {
    let GatheredProc { info, usage } = listed;
    let state = state(listed);
    json!({
        "rank": info.proc.rank.0,
        "state": (state != NONE).then_some(state),
        "pid": pid(listed),
        "node": text(&info.hostname),
        "executable": text(&info.executable),
        "usage": usage.as_ref().map(MeasuredUsage::json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DataFormat;
    use peal_model::{Nspace, Proc, ProcInfo, Rank};

    fn listed(rank: u32, state: ProcState, usage: Option<MeasuredUsage>) -> GatheredProc {
        let proc = Proc::new(Nspace::new("solver").unwrap(), Rank(rank));
        let pid = if state == ProcState::TERMINATED {
            0
        } else {
            4711
        };
        GatheredProc {
            info: ProcInfo {
                proc,
                hostname: None,
                executable: None,
                pid,
                state,
            },
            usage,
        }
    }

    #[test]
    fn unknown_values_are_dashes_and_stopped_procs_are_marked() {
        let stopped = MeasuredUsage {
            cpu_percent: Some(12.345),
            elapsed_seconds: Some(75.0),
            resident_mb: Some(3.0),
            os_state: Some("T (stopped)".to_owned()),
            ..MeasuredUsage::default()
        };
        let procs = vec![
            listed(0, ProcState::RUNNING, Some(stopped)),
            listed(10, ProcState::TERMINATED, None),
        ];
        let solver = GatheredJob {
            server: None,
            nspace: Nspace::new("solver").unwrap(),
            uid: Some(0),
            size: Some(2),
            command: Some("./app\u{1b}[2J".to_owned()),
            elapsed: Some(80),
            procs,
        };
        let far = GatheredJob {
            server: None,
            nspace: Nspace::new("far").unwrap(),
            uid: None,
            size: Some(4),
            command: None,
            elapsed: Some(7200),
            procs: Vec::new(),
        };
        let known = |jobs: &[GatheredJob]| GatheredJobs {
            jobs: jobs.to_vec(),
            is_complete: true,
        };
        let jobs = [solver, far];
        let all = known(&jobs);
        let expected = "\
job     user      rank  state     pid  elapsed  cpu%  memory  command
solver  root (0)     0  stopped  4711    1m15s  12.3  3.0 MB  ./app\\u{1b}[2J
solver  root (0)    10  ended       -        -     -       -  ./app\\u{1b}[2J
far     -          0-3  -           -    2h00m     -       -  -
";
        let text = OutputFormat::Text;
        assert_eq!(snapshot(&all, text, None).unwrap(), expected);
        for (placement, before) in [
            (TablePlacement::First, ""),
            (TablePlacement::Below, "\n"),
            (TablePlacement::Replacing, CLEAR),
        ] {
            assert_eq!(
                update(&all, text, None, placement).unwrap(),
                format!("{before}{expected}")
            );
        }
        let mut none = known(&[]);
        assert_eq!(snapshot(&none, text, None).unwrap(), "no jobs run here\n");
        none.is_complete = false;
        let unknown = snapshot(&none, text, None).unwrap();
        assert_eq!(unknown, "no jobs run at the servers that answer\n");
        let twice = [all.jobs.clone(), all.jobs.clone()].concat();
        assert_eq!(
            snapshot(&known(&twice), OutputFormat::Name, None).unwrap(),
            "solver\nfar\n"
        );
        let wide = snapshot(&all, OutputFormat::Wide, None).unwrap();
        assert!(wide.contains("  cpu time  ") && wide.contains("  executable  "));
        let told = snapshot(&all, OutputFormat::Data(DataFormat::Json), None).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told[0]["procs"][0]["usage"]["cpu_percent"], 12.345);
        assert_eq!(
            (&told[0]["procs"][1]["pid"], &told[1]["size"]),
            (&Value::Null, &4.into())
        );
        let order = ListOrder::parse::<ProcRow>("-rank").unwrap();
        let selection = ListSelection {
            order: Some(order.clone()),
            ..ListSelection::default()
        };
        let sorted = selected(jobs.to_vec(), &selection);
        assert_eq!(sorted[0].procs[0].info.proc.rank.0, 10);
        let table = snapshot(&known(&sorted), text, Some(&order)).unwrap();
        let ranks: Vec<&str> = table
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().nth(3))
            .collect();
        assert_eq!(ranks, ["10", "0", "-"], "{table}");
        let stopped = ListSelection {
            states: vec!["stopped".to_owned()],
            user: Some(0),
            order: None,
        };
        let stopped = selected(jobs.to_vec(), &stopped);
        assert_eq!((stopped.len(), stopped[0].procs.len()), (1, 1));
    }
}
