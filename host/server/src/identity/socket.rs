//! Socket at the other end of a loopback TCP connection, as known to the kernel. It is read by
//! socket diagnosis, which looks up one connection, or else from the table of all sockets.
use super::table;
use crate::trace_limit::{Once, warn_once};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    AF_INET, AF_INET6, IPPROTO_TCP, SockDiagMessage,
    inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags},
};
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, getpeername, netlink, recv,
        send, socket_with,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::net::TcpStream;

/// Size of the receive buffer, in bytes. It exceeds any answer about one socket.
const ANSWER: usize = 4096;

/// Kernel's data about a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Socket {
    /// User that owns the socket.
    pub(super) uid: u32,
    /// Inode number.
    pub(super) inode: u64,
    /// State.
    pub(super) state: SocketState,
}

/// State of a socket, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SocketState {
    /// TCP state ESTABLISHED.
    Established,
    /// Any other state, before or after that.
    Other,
}

impl SocketState {
    /// Converts the kernel's number of a state.
    pub(super) fn from_number(number: u8) -> SocketState {
        const TCP_ESTABLISHED: u8 = 1;
        if number == TCP_ESTABLISHED {
            SocketState::Established
        } else {
            SocketState::Other
        }
    }
}

/// Socket at the other end of a connection. The connection was established at the time of the
/// lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PeerSocket {
    /// User that owns the socket.
    pub(crate) uid: u32,
    pub(super) inode: u64,
    /// Address of the socket.
    pub(super) far: SocketAddr,
    /// Address of the server's end.
    pub(super) near: SocketAddr,
}

/// Answer of socket diagnosis.
enum Diagnosis {
    Found(Socket),
    /// The socket does not exist.
    Gone,
    /// The kernel does not support the diagnosis of such sockets, for this reason.
    Unavailable(String),
}

/// Result of the lookup of a peer's socket.
#[derive(Debug)]
pub(crate) enum PeerLookup {
    /// The peer's socket; none if the connection is no longer established.
    Answered(Option<PeerSocket>),
    /// The kernel does not support the diagnosis of such sockets. The search in its table of all
    /// sockets is slow.
    Undiagnosed(PeerSearch),
}

/// Search for a peer's socket in the kernel's table of all sockets.
#[derive(Debug)]
pub(crate) struct PeerSearch {
    far: SocketAddr,
    near: SocketAddr,
    /// Reason why socket diagnosis is not available.
    reason: String,
}

/// Lookup of connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Sockets {
    table_used: Arc<Once>,
    /// Diagnosis socket, kept for the next lookup because each connection needs one. None while it
    /// is in use, or after an error.
    kernel: Arc<Mutex<Option<OwnedFd>>>,
}

impl Sockets {
    /// Returns the peer's socket of an accepted connection; none if the connection is no longer
    /// established.
    pub(super) async fn peer_of(&self, stream: &TcpStream) -> io::Result<Option<PeerSocket>> {
        let near = stream.local_addr()?;
        let Some(far) = peer_address(stream)? else {
            return Ok(None);
        };
        match self.look_up(stream, far, near)? {
            PeerLookup::Answered(found) => Ok(found),
            PeerLookup::Undiagnosed(search) => self.search(stream, search).await,
        }
    }

    /// Looks up the peer's socket of an accepted connection, from `far` to `near`, without waiting.
    ///
    /// An address alone proves nothing: after a reset, another program can connect from the same
    /// port, while bytes of the first connection can still be read. The result is about this
    /// connection if the peer's socket is established and the server's end is not closed
    /// afterwards. A second connection between two addresses cannot be established before the first
    /// one is closed.
    pub(super) fn look_up(
        &self,
        socket: impl AsFd,
        far: SocketAddr,
        near: SocketAddr,
    ) -> io::Result<PeerLookup> {
        let found = match self.diagnose(far, near) {
            Diagnosis::Found(socket) => Some(socket),
            Diagnosis::Gone => None,
            // The connection was reset meanwhile. Do not read the table then, since any peer could
            // cause this cost by a reset.
            Diagnosis::Unavailable(_) if peer_address(&socket)?.is_none() => None,
            Diagnosis::Unavailable(reason) => {
                return Ok(PeerLookup::Undiagnosed(PeerSearch { far, near, reason }));
            }
        };
        Ok(PeerLookup::Answered(established(socket, found, far, near)?))
    }

    /// Searches the table of all sockets for the peer's socket of an accepted connection.
    pub(super) async fn search(
        &self,
        socket: impl AsFd,
        search: PeerSearch,
    ) -> io::Result<Option<PeerSocket>> {
        let (sockets, PeerSearch { far, near, reason }) = (self.clone(), search);
        // The table may be long, so it is not read on tokio's own threads.
        let searching =
            tokio::task::spawn_blocking(move || sockets.find_in_table(far, near, &reason));
        established(
            socket,
            searching.await.map_err(io::Error::other)??,
            far,
            near,
        )
    }

    /// Returns true if a peer's socket still exists, in any state. May read files in `/proc`, so it
    /// must not run on tokio's own threads.
    pub(super) fn is_there(&self, peer: &PeerSocket) -> io::Result<bool> {
        Ok(self
            .find(peer.far, peer.near)?
            .is_some_and(|socket| socket.inode == peer.inode))
    }

    /// Returns the socket at `far` that is connected to the server's end at `near`, if a process
    /// holds it.
    fn find(&self, far: SocketAddr, near: SocketAddr) -> io::Result<Option<Socket>> {
        let found = match self.diagnose(far, near) {
            Diagnosis::Found(socket) => Some(socket),
            Diagnosis::Gone => None,
            Diagnosis::Unavailable(reason) => self.find_in_table(far, near, &reason)?,
        };
        // Some kernels, and the table, report user 0 for a socket that no process holds any more.
        Ok(found.filter(|socket| socket.inode != 0))
    }

    fn find_in_table(
        &self,
        far: SocketAddr,
        near: SocketAddr,
        reason: &str,
    ) -> io::Result<Option<Socket>> {
        let found = table::find(far, near)?;
        if found.is_some() {
            warn_once!(
                self.table_used,
                reason,
                "socket diagnosis not available; searching the table of all sockets"
            );
        }
        Ok(found)
    }

    /// Diagnoses the other end of a connection.
    fn diagnose(&self, far: SocketAddr, near: SocketAddr) -> Diagnosis {
        let attempt = || -> io::Result<Diagnosis> {
            // The socket is taken out, so that no other thread uses it meanwhile. After an error it
            // is not put back: a late answer would be taken for that of the next request.
            let kept = self
                .kernel
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let kernel = kept.map_or_else(diagnosis_socket, Ok)?;
            let diagnosis = diagnose(&kernel, far, near)?;
            *self.kernel.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernel);
            Ok(diagnosis)
        };
        attempt().unwrap_or_else(|error| Diagnosis::Unavailable(error.to_string()))
    }
}

/// Returns the socket at `far` if it is the peer's end of this connection.
fn established(
    socket: impl AsFd,
    found: Option<Socket>,
    far: SocketAddr,
    near: SocketAddr,
) -> io::Result<Option<PeerSocket>> {
    // This check follows the lookup: only if the server's end is still open afterwards is the
    // result about this connection.
    let is_open = peer_address(socket)?.is_some();
    let ours = found
        .filter(|socket| is_open && socket.state == SocketState::Established && socket.inode != 0);
    Ok(ours.map(|Socket { uid, inode, .. }| PeerSocket {
        uid,
        inode,
        far,
        near,
    }))
}

/// Returns the address of a connection's peer; none if the connection was reset or closed at both
/// ends.
fn peer_address(socket: impl AsFd) -> io::Result<Option<SocketAddr>> {
    match getpeername(socket) {
        Ok(address) => Ok(Some(address.ok_or(Errno::AFNOSUPPORT)?.try_into()?)),
        Err(Errno::NOTCONN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the number of bytes that the process at `far` has received from `near` and not read;
/// none if there is no such connection.
pub(crate) fn unread(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    Ok(query(&diagnosis_socket()?, far, near)?.map(|header| header.recv_queue))
}

/// Returns the number of bytes written at `near` that the system at `far` has not acknowledged.
pub(crate) fn untaken(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    Ok(query(&diagnosis_socket()?, near, far)?.map(|header| header.send_queue))
}

/// Opens a netlink socket for socket diagnosis.
fn diagnosis_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        flags,
        Some(netlink::SOCK_DIAG),
    )?)
}

fn diagnose(kernel: &OwnedFd, far: SocketAddr, near: SocketAddr) -> io::Result<Diagnosis> {
    Ok(match query(kernel, far, near)? {
        Some(header) => Diagnosis::Found(Socket {
            uid: header.uid,
            inode: u64::from(header.inode),
            state: SocketState::from_number(header.state),
        }),
        // The kernel returns the same error for an absent socket and for a family without
        // diagnosis. If it finds the server's own end, diagnosis works and the peer is gone. This
        // avoids reading the slow table for each peer that is gone.
        None if query(kernel, near, far)?.is_some() => Diagnosis::Gone,
        None => Diagnosis::Unavailable("the kernel finds neither end".to_owned()),
    })
}

/// Queries the kernel about the socket at `far` of one connection. After an error the answer may
/// still arrive, so the next query must use another diagnosis socket.
fn query(
    kernel: &OwnedFd,
    far: SocketAddr,
    near: SocketAddr,
) -> io::Result<Option<InetResponseHeader>> {
    send(kernel, &request_for(far, near), SendFlags::empty())?;
    let mut answer = [0; ANSWER];
    // The kernel answers before the send returns, so the receive does not wait.
    let (count, _) = recv(kernel, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
    parse_answer(answer.get(..count).unwrap_or_default(), far, near)
}

fn request_for(far: SocketAddr, near: SocketAddr) -> Vec<u8> {
    let socket_id = SocketId {
        source_port: far.port(),
        destination_port: near.port(),
        source_address: far.ip(),
        destination_address: near.ip(),
        interface_id: 0,
        // This cookie matches any socket.
        cookie: [0xff; 8],
    };
    let request = InetRequest {
        family: if far.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn parse_answer(
    answer: &[u8],
    far: SocketAddr,
    near: SocketAddr,
) -> io::Result<Option<InetResponseHeader>> {
    let message =
        NetlinkMessage::<SockDiagMessage>::deserialize(answer).map_err(io::Error::other)?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
            let id = &response.header.socket_id;
            // If the connection does not exist, the kernel returns the listening socket of the
            // address instead.
            let same = (id.source_address, id.source_port) == (far.ip(), far.port())
                && (id.destination_address, id.destination_port) == (near.ip(), near.port());
            Ok(same.then_some(response.header))
        }
        NetlinkPayload::Error(error) => match error.to_io() {
            error if error.kind() == io::ErrorKind::NotFound => Ok(None),
            error => Err(error),
        },
        other => Err(io::Error::other(format!(
            "unexpected answer of socket diagnosis: {other:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_needs::needs;
    use std::{
        net::{TcpListener, TcpStream},
        os::{fd::AsFd, linux::fs::MetadataExt},
        time::{Duration, Instant},
    };

    /// Returns a connection: its far end and the addresses of both ends.
    fn connection(listener: &TcpListener) -> (TcpStream, SocketAddr, SocketAddr) {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = stream.local_addr().unwrap();
        let near = stream.peer_addr().unwrap();
        (stream, far, near)
    }

    fn inode(stream: &TcpStream) -> u64 {
        std::fs::File::from(stream.as_fd().try_clone_to_owned().unwrap())
            .metadata()
            .unwrap()
            .st_ino()
    }

    #[test]
    fn kernel_reports_owner_of_connection_by_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, far, near) = connection(&listener);
        let uid = rustix::process::geteuid().as_raw();
        let wanted = Some(Socket {
            uid,
            inode: inode(&stream),
            state: SocketState::Established,
        });
        assert_eq!(Sockets::default().find(far, near).unwrap(), wanted);
        assert_eq!(table::find(far, near).unwrap(), wanted);
        // If the kernel lacks socket diagnosis, the table was used above.
        if let Diagnosis::Found(found) = Sockets::default().diagnose(far, near) {
            assert_eq!(Some(found), wanted);
        }
    }

    #[needs(socket_diagnosis)]
    #[test]
    fn diagnosis_distinguishes_closed_sockets_from_lacking_families() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, far, near) = connection(&listener);
        let (_accepted, _) = listener.accept().unwrap();
        let sockets = Sockets::default();
        assert!(matches!(sockets.diagnose(far, near), Diagnosis::Found(_)));
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        // Both ends are gone.
        assert!(matches!(
            sockets.diagnose(far, near),
            Diagnosis::Unavailable(_)
        ));
    }

    /// Returns a connection as a server accepted it, its peer, and the peer's address.
    async fn accepted() -> (
        tokio::net::TcpListener,
        tokio::net::TcpStream,
        TcpStream,
        SocketAddr,
    ) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = peer.local_addr().unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (listener, stream, peer, far)
    }

    #[tokio::test]
    async fn established_connection_has_peer_socket_of_its_user() {
        let (_listener, stream, peer, far) = accepted().await;
        let found = Sockets::default().peer_of(&stream).await.unwrap().unwrap();
        assert_eq!(
            (found.uid, found.inode),
            (rustix::process::geteuid().as_raw(), inode(&peer))
        );
        assert_eq!((found.far, found.near), (far, stream.local_addr().unwrap()));
        assert!(Sockets::default().is_there(&found).unwrap());
    }

    #[tokio::test]
    async fn reset_connection_has_none_although_its_port_is_used_again() {
        let (listener, stream, peer, far) = accepted().await;
        rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        drop(peer);
        // Another test may be starting a process, which inherits the socket for a moment.
        let start = Instant::now();
        let next = loop {
            let next = connect_from(far, listener.local_addr().unwrap());
            match next {
                Ok(next) => break next,
                Err(error) => assert!(start.elapsed() < Duration::from_secs(10), "{error}"),
            }
            std::thread::yield_now();
        };
        let (second, from) = listener.accept().await.unwrap();
        assert_eq!(from, far);
        assert_eq!(Sockets::default().peer_of(&stream).await.unwrap(), None);
        let found = Sockets::default().peer_of(&second).await.unwrap().unwrap();
        assert_eq!(found.inode, inode(&next));
    }

    /// Connects from a given address.
    fn connect_from(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &from)?;
        rustix::net::connect(&socket, &to)?;
        Ok(socket.into())
    }

    #[tokio::test]
    async fn connection_closed_by_its_peer_has_none() {
        let (_listener, stream, peer, _) = accepted().await;
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(Sockets::default().peer_of(&stream).await.unwrap(), None);
    }

    #[needs(socket_diagnosis)]
    #[test]
    fn unread_bytes_are_counted() {
        use std::io::{Read, Write};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut stream, far, near) = connection(&listener);
        let (mut ours, _) = listener.accept().unwrap();
        assert_eq!(unread(far, near).unwrap(), Some(0));
        ours.write_all(&[7; 1000]).unwrap();
        stream.read_exact(&mut [0; 400]).unwrap();
        assert_eq!(unread(far, near).unwrap(), Some(600));
        stream.read_exact(&mut [0; 600]).unwrap();
        assert_eq!(unread(far, near).unwrap(), Some(0));
    }

    #[test]
    fn listener_is_not_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listens = listener.local_addr().unwrap();
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(Sockets::default().find(listens, nowhere).unwrap(), None);
        assert_eq!(Sockets::default().find(nowhere, listens).unwrap(), None);
    }

    #[test]
    fn closed_end_belongs_to_no_user_and_not_to_root() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, far, near) = connection(&listener);
        let (_accepted, _) = listener.accept().unwrap();
        drop(stream);
        // Another test may be starting a process, which inherits the socket for a moment.
        let start = Instant::now();
        while Sockets::default().find(far, near).unwrap().is_some() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "a closed connection still has an owner"
            );
            std::thread::yield_now();
        }
        let remembered = table::find(far, near).unwrap();
        assert!(
            remembered.is_none_or(|socket| socket.inode == 0),
            "{remembered:?}"
        );
    }

    #[test]
    fn invalid_diagnosis_answer_is_an_error() {
        let far = "127.0.0.1:2".parse().unwrap();
        let near = "127.0.0.1:3".parse().unwrap();
        for answer in [&[][..], &[0; 16], &[0xff; 64], &request_for(far, near)] {
            assert!(parse_answer(answer, far, near).is_err(), "{answer:?}");
        }
    }
}
