//! From a new connection to a client or tool of the server: the handshake, what the kernel says of it, and the actor's word.
use crate::{
    actor::Admission,
    connection::{ConnectionContext, ServePhase},
    identity::{
        ClaimedIdentity, IdentityMismatch, PeerCredentials, PeerSocket, ProcClaim, VerifiedPeer,
    },
    metrics::Counters,
    outbox::Outbox,
    process_watch::{ConnectingProc, OpenConnection},
    shared_actor::ActorStopped,
    user_shares::{ConnectionShare, ShareExceeded},
};
use peal_core::server::{ConnectionRefusal, PeerId};
use peal_model::{
    ConnectionKind, IdentError, Info, Infos, Nspace, Proc, Rank, UnixGroup, UserIdentity, Value,
    code, key,
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
    time::{Instant, sleep, timeout_at},
};

/// What stands between the server's name and a number in the name of a tool.
const GIVEN: &str = "-tool-";

/// Names for tools that want one from the server, which has a namespace of its own for each.
#[derive(Debug)]
pub(crate) struct ToolNames {
    server: Proc,
    given: AtomicU64,
}

impl ToolNames {
    pub(crate) fn new(server: Proc) -> ToolNames {
        ToolNames {
            server,
            given: AtomicU64::new(0),
        }
    }

    fn next(&self) -> Result<Proc, IdentError> {
        let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
        let nspace = Nspace::new(&format!("{}{GIVEN}{number}", self.server.nspace))?;
        Ok(Proc::new(nspace, Rank(0)))
    }

    /// Whether a name is the server's own, or one that it will give. What it has given, a tool that was cut off may bring.
    fn reserve(&self, proc: &Proc) -> bool {
        let given = 1..=self.given.load(Ordering::Relaxed);
        match proc
            .nspace
            .as_str()
            .strip_prefix(self.server.nspace.as_str())
        {
            Some("") => true,
            Some(rest) => rest
                .strip_prefix(GIVEN)
                .is_some_and(|number| !number.parse().is_ok_and(|n| given.contains(&n))),
            None => false,
        }
    }
}

/// Somebody who wants to connect, and all that is known of them; what they claim is not contradicted by the kernel.
#[derive(Debug)]
pub(crate) struct AdmissionRequest {
    /// What they are.
    pub(crate) kind: ConnectionKind,
    /// Who they say they are, or who a tool without a name is to be.
    pub(crate) proc: Proc,
    /// As whom they run, and in which process.
    pub(crate) peer: PeerCredentials,
    /// In which groups that is.
    pub(crate) groups: Arc<[UnixGroup]>,
    /// The release of their library, by their own word.
    pub(crate) release: String,
    /// What else they say of themselves.
    pub(crate) infos: Vec<Info>,
}

/// Somebody who has been admitted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: PeerId,
    pub(crate) proc: Proc,
    /// What they are told.
    pub(crate) welcome: Welcome,
    /// Kept as long as the connection is.
    pub(crate) _claim: Option<ProcClaim>,
    /// Dropped when the server has heard that the connection is closed.
    pub(crate) _open: Option<OpenConnection>,
}

/// Why a connection is refused.
#[derive(Debug, Error)]
pub(crate) enum AdmissionError {
    #[error("the handshake took longer than {0:?}")]
    Slow(Duration),
    #[error("the connection was closed before the kernel said which user opened it")]
    Closed,
    #[error("the connection was closed in the middle of the handshake")]
    Half,
    #[error("malformed: {0}")]
    Wire(#[from] WireError),
    #[error("{0} are not served")]
    Kind(&'static str),
    #[error("a tool calls itself {0}, as only the server does or calls tools without a name")]
    Reserved(Proc),
    #[error("a tool says that it runs as {said}, and in its credential as {credential}")]
    TwoUsers {
        said: UserIdentity,
        credential: UserIdentity,
    },
    #[error("data store {0}; only \"hash\" is served")]
    Gds(Quoted),
    #[error("a credential of module {0}; only native is served")]
    Credential(&'static str),
    #[error(transparent)]
    Refused(#[from] ConnectionRefusal),
    #[error(transparent)]
    Impostor(#[from] IdentityMismatch),
    #[error(transparent)]
    Share(#[from] ShareExceeded),
    #[error("the server's own name is too long for names of tools: {0}")]
    Name(#[from] IdentError),
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl AdmissionError {
    /// Why, in words that are the same whatever the peer says.
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            AdmissionError::Slow(_) => "slow handshake",
            AdmissionError::Closed => "closed before the kernel was asked",
            AdmissionError::Half => "half a handshake",
            AdmissionError::Wire(_) => "malformed handshake",
            AdmissionError::Kind(_) => "kind of peer that is not served",
            AdmissionError::Reserved(_) => "reserved name",
            AdmissionError::TwoUsers { .. } => "two users claimed",
            AdmissionError::Gds(_) => "data store that is not served",
            AdmissionError::Credential(_) => "credential that is not served",
            AdmissionError::Impostor(_) => "claim that the kernel contradicts",
            AdmissionError::Share(_) => "too many connections",
            AdmissionError::Name(_) => "server's name too long",
            AdmissionError::Stopping => "server stops",
            AdmissionError::Io(_) => "connection broke off",
            AdmissionError::Refused(refusal) => match refusal {
                ConnectionRefusal::UnknownNspace(_) => "unknown namespace",
                ConnectionRefusal::UnknownRank { .. } => "unknown rank",
                ConnectionRefusal::WrongUser { .. } => "job of another user",
                ConnectionRefusal::Denied(_) => "denied",
                ConnectionRefusal::Ended(_) => "proc has ended",
                ConnectionRefusal::TooManyClones { .. } => "too many connections of a proc",
                ConnectionRefusal::NameTaken(_) => "name of another tool",
                ConnectionRefusal::TooManyTools { .. } => "too many tools",
                ConnectionRefusal::TooManyToolsOfUser { .. } => "too many tools of a user",
            },
        }
    }

    /// Counts it by what it is.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.connections_refused.count();
        match self {
            AdmissionError::Impostor(_)
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

/// Waits for the handshake; what came behind it belongs to the first frame.
pub(crate) async fn hello(
    stream: &mut TcpStream,
    share: &ConnectionShare,
    lobby: &ConnectionContext,
) -> Result<(Hello, Vec<u8>), AdmissionError> {
    let mut stage = lobby.stage.clone();
    let timeout = lobby.handshake_timeout;
    let received = async {
        let delay = share.handshake_delay(std::time::Instant::now());
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let deadline = Instant::now() + timeout;
        let _unfinished = timeout_at(deadline, share.handshake())
            .await
            .map_err(|_| share.handshakes_exceeded())?;
        timeout_at(deadline, receive(stream, lobby))
            .await
            .unwrap_or(Err(AdmissionError::Slow(timeout)))
    };
    tokio::select! {
        received = received => received,
        // The listener is gone only if the server is.
        _ = stage.wait_for(|stage| *stage != ServePhase::Accept) => Err(AdmissionError::Stopping),
    }
}

async fn receive(
    stream: &mut TcpStream,
    lobby: &ConnectionContext,
) -> Result<(Hello, Vec<u8>), AdmissionError> {
    let mut decoder = HelloDecoder::new(lobby.limits);
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

/// Compares what a peer says with what the kernel said of its socket, and asks the actor; what is for the peer goes to `outbox` from
/// then on.
pub(crate) async fn admit(
    socket: PeerSocket,
    hello: &Hello,
    outbox: Outbox,
    lobby: &ConnectionContext,
) -> Result<Admitted, AdmissionError> {
    let (kind, proc) = claimed_proc(&hello.peer, lobby)?;
    let identity = claimed_identity(hello)?;
    let claimant = match kind {
        ConnectionKind::Client => ClaimedIdentity::Proc(proc.clone()),
        ConnectionKind::Tool => ClaimedIdentity::Tool(pid_of(hello)),
    };
    let VerifiedPeer {
        peer,
        groups,
        claim,
    } = confirm(socket, claimant, identity, lobby).await?;
    let is_watched =
        kind == ConnectionKind::Client && lobby.host.leaves_ends_to_server(&proc.nspace);
    let connecting = peer
        .pid
        .filter(|_| is_watched)
        .map(|pid| lobby.processes.note_connecting(&proc, pid));
    let (admitted, answer) = oneshot::channel();
    let release = hello.release.as_str().to_owned();
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
    lobby
        .office
        .with_actor(|actor| actor.request_admission(admission))
        .map_err(|ActorStopped| AdmissionError::Stopping)?;
    let (id, proc) = answer.await.map_err(|_| AdmissionError::Stopping)??;
    let welcome = welcome(hello, id, &proc, lobby);
    Ok(Admitted {
        id,
        proc,
        welcome,
        _claim: claim,
        _open: connecting.map(ConnectingProc::watch),
    })
}

/// What somebody is and who they say they are. A tool that a server started has its name from there: it is that job's proc. One that a
/// proc of a job started looks the same and may bring another name.
fn claimed_proc(
    peer: &PeerKind,
    lobby: &ConnectionContext,
) -> Result<(ConnectionKind, Proc), AdmissionError> {
    let own = match peer {
        PeerKind::Client(proc) => return Ok((ConnectionKind::Client, proc.clone())),
        PeerKind::Tool(_, Name::Started(proc)) | PeerKind::Launcher(_, Name::Started(proc)) => {
            let is_job = lobby.office.with_actor(|actor| actor.has_job(&proc.nspace));
            if is_job.map_err(|ActorStopped| AdmissionError::Stopping)? {
                return Ok((ConnectionKind::Client, proc.clone()));
            }
            proc
        }
        PeerKind::Tool(_, Name::Wanted) | PeerKind::Launcher(_, Name::Wanted) => {
            return Ok((ConnectionKind::Tool, lobby.tool_names.next()?));
        }
        // A singleton is nobody's proc: what it may do is what a tool may.
        PeerKind::Tool(_, Name::Own(proc))
        | PeerKind::Launcher(_, Name::Own(proc))
        | PeerKind::Singleton(_, proc) => proc,
        PeerKind::Scheduler(..) => return Err(AdmissionError::Kind("schedulers")),
    };
    if lobby.tool_names.reserve(own) {
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

fn welcome(hello: &Hello, id: PeerId, proc: &Proc, lobby: &ConnectionContext) -> Welcome {
    let server = lobby.tool_names.server.clone();
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

/// What the client puts into the headers of its frames; nobody reads it.
fn index(peer: PeerId) -> u32 {
    u32::try_from(peer.0 % u64::from(u32::MAX)).unwrap_or_default()
}

fn claimed_identity(hello: &Hello) -> Result<UserIdentity, AdmissionError> {
    // Where a singleton that asks for no job data would look for them does not matter. One that does and looks elsewhere is better off
    // alone: turned away, it has them from itself, as without a server.
    let asks = match hello.peer {
        PeerKind::Singleton(..) => {
            hello.dialect().singleton_job_data() == SingletonJobData::Requested
        }
        _ => true,
    };
    if asks && hello.gds.as_bytes() != GDS_HASH.as_bytes() {
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
        Some(said) if said != credential => Err(AdmissionError::TwoUsers { said, credential }),
        _ => Ok(credential),
    }
}

async fn confirm(
    socket: PeerSocket,
    claimant: ClaimedIdentity,
    claimed: UserIdentity,
    lobby: &ConnectionContext,
) -> Result<VerifiedPeer, AdmissionError> {
    let checker = lobby.checker.clone();
    // Turns are the kernel's user's: by another's name nobody could take that one's.
    let _turn = lobby
        .checks
        .take(socket.uid)
        .await
        .map_err(std::io::Error::other)?;
    let checked =
        tokio::task::spawn_blocking(move || checker.check(&claimant, claimed, socket)).await;
    Ok(checked.map_err(std::io::Error::other)??)
}
