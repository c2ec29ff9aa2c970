//! Client side of the admin socket, for commands. It blocks.
use super::protocol::{AdminEnvelope, AdminReply, AdminRequest, MAX_REPLY, PROTOCOL};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};
use thiserror::Error;

/// Time in which a server must reply.
const TIME: Duration = Duration::from_secs(60);

/// Error of a call.
#[derive(Debug, Error)]
pub enum AdminRequestError {
    /// No server listens on the socket.
    #[error("no server answers on {path:?}")]
    Connect {
        /// Path of the socket.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// The connection failed before a reply, or no reply was received in time.
    #[error("the server on {path:?} did not answer")]
    BrokenOff {
        /// Path of the socket.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
    /// The reply, or the request, is not valid JSON of the protocol.
    #[error(
        "the reply of the server on {path:?} is invalid; its release may differ from that of this command"
    )]
    NotUnderstood {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the JSON.
        source: serde_json::Error,
    },
}

/// Connection to the admin socket of a server, before its call.
#[derive(Debug)]
pub struct AdminConnection {
    path: PathBuf,
    stream: UnixStream,
}

/// Replies to a call.
#[derive(Debug)]
pub struct Answers {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

/// Sends a call to the server on a socket.
pub fn request(path: &Path, call: &AdminRequest) -> Result<Answers, AdminRequestError> {
    AdminConnection::open(path)?.send(call)
}

/// Sends a call on behalf of somebody else, whom the server's record of the call names.
pub fn request_on_behalf(
    path: &Path,
    call: &AdminRequest,
    behalf: String,
) -> Result<Answers, AdminRequestError> {
    AdminConnection::open(path)?.send_as(call, Some(behalf))
}

impl AdminConnection {
    /// Connects to the server on a socket.
    pub fn open(path: &Path) -> Result<AdminConnection, AdminRequestError> {
        let stream = UnixStream::connect(path).map_err(|source| AdminRequestError::Connect {
            path: path.to_owned(),
            source,
        })?;
        Ok(AdminConnection {
            path: path.to_owned(),
            stream,
        })
    }

    /// Returns the process id of the server, as the kernel knows it.
    pub fn server_pid(&self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(&self.stream).ok()?;
        u32::try_from(peer.pid.as_raw_pid()).ok()
    }

    /// Sends the call.
    pub fn send(self, call: &AdminRequest) -> Result<Answers, AdminRequestError> {
        self.send_as(call, None)
    }

    fn send_as(
        self,
        call: &AdminRequest,
        behalf: Option<String>,
    ) -> Result<Answers, AdminRequestError> {
        let AdminConnection { path, mut stream } = self;
        let envelope = AdminEnvelope {
            peal: PROTOCOL,
            call,
            behalf,
        };
        let mut line = match serde_json::to_vec(&envelope) {
            Ok(line) => line,
            Err(source) => return Err(AdminRequestError::NotUnderstood { path, source }),
        };
        line.push(b'\n');
        // Ignore errors of the write: a server that refuses the caller does not read, and its reply
        // gives the reason.
        let _ = stream
            .set_write_timeout(Some(TIME))
            .and_then(|()| stream.write_all(&line));
        Ok(Answers {
            path,
            stream: BufReader::new(stream),
        })
    }
}

impl Answers {
    /// Returns the next reply. Fails if it is not received within a minute.
    pub fn reply(&mut self) -> Result<AdminReply, AdminRequestError> {
        self.line(Some(TIME))
    }

    /// Returns the next reply. Fails if it is not received within this time.
    pub fn reply_within(&mut self, time: Duration) -> Result<AdminReply, AdminRequestError> {
        self.line(Some(time))
    }

    /// Waits for the next reply without a time limit.
    pub fn wait(&mut self) -> Result<AdminReply, AdminRequestError> {
        self.line(None)
    }

    /// Returns the connection, after a reply behind which the server waits for messages.
    pub fn into_stream(self) -> UnixStream {
        self.stream.into_inner()
    }

    /// Waits for the last reply to `drain` and `stop`, which is sent when the server has ended.
    pub fn end(mut self) -> Result<AdminReply, AdminRequestError> {
        self.wait()
    }

    fn line(&mut self, within: Option<Duration>) -> Result<AdminReply, AdminRequestError> {
        let path = self.path.clone();
        let broken = |source| AdminRequestError::BrokenOff {
            path: path.clone(),
            source,
        };
        self.stream
            .get_ref()
            .set_read_timeout(within)
            .map_err(broken)?;
        let mut line = Vec::new();
        (&mut self.stream)
            // A longer reply is cut off here and then fails to parse.
            .take(MAX_REPLY as u64 + 1)
            .read_until(b'\n', &mut line)
            .map_err(broken)?;
        if line.is_empty() {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
        serde_json::from_slice(&line).map_err(|source| AdminRequestError::NotUnderstood {
            path: path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn server_that_sends_nothing_is_waited_for_in_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let _silent = UnixListener::bind(&path).unwrap();
        let mut answers = request(&path, &AdminRequest::Status).unwrap();
        let error = answers.reply_within(Duration::from_millis(10)).unwrap_err();
        assert!(
            matches!(error, AdminRequestError::BrokenOff { .. }),
            "{error}"
        );
    }
}
