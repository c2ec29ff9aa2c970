//! Being watched and watching (`PMIx_Process_monitor`, RFC "Job control and monitoring"): heartbeats, files, the use of resources.
use crate::{
    Call, Client, ClientError,
    control::{path_value, which_value, whole_seconds},
    session::ClientSession,
};
use peal_core::job_control::RequestSelector;
use peal_model::{
    CommandCode, DataArray, Info, KeyName, Proc, Range, Reply, Request, Status, Value, code, key,
};
use std::{path::Path, sync::Weak, time::Duration};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

/// Something that the server shall watch, and how it tells of it: by an event.
///
/// ```no_run
/// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
/// use peal_client::{FileSign, MonitorRequest};
/// use std::{path::Path, time::Duration};
///
/// // One alert if no heartbeat comes for three times five seconds.
/// client.watch(MonitorRequest::heartbeat(Duration::from_secs(5), 2)).await?;
/// let heart = client.heartbeats(Duration::from_secs(2));
/// let growing = MonitorRequest::file(Path::new("/scratch/out.log"), FileSign::Size, Duration::from_secs(60), 0);
/// client.watch(growing.called("output").left_to_the_application()).await?;
/// // From here on nobody beats.
/// drop(heart);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct MonitorRequest {
    monitor: Info,
    alert: Status,
    directives: Vec<Info>,
}

/// By what a file shows that somebody is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSign {
    /// It grows (`PMIX_MONITOR_FILE_SIZE`).
    Size,
    /// It is read (`PMIX_MONITOR_FILE_ACCESS`).
    Access,
    /// It is changed (`PMIX_MONITOR_FILE_MODIFY`).
    Modify,
}

/// Whose use of resources is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UsageSubject {
    /// That of these procs (`PMIX_MONITOR_PROC_RESOURCE_USAGE`); none: all of the requester's job.
    Procs(Vec<Proc>),
    /// That of the server's node (`PMIX_MONITOR_NODE_RESOURCE_USAGE`).
    Node,
    /// That of its disks (`PMIX_MONITOR_DISK_RESOURCE_USAGE`).
    Disks,
    /// That of its network interfaces (`PMIX_MONITOR_NET_RESOURCE_USAGE`).
    Networks,
}

impl MonitorRequest {
    /// Have the requester watched: it must beat at least so often, in whole seconds. If more beats than `drops` are missing,
    /// `PMIX_MONITOR_HEARTBEAT_ALERT` is raised.
    pub fn heartbeat(every: Duration, drops: u32) -> MonitorRequest {
        MonitorRequest {
            monitor: Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true)),
            alert: code::PMIX_MONITOR_HEARTBEAT_ALERT,
            directives: vec![
                seconds(key::PMIX_MONITOR_HEARTBEAT_TIME, every),
                Info::new(key::PMIX_MONITOR_HEARTBEAT_DROPS, Value::Uint32(drops)),
            ],
        }
    }

    /// Have a file looked at so often, in whole seconds. If it shows no life more often than `drops` in a row, `PMIX_MONITOR_FILE_ALERT` is
    /// raised.
    pub fn file(path: &Path, sign: FileSign, every: Duration, drops: u32) -> MonitorRequest {
        let sign = match sign {
            FileSign::Size => key::PMIX_MONITOR_FILE_SIZE,
            FileSign::Access => key::PMIX_MONITOR_FILE_ACCESS,
            FileSign::Modify => key::PMIX_MONITOR_FILE_MODIFY,
        };
        MonitorRequest {
            monitor: Info::new(key::PMIX_MONITOR_FILE, path_value(path)),
            alert: code::PMIX_MONITOR_FILE_ALERT,
            directives: vec![
                Info::new(sign, Value::Bool(true)),
                seconds(key::PMIX_MONITOR_FILE_CHECK_TIME, every),
                Info::new(key::PMIX_MONITOR_FILE_DROPS, Value::Uint32(drops)),
            ],
        }
    }

    /// Have the use of resources told: once in the answer, or with [`MonitorRequest::at_rate`] again and again as
    /// `PMIX_MONITOR_RESUSAGE_UPDATE`.
    pub fn usage(of: UsageSubject) -> MonitorRequest {
        let (what, procs) = match of {
            UsageSubject::Procs(procs) => (key::PMIX_MONITOR_PROC_RESOURCE_USAGE, procs),
            UsageSubject::Node => (key::PMIX_MONITOR_NODE_RESOURCE_USAGE, Vec::new()),
            UsageSubject::Disks => (key::PMIX_MONITOR_DISK_RESOURCE_USAGE, Vec::new()),
            UsageSubject::Networks => (key::PMIX_MONITOR_NET_RESOURCE_USAGE, Vec::new()),
        };
        let targets = (!procs.is_empty())
            .then(|| Info::new(key::PMIX_MONITOR_TARGET_PROCS, Value::procs(procs)));
        MonitorRequest {
            // An array that names no numbers asks for all there are.
            monitor: Info::new(what, Value::DataArray(DataArray::infos([]))),
            alert: code::PMIX_MONITOR_RESUSAGE_UPDATE,
            directives: targets.into_iter().collect(),
        }
    }

    /// How often the use of resources is told, in whole seconds (`PMIX_MONITOR_RESOURCE_RATE`).
    pub fn at_rate(mut self, every: Duration) -> MonitorRequest {
        self.directives
            .push(seconds(key::PMIX_MONITOR_RESOURCE_RATE, every));
        self
    }

    /// What the requester calls it (`PMIX_MONITOR_ID`), by which it can be ended.
    pub fn called(mut self, id: &str) -> MonitorRequest {
        self.directives
            .push(Info::new(key::PMIX_MONITOR_ID, Value::string(id)));
        self
    }

    /// Nobody but the application does anything about an alert (`PMIX_MONITOR_APP_CONTROL`).
    pub fn left_to_the_application(mut self) -> MonitorRequest {
        self.directives
            .push(Info::new(key::PMIX_MONITOR_APP_CONTROL, Value::Bool(true)));
        self
    }

    /// The code of the event that tells of it, instead of the Standard's.
    pub fn alerting(mut self, code: Status) -> MonitorRequest {
        self.alert = code;
        self
    }

    /// Whom that event is for; without it, the requester's namespace.
    pub fn reaching(mut self, range: Range) -> MonitorRequest {
        self.directives
            .push(Info::new(key::PMIX_RANGE, Value::Range(range)));
        self
    }

    /// The code of the event that tells of it.
    pub fn alert(&self) -> Status {
        self.alert
    }
}

fn seconds(key: KeyName, time: Duration) -> Info {
    Info::new(key, Value::Uint32(whole_seconds(time)))
}

/// While this is there, the client beats.
#[derive(Debug)]
pub struct HeartbeatTask(JoinHandle<()>);

impl Drop for HeartbeatTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Has something watched (`PMIx_Process_monitor`): an event of the code `error` is raised when it shows no life. If it is refused,
    /// [`ClientError::Refused`] holds the reasons.
    pub async fn monitor(
        &self,
        monitor: Info,
        error: Status,
        directives: &[Info],
    ) -> Result<Vec<Info>, ClientError> {
        match self
            .ask(Request::Monitor {
                monitor,
                error,
                directives: directives.to_vec(),
            })
            .await?
        {
            Reply::Infos { infos, .. } => Ok(infos),
            Reply::Status(_) => Ok(Vec::new()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Monitor),
            }),
        }
    }

    /// Has this watched, until it is ended by [`Client::unwatch`] or we leave.
    pub async fn watch(&self, watch: MonitorRequest) -> Result<Vec<Info>, ClientError> {
        let MonitorRequest {
            monitor,
            alert,
            directives,
            ..
        } = watch;
        self.monitor(monitor, alert, &directives).await
    }

    /// Ends what we have watched (`PMIX_MONITOR_CANCEL`).
    pub async fn unwatch(&self, which: &RequestSelector) -> Result<(), ClientError> {
        let cancel = Info::new(key::PMIX_MONITOR_CANCEL, which_value(which));
        self.monitor(cancel, code::PMIX_SUCCESS, &[])
            .await
            .map(drop)
    }

    /// Beats once (`PMIX_SEND_HEARTBEAT`, `PMIx_Heartbeat`). Nothing is answered: that it succeeds says that it is on its way.
    pub async fn beat(&self) -> Result<(), ClientError> {
        let beat = async { self.session().beat().await };
        self.bounded(CommandCode::Monitor, self.answer_limit(), beat)
            .await
    }

    /// Beats now and then so often, until what this returns is dropped or we leave. It says that this process and its runtime are
    /// alive; to say that the work goes on, the work must call [`Client::beat`].
    pub fn heartbeats(&self, period: Duration) -> HeartbeatTask {
        let session = std::sync::Arc::downgrade(self.session());
        HeartbeatTask(tokio::spawn(beat_on(
            session,
            period.max(Duration::from_millis(1)),
        )))
    }
}

/// Does not keep the connection open: a client that was dropped is lost to its server all the same.
async fn beat_on(session: Weak<ClientSession>, period: Duration) {
    let mut ticks = interval(period);
    // A late beat is not made up for by more of them.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(session) = session.upgrade() else {
            return;
        };
        if let Err(error) = session.beat().await {
            // A tool may attach to another server.
            tracing::debug!(%error, "a heartbeat is not sent");
        }
    }
}
