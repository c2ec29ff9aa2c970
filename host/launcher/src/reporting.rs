//! What a launcher logs by itself of a job and its procs, as whoever starts the job asks.
use peal_model::{DataArray, Info, Key, Nspace, Proc, Value, key};
use peal_server::ServerHandle;
use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

/// What is to be logged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reported {
    /// That the job starts, and how it ends (`PMIX_LOG_JOB_EVENTS`).
    JobEvents,
    /// How the job ends (`PMIX_LOG_COMPLETION`).
    Completion,
    /// How each proc ends (`PMIX_LOG_PROC_TERMINATION`).
    Terminations,
    /// How those procs end that do not end in order (`PMIX_LOG_PROC_ABNORMAL_TERMINATION`).
    AbnormalTerminations,
}

impl Reported {
    /// All of them, and the word for each.
    pub const ALL: [(Reported, &'static str); 4] = [
        (Reported::JobEvents, "job"),
        (Reported::Completion, "completion"),
        (Reported::Terminations, "procs"),
        (Reported::AbnormalTerminations, "failures"),
    ];
}

/// What is logged of a job, and where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reporting {
    /// What.
    pub of: BTreeSet<Reported>,
    /// To which channels; where the site has such messages go, if there are none.
    pub to: Vec<Key>,
}

impl Reporting {
    /// Has a server log a line about a job or a proc of it, if one of these is wanted.
    pub(super) fn tell(&self, server: &ServerHandle, about: Proc, wanted: &[Reported], line: &str) {
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
        let line = line.to_owned();
        tokio::spawn(async move {
            let status = logged.await;
            if !status.is_success() {
                tracing::warn!(%status, line, "what was to be logged of a job was not, or not everywhere");
            }
        });
    }
}

/// The line as a channel takes it.
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
