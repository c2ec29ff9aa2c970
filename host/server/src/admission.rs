//! From a new connection to a client or tool of the server: the handshake, what the kernel says of it, and the actor's word.
use crate::{
    actor::Admission,
    connection::{Lobby, Stage},
    identity::{Checked, Claim, Claimant, Impostor, Peer, PeerSocket},
    metrics::Counters,
    office::Closed,
    outbox::Outbox,
    process_watch::{ConnectingProc, OpenConnection},
    user_shares::{ConnectionShare, ShareExceeded},
};
use peal_core::server::{PeerId, Refusal};
use peal_model::{
    ConnectionKind, IdentError, Identity, Info, Infos, Nspace, Proc, Rank, UnixGroup, Value, code,
    key,
};
use peal_wire::{
    Credential, GDS_HASH, Hello, HelloDecoder, Identity as Name, PeerKind, Quoted,
    SingletonJobData, User, Welcome, WelcomeForm, WireError,
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
pub(crate) struct Arrival {
    /// What they are.
    pub(crate) kind: ConnectionKind,
    /// Who they say they are, or who a tool without a name is to be.
    pub(crate) proc: Proc,
    /// As whom they run, and in which process.
    pub(crate) peer: Peer,
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
    pub(crate) _claim: Option<Claim>,
    /// Dropped when the server has heard that the connection is closed.
    pub(crate) _open: Option<OpenConnection>,
}

/// Why a connection is refused.
#[derive(Debug, Error)]
pub(crate) enum Unwelcome {
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
        said: Identity,
        credential: Identity,
    },
    #[error("data store {0}; only \"hash\" is served")]
    Gds(Quoted),
    #[error("a credential of module {0}; only native is served")]
    Credential(&'static str),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Impostor(#[from] Impostor),
    #[error(transparent)]
    Share(#[from] ShareExceeded),
    #[error("the server's own name is too long for names of tools: {0}")]
    Name(#[from] IdentError),
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Unwelcome {
    /// Why, in words that are the same whatever the peer says.
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            Unwelcome::Slow(_) => "slow handshake",
            Unwelcome::Closed => "closed before the kernel was asked",
            Unwelcome::Half => "half a handshake",
            Unwelcome::Wire(_) => "malformed handshake",
            Unwelcome::Kind(_) => "kind of peer that is not served",
            Unwelcome::Reserved(_) => "reserved name",
            Unwelcome::TwoUsers { .. } => "two users claimed",
            Unwelcome::Gds(_) => "data store that is not served",
            Unwelcome::Credential(_) => "credential that is not served",
            Unwelcome::Impostor(_) => "claim that the kernel contradicts",
            Unwelcome::Share(_) => "too many connections",
            Unwelcome::Name(_) => "server's name too long",
            Unwelcome::Stopping => "server stops",
            Unwelcome::Io(_) => "connection broke off",
            Unwelcome::Refused(refusal) => match refusal {
                Refusal::UnknownNspace(_) => "unknown namespace",
                Refusal::UnknownRank { .. } => "unknown rank",
                Refusal::WrongUser { .. } => "job of another user",
                Refusal::Denied(_) => "denied",
                Refusal::Ended(_) => "proc has ended",
                Refusal::TooManyClones { .. } => "too many connections of a proc",
                Refusal::NameTaken(_) => "name of another tool",
                Refusal::TooManyTools { .. } => "too many tools",
                Refusal::TooManyToolsOfUser { .. } => "too many tools of a user",
            },
        }
    }

    /// Counts it by what it is.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.connections_refused.count();
        match self {
            Unwelcome::Impostor(_) | Unwelcome::Refused(Refusal::WrongUser { .. }) => {
                counters.connections_identity_mismatch.count()
            }
            Unwelcome::Share(_) => counters.connections_over_share.count(),
            Unwelcome::Refused(
                Refusal::TooManyTools { .. } | Refusal::TooManyToolsOfUser { .. },
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
    lobby: &Lobby,
) -> Result<(Hello, Vec<u8>), Unwelcome> {
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
            .unwrap_or(Err(Unwelcome::Slow(timeout)))
    };
    tokio::select! {
        received = received => received,
        // The listener is gone only if the server is.
        _ = stage.wait_for(|stage| *stage != Stage::Accept) => Err(Unwelcome::Stopping),
    }
}

async fn receive(stream: &mut TcpStream, lobby: &Lobby) -> Result<(Hello, Vec<u8>), Unwelcome> {
    let mut decoder = HelloDecoder::new(lobby.limits);
    let mut buffer = vec![0; 4096];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Err(Unwelcome::Half);
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
    lobby: &Lobby,
) -> Result<Admitted, Unwelcome> {
    let (kind, proc) = claimed_proc(&hello.peer, lobby)?;
    let identity = claimed_identity(hello)?;
    let claimant = match kind {
        ConnectionKind::Client => Claimant::Proc(proc.clone()),
        ConnectionKind::Tool => Claimant::Tool(pid_of(hello)),
    };
    let Checked {
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
    let arrival = Arrival {
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
        .enter(|actor| actor.knock(admission))
        .map_err(|Closed| Unwelcome::Stopping)?;
    let (id, proc) = answer.await.map_err(|_| Unwelcome::Stopping)??;
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
fn claimed_proc(peer: &PeerKind, lobby: &Lobby) -> Result<(ConnectionKind, Proc), Unwelcome> {
    let own = match peer {
        PeerKind::Client(proc) => return Ok((ConnectionKind::Client, proc.clone())),
        PeerKind::Tool(_, Name::Started(proc)) | PeerKind::Launcher(_, Name::Started(proc)) => {
            let is_job = lobby.office.enter(|actor| actor.has_job(&proc.nspace));
            if is_job.map_err(|Closed| Unwelcome::Stopping)? {
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
        PeerKind::Scheduler(..) => return Err(Unwelcome::Kind("schedulers")),
    };
    if lobby.tool_names.reserve(own) {
        return Err(Unwelcome::Reserved(own.clone()));
    }
    Ok((ConnectionKind::Tool, own.clone()))
}

fn pid_of(hello: &Hello) -> Option<u32> {
    hello
        .infos
        .value_of(key::PMIX_PROC_PID)
        .and_then(Value::as_u32)
}

fn welcome(hello: &Hello, id: PeerId, proc: &Proc, lobby: &Lobby) -> Welcome {
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

fn claimed_identity(hello: &Hello) -> Result<Identity, Unwelcome> {
    // Where a singleton that asks for no job data would look for them does not matter. One that does and looks elsewhere is better off
    // alone: turned away, it has them from itself, as without a server.
    let asks = match hello.peer {
        PeerKind::Singleton(..) => {
            hello.dialect().singleton_job_data() == SingletonJobData::Requested
        }
        _ => true,
    };
    if asks && hello.gds.as_bytes() != GDS_HASH.as_bytes() {
        return Err(Unwelcome::Gds(Quoted::new(hello.gds.as_bytes())));
    }
    let identity = |User { uid, gid }| Identity { uid, gid };
    let credential = match &hello.credential {
        Credential::Native(user) => identity(*user),
        Credential::None => return Err(Unwelcome::Credential("none")),
        Credential::Munge(_) => return Err(Unwelcome::Credential("munge")),
        Credential::Other { .. } => return Err(Unwelcome::Credential("unknown")),
    };
    match hello.peer.user().map(identity) {
        Some(said) if said != credential => Err(Unwelcome::TwoUsers { said, credential }),
        _ => Ok(credential),
    }
}

async fn confirm(
    socket: PeerSocket,
    claimant: Claimant,
    claimed: Identity,
    lobby: &Lobby,
) -> Result<Checked, Unwelcome> {
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
