//! The other side of the admin socket, for commands. It blocks.
use super::protocol::{AdminEnvelope, AdminReply, AdminRequest, MAX_REPLY, PROTOCOL};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};
use thiserror::Error;

/// How long a server may take for a reply.
const TIME: Duration = Duration::from_secs(60);

/// Why there is no reply.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody listens there.
    #[error("no server answers on {path:?}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("the server on {path:?} did not answer")]
    BrokenOff {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What came is no reply.
    #[error(
        "the server on {path:?} answered what makes no sense here; it may be of another release"
    )]
    NotUnderstood {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The replies to a call.
#[derive(Debug)]
pub struct Answers {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

/// Calls the server on a socket.
pub fn ask(path: &Path, call: &AdminRequest) -> Result<Answers, AskError> {
    let mut stream = UnixStream::connect(path).map_err(|source| AskError::Connect {
        path: path.to_owned(),
        source,
    })?;
    let mut line = serde_json::to_vec(&AdminEnvelope {
        peal: PROTOCOL,
        call,
    })
    .map_err(|source| AskError::NotUnderstood {
        path: path.to_owned(),
        source,
    })?;
    line.push(b'\n');
    // A server that refuses the caller does not read: its reply says more than a write that fails.
    let _ = stream
        .set_write_timeout(Some(TIME))
        .and_then(|()| stream.write_all(&line));
    Ok(Answers {
        path: path.to_owned(),
        stream: BufReader::new(stream),
    })
}

impl Answers {
    /// The next reply, which should come at once.
    pub fn reply(&mut self) -> Result<AdminReply, AskError> {
        self.line(Some(TIME))
    }

    /// The next reply, which may be long in coming.
    pub fn wait(&mut self) -> Result<AdminReply, AskError> {
        self.line(None)
    }

    /// The last reply to `drain` and `stop`, which comes when the server has ended.
    pub fn end(mut self) -> Result<AdminReply, AskError> {
        self.wait()
    }

    fn line(&mut self, within: Option<Duration>) -> Result<AdminReply, AskError> {
        let path = self.path.clone();
        let broken = |source| AskError::BrokenOff {
            path: path.clone(),
            source,
        };
        self.stream
            .get_ref()
            .set_read_timeout(within)
            .map_err(broken)?;
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MAX_REPLY as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(broken)?;
        if line.is_empty() {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(&line).map_err(|source| AskError::NotUnderstood {
            path: path.clone(),
            source,
        })
    }
}
