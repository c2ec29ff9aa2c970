//! What the service manager is told: by a thread of its own, since one that does not listen must not keep the server waiting.
use sd_notify::NotifyState;
use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

/// How much may wait until the manager listens.
const WAITING: usize = 64;

/// What it is told.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// The server serves.
    Ready,
    /// It reads its configuration again.
    Reloading,
    /// It waits for the last connection to end.
    Draining,
    /// It ends.
    Stopping,
}

/// systemd, or whoever else started us and wants to know.
pub struct Manager(Option<SyncSender<State>>);

impl Manager {
    /// Starts the thread, where there is somebody to tell.
    pub fn new() -> Manager {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return Manager(None);
        }
        let (tell, told) = sync_channel(WAITING);
        let started = thread::Builder::new().name("peal-manager".to_owned()).spawn(move || work(&told));
        let failed = started.inspect_err(|error| tracing::warn!(%error, "the service manager is told nothing"));
        Manager(failed.is_ok().then_some(tell))
    }

    /// Tells how the server is; nobody if too much waits.
    pub fn tell(&self, state: State) {
        if let Some(tell) = &self.0
            && tell.try_send(state).is_err()
        {
            tracing::debug!(?state, "the service manager does not listen");
        }
    }
}

fn work(told: &Receiver<State>) {
    for state in told {
        let done = match state {
            State::Ready => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")]),
            State::Draining => {
                sd_notify::notify(&[NotifyState::Status("draining: waiting for the last connection to end")])
            }
            State::Stopping => sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]),
            State::Reloading => match NotifyState::monotonic_usec_now() {
                Ok(now) => sd_notify::notify(&[NotifyState::Reloading, now]),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = done {
            tracing::warn!(%error, ?state, "the service manager cannot be told how the server is");
        }
    }
}
