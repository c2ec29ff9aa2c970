//! Messages of forked children that become procs (`peal_stub::fork`): the kernel says which process
//! sent each.
use crate::handle::ServerHandle;
use peal_model::{Nspace, Proc, UserIdentity};
use peal_stub::fork;
use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    collections::BTreeMap,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{io::Interest, net::UnixDatagram, sync::RwLock};

/// Users of the procs that a host environment has registered.
#[derive(Clone, Debug, Default)]
pub(super) struct RegisteredUsers(Arc<Mutex<BTreeMap<Proc, UserIdentity>>>);

impl RegisteredUsers {
    pub(super) fn add(&self, proc: Proc, identity: UserIdentity) {
        self.lock().insert(proc, identity);
    }

    pub(super) fn remove_job(&self, nspace: &Nspace) {
        self.lock().retain(|proc, _| proc.nspace != *nspace);
    }

    /// Returns all procs with their users.
    pub(super) fn all(&self) -> BTreeMap<Proc, UserIdentity> {
        self.lock().clone()
    }

    fn of(&self, proc: &Proc) -> Option<UserIdentity> {
        self.lock().get(proc).copied()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Proc, UserIdentity>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Process that sent a message, as the kernel says.
struct Sender {
    pid: Pid,
    uid: u32,
}

/// Names the processes of procs to the server until the socket ends. No message is read between two turns.
pub(super) async fn follow(
    socket: OwnedFd,
    users: RegisteredUsers,
    handle: ServerHandle,
    turns: Arc<RwLock<()>>,
) {
    if let Err(error) = receive_all(socket, &users, &handle, &turns).await {
        tracing::warn!(%error, "socket of forked procs failed");
    }
}

async fn receive_all(
    socket: OwnedFd,
    users: &RegisteredUsers,
    handle: &ServerHandle,
    turns: &RwLock<()>,
) -> io::Result<()> {
    sockopt::set_socket_passcred(&socket, true)?;
    let socket = std::os::unix::net::UnixDatagram::from(socket);
    socket.set_nonblocking(true)?;
    let socket = UnixDatagram::from_std(socket)?;
    let mut datagram = [0; fork::MAX_LENGTH];
    loop {
        socket.readable().await?;
        let _turn = turns.read().await;
        let received = socket.try_io(Interest::READABLE, || receive(&socket, &mut datagram));
        let (length, sender) = match received {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let bytes = datagram.get(..length).unwrap_or_default();
        match (fork::read(bytes), sender) {
            (Ok(proc), Some(sender)) => name(proc, &sender, users, handle).await,
            (Err(error), _) => tracing::warn!(%error, "message of forked proc refused"),
            (Ok(proc), None) => tracing::warn!(%proc, "message of forked proc without sender"),
        }
    }
}

/// Reads one datagram; `None` when all senders have gone.
fn receive(socket: impl AsFd, datagram: &mut [u8]) -> io::Result<Option<(usize, Option<Sender>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(datagram)];
    let received = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let sender = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(Sender {
            pid: sender.pid,
            uid: sender.uid.as_raw(),
        }),
        _ => None,
    });
    Ok(Some((received.bytes, sender)))
}

/// Names the process of a proc, if it runs as the proc's user. A child may send before it takes over
/// the user, and is then root.
async fn name(proc: Proc, sender: &Sender, users: &RegisteredUsers, handle: &ServerHandle) {
    let Some(identity) = users.of(&proc) else {
        tracing::warn!(%proc, "forked proc is not registered");
        return;
    };
    if sender.uid != identity.uid && sender.uid != 0 {
        let (found, expected) = (sender.uid, identity.uid);
        tracing::warn!(%proc, found, expected, "forked proc runs as another user");
        return;
    }
    // A process that has ended needs no watch: its connection cannot come.
    let Ok(process) = pidfd_open(sender.pid, PidfdFlags::empty()) else {
        tracing::debug!(%proc, "forked proc has ended already");
        return;
    };
    let pid = u32::try_from(sender.pid.as_raw_nonzero().get()).unwrap_or_default();
    if let Some(Err(error)) = handle.name_process(proc.clone(), pid, process).await {
        tracing::warn!(%proc, %error, "process of forked proc not watched");
    }
}
