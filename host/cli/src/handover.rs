//! Handover of `peal serve` to another process of it: the messages, and both ends.
//!
//! The process that takes over asks at the admin socket. It has checked its configuration before. The one
//! that runs suspends its server and sends its state in parts, each of which is acknowledged, so that the
//! descriptors of one part are never mixed with those of another. It ends only if the other one has
//! understood all of it, and goes on otherwise.
use anyhow::{Context, Result, anyhow, bail};
use peal_frames::{DescriptorStream, FrameLimit, MAX_DESCRIPTORS, MessageWithDescriptors};
use peal_model::Nspace;
use peal_server::{
    ContinuedServer, HandedServer, Server, SuspensionError, SuspensionLimits,
    admin::{self, AdminChannel, AdminJob, AdminReply, AdminRequest},
};
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

/// Largest number of sockets.
const MAX_SOCKETS: usize = 1 << 20;

/// Time limit of a message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Message of the process that hands over.
#[derive(Debug, Serialize, Deserialize)]
enum HandoverMessage {
    /// Part of the state.
    State(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Sockets, which come with the message.
    Sockets,
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
    #[serde(with = "serde_bytes")]
    server: Vec<u8>,
    registered: BTreeMap<Nspace, AdminJob>,
}

/// Server of another process that this one goes on with.
pub struct TakenServer {
    /// Server.
    pub server: ContinuedServer,
    /// Jobs that administrators have registered.
    pub registered: BTreeMap<Nspace, AdminJob>,
}

/// Hands a server over to the process at the other end, unless this process has what no other can go on with
/// (`kept`). Then this process must end, and its connection with it, by which the other one notices that.
///
/// # Errors
///
/// Fails if the server cannot be suspended now, or the other process cannot continue it. The server goes on
/// as before.
pub async fn give(
    server: &mut Server,
    channel: &AdminChannel,
    kept: Option<&'static str>,
    stream: tokio::net::UnixStream,
) -> Result<DescriptorStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut stream = DescriptorStream::new(stream, LIMIT);
    let suspended = match kept {
        Some(what) => Err(SuspensionError::Kept { what }),
        None => server.suspend(LIMITS).await,
    };
    if let Err(busy) = suspended {
        let reason = busy.to_string();
        tokio::task::spawn_blocking(move || {
            let _: HandoverAnswer = stream.receive()?.message;
            stream.send(&HandoverMessage::Refused(reason), &[])
        })
        .await??;
        return Err(busy.into());
    }
    let registered = channel.registered().await;
    let given = async {
        let HandedServer { state, sockets } = server.handed()?;
        let process = HandedProcess {
            server: state,
            registered,
        };
        let state = rmp_serde::to_vec_named(&process)?;
        tokio::task::spawn_blocking(move || send(stream, &state, &sockets)).await?
    };
    let given = given.await;
    if given.is_err() {
        server.resume();
    }
    given
}

fn send(
    mut stream: DescriptorStream,
    state: &[u8],
    sockets: &[OwnedFd],
) -> Result<DescriptorStream> {
    let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let parts = state
        .chunks(PART)
        .map(|part| (HandoverMessage::State(part.to_vec()), &[][..]));
    let sockets = sockets
        .chunks(MAX_DESCRIPTORS)
        .map(|sockets| (HandoverMessage::Sockets, sockets));
    let end = std::iter::once((HandoverMessage::End, &[][..]));
    for (message, descriptors) in parts.chain(sockets).chain(end) {
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
    let stream: UnixStream = answers.into_stream();
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut stream = DescriptorStream::new(stream, LIMIT);
    let taken = receive(&mut stream);
    let answer = match &taken {
        Ok(_) => HandoverAnswer::Accepted,
        Err(error) => HandoverAnswer::Refused(crate::error_text(error)),
    };
    let sent = stream.send(&answer, &[]);
    let taken = taken?;
    sent.context("cannot accept the server")?;
    stream.wait_for_end();
    Ok(taken)
}

fn receive(stream: &mut DescriptorStream) -> Result<TakenServer> {
    let mut state = Vec::new();
    let mut sockets = Vec::new();
    loop {
        stream.send(&HandoverAnswer::Next, &[])?;
        let MessageWithDescriptors {
            message,
            descriptors,
        } = stream.receive()?;
        sockets.extend(descriptors);
        match message {
            HandoverMessage::State(part) => state.extend(part),
            HandoverMessage::Sockets => {}
            HandoverMessage::Refused(reason) => {
                bail!(
                    "the server cannot be handed over now: {}",
                    crate::plain(&reason)
                )
            }
            HandoverMessage::End => break,
        }
        if state.len() > MAX_STATE || sockets.len() > MAX_SOCKETS {
            return Err(anyhow!(
                "the server has more than {MAX_STATE} bytes of state or {MAX_SOCKETS} sockets"
            ));
        }
    }
    let HandedProcess { server, registered } =
        rmp_serde::from_slice(&state).context("cannot read the state of the server")?;
    Ok(TakenServer {
        server: ContinuedServer::read(HandedServer {
            state: server,
            sockets,
        })?,
        registered,
    })
}
