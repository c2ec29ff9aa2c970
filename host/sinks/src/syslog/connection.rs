//! Connection to a syslog server, or datagram socket: opening, framing, and detection of a closed
//! peer.
use super::{Address, HostPort, SyslogSettings, tls::Tls};
use crate::SinkError;
use rustix::{
    io::Errno,
    net::{RecvFlags, recv, sockopt},
};
use rustls::{ClientConnection, StreamOwned};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    os::unix::net::UnixDatagram,
    time::Duration,
};

/// Time that a server has to reject the client's certificate after the handshake.
const REJECTION_WAIT: Duration = Duration::from_millis(200);

/// Parameters for connecting to a server.
pub(super) struct Dial {
    address: Address,
    timeout: Duration,
    tls: Option<Tls>,
}

impl Dial {
    pub(super) fn new(name: &str, settings: &SyslogSettings) -> Result<Dial, SinkError> {
        let tls = match &settings.address {
            Address::Tls(peer) => Some(Tls::new(name, &settings.tls, peer)?),
            Address::Unix(_) | Address::Udp(_) | Address::Tcp(_) => None,
        };
        Ok(Dial {
            address: settings.address.clone(),
            timeout: settings.timeout,
            tls,
        })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn open(&self) -> io::Result<SyslogConnection> {
        match (&self.address, &self.tls) {
            (Address::Unix(path), _) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                // A datagram socket blocks while the queue of the receiver is full.
                socket.set_write_timeout(Some(self.timeout))?;
                Ok(SyslogConnection::Unix(socket))
            }
            (Address::Udp(peer), _) => first(peer, |address| {
                // A socket sends only to addresses of its own family.
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(self.timeout))?;
                Ok(SyslogConnection::Udp(socket))
            }),
            // `new` gives every TLS address its parameters, so only TCP comes here.
            (Address::Tcp(peer) | Address::Tls(peer), None) => {
                self.connect(peer).map(SyslogConnection::Tcp)
            }
            (Address::Tcp(peer) | Address::Tls(peer), Some(tls)) => {
                self.secure(self.connect(peer)?, tls)
            }
        }
    }

    fn connect(&self, peer: &HostPort) -> io::Result<TcpStream> {
        first(peer, |address| {
            let stream = TcpStream::connect_timeout(&address, self.timeout)?;
            stream.set_write_timeout(Some(self.timeout))?;
            stream.set_read_timeout(Some(self.timeout))?;
            // Messages are single writes, and none should wait for the acknowledgement of the one
            // before.
            stream.set_nodelay(true)?;
            // A server that is gone without closing the connection is noticed between messages,
            // too.
            sockopt::set_socket_keepalive(&stream, true)?;
            Ok(stream)
        })
    }

    fn secure(&self, mut stream: TcpStream, tls: &Tls) -> io::Result<SyslogConnection> {
        let mut connection = ClientConnection::new(tls.config.clone(), tls.server.clone())
            .map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        // With TLS 1.3 the handshake completes before the server has checked the client's
        // certificate. Its rejection would be noticed too late, and the first message would be
        // lost.
        stream.set_read_timeout(Some(REJECTION_WAIT.min(self.timeout)))?;
        match connection.read_tls(&mut stream) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                connection.process_new_packets().map_err(io::Error::other)?;
            }
            Err(error) if is_nothing_yet(&error) => {}
            Err(error) => return Err(error),
        }
        stream.set_read_timeout(Some(self.timeout))?;
        Ok(SyslogConnection::Tls(Box::new(StreamOwned::new(
            connection, stream,
        ))))
    }
}

/// Tries the addresses of a peer in turn.
fn first<T>(peer: &HostPort, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name of the host has no address");
    for address in (peer.host.as_str(), peer.port).to_socket_addrs()? {
        match open(address) {
            Ok(opened) => return Ok(opened),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns true if a non-blocking socket had nothing, or a timeout expired.
pub(super) fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// A connection to a server.
pub(super) enum SyslogConnection {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl SyslogConnection {
    /// Sends a message. After an error the connection is unusable, since a part may have been sent.
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            SyslogConnection::Unix(socket) => socket.send(message).map(drop),
            SyslogConnection::Udp(socket) => socket.send(message).map(drop),
            SyslogConnection::Tcp(stream) => stream.write_all(&counted(message)),
            SyslogConnection::Tls(stream) => stream
                .write_all(&counted(message))
                .and_then(|()| stream.flush()),
        }
    }

    /// Returns true if the peer has closed the connection.
    pub(super) fn is_closed(&mut self) -> bool {
        match self {
            // A datagram socket has no connection. An absent server is an error of `send`.
            SyslogConnection::Unix(_) | SyslogConnection::Udp(_) => false,
            SyslogConnection::Tcp(stream) => is_tcp_closed(stream),
            SyslogConnection::Tls(stream) => {
                let _ = stream.sock.set_nonblocking(true);
                let gone = is_tls_closed(stream);
                stream.sock.set_nonblocking(false).is_err() || gone
            }
        }
    }
}

/// Reads until the end of the stream is seen. Syslog servers send nothing; other data are ignored.
fn is_tcp_closed(stream: &TcpStream) -> bool {
    let mut buffer = [0; 512];
    loop {
        match recv(stream, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => return true,
        }
    }
}

/// Reads until the announced end of the TLS stream is seen.
fn is_tls_closed(stream: &mut StreamOwned<ClientConnection, TcpStream>) -> bool {
    let mut buffer = [0; 512];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !is_nothing_yet(&error),
        }
    }
}

/// Returns a message after its length (RFC 6587).
fn counted(message: &[u8]) -> Vec<u8> {
    let mut frame = message.len().to_string().into_bytes();
    frame.push(b' ');
    frame.extend_from_slice(message);
    frame
}

impl Drop for SyslogConnection {
    fn drop(&mut self) {
        if let SyslogConnection::Tls(stream) = self {
            // Announce the end, so that the server does not take the last message for truncated.
            // Errors are ignored: the connection ends in any case.
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    }
}
