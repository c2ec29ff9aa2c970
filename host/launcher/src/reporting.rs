//! Log messages of the launcher about a job and its procs, as the user or a spawn request selects.
use peal_model::{DataArray, Info, Key, Nspace, Proc, Value, key};
use peal_server::ServerHandle;
use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

/// Kind of log messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reported {
    /// Start and exit of the job (`PMIX_LOG_JOB_EVENTS`).
    JobEvents,
    /// Exit of the job (`PMIX_LOG_COMPLETION`).
    Completion,
    /// Exit of each proc (`PMIX_LOG_PROC_TERMINATION`).
    Terminations,
    /// Exit of each proc that ends abnormally (`PMIX_LOG_PROC_ABNORMAL_TERMINATION`).
    AbnormalTerminations,
}

impl Reported {
    /// All kinds, each with its keyword.
    pub const ALL: [(Reported, &'static str); 4] = [
        (Reported::JobEvents, "job"),
        (Reported::Completion, "completion"),
        (Reported::Terminations, "procs"),
        (Reported::AbnormalTerminations, "failures"),
    ];
}

/// Log messages about a job, and their channels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reporting {
    /// Kinds of messages to log.
    pub of: BTreeSet<Reported>,
    /// Channels to log to. If empty, the site's routing of `PMIX_LOG_MSG` applies.
    pub to: Vec<Key>,
}

impl Reporting {
    /// Logs a line about a job or one of its procs, if one of these kinds is selected.
    pub(super) fn report(
        &self,
        server: &ServerHandle,
        about: Proc,
        wanted: &[Reported],
        line: &str,
    ) {
        if !wanted.iter().any(|reported| self.of.contains(reported)) {
            return;
        }
        let data = match &self.to[..] {
            [] => vec![Info::new(key::PMIX_LOG_MSG, Value::string(line))],
            channels => channels
                .iter()
                .map(|channel| copy(channel, &about.nspace, line))
                .collect(),
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let logged = server.log(Some(about), Some(now), data, Vec::new());
        // The result is awaited on a task, so that the job is not delayed by a slow channel.
        let line = line.to_owned();
        tokio::spawn(async move {
            let status = logged.await;
            if !status.is_success() {
                tracing::warn!(%status, line, "job report not written to all log channels");
            }
        });
    }
}

/// Returns the line in the form that a channel takes.
fn copy(channel: &Key, job: &Nspace, line: &str) -> Info {
    let value = if *channel == key::PMIX_LOG_EMAIL {
        let subject = format!("Job {}", job.as_str().escape_debug());
        let parts = [
            (key::PMIX_LOG_EMAIL_SUBJECT, &*subject),
            (key::PMIX_LOG_EMAIL_MSG, line),
        ];
        Value::DataArray(DataArray::infos(
            parts.map(|(key, text)| Info::new(key, Value::string(text))),
        ))
    } else {
        Value::string(line)
    };
    Info::new(channel.clone(), value)
}
