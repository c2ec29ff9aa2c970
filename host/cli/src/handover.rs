//! Handover of `peal serve` to another process of it: the messages, and both ends.
//!
//! The process that goes on asks at the admin socket. It has checked its configuration before. The one
//! that runs suspends its server and sends its state in parts, each of which is acknowledged, so that the
//! descriptors of one part are never mixed with those of another. It ends only if the other one has
//! understood all of it, and goes on otherwise.
use anyhow::{Context, Result, anyhow, bail};
use peal_config::UpgradeSettings;
use peal_frames::{DescriptorStream, FrameLimit, MAX_DESCRIPTORS, MessageWithDescriptors};
use peal_launcher::{EmbeddedHostEnvironment, HandedHost};
use peal_model::{Event, Info, KeyName, NodeName, Nspace, Status, Value};
use peal_nats::ContinuedMembership;
use peal_server::{
    ContinuedServer, ContinuedStubs, HandedServer, HandedStubs, Server, StubHandover, StubHold,
    StubService, SuspendedStubs, SuspensionError, SuspensionLimits,
    admin::{self, AdminChannel, AdminJob, AdminReply, AdminRequest, ContinuedFrom},
    own_event,
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
    sync::Arc,
    time::Duration,
};
use thiserror::Error;
use tokio::task::JoinHandle;

/// Longest message.
const LIMIT: FrameLimit = FrameLimit(1 << 20);

/// Bytes of the state in one message.
const PART: usize = 512 << 10;

/// Largest number of descriptors.
const MAX_RECEIVED_DESCRIPTORS: usize = 1 << 20;

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

/// Answer of the process that goes on.
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
    /// Stubs of other launchers. Their descriptors follow those of the server.
    #[serde(default)]
    stubs: HandedStubs,
}

/// Process that had a server.
#[derive(Clone, Debug)]
pub struct PreviousProcess {
    version: String,
    pid: u32,
    suspended: BootTime,
}

/// Key of the release of the process that goes on with a server.
const RELEASE: KeyName = KeyName("peal.server.release");

/// Key of the release of the process that had it.
const PREVIOUS_RELEASE: KeyName = KeyName("peal.server.previous.release");

impl PreviousProcess {
    /// Returns the event by which handlers learn that this process goes on.
    pub fn event(&self) -> Event {
        let release = |key, release: &str| Info::new(key, Value::string(release));
        let infos = vec![
            release(RELEASE, env!("CARGO_PKG_VERSION")),
            release(PREVIOUS_RELEASE, &self.version),
        ];
        own_event(Status::PEAL_SERVER_CONTINUED, infos)
    }

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
pub struct ReceivedServer {
    /// Place in the cluster, if it is in one.
    pub membership: Option<ContinuedMembership>,
    /// Server.
    pub server: ContinuedServer,
    /// State of its host environment.
    pub host: HandedHost,
    /// Stubs of other launchers.
    pub stubs: ContinuedStubs,
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

/// Host environments of a server, which are handed over with it.
pub struct HandedHosts {
    /// Its own.
    pub embedded: Arc<EmbeddedHostEnvironment>,
    /// Those of other launchers.
    pub stubs: Arc<StubService>,
    /// Limits of the handover.
    pub limits: UpgradeSettings,
}

/// Handover that waits until no launcher's request is under way. Meanwhile the server goes on: some requests wait
/// for what it does beside.
pub struct PendingHandover {
    stream: tokio::net::UnixStream,
    held: JoinHandle<Result<StubHold, SuspensionError>>,
}

/// Handover for which no launcher's request is under way, or the reason why it cannot be.
pub struct BegunHandover {
    stream: tokio::net::UnixStream,
    held: Result<StubHold, SuspensionError>,
}

impl PendingHandover {
    /// Begins a handover to the process at the other end.
    pub fn new(hosts: &HandedHosts, stream: tokio::net::UnixStream) -> PendingHandover {
        let held = hosts.stubs.clone().hold(hosts.limits.work_timeout);
        PendingHandover {
            stream,
            held: tokio::spawn(held),
        }
    }
}

/// Waits for a pending handover, or for ever if there is none. May be cancelled.
pub async fn begun(pending: &mut Option<PendingHandover>) -> BegunHandover {
    let Some(handover) = pending else {
        return std::future::pending().await;
    };
    let held = (&mut handover.held).await;
    let held = held.unwrap_or(Err(SuspensionError::Stopping));
    match pending.take() {
        Some(PendingHandover { stream, .. }) => BegunHandover { stream, held },
        None => std::future::pending().await,
    }
}

/// Hands a server over to the process at the other end, with the state of its host environments. Then this
/// process must end, and its connection with it, by which the other one notices that.
///
/// # Errors
///
/// Fails if the server cannot be suspended now, or the other process cannot continue it.
pub async fn give(
    server: &mut Server,
    channel: &AdminChannel,
    hosts: &HandedHosts,
    begun: BegunHandover,
) -> Result<DescriptorStream, GiveError> {
    let BegunHandover { stream, held } = begun;
    let stream = stream.into_std().map_err(anyhow::Error::from)?;
    let stream = handover_stream(stream, &hosts.limits)?;
    // No job is registered or deregistered until the end.
    let registered = channel.hold_registrations().await;
    let begun = BootTime::now();
    let mut stubs = match suspended(server, hosts, held).await {
        Ok(stubs) => stubs,
        Err(error @ SuspensionError::Lost { .. }) => return Err(error.into()),
        // The server has resumed already.
        Err(error) => {
            let error = anyhow::Error::from(error);
            refuse(stream, &error).await;
            return Err(error.into());
        }
    };
    let given = match process_state(server, hosts, &mut stubs, &registered, begun) {
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
        Ok(stream) => {
            stubs.leave().await;
            Ok(stream)
        }
        Err(error) => {
            server.resume()?;
            Err(error.into())
        }
    }
}

/// Suspends a server and the stubs of its launchers.
async fn suspended(
    server: &mut Server,
    hosts: &HandedHosts,
    held: Result<StubHold, SuspensionError>,
) -> Result<SuspendedStubs, SuspensionError> {
    let held = held?;
    let limits = SuspensionLimits {
        handshakes: hosts.limits.handshake_timeout,
        work: hosts.limits.work_timeout,
    };
    server.suspend(limits).await?;
    let stubs = held.suspend(limits.work).await;
    if stubs.is_err() {
        server.resume()?;
    }
    stubs
}

/// Returns the state of this process as bytes, and the descriptors of its suspended server and stubs.
fn process_state(
    server: &Server,
    hosts: &HandedHosts,
    stubs: &mut SuspendedStubs,
    registered: &BTreeMap<Nspace, AdminJob>,
    suspended: BootTime,
) -> Result<(Vec<u8>, Vec<OwnedFd>)> {
    // The suspended server asks the host environments for nothing more.
    let host = hosts.embedded.handed().map_err(|what| {
        anyhow!("{what} cannot be handed over; wait until there are none, or restart the server")
    })?;
    let HandedServer {
        state,
        mut descriptors,
    } = server.handed()?;
    let StubHandover {
        stubs,
        descriptors: of_stubs,
    } = stubs.handed()?;
    descriptors.extend(of_stubs);
    let process = HandedProcess {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        suspended,
        server: state,
        host,
        registered: registered.clone(),
        stubs,
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

fn handover_stream(stream: UnixStream, limits: &UpgradeSettings) -> Result<DescriptorStream> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(limits.transfer_timeout))?;
    stream.set_write_timeout(Some(limits.transfer_timeout))?;
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

/// Receives the server at an admin socket, and waits until its process has ended. `node` is the name of this node
/// in the cluster of the configuration, if it names one.
///
/// # Errors
///
/// Fails if there is none, it cannot be handed over now, or this release cannot continue it. It goes on then.
pub fn receive_server(
    socket: &Path,
    limits: &UpgradeSettings,
    node: Option<&NodeName>,
) -> Result<ReceivedServer> {
    let mut answers = admin::request(socket, &AdminRequest::HandOver)?;
    match answers.reply()? {
        AdminReply::HandingOver => {}
        AdminReply::Refused { reason } => bail!("the server refuses: {}", crate::plain(&reason)),
        _ => bail!("the server has another protocol; stop it and start this release"),
    }
    let mut stream = handover_stream(answers.into_stream(), limits)?;
    let taken = receive(&mut stream, limits.max_state_bytes, node);
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

fn receive(
    stream: &mut DescriptorStream,
    max_state: usize,
    node: Option<&NodeName>,
) -> Result<ReceivedServer> {
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
        if state.len() > max_state || received.len() > MAX_RECEIVED_DESCRIPTORS {
            bail!(
                "the server has more than {max_state} bytes of state (upgrade.max_state_bytes) or {MAX_RECEIVED_DESCRIPTORS} descriptors"
            );
        }
    }
    let HandedProcess {
        version,
        pid,
        suspended,
        server,
        host,
        registered,
        stubs,
    } = rmp_serde::from_slice(&state).context("cannot read the state of the server")?;
    let of_server = received.len().saturating_sub(stubs.descriptors());
    let of_stubs = received.split_off(of_server);
    let server = ContinuedServer::read(HandedServer {
        state: server,
        descriptors: received,
    })?;
    let membership = match (server.membership(), node) {
        (Some(membership), Some(node)) => Some(membership.read(node)?),
        (Some(_), None) => bail!(
            "the running server is in a cluster, and the configuration names none (cluster.credentials); restart the server"
        ),
        (None, _) => None,
    };
    Ok(ReceivedServer {
        server,
        membership,
        host,
        stubs: ContinuedStubs::read(stubs, of_stubs)?,
        from: PreviousProcess {
            version,
            pid,
            suspended,
        },
        registered,
    })
}
