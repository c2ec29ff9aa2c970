//! From a new connection to a client or tool of the server: the handshake, what the kernel says of it, and the actor's word.
use crate::{
    actor::{FromClient, Outbox},
    connection::{Lobby, Stage},
    counters::Counters,
    identity::{Claim, Claimant, Impostor, Peer},
};
use peal_core::server::{PeerId, Refusal};
use peal_model::{Identity, Info, Proc};
use peal_wire::{Credential, GDS_HASH, Hello, HelloDecoder, PeerKind, Quoted, User, WireError};
use std::time::Duration;
use thiserror::Error;
use tokio::{io::AsyncReadExt, net::TcpStream, sync::oneshot};

/// Somebody who wants to connect, and all that is known of them; what they claim is not contradicted by the kernel.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Who they say they are.
    pub(crate) proc: Proc,
    /// As whom they run, and in which process.
    pub(crate) peer: Peer,
    /// What else they say of themselves.
    pub(crate) infos: Vec<Info>,
}

/// Somebody who has been admitted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: PeerId,
    pub(crate) proc: Proc,
    /// Kept as long as the connection is.
    pub(crate) _claim: Option<Claim>,
}

/// Why a connection is refused.
#[derive(Debug, Error)]
pub(crate) enum Unwelcome {
    #[error("the handshake took longer than {0:?}")]
    Slow(Duration),
    #[error("the connection was closed in the middle of the handshake")]
    Half,
    #[error("malformed: {0}")]
    Wire(#[from] WireError),
    #[error("{0} are not served")]
    Kind(&'static str),
    #[error("data store {0}; only \"hash\" is served")]
    Gds(Quoted),
    #[error("a credential of module {0}; only native is served")]
    Credential(&'static str),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Impostor(#[from] Impostor),
    #[error("there are {0} connections, more are not allowed")]
    TooMany(usize),
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl Unwelcome {
    /// Counts it by what it is.
    pub(crate) fn count(&self, counters: &Counters) {
        counters.connections_refused.count();
        if let Unwelcome::Impostor(_) | Unwelcome::Refused(Refusal::WrongUser { .. }) = self {
            counters.impostors.count();
        }
    }
}

/// Waits for the handshake; what came behind it belongs to the first frame.
pub(crate) async fn hello(stream: &mut TcpStream, lobby: &Lobby) -> Result<(Hello, Vec<u8>), Unwelcome> {
    let mut stage = lobby.stage.clone();
    let timeout = lobby.handshake_timeout;
    tokio::select! {
        received = tokio::time::timeout(timeout, receive(stream, lobby)) => {
            received.unwrap_or(Err(Unwelcome::Slow(timeout)))
        }
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

/// Asks the kernel and then the actor; what is for the peer goes to `outbox` from then on.
pub(crate) async fn admit(
    stream: &TcpStream,
    hello: &Hello,
    outbox: Outbox,
    lobby: &Lobby,
) -> Result<Admitted, Unwelcome> {
    let proc = claimed_proc(&hello.peer)?;
    let identity = claimed_identity(hello)?;
    let (peer, claim) = confirm(stream, Claimant::Proc(proc.clone()), identity, lobby).await?;
    let (admitted, answer) = oneshot::channel();
    let arrival = Arrival { proc: proc.clone(), peer, infos: hello.infos.clone() };
    let admit = FromClient::Admit { arrival, outbox, admitted };
    lobby.clients.send(admit).await.map_err(|_| Unwelcome::Stopping)?;
    let id = answer.await.map_err(|_| Unwelcome::Stopping)??;
    Ok(Admitted { id, proc, _claim: claim })
}

fn claimed_proc(peer: &PeerKind) -> Result<Proc, Unwelcome> {
    match peer {
        PeerKind::Client(proc) => Ok(proc.clone()),
        PeerKind::Tool(..) => Err(Unwelcome::Kind("tools")),
        PeerKind::Launcher(..) => Err(Unwelcome::Kind("launchers")),
        PeerKind::Singleton(..) => Err(Unwelcome::Kind("singletons")),
        PeerKind::Scheduler(..) => Err(Unwelcome::Kind("schedulers")),
    }
}

fn claimed_identity(hello: &Hello) -> Result<Identity, Unwelcome> {
    if hello.gds.as_bytes() != GDS_HASH.as_bytes() {
        return Err(Unwelcome::Gds(Quoted::new(hello.gds.as_bytes())));
    }
    match &hello.credential {
        Credential::Native(User { uid, gid }) => Ok(Identity { uid: *uid, gid: *gid }),
        Credential::None => Err(Unwelcome::Credential("none")),
        Credential::Munge(_) => Err(Unwelcome::Credential("munge")),
        Credential::Other { .. } => Err(Unwelcome::Credential("unknown")),
    }
}

async fn confirm(
    stream: &TcpStream,
    claimant: Claimant,
    claimed: Identity,
    lobby: &Lobby,
) -> Result<(Peer, Option<Claim>), Unwelcome> {
    let (near, far) = (stream.local_addr()?, stream.peer_addr()?);
    let checker = lobby.checker.clone();
    let checked = tokio::task::spawn_blocking(move || checker.check(&claimant, claimed, far, near)).await;
    Ok(checked.map_err(std::io::Error::other)??)
}
