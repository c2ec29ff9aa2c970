//! The socket at the other end of a loopback TCP connection, as the kernel knows it: by socket diagnosis, which looks one
//! connection up, or by the table of all where that is not to be had.
use super::table;
use crate::quiet::{Once, warn_once};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::{
    AF_INET, AF_INET6, IPPROTO_TCP, SockDiagMessage,
    inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags},
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::{io, net::SocketAddr};

/// Longer than any answer about one socket, in bytes.
const ANSWER: usize = 4096;

/// What the kernel says of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Socket {
    /// Whose it is.
    pub(super) uid: u32,
    /// Its number among the files of the system.
    pub(super) inode: u64,
}

/// Looks connections up.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    table_used: Once,
}

impl Sockets {
    /// The socket at `far` that is connected to ours at `near`, if a process holds it.
    pub(super) fn find(&self, far: SocketAddr, near: SocketAddr) -> io::Result<Option<Socket>> {
        let diagnosed = diagnose(far, near);
        let found = match &diagnosed {
            Ok(Some(found)) => Some(*found),
            // The kernel says the same of a connection that is not there and of a family that it cannot diagnose.
            Ok(None) | Err(_) => table::find(far, near)?.inspect(|_| {
                let reason = diagnosed.err().map_or("it knows nothing of TCP".to_owned(), |error| error.to_string());
                warn_once!(
                    self.table_used,
                    reason,
                    "the kernel does not diagnose sockets: its table of all is searched"
                );
            }),
        };
        // What nobody holds any more is said to belong to user 0, by some kernels and in the table.
        Ok(found.filter(|socket| socket.inode != 0))
    }
}

/// How many bytes the process at `far` has received from ours at `near` and not read; none where there is no such connection.
pub(crate) fn unread(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    Ok(ask(far, near)?.map(|header| header.recv_queue))
}

/// How many bytes we have written at `near` that the system at `far` has not acknowledged.
pub(crate) fn untaken(far: SocketAddr, near: SocketAddr) -> io::Result<Option<u32>> {
    Ok(ask(near, far)?.map(|header| header.send_queue))
}

/// Asks the kernel whose the other end of a connection is.
fn diagnose(far: SocketAddr, near: SocketAddr) -> io::Result<Option<Socket>> {
    Ok(ask(far, near)?.map(|header| Socket { uid: header.uid, inode: u64::from(header.inode) }))
}

/// Asks the kernel about the socket at `far` of one connection.
fn ask(far: SocketAddr, near: SocketAddr) -> io::Result<Option<InetResponseHeader>> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &question(far, near), SendFlags::empty())?;
    let mut answer = vec![0; ANSWER];
    // The answer is there as soon as the question is put.
    let (count, _) = recv(&kernel, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
    understand(answer.get(..count).unwrap_or_default(), far, near)
}

fn question(far: SocketAddr, near: SocketAddr) -> Vec<u8> {
    let socket_id = SocketId {
        source_port: far.port(),
        destination_port: near.port(),
        source_address: far.ip(),
        destination_address: near.ip(),
        interface_id: 0,
        // None in particular.
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

fn understand(answer: &[u8], far: SocketAddr, near: SocketAddr) -> io::Result<Option<InetResponseHeader>> {
    let message = NetlinkMessage::<SockDiagMessage>::deserialize(answer).map_err(io::Error::other)?;
    match message.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
            let id = &response.header.socket_id;
            // Where the connection is gone, whoever listens at its end is found instead.
            let same = (id.source_address, id.source_port) == (far.ip(), far.port())
                && (id.destination_address, id.destination_port) == (near.ip(), near.port());
            Ok(same.then_some(response.header))
        }
        NetlinkPayload::Error(error) => match error.to_io() {
            error if error.kind() == io::ErrorKind::NotFound => Ok(None),
            error => Err(error),
        },
        other => Err(io::Error::other(format!("an answer that is none: {other:?}"))),
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

    /// A connection: its far end, and the addresses of both.
    fn connection(listener: &TcpListener) -> (TcpStream, SocketAddr, SocketAddr) {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, near) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        (stream, far, near)
    }

    fn inode(stream: &TcpStream) -> u64 {
        std::fs::File::from(stream.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap().st_ino()
    }

    #[test]
    fn the_kernel_knows_whose_a_connection_is_by_either_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, far, near) = connection(&listener);
        let wanted = Some(Socket { uid: rustix::process::geteuid().as_raw(), inode: inode(&stream) });
        assert_eq!(Sockets::default().find(far, near).unwrap(), wanted);
        assert_eq!(table::find(far, near).unwrap(), wanted);
        match diagnose(far, near) {
            Ok(found) => assert_eq!(found, wanted),
            // A kernel may lack it; then the table has been used above.
            Err(error) => assert_ne!(error.kind(), io::ErrorKind::InvalidInput, "{error}"),
        }
    }

    #[needs(socket_diagnosis)]
    #[test]
    fn what_has_not_been_read_is_counted() {
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
    fn whoever_listens_there_is_not_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listens = listener.local_addr().unwrap();
        let nowhere = "127.0.0.1:1".parse().unwrap();
        assert_eq!(Sockets::default().find(listens, nowhere).unwrap(), None);
        assert_eq!(Sockets::default().find(nowhere, listens).unwrap(), None);
    }

    #[test]
    fn a_closed_end_belongs_to_nobody_and_not_to_root() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (stream, far, near) = connection(&listener);
        let (_accepted, _) = listener.accept().unwrap();
        drop(stream);
        // Another test may be starting a process, which has it for a moment.
        let start = Instant::now();
        while Sockets::default().find(far, near).unwrap().is_some() {
            assert!(start.elapsed() < Duration::from_secs(10), "a closed connection still belongs to somebody");
            std::thread::yield_now();
        }
        let remembered = table::find(far, near).unwrap();
        assert!(remembered.is_none_or(|socket| socket.inode == 0), "{remembered:?}");
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_an_error() {
        let (far, near) = ("127.0.0.1:2".parse().unwrap(), "127.0.0.1:3".parse().unwrap());
        for answer in [&[][..], &[0; 16], &[0xff; 64], &question(far, near)] {
            assert!(understand(answer, far, near).is_err(), "{answer:?}");
        }
    }
}
