//! Admission of a new connection as a client or tool: the handshake, the comparison with the
//! kernel's facts about the socket, and the decision of the actor.
use crate::{
    actor::Admission,
    connection::ConnectionContext,
    host_environment::ConnectingTool,
    identity::{
        Checker, ClaimedIdentity, IdentityMismatch, PeerCredentials, PeerSocket, ProcClaim,
        VerifiedPeer,
    },
    metrics::Metrics,
    outbox::Outbox,
    process_watch::{ConnectingProc, OpenConnection},
    shared_actor::ActorStopped,
    user_shares::{ConnectionShare, ShareExceeded},
};
use peal_core::{
    quota::Quota,
    server::{ConnectionRefusal, PeerId},
};
use peal_model::{
    ConnectionKind, IdentError, Info, Infos, Nspace, Proc, Rank, Status, UnixGroup, UserIdentity,
    Value, code, key,
};
use peal_wire::{
    ClaimedUser, Credential, GDS_HASH, Hello, HelloDecoder, PeerKind, Quoted, SingletonJobData,
    ToolIdentifier as Name, Welcome, WelcomeForm, WireError,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use thiserror::Error;
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout_at},
};

/// Separator between the server's namespace and the number in the name that a tool gets from the
/// server.
const TOOL_INFIX: &str = "-tool-";

/// Generator of names for tools that request one from the server. Each gets its own namespace.
#[derive(Debug)]
pub(crate) struct ToolNames {
    server: Proc,
    given: AtomicU64,
}

impl ToolNames {
    /// Returns the number of given names.
    pub(crate) fn given(&self) -> u64 {
        self.given.load(Ordering::Relaxed)
    }

    /// Continues after this number of given names.
    pub(crate) fn after(server: Proc, given: u64) -> ToolNames {
        ToolNames {
            server,
            given: AtomicU64::new(given),
        }
    }

    fn next(&self) -> Result<Proc, IdentError> {
        let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
        let nspace = Nspace::new(&format!("{}{TOOL_INFIX}{number}", self.server.nspace))?;
        Ok(Proc::new(nspace, Rank(0)))
    }

    /// Returns true if a name is the server's own, or one that it has yet to give. A tool that has
    /// lost its connection may come back with a name that was given.
    fn is_reserved(&self, proc: &Proc) -> bool {
        let given = 1..=self.given.load(Ordering::Relaxed);
        match proc
            .nspace
            .as_str()
            .strip_prefix(self.server.nspace.as_str())
        {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix(TOOL_INFIX)
                .is_some_and(|number| !number.parse().is_ok_and(|n| given.contains(&n))),
            None => false,
        }
    }
}

/// Facts about a peer that requests admission. The kernel does not contradict its claims.
#[derive(Debug)]
pub(crate) struct AdmissionRequest {
    /// Kind of peer.
    pub(crate) kind: ConnectionKind,
    /// Name that the peer claims, or that a tool without a name is to get.
    pub(crate) proc: Proc,
    /// User and process of the peer.
    pub(crate) peer: PeerCredentials,
    /// Unix groups of the process.
    pub(crate) groups: Arc<[UnixGroup]>,
    /// Release of the peer's library, as claimed by the peer.
    pub(crate) release: String,
    /// Further infos that the peer sent about itself.
    pub(crate) infos: Vec<Info>,
}

/// A peer that has been admitted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: PeerId,
    pub(crate) proc: Proc,
    /// Process at the other end, if it was searched for and found.
    pub(crate) process: Option<u32>,
    /// Message that ends the handshake.
    pub(crate) welcome: Welcome,
    /// Kept as long as the connection is open.
    pub(crate) claim: Option<ProcClaim>,
    /// Dropped after the actor was informed of the end of the connection.
    pub(crate) open: Option<OpenConnection>,
}

/// Reason for which a connection is refused.
#[derive(Debug, Error)]
pub(crate) enum AdmissionError {
    #[error("the handshake was not complete within {0:?} (server.handshake_timeout_ms)")]
    Slow(Duration),
    #[error("the connection was closed before the kernel reported its user")]
    Closed,
    #[error("the connection was closed in the middle of the handshake")]
    Half,
    #[error("malformed: {0}")]
    Wire(#[from] WireError),
    #[error("{0} are not served")]
    Kind(&'static str),
    #[error("tool name {0} is reserved for the server and the tools that it names")]
    Reserved(Proc),
    #[error("the handshake of a tool has user {claimed}, its credential user {credential}")]
    TwoUsers {
        claimed: UserIdentity,
        credential: UserIdentity,
    },
    #[error("the host environment refuses the tool with status {0}")]
    ByHost(Status),
    #[error("data store {0} is not served; only \"hash\" is")]
    Gds(Quoted),
    #[error("credentials of module {0} are not served; only those of native are")]
    Credential(&'static str),
    #[error(transparent)]
    Refused(#[from] ConnectionRefusal),
    #[error(transparent)]
    Identity(#[from] IdentityMismatch),
    #[error(transparent)]
    Share(#[from] ShareExceeded),
    #[error("the server's name is too long to derive a tool's name from it: {0}")]
    Name(#[from] IdentError),
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl AdmissionError {
    /// Returns the reason without values, so that it does not depend on what the peer has sent.
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            AdmissionError::Slow(_) => "slow handshake",
            AdmissionError::Closed => "closed before identification",
            AdmissionError::Half => "incomplete handshake",
            AdmissionError::Wire(_) => "malformed handshake",
            AdmissionError::Kind(_) => "unsupported kind of peer",
            AdmissionError::Reserved(_) => "reserved name",
            AdmissionError::TwoUsers { .. } => "two users claimed",
            AdmissionError::ByHost(_) => "refused by the host environment",
            AdmissionError::Gds(_) => "unsupported data store",
            AdmissionError::Credential(_) => "unsupported credential",
            AdmissionError::Identity(_) => "claim contradicted by the kernel",
            AdmissionError::Share(_) => "too many connections",
            AdmissionError::Name(_) => "server's name too long",
            AdmissionError::Stopping => "server stops",
            AdmissionError::Io(_) => "connection failed",
            AdmissionError::Refused(refusal) => match refusal {
                ConnectionRefusal::UnknownNspace(_) => "unknown namespace",
                ConnectionRefusal::UnknownRank { .. } => "unknown rank",
                ConnectionRefusal::WrongUser { .. } => "job of another user",
                ConnectionRefusal::Denied(_) => "denied",
                ConnectionRefusal::Ended(_) => "proc has ended",
                ConnectionRefusal::TooManyClones { .. } => "too many connections of a proc",
                ConnectionRefusal::NameTaken(_) => "name in use by another tool",
                ConnectionRefusal::TooManyTools { .. } => "too many tools",
                ConnectionRefusal::TooManyToolsOfUser { .. } => "too many tools of a user",
            },
        }
    }

    /// Returns the resource whose limit is the reason, if there is one.
    fn quota(&self) -> Option<Quota> {
        match self {
            AdmissionError::Share(exceeded) => Some(exceeded.quota()),
            AdmissionError::Refused(
                ConnectionRefusal::TooManyTools { .. }
                | ConnectionRefusal::TooManyToolsOfUser { .. },
            ) => Some(Quota::Tools),
            _ => None,
        }
    }

    /// Counts the refusal of a user, if that is known, under its reason.
    pub(crate) fn count(&self, uid: Option<u32>, metrics: &Metrics) {
        let counters = metrics.counters();
        counters.connections_refused.count();
        if let Some((uid, quota)) = uid.zip(self.quota()) {
            metrics.refuse(uid, quota);
        }
        match self {
            AdmissionError::Identity(_)
            | AdmissionError::Refused(ConnectionRefusal::WrongUser { .. }) => {
                counters.connections_identity_mismatch.count()
            }
            AdmissionError::Share(_) => counters.connections_over_share.count(),
            AdmissionError::Refused(
                ConnectionRefusal::TooManyTools { .. }
                | ConnectionRefusal::TooManyToolsOfUser { .. },
            ) => {
                counters.tools_over_share.count();
            }
            _ => {}
        }
    }
}

/// Waits for the handshake. Returns with it the bytes received behind it, which belong to the first
/// frame.
pub(crate) async fn hello(
    stream: &mut TcpStream,
    share: &ConnectionShare,
    context: &ConnectionContext,
) -> Result<(Hello, Vec<u8>), AdmissionError> {
    let timeout = context.handshake_timeout;
    let received = async {
        let delay = share.handshake_delay(std::time::Instant::now());
        if !delay.is_zero() {
            sleep(delay).await;
        }
        // Start the time limit after the delay, which the server itself causes.
        let deadline = Instant::now() + timeout;
        let _unfinished = timeout_at(deadline, share.handshake())
            .await
            .map_err(|_| share.handshakes_exceeded())?;
        timeout_at(deadline, receive(stream, context))
            .await
            .unwrap_or(Err(AdmissionError::Slow(timeout)))
    };
    unless_stopping(context, received).await
}

/// Waits for a step of a handshake, unless the server stops to admit peers meanwhile.
pub(crate) async fn unless_stopping<T>(
    context: &ConnectionContext,
    step: impl Future<Output = Result<T, AdmissionError>>,
) -> Result<T, AdmissionError> {
    let mut stage = context.stage.clone();
    tokio::select! {
        done = step => done,
        // An error means the same: the sender is dropped only with the server.
        _ = stage.wait_for(|stage| !stage.completes_handshakes()) => Err(AdmissionError::Stopping),
    }
}

async fn receive(
    stream: &mut TcpStream,
    context: &ConnectionContext,
) -> Result<(Hello, Vec<u8>), AdmissionError> {
    let mut decoder = HelloDecoder::new(context.limits);
    // Allocated, since an array would be a part of the future of each connection.
    let mut buffer = vec![0; 4096];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(AdmissionError::Half);
        }
        let mut received = buffer.get(..count).unwrap_or_default();
        if let Some(hello) = decoder.feed(&mut received)? {
            return Ok((hello, received.to_vec()));
        }
    }
}

/// Peer whose claims agree with the kernel's facts about its socket.
pub(crate) struct VerifiedClaims {
    kind: ConnectionKind,
    proc: Proc,
    peer: VerifiedPeer,
}

/// Compares a peer's claims with the kernel's facts about its socket.
pub(crate) async fn verify(
    socket: &PeerSocket,
    hello: &Hello,
    context: &ConnectionContext,
) -> Result<VerifiedClaims, AdmissionError> {
    let (kind, proc) = claimed_proc(&hello.peer, context)?;
    let claimed = claimed_identity(hello)?;
    // Count the check for the user that the kernel reports: a peer that claims another user must
    // not use up that user's share. The procs of a large job wait here, all at once, so this future
    // should be small.
    let _permit = context
        .checks
        .take(socket.uid)
        .await
        .map_err(std::io::Error::other)?;
    let claimant = match kind {
        ConnectionKind::Client => ClaimedIdentity::Proc(proc.clone()),
        ConnectionKind::Tool => ClaimedIdentity::Tool(pid_of(hello)),
    };
    // The check reads files in `/proc`, which blocks.
    let peer = blocking_check(context.checker.clone(), claimant, claimed, *socket);
    let peer = peer.await.map_err(std::io::Error::other)??;
    Ok(VerifiedClaims { kind, proc, peer })
}

fn blocking_check(
    checker: Arc<Checker>,
    claimant: ClaimedIdentity,
    claimed: UserIdentity,
    socket: PeerSocket,
) -> JoinHandle<Result<VerifiedPeer, IdentityMismatch>> {
    tokio::task::spawn_blocking(move || checker.check(&claimant, claimed, socket))
}

/// Has the host environment name a tool.
///
/// # Errors
///
/// [`AdmissionError::ByHost`] if the host environment refuses it.
pub(crate) async fn name_tool(
    verified: VerifiedClaims,
    hello: &Hello,
    context: &ConnectionContext,
) -> Result<VerifiedClaims, AdmissionError> {
    if verified.kind != ConnectionKind::Tool {
        return Ok(verified);
    }
    let VerifiedClaims { proc, peer, .. } = &verified;
    let has_name = hello.peer.welcome_form(&hello.dialect()) != WelcomeForm::NamedTool;
    let tool = ConnectingTool {
        name: has_name.then(|| proc.clone()),
        identity: peer.peer.identity,
        release: hello.release.as_str().to_owned(),
        infos: hello.infos.clone(),
    };
    match context.host.tool_connected(tool).await {
        // A tool that has a name keeps it: nothing tells it another one.
        Ok(name) if !has_name => Ok(VerifiedClaims {
            proc: name,
            ..verified
        }),
        Ok(_) | Err(code::PMIX_ERR_NOT_SUPPORTED) => Ok(verified),
        Err(status) => Err(AdmissionError::ByHost(status)),
    }
}

/// Has the actor decide about a peer. After admission, messages for the peer go to `outbox`.
pub(crate) async fn admit(
    verified: VerifiedClaims,
    hello: &Hello,
    outbox: Outbox,
    context: &ConnectionContext,
) -> Result<Admitted, AdmissionError> {
    let VerifiedClaims { kind, proc, peer } = verified;
    let VerifiedPeer {
        peer,
        groups,
        claim,
    } = peer;
    let is_watched =
        kind == ConnectionKind::Client && context.host.leaves_ends_to_server(&proc.nspace);
    // Noted before the admission, so that the proc counts as alive until the process is watched.
    let connecting = peer
        .pid
        .filter(|_| is_watched)
        .map(|pid| context.processes.note_connecting(&proc, pid));
    let (admitted, answer) = oneshot::channel();
    let release = hello.release.as_str().to_owned();
    let process = peer.pid;
    let arrival = AdmissionRequest {
        kind,
        proc,
        peer,
        groups,
        release,
        infos: hello.infos.clone(),
    };
    let admission = Admission {
        arrival,
        outbox,
        admitted,
    };
    context
        .shared_actor
        .with_actor(|actor| actor.request_admission(admission))
        .map_err(|ActorStopped| AdmissionError::Stopping)?;
    // A dropped sender means that the actor has ended.
    let (id, proc) = answer.await.map_err(|_| AdmissionError::Stopping)??;
    let welcome = welcome(hello, id, &proc, context);
    Ok(Admitted {
        id,
        proc,
        process,
        welcome,
        claim,
        open: connecting.map(ConnectingProc::watch),
    })
}

/// Returns the kind of a peer and the name that it claims. A tool that a server started has the
/// name of a proc of that job, and is served as that proc. A tool that a proc of a job started
/// sends the same kind of handshake and may have another name.
fn claimed_proc(
    peer: &PeerKind,
    context: &ConnectionContext,
) -> Result<(ConnectionKind, Proc), AdmissionError> {
    let own = match peer {
        PeerKind::Client(proc) => return Ok((ConnectionKind::Client, proc.clone())),
        PeerKind::Tool(_, Name::Started(proc)) | PeerKind::Launcher(_, Name::Started(proc)) => {
            let is_job = context
                .shared_actor
                .with_actor(|actor| actor.has_job(&proc.nspace));
            if is_job.map_err(|ActorStopped| AdmissionError::Stopping)? {
                return Ok((ConnectionKind::Client, proc.clone()));
            }
            proc
        }
        PeerKind::Tool(_, Name::Wanted) | PeerKind::Launcher(_, Name::Wanted) => {
            return Ok((ConnectionKind::Tool, context.tool_names.next()?));
        }
        // A singleton belongs to no job of this server, so it has the rights of a tool.
        PeerKind::Tool(_, Name::Own(proc))
        | PeerKind::Launcher(_, Name::Own(proc))
        | PeerKind::Singleton(_, proc) => proc,
        PeerKind::Scheduler(..) => return Err(AdmissionError::Kind("schedulers")),
    };
    if context.tool_names.is_reserved(own) {
        return Err(AdmissionError::Reserved(own.clone()));
    }
    Ok((ConnectionKind::Tool, own.clone()))
}

fn pid_of(hello: &Hello) -> Option<u32> {
    hello
        .infos
        .value_of(key::PMIX_PROC_PID)
        .and_then(Value::as_u32)
}

fn welcome(hello: &Hello, id: PeerId, proc: &Proc, context: &ConnectionContext) -> Welcome {
    let server = context.tool_names.server.clone();
    match hello.peer.welcome_form(&hello.dialect()) {
        WelcomeForm::Client => Welcome::Client { index: index(id) },
        WelcomeForm::Tool => Welcome::Tool {
            name: None,
            server,
            security: code::PMIX_SUCCESS,
        },
        WelcomeForm::NamedTool => Welcome::Tool {
            name: Some(proc.clone()),
            server,
            security: code::PMIX_SUCCESS,
        },
    }
}

/// Returns the index that the client puts into the headers of its frames. The server ignores it
/// there.
fn index(peer: PeerId) -> u32 {
    u32::try_from(peer.0 % u64::from(u32::MAX)).unwrap_or_default()
}

fn claimed_identity(hello: &Hello) -> Result<UserIdentity, AdmissionError> {
    // The data store matters only to clients that request job data. A singleton that does, but from
    // another store, is refused: it then uses its own data, as without a server.
    let needs_job_data = match hello.peer {
        PeerKind::Singleton(..) => {
            hello.dialect().singleton_job_data() == SingletonJobData::Requested
        }
        _ => true,
    };
    if needs_job_data && hello.gds.as_bytes() != GDS_HASH.as_bytes() {
        return Err(AdmissionError::Gds(Quoted::new(hello.gds.as_bytes())));
    }
    let identity = |ClaimedUser { uid, gid }| UserIdentity { uid, gid };
    let credential = match &hello.credential {
        Credential::Native(user) => identity(*user),
        Credential::None => return Err(AdmissionError::Credential("none")),
        Credential::Munge(_) => return Err(AdmissionError::Credential("munge")),
        Credential::Other { .. } => return Err(AdmissionError::Credential("unknown")),
    };
    match hello.peer.user().map(identity) {
        Some(claimed) if claimed != credential => Err(AdmissionError::TwoUsers {
            claimed,
            credential,
        }),
        _ => Ok(credential),
    }
}
