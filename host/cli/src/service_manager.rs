//! Notifications to the service manager. They are sent by a thread of their own, since a manager
//! that does not read must not delay the server.
use peal_server::ServerHandle;
use sd_notify::NotifyState;
use std::{
    convert::Infallible,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Capacity of the queue of notifications.
const MAX_QUEUED_NOTIFICATIONS: usize = 64;

/// Notification to the service manager.
#[derive(Clone, Copy, Debug)]
pub enum ServiceState {
    /// The server serves.
    Ready,
    /// The server reads its configuration again.
    Reloading,
    /// The server waits for its last connection to end.
    Draining,
    /// The server ends.
    Stopping,
    /// The server is alive.
    Alive,
}

/// Service manager: systemd, or another one that set `NOTIFY_SOCKET`.
pub struct Manager(Option<SyncSender<ServiceState>>);

impl Manager {
    /// Starts the thread if there is a service manager.
    pub fn new() -> Manager {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Manager(None);
        }
        let (sender, states) = sync_channel(MAX_QUEUED_NOTIFICATIONS);
        let started = thread::Builder::new()
            .name("peal-manager".to_owned())
            .spawn(move || work(&states));
        let failed = started.inspect_err(
            |error| tracing::warn!(%error, "service manager not notified: thread not started"),
        );
        Manager(failed.is_ok().then_some(sender))
    }

    /// Queues a notification; it is dropped if the queue is full.
    pub fn notify(&self, state: ServiceState) {
        if let Some(sender) = &self.0
            && sender.try_send(state).is_err()
        {
            tracing::debug!(
                ?state,
                "notification to the service manager dropped: queue full"
            );
        }
    }
}

/// Divisor of the watchdog's time that gives the interval of notifications, so that one late
/// notification does no harm.
const WATCHDOG_SHARE: u32 = 3;

impl Manager {
    /// Notifies the manager periodically while the server is alive, if its watchdog is enabled
    /// (`WatchdogSec=` of systemd). Without notifications, the manager restarts the server.
    pub async fn keep_alive(&self, server: ServerHandle) -> Infallible {
        let Some(limit) = sd_notify::watchdog_enabled().filter(|_| self.0.is_some()) else {
            // The caller selects between this and other futures, so that it must never be ready.
            return std::future::pending().await;
        };
        let mut interval =
            tokio::time::interval((limit / WATCHDOG_SHARE).max(Duration::from_millis(1)));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            // The server state itself must answer: this timer also runs beside a state that hangs.
            if server.answers().await {
                self.notify(ServiceState::Alive);
            }
        }
    }
}

/// Tells the service manager, if there is one, that another process is the main one of the service.
pub fn notify_main_process(pid: u32) {
    if let Err(error) = sd_notify::notify(&[NotifyState::MainPid(pid)]) {
        tracing::warn!(%error, pid, "service manager not told the new main process");
    }
}

fn work(states: &Receiver<ServiceState>) {
    for state in states {
        let done = match state {
            ServiceState::Ready => {
                sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")])
            }
            ServiceState::Draining => sd_notify::notify(&[NotifyState::Status(
                "draining: waiting for the last connection to end",
            )]),
            ServiceState::Stopping => {
                sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")])
            }
            ServiceState::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
            // `sd_notify` requires the monotonic time with a reload.
            ServiceState::Reloading => match NotifyState::monotonic_usec_now() {
                Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            tracing::warn!(%error, ?state, "notification to the service manager failed");
        }
    }
}
