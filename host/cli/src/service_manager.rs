//! What the service manager is told: by a thread of its own, since one that does not listen must not keep the server waiting.
use peal_server::ServerHandle;
use sd_notify::NotifyState;
use std::{
    convert::Infallible,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// How much may wait until the manager listens.
const WAITING: usize = 64;

/// What it is told.
#[derive(Clone, Copy, Debug)]
pub enum ServiceState {
    /// The server serves.
    Ready,
    /// It reads its configuration again.
    Reloading,
    /// It waits for the last connection to end.
    Draining,
    /// It ends.
    Stopping,
    /// It answers.
    Alive,
}

/// systemd, or whoever else started us and wants to know.
pub struct Manager(Option<SyncSender<ServiceState>>);

impl Manager {
    /// Starts the thread, where there is somebody to tell.
    pub fn new() -> Manager {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Manager(None);
        }
        let (tell, told) = sync_channel(WAITING);
        let started = thread::Builder::new()
            .name("peal-manager".to_owned())
            .spawn(move || work(&told));
        let failed = started
            .inspect_err(|error| tracing::warn!(%error, "the service manager is told nothing"));
        Manager(failed.is_ok().then_some(tell))
    }

    /// Tells how the server is; nobody if too much waits.
    pub fn tell(&self, state: ServiceState) {
        if let Some(tell) = &self.0
            && tell.try_send(state).is_err()
        {
            tracing::debug!(?state, "the service manager does not listen");
        }
    }
}

/// The part of the watchdog's time after which the manager is told again, so that one late message does no harm.
const WATCHDOG_SHARE: u32 = 3;

impl Manager {
    /// Tells the manager again and again that the server answers, where it wants to know (`WatchdogSec=` of systemd). It hears nothing
    /// from a server that no longer answers, and starts it anew.
    pub async fn keep_alive(&self, server: ServerHandle) -> Infallible {
        let Some(limit) = sd_notify::watchdog_enabled().filter(|_| self.0.is_some()) else {
            return std::future::pending().await;
        };
        let mut interval =
            tokio::time::interval((limit / WATCHDOG_SHARE).max(Duration::from_millis(1)));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if server.answers().await {
                self.tell(ServiceState::Alive);
            }
        }
    }
}

fn work(told: &Receiver<ServiceState>) {
    for state in told {
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
            ServiceState::Reloading => match NotifyState::monotonic_usec_now() {
                Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            tracing::warn!(%error, ?state, "the service manager cannot be told how the server is");
        }
    }
}
