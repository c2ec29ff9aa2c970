//! Monitoring of procs, files and resources, and heartbeats (`PMIx_Process_monitor`, RFC "Job
//! control and monitoring").
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

/// Request that the server monitors something and raises an event about it.
///
/// ```no_run
/// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
/// use peal_client::{FileSign, MonitorRequest};
/// use std::{path::Path, time::Duration};
///
/// // One alert if no heartbeat comes for three times five seconds.
/// client.watch(MonitorRequest::heartbeat(Duration::from_secs(5), 2)).await?;
/// let heart = client.heartbeats(Duration::from_secs(2));
/// let path = Path::new("/scratch/out.log");
/// let growing = MonitorRequest::file(path, FileSign::Size, Duration::from_secs(60), 0);
/// client.watch(growing.called("output").left_to_the_application()).await?;
/// // No more heartbeats are sent from here on.
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

/// Change of a file that counts as a sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSign {
    /// The file grows (`PMIX_MONITOR_FILE_SIZE`).
    Size,
    /// The file is read (`PMIX_MONITOR_FILE_ACCESS`).
    Access,
    /// The file is modified (`PMIX_MONITOR_FILE_MODIFY`).
    Modify,
}

/// Subject of a request for resource usage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UsageSubject {
    /// These procs (`PMIX_MONITOR_PROC_RESOURCE_USAGE`); none means all procs of the requester's
    /// job.
    Procs(Vec<Proc>),
    /// Node of the server (`PMIX_MONITOR_NODE_RESOURCE_USAGE`).
    Node,
    /// Disks of that node (`PMIX_MONITOR_DISK_RESOURCE_USAGE`).
    Disks,
    /// Network interfaces of that node (`PMIX_MONITOR_NET_RESOURCE_USAGE`).
    Networks,
}

impl MonitorRequest {
    /// Monitors the heartbeats of the requester, one of which is expected in each period of
    /// `every`, in whole seconds. If more than `drops` of them are missing, the server raises
    /// `PMIX_MONITOR_HEARTBEAT_ALERT`.
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

    /// Monitors a file, which the server checks once in each period of `every`, in whole seconds.
    /// If more than `drops` checks in a row find no sign of life, the server raises
    /// `PMIX_MONITOR_FILE_ALERT`.
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

    /// Requests the usage of resources: once in the reply, or with [`MonitorRequest::at_rate`]
    /// repeatedly as `PMIX_MONITOR_RESUSAGE_UPDATE`.
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
            // An array without members asks for all numbers.
            monitor: Info::new(what, Value::DataArray(DataArray::infos([]))),
            alert: code::PMIX_MONITOR_RESUSAGE_UPDATE,
            directives: targets.into_iter().collect(),
        }
    }

    /// Sets the period of reports of resource usage, in whole seconds
    /// (`PMIX_MONITOR_RESOURCE_RATE`).
    pub fn at_rate(mut self, every: Duration) -> MonitorRequest {
        self.directives
            .push(seconds(key::PMIX_MONITOR_RESOURCE_RATE, every));
        self
    }

    /// Sets the id of the request (`PMIX_MONITOR_ID`), by which it can be cancelled.
    pub fn called(mut self, id: &str) -> MonitorRequest {
        self.directives
            .push(Info::new(key::PMIX_MONITOR_ID, Value::string(id)));
        self
    }

    /// Leaves the reaction to an alert to the application alone (`PMIX_MONITOR_APP_CONTROL`).
    pub fn left_to_the_application(mut self) -> MonitorRequest {
        self.directives
            .push(Info::new(key::PMIX_MONITOR_APP_CONTROL, Value::Bool(true)));
        self
    }

    /// Sets the code of the event, instead of that of the Standard.
    pub fn alerting(mut self, code: Status) -> MonitorRequest {
        self.alert = code;
        self
    }

    /// Sets the range of the event; the default is the requester's namespace.
    pub fn reaching(mut self, range: Range) -> MonitorRequest {
        self.directives
            .push(Info::new(key::PMIX_RANGE, Value::Range(range)));
        self
    }

    /// Returns the code of the event.
    pub fn alert(&self) -> Status {
        self.alert
    }
}

fn seconds(key: KeyName, time: Duration) -> Info {
    Info::new(key, Value::Uint32(whole_seconds(time)))
}

/// Task that sends heartbeats until it is dropped.
#[derive(Debug)]
pub struct HeartbeatTask(JoinHandle<()>);

impl Drop for HeartbeatTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Starts monitoring (`PMIx_Process_monitor`): the server raises an event of the code `error`
    /// if signs of life are missing.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with the reasons if the server refuses it.
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
            // A server of release 4.2.2 answers a success without results by the status alone.
            Reply::Status(_) => Ok(Vec::new()),
            _ => Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::Monitor),
            }),
        }
    }

    /// Starts monitoring, until [`Client::unwatch`] or the end of this client.
    pub async fn watch(&self, watch: MonitorRequest) -> Result<Vec<Info>, ClientError> {
        let MonitorRequest {
            monitor,
            alert,
            directives,
            ..
        } = watch;
        self.monitor(monitor, alert, &directives).await
    }

    /// Cancels monitoring that this client started (`PMIX_MONITOR_CANCEL`).
    pub async fn unwatch(&self, which: &RequestSelector) -> Result<(), ClientError> {
        let cancel = Info::new(key::PMIX_MONITOR_CANCEL, which_value(which));
        self.monitor(cancel, code::PMIX_SUCCESS, &[])
            .await
            .map(drop)
    }

    /// Sends one heartbeat (`PMIX_SEND_HEARTBEAT`, `PMIx_Heartbeat`). The server does not reply:
    /// success means that it was queued for sending.
    pub async fn beat(&self) -> Result<(), ClientError> {
        let beat = async { self.session().beat().await };
        self.session()
            .bounded(CommandCode::Monitor, self.answer_limit(), beat)
            .await
    }

    /// Sends a heartbeat now and once in each period, until the returned task is dropped or the
    /// client ends. The heartbeats show that this process and its runtime are alive. To show that
    /// the work makes progress, the work must call [`Client::beat`].
    pub fn heartbeats(&self, period: Duration) -> HeartbeatTask {
        let session = std::sync::Arc::downgrade(self.session());
        HeartbeatTask(tokio::spawn(beat_on(
            session,
            // An interval of zero makes tokio panic.
            period.max(Duration::from_millis(1)),
        )))
    }
}

/// Sends heartbeats. The task holds only a weak reference, so that the drop of the client still
/// closes the connection.
async fn beat_on(session: Weak<ClientSession>, period: Duration) {
    let mut ticks = interval(period);
    // A delayed heartbeat must not be followed by a burst.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(session) = session.upgrade() else {
            return;
        };
        if let Err(error) = session.beat().await {
            // The loop continues, since a tool may attach to another server.
            tracing::debug!(%error, "heartbeat not sent");
        }
    }
}
