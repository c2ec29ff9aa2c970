//! Signals to `peal serve`. A supervisor passes them on to its server.
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Signal to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerSignal {
    /// End of the server, after its connections have ended.
    End(Signal),
    /// Reload of the configuration.
    Reload,
}

impl ServerSignal {
    /// Returns the signal as the kernel names it.
    pub fn signal(self) -> Signal {
        match self {
            ServerSignal::End(signal) => signal,
            ServerSignal::Reload => Signal::HUP,
        }
    }
}

/// Stream of arriving signals.
pub struct ServerSignals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
}

impl ServerSignals {
    /// Listens to the signals.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses it.
    pub fn new() -> std::io::Result<ServerSignals> {
        Ok(ServerSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> ServerSignal {
        tokio::select! {
            _ = self.interrupt.recv() => ServerSignal::End(Signal::INT),
            _ = self.terminate.recv() => ServerSignal::End(Signal::TERM),
            _ = self.hangup.recv() => ServerSignal::Reload,
        }
    }

    /// Waits for a signal that ends the server.
    pub async fn end(&mut self) {
        while let ServerSignal::Reload = self.next().await {}
    }
}
