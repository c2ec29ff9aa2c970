//! Jobs and procs as a table, and as JSON.
use super::gather::{GatheredJob, GatheredProc};
use crate::{
    monitor::usage::MeasuredUsage,
    table::{Side, table},
    units,
};
use peal_model::{NodeName, ProcState, names::number};
use serde_json::{Value, json};

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcListFormat {
    /// For people, one table below the other.
    Plain,
    /// For people, in the place of the previous table.
    Redrawn,
    /// For programs.
    Json,
}

/// Columns of a list.
const HEAD: [(&str, Side); 8] = [
    ("job", Side::Left),
    ("user", Side::Left),
    ("rank", Side::Right),
    ("state", Side::Left),
    ("pid", Side::Right),
    ("cpu%", Side::Right),
    ("memory", Side::Right),
    ("command", Side::Left),
];
/// Escape sequence that clears the terminal.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";
/// Placeholder for an unknown value.
const UNKNOWN: &str = "-";

/// Formats the running jobs, with the last line end.
pub fn snapshot(
    jobs: &[GatheredJob],
    form: ProcListFormat,
    is_first: bool,
) -> serde_json::Result<String> {
    Ok(match form {
        ProcListFormat::Json => serde_json::to_string(&as_json(jobs))? + "\n",
        ProcListFormat::Redrawn => format!("{CLEAR}{}", text(jobs)),
        ProcListFormat::Plain if is_first => text(jobs),
        ProcListFormat::Plain => format!("\n{}", text(jobs)),
    })
}

/// Running jobs of a node.
pub struct NodeJobs<'a> {
    pub node: &'a NodeName,
    pub jobs: &'a [GatheredJob],
}

/// Formats the running jobs of nodes.
pub fn of_nodes<'a>(nodes: impl Iterator<Item = NodeJobs<'a>>) -> String {
    let rows: Vec<[String; 9]> = nodes
        .flat_map(|NodeJobs { node, jobs }| {
            let rows = jobs.iter().flat_map(rows);
            rows.map(|row| after_node(node.to_string(), row))
        })
        .collect();
    if rows.is_empty() {
        return "no jobs run in the cluster\n".to_owned();
    }
    table(after_node(("node", Side::Left), HEAD), &rows)
}

/// Puts the cell of a node before the others of a row.
fn after_node<T>(node: T, row: [T; 8]) -> [T; 9] {
    let [job, user, rank, state, pid, cpu, memory, command] = row;
    [node, job, user, rank, state, pid, cpu, memory, command]
}

/// Returns running jobs as JSON.
pub fn as_json(jobs: &[GatheredJob]) -> Vec<Value> {
    jobs.iter().map(job_json).collect()
}

fn text(jobs: &[GatheredJob]) -> String {
    if jobs.is_empty() {
        return "no jobs run here\n".to_owned();
    }
    let rows: Vec<[String; 8]> = jobs.iter().flat_map(rows).collect();
    table(HEAD, &rows)
}

/// Returns a row for each proc; a job without known procs has one row.
fn rows(job: &GatheredJob) -> Vec<[String; 8]> {
    let name = || job.nspace.as_str().to_owned();
    let unknown = || UNKNOWN.to_owned();
    let user = || job.uid.map_or_else(unknown, units::user);
    let command = || job.command.clone().unwrap_or_else(unknown);
    if job.procs.is_empty() {
        let size = job
            .size
            .map_or_else(unknown, |size| format!("0-{}", size.saturating_sub(1)));
        return vec![[
            name(),
            user(),
            size,
            unknown(),
            unknown(),
            unknown(),
            unknown(),
            command(),
        ]];
    }
    let row = |listed: &GatheredProc| {
        let GatheredProc { info, usage } = listed;
        // A server reports 0 for a proc without a process.
        let pid = if info.pid == 0 {
            unknown()
        } else {
            info.pid.to_string()
        };
        let cpu = usage
            .as_ref()
            .and_then(|usage| usage.cpu_percent)
            .map_or_else(unknown, |cpu| format!("{cpu:.1}"));
        let memory = usage
            .as_ref()
            .and_then(MeasuredUsage::memory_mb)
            .map_or_else(unknown, units::megabytes);
        [
            name(),
            user(),
            info.proc.rank.to_string(),
            state(listed).to_owned(),
            pid,
            cpu,
            memory,
            command(),
        ]
    };
    job.procs.iter().map(row).collect()
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
        number::PMIX_PROC_STATE_UNDEF => UNKNOWN,
        _ => "other",
    }
}

fn job_json(job: &GatheredJob) -> Value {
    let procs: Vec<Value> = job.procs.iter().map(proc_json).collect();
    json!({ "nspace": job.nspace.as_str(), "uid": job.uid, "size": job.size, "command": job.command, "procs": procs })
}

fn proc_json(listed: &GatheredProc) -> Value {
    let GatheredProc { info, usage } = listed;
    let state = state(listed);
    let text = |text: &Option<peal_model::Text>| {
        text.as_ref()
            .map(|text| text.to_string_lossy().into_owned())
    };
    json!({
        "rank": info.proc.rank.0,
        "state": (state != UNKNOWN).then_some(state),
        "pid": (info.pid != 0).then_some(info.pid),
        "node": text(&info.hostname),
        "executable": text(&info.executable),
        "usage": usage.as_ref().map(MeasuredUsage::json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
            resident_mb: Some(3.0),
            os_state: Some("T (stopped)".to_owned()),
            ..MeasuredUsage::default()
        };
        let procs = vec![
            listed(0, ProcState::RUNNING, Some(stopped)),
            listed(10, ProcState::TERMINATED, None),
        ];
        let solver = GatheredJob {
            nspace: Nspace::new("solver").unwrap(),
            uid: Some(0),
            size: Some(2),
            command: Some("./app\u{1b}[2J".to_owned()),
            procs,
        };
        let far = GatheredJob {
            nspace: Nspace::new("far").unwrap(),
            uid: None,
            size: Some(4),
            command: None,
            procs: Vec::new(),
        };
        let jobs = [solver, far];
        let expected = "\
job     user  rank  state     pid  cpu%  memory  command
solver  root     0  stopped  4711  12.3  3.0 MB  ./app\\u{1b}[2J
solver  root    10  ended       -     -       -  ./app\\u{1b}[2J
far     -      0-3  -           -     -       -  -
";
        assert_eq!(
            snapshot(&jobs, ProcListFormat::Plain, true).unwrap(),
            expected
        );
        assert_eq!(
            snapshot(&jobs, ProcListFormat::Redrawn, false).unwrap(),
            format!("{CLEAR}{expected}")
        );
        assert_eq!(
            snapshot(&[], ProcListFormat::Plain, false).unwrap(),
            "\nno jobs run here\n"
        );
        let told: Value =
            serde_json::from_str(&snapshot(&jobs, ProcListFormat::Json, true).unwrap()).unwrap();
        assert_eq!(told[0]["procs"][0]["usage"]["cpu_percent"], 12.345);
        assert_eq!(
            (&told[0]["procs"][1]["pid"], &told[1]["size"]),
            (&Value::Null, &4.into())
        );
    }
}
