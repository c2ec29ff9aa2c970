//! Destinations of trail checkpoints: a file, the system log, a cluster. To rewrite the trail unnoticed, an
//! attacker has to rewrite these too.
use crate::Statement;
use std::{
    fmt,
    fs::OpenOptions,
    io::Write as _,
    os::unix::{fs::OpenOptionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Socket of the system log.
const SYSLOG: &str = "/dev/log";
/// Facility authpriv, severity info (RFC 3164).
const PRIORITY: u8 = 10 << 3 | 6;

/// Destinations of trail checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    /// File to which trail checkpoints are appended.
    pub file: Option<PathBuf>,
    /// Use of the system log.
    pub syslog: CheckpointSyslog,
    /// Receiver elsewhere.
    pub receiver: Option<CheckpointReceiver>,
}

/// Receiver of checkpoints, which must not block.
#[derive(Clone)]
pub struct CheckpointReceiver(Arc<dyn Fn(&Statement) + Send + Sync>);

impl CheckpointReceiver {
    /// Returns the receiver that calls this function with each checkpoint.
    pub fn new(receive: impl Fn(&Statement) + Send + Sync + 'static) -> CheckpointReceiver {
        CheckpointReceiver(Arc::new(receive))
    }
}

impl fmt::Debug for CheckpointReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckpointReceiver")
    }
}

/// Use of the system log for trail checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CheckpointSyslog {
    /// No checkpoints go to the system log.
    #[default]
    No,
    /// Every checkpoint goes to the system log.
    Yes,
}

impl Destinations {
    /// Sends a checkpoint to all destinations. Failures are logged only; the trail goes on.
    pub(crate) fn send(&self, checkpoint: &Statement) {
        if let Some(path) = &self.file
            && let Err(error) = append(path, checkpoint)
        {
            tracing::error!(path = %path.display(), %error, "trail checkpoint not written to file");
        }
        if self.syslog == CheckpointSyslog::Yes
            && let Err(error) = log(checkpoint)
        {
            tracing::error!(%error, socket = SYSLOG, "trail checkpoint not sent to system log");
        }
        if let Some(CheckpointReceiver(receive)) = &self.receiver {
            receive(checkpoint);
        }
    }
}

fn append(path: &Path, checkpoint: &Statement) -> std::io::Result<()> {
    // A link in place of the file must not redirect the checkpoints.
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    file.write_all(format!("{checkpoint}\n").as_bytes())
}

fn log(checkpoint: &Statement) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // The reader of the log may be slow; the trail must not wait for it.
    socket.set_nonblocking(true)?;
    socket
        .send_to(format!("<{PRIORITY}>peal: {checkpoint}").as_bytes(), SYSLOG)
        .map(drop)
}
