//! Handover of `peal serve` to another process of it: the messages, and both ends.
//!
//! The process that takes over asks at the admin socket. It has checked its configuration before. The one
//! that runs suspends its server and sends its state in parts, each of which is acknowledged, so that the
//! descriptors of one part are never mixed with those of another. It ends only if the other one has
//! understood all of it, and goes on otherwise.
use anyhow::{Context, Result, anyhow, bail};
use peal_frames::{DescriptorStream, FrameLimit, MAX_DESCRIPTORS, MessageWithDescriptors};
use peal_launcher::HandedHost;
use peal_model::Nspace;
use peal_server::{
    ContinuedServer, HandedServer, Server, SuspensionError, SuspensionLimits,
    admin::{self, AdminChannel, AdminJob, AdminReply, AdminRequest, ContinuedFrom},
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};
use thiserror::Error;

/// Times of the suspension.
const LIMITS: SuspensionLimits = SuspensionLimits {
    handshakes: Duration::from_secs(1),
    work: Duration::from_secs(5),
};

/// Longest message.
const LIMIT: FrameLimit = FrameLimit(1 << 20);

/// Bytes of the state in one message.
const PART: usize = 512 << 10;

/// Largest state, in bytes.
const MAX_STATE: usize = 4 << 30;

/// Largest number of descriptors.
const MAX_RECEIVED_DESCRIPTORS: usize = 1 << 20;

/// Time limit of a message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Time since the start of the machine, which is the same for all processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct BootTime(Duration);

impl BootTime {
    fn now() -> BootTime {
        let now = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        BootTime(Duration::new(seconds, nanos))
    }

    fn elapsed(self) -> Duration {
        BootTime::now().0.saturating_sub(self.0)
    }
}

/// Message of the process that hands over.
#[derive(Debug, Serialize, Deserialize)]
enum HandoverMessage {
    /// Part of the state.
    State(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Descriptors, which come with the message.
    Descriptors,
    /// Everything was sent.
    End,
    /// The server cannot be handed over now.
    Refused(String),
}

/// Answer of the process that takes over.
#[derive(Debug, Serialize, Deserialize)]
enum HandoverAnswer {
    /// The first or next message may come.
    Next,
    /// Everything is understood. The other process ends.
    Accepted,
    /// This release cannot continue from the state.
    Refused(String),
}

/// State of the process beside that of its server.
#[derive(Debug, Serialize, Deserialize)]
struct HandedProcess {
    /// Release of the process.
    version: String,
    pid: u32,
    /// Time at which it read its last request.
    suspended: BootTime,
    #[serde(with = "serde_bytes")]
    server: Vec<u8>,
    host: HandedHost,
    registered: BTreeMap<Nspace, AdminJob>,
}

/// Process that had a server.
#[derive(Clone, Debug)]
pub struct PreviousProcess {
    version: String,
    pid: u32,
    suspended: BootTime,
}

impl PreviousProcess {
    /// Returns the process, for a server that answers from now on.
    pub fn continued_now(self) -> ContinuedFrom {
        let PreviousProcess {
            version,
            pid,
            suspended,
        } = self;
        ContinuedFrom {
            version,
            pid,
            paused_ms: u64::try_from(suspended.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Server of another process that this one goes on with.
pub struct TakenServer {
    /// Server.
    pub server: ContinuedServer,
    /// State of its host environment.
    pub host: HandedHost,
    /// Process that had the server.
    pub from: PreviousProcess,
    /// Jobs that administrators have registered.
    pub registered: BTreeMap<Nspace, AdminJob>,
}

/// Reason for which a server is not handed over.
#[derive(Debug, Error)]
pub enum GiveError {
    /// The server goes on as before.
    #[error(transparent)]
    GoesOn(#[from] anyhow::Error),
    /// The server cannot go on.
    #[error(transparent)]
    Lost(SuspensionError),
}

impl From<SuspensionError> for GiveError {
    fn from(error: SuspensionError) -> GiveError {
        match error {
            SuspensionError::Lost { .. } => GiveError::Lost(error),
            error => GiveError::GoesOn(error.into()),
        }
    }
}

/// Hands a server over to the process at the other end, with the state of its host environment. Then this
/// process must end, and its connection with it, by which the other one notices that.
///
/// # Errors
///
/// Fails if the server cannot be suspended now, or the other process cannot continue it.
pub async fn give(
    server: &mut Server,
    channel: &AdminChannel,
    host: &impl Fn() -> Result<HandedHost, &'static str>,
    stream: tokio::net::UnixStream,
) -> Result<DescriptorStream, GiveError> {
    let stream = handover_stream(stream.into_std().map_err(anyhow::Error::from)?)?;
    // No job is registered or deregistered until the end.
    let registered = channel.hold_registrations().await;
    let begun = BootTime::now();
    let suspended = server.suspend(LIMITS).await;
    let state = match suspended {
        Ok(()) => process_state(server, host, &registered, begun),
        Err(error @ SuspensionError::Lost { .. }) => return Err(error.into()),
        // The server has resumed already.
        Err(error) => {
            let error = anyhow::Error::from(error);
            refuse(stream, &error).await;
            return Err(error.into());
        }
    };
    let given = match state {
        Ok((state, descriptors)) => {
            let sent = tokio::task::spawn_blocking(move || send(stream, &state, &descriptors));
            let sent = sent.await;
            sent.map_err(anyhow::Error::from).flatten()
        }
        Err(error) => {
            refuse(stream, &error).await;
            Err(error)
        }
    };
    match given {
        Ok(stream) => Ok(stream),
        Err(error) => {
            server.resume()?;
            Err(error.into())
        }
    }
}

/// Returns the state of this process as bytes, and the descriptors of its suspended server.
fn process_state(
    server: &Server,
    host: &impl Fn() -> Result<HandedHost, &'static str>,
    registered: &BTreeMap<Nspace, AdminJob>,
    suspended: BootTime,
) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
    // The suspended server asks the host environment for nothing more.
    let host = host().map_err(|what| {
        anyhow!("{what} cannot be handed over; wait until there are none, or restart the server")
    })?;
    let HandedServer { state, descriptors } = server.handed()?;
    let process = HandedProcess {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        suspended,
        server: state,
        host,
        registered: registered.clone(),
    };
    Ok((rmp_serde::to_vec_named(&process)?, descriptors))
}

/// Tells the other process why it does not get the server. It may have gone.
async fn refuse(mut stream: DescriptorStream, error: &anyhow::Error) {
    let reason = crate::error_text(error);
    let told = tokio::task::spawn_blocking(move || {
        let _: HandoverAnswer = stream.receive()?.message;
        stream.send(&HandoverMessage::Refused(reason), &[])
    });
    if let Ok(Err(error)) = told.await {
        tracing::debug!(%error, "refusal of a handover not told");
    }
}

fn handover_stream(stream: UnixStream) -> Result<DescriptorStream> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(DescriptorStream::new(stream, LIMIT))
}

fn send(
    mut stream: DescriptorStream,
    state: &[u8],
    descriptors: &[OwnedFd],
) -> Result<DescriptorStream> {
    let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let parts = state
        .chunks(PART)
        .map(|part| (HandoverMessage::State(part.to_vec()), &[][..]));
    let descriptors = descriptors
        .chunks(MAX_DESCRIPTORS)
        .map(|descriptors| (HandoverMessage::Descriptors, descriptors));
    let end = std::iter::once((HandoverMessage::End, &[][..]));
    for (message, descriptors) in parts.chain(descriptors).chain(end) {
        match stream.receive()?.message {
            HandoverAnswer::Next => stream.send(&message, descriptors)?,
            HandoverAnswer::Refused(reason) => {
                bail!("the other process: {}", crate::plain(&reason))
            }
            HandoverAnswer::Accepted => bail!("the other process accepts what it has not got"),
        }
    }
    match stream.receive()?.message {
        HandoverAnswer::Accepted => Ok(stream),
        HandoverAnswer::Refused(reason) => bail!("the other process: {}", crate::plain(&reason)),
        HandoverAnswer::Next => bail!("the other process wants more than there is"),
    }
}

/// Takes the server at an admin socket over, and waits until its process has ended.
///
/// # Errors
///
/// Fails if there is none, it cannot be handed over now, or this release cannot continue it. It goes on then.
pub fn take(socket: &Path) -> Result<TakenServer> {
    let mut answers = admin::request(socket, &AdminRequest::HandOver)?;
    match answers.reply()? {
        AdminReply::HandingOver => {}
        AdminReply::Refused { reason } => bail!("the server refuses: {}", crate::plain(&reason)),
        _ => bail!("the server has another protocol; stop it and start this release"),
    }
    let mut stream = handover_stream(answers.into_stream())?;
    let taken = receive(&mut stream);
    let answer = match &taken {
        Ok(_) => HandoverAnswer::Accepted,
        Err(error) => HandoverAnswer::Refused(crate::error_text(error)),
    };
    let sent = stream.send(&answer, &[]);
    let taken = taken?;
    sent.context("cannot accept the server")?;
    stream
        .wait_for_end()
        .context("cannot see the end of the other process")?;
    Ok(taken)
}

fn receive(stream: &mut DescriptorStream) -> Result<TakenServer> {
    let mut state = Vec::new();
    let mut received = Vec::new();
    loop {
        stream.send(&HandoverAnswer::Next, &[])?;
        let MessageWithDescriptors {
            message,
            descriptors,
        } = stream.receive()?;
        received.extend(descriptors);
        match message {
            HandoverMessage::State(part) => state.extend(part),
            HandoverMessage::Descriptors => {}
            HandoverMessage::Refused(reason) => {
                bail!(
                    "the server cannot be handed over now: {}",
                    crate::plain(&reason)
                )
            }
            HandoverMessage::End => break,
        }
        if state.len() > MAX_STATE || received.len() > MAX_RECEIVED_DESCRIPTORS {
            return Err(anyhow!(
                "the server has more than {MAX_STATE} bytes of state or {MAX_RECEIVED_DESCRIPTORS} descriptors"
            ));
        }
    }
    let HandedProcess {
        version,
        pid,
        suspended,
        server,
        host,
        registered,
    } = rmp_serde::from_slice(&state).context("cannot read the state of the server")?;
    Ok(TakenServer {
        server: ContinuedServer::read(HandedServer {
            state: server,
            descriptors: received,
        })?,
        host,
        from: PreviousProcess {
            version,
            pid,
            suspended,
        },
        registered,
    })
}
