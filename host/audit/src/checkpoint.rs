//! Where checkpoints are sent, so that whoever rewrites the trail has to rewrite these as well: a file, the system's log.
use crate::Statement;
use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::{fs::OpenOptionsExt as _, net::UnixDatagram},
    path::{Path, PathBuf},
};

/// Where the system takes lines for its log.
const SYSLOG: &str = "/dev/log";
/// Facility authpriv, severity info (RFC 3164).
const PRIORITY: u8 = 10 << 3 | 6;

/// Where checkpoints are sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Destinations {
    /// A file to which they are added.
    pub file: Option<PathBuf>,
    /// Whether the system's log has them.
    pub syslog: CheckpointSyslog,
}

/// Whether the system's log has checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CheckpointSyslog {
    /// It does not.
    #[default]
    No,
    /// It has.
    Yes,
}

impl Destinations {
    /// Sends one everywhere. What fails is told in the trace; the trail goes on.
    pub(crate) fn send(&self, checkpoint: &Statement) {
        if let Some(path) = &self.file
            && let Err(error) = append(path, checkpoint)
        {
            tracing::error!(path = %path.display(), %error, "a checkpoint of the audit trail cannot be written");
        }
        if self.syslog == CheckpointSyslog::Yes
            && let Err(error) = log(checkpoint)
        {
            tracing::error!(%error, "a checkpoint of the audit trail cannot be sent to {SYSLOG}");
        }
    }
}

fn append(path: &Path, checkpoint: &Statement) -> std::io::Result<()> {
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
    // Who reads the log may be slow; the trail does not wait.
    socket.set_nonblocking(true)?;
    socket
        .send_to(format!("<{PRIORITY}>peal: {checkpoint}").as_bytes(), SYSLOG)
        .map(drop)
}
