//! Jobs and their procs.
use super::{further, number, text};
use crate::top::{
    detail::{Detail, Fact},
    table::{DataCell, DataRow, DataTable, RowKey, Tone, is_positive},
};
use peal_server::admin::{ActivityJob, ActivityProc, ActivityProcState, LiveData, UNKNOWN_ID};

/// Returns the titles of the numbers of procs of a job. Which of its procs are connected, only the server's
/// admin socket tells.
fn proc_titles(data: &LiveData) -> [&'static str; 2] {
    match data.tool_server {
        Some(_) => ["RUNNING", "ENDED"],
        None => ["CONNECTED", "FINALIZED"],
    }
}

/// Returns the table of jobs.
pub fn table(data: &LiveData) -> DataTable {
    let [connected, finalized] = proc_titles(data);
    let row = |job: &ActivityJob| {
        let status = &job.status;
        let waiting = DataCell::count(status.expected.into());
        DataRow {
            key: RowKey::Job(status.nspace.clone()),
            cells: vec![
                DataCell::text(&status.nspace),
                DataCell::text(data.user(status.uid)),
                DataCell::count(status.size.into()),
                DataCell::count(status.connected.into()).tone_if(is_positive, Tone::Good),
                waiting.tone_if(is_positive, Tone::Plain),
                DataCell::count(status.finalized.into()).tone_if(is_positive, Tone::Plain),
                DataCell::count(status.lost.into()).tone_if(is_positive, Tone::Bad),
            ],
        }
    };
    DataTable {
        columns: vec![
            text("JOB", 0),
            text("USER", 0),
            number("PROCS", 0),
            number(connected, 0),
            number("EXPECTED", 0),
            number(finalized, 0),
            number("LOST", 0),
        ],
        flexible: 0,
        rows: data.jobs.jobs.iter().map(row).collect(),
        empty: "no jobs are registered",
        remark: further(data.jobs.further, "jobs"),
    }
}

/// Returns the details of a job.
pub fn detail(job: &ActivityJob, data: &LiveData) -> Detail {
    let status = &job.status;
    let row = |proc: &ActivityProc| {
        let tone = match proc.state {
            ActivityProcState::Connected | ActivityProcState::Running => Tone::Good,
            ActivityProcState::Expected => Tone::Warning,
            ActivityProcState::Lost => Tone::Bad,
            ActivityProcState::Finalized | ActivityProcState::Ended => Tone::Faint,
        };
        DataRow {
            key: RowKey::Proc(proc.rank),
            cells: vec![
                DataCell::count(proc.rank.into()),
                DataCell::text(proc.state.name()).tone(tone),
                DataCell::number(
                    proc.pid
                        .map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
                    proc.pid.unwrap_or_default().into(),
                ),
            ],
        }
    };
    let shown = u64::try_from(job.procs.len()).unwrap_or(u64::MAX);
    let here = shown.saturating_add(job.further_procs);
    let elsewhere = u64::from(status.size).saturating_sub(here);
    let group = match status.gid {
        UNKNOWN_ID => String::new(),
        gid => format!(", group {gid}"),
    };
    let mut rest = Vec::new();
    if job.further_procs > 0 {
        let further = job.further_procs;
        rest.push(format!(
            "and {further} more procs, which the report has no room for"
        ));
    }
    if elsewhere > 0 {
        rest.push(format!("and {elsewhere} more procs on other nodes"));
    }
    let [connected, finalized] = proc_titles(data).map(str::to_lowercase);
    Detail {
        title: format!("Job {}", crate::plain(&status.nspace)),
        facts: vec![
            Fact::new("user", format!("{}{group}", data.user(status.uid))),
            Fact::new(
                "procs",
                format!(
                    "{}: {} {connected}, {} expected, {} {finalized}, {} lost",
                    status.size, status.connected, status.expected, status.finalized, status.lost
                ),
            ),
        ],
        table: DataTable {
            columns: vec![number("RANK", 0), text("STATE", 0), number("PID", 0)],
            flexible: 1,
            rows: job.procs.iter().map(row).collect(),
            empty: "no proc of the job is on this node",
            remark: (!rest.is_empty()).then(|| rest.join(", ")),
        },
    }
}
