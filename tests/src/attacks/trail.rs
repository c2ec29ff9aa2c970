//! Attacks on the audit trail: floods of refused connections, and secrets that also occur in
//! records about other users.
use super::{connection::AdmittedConnection, own_tool, print_times};
use crate::raw_client::{encoded, hello};
use anyhow::{Context, Result, ensure};
use peal_model::{Info, Key, KeyName, Nspace, Proc, Range, Rank, Request, Status, Value, key};
use rustix::net::sockopt::set_socket_linger;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Info that numbers an event.
pub const NUMBER: KeyName = KeyName("test.number");
/// Code of the events about which policies decide.
pub const EVENT: Status = Status(-4243);
/// Text that a user without a job sends in a handshake, or a requester in an event. No record about
/// other users may contain it.
pub const SAID: &str = "said by a stranger";
/// Number of connections of a flood at a time.
const AT_ONCE: usize = 8;
/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects this number of times with these bytes, and waits each time until the server closes.
/// Prints a line after the first time, so that the test knows that the attack has begun.
fn flood(server: SocketAddr, count: u64, bytes: &[u8]) -> Result<()> {
    let left = AtomicU64::new(count.saturating_sub(1));
    let one = || -> Result<()> {
        let mut stream = TcpStream::connect(server).context("connecting")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // The server may close the connection before it has read all.
        let _ = stream.write_all(bytes);
        ensure!(
            stream.read(&mut [0; 64]).unwrap_or(0) == 0,
            "a connection of the flood was admitted"
        );
        // Without lingering, the port is free at once.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    };
    one()?;
    println!("ready");
    let many = || -> Result<()> {
        while left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_ok()
        {
            one()?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(many)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread ends"))
    })?;
    println!("{count}");
    Ok(())
}

/// Connects this number of times with 16 bytes of junk.
pub fn junk(server: SocketAddr, count: u64) -> Result<()> {
    flood(server, count, b"sixteen of junk!")
}

/// Connects this number of times as a tool that no policy admits, and sends this number of secrets
/// of this size in bytes.
pub fn long_handshakes(server: SocketAddr, count: u64, secrets: usize, bytes: usize) -> Result<()> {
    let mut hello = own_tool("knocking");
    hello.infos = (0..secrets)
        .map(|number| {
            let text = format!("{number} {}", SAID.repeat(bytes.div_ceil(SAID.len())));
            Info::new(
                key::PMIX_CREDENTIAL,
                Value::string(text.get(..bytes).unwrap_or(&text)),
            )
        })
        .collect();
    flood(server, count, &encoded(&hello))
}

/// Returns a request that raises an event with these infos.
fn event(infos: Vec<Info>) -> Request {
    Request::Notify {
        code: EVENT,
        range: Range::Session,
        infos,
    }
}

/// Raises this number of events as a tool of this process's user, one after the other. A policy
/// decides about each. Prints the times of the decisions.
pub fn decide(server: SocketAddr, count: usize) -> Result<()> {
    let mut raiser = AdmittedConnection::connect(server, &own_tool("deciding"))?;
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        raiser.ask(&event(vec![Info::new(
            Key::new("test.said")?,
            Value::string(SAID),
        )]))?;
        times.push(start.elapsed());
    }
    print_times(times)
}

/// Raises events with numbers from `first` on as a tool of this process's user, until the server is gone.
/// Prints the number of each event that the server has granted.
pub fn raise_numbered(server: SocketAddr, first: u64) -> Result<()> {
    let mut raiser = AdmittedConnection::connect(server, &own_tool("numbering"))?;
    for number in first.. {
        let numbered = Info::new(NUMBER, Value::Uint64(number));
        match raiser.ask(&event(vec![numbered])) {
            Ok(status) if status.is_success() => println!("{number}"),
            Ok(_) => {}
            // The server was ended.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Raises events whose infos mark as secret the contents of records about other users: words of the
/// trail, the name of a job, and the victim's text.
pub fn name_secrets(server: SocketAddr, job: &str) -> Result<()> {
    let mut raiser = AdmittedConnection::connect(server, &own_tool("naming"))?;
    let secret = |text: &str| Info::new(key::PMIX_CREDENTIAL, Value::string(text));
    raiser.ask(&event(
        ["Granted", "Returned", job, SAID].map(secret).to_vec(),
    ))?;
    // This is more than the trail could remember for all users together.
    for number in 0..257 {
        raiser.ask(&event(vec![secret(&format!(
            "secret {number:04} of the attacker"
        ))]))?;
    }
    Ok(())
}

/// Raises this number of events. Each has three secrets of 200 KiB, and a text of 400 KiB that
/// contains each of them almost. Prints a line after the first event, so that the test knows that
/// the attack has begun.
pub fn large_secrets(server: SocketAddr, count: usize) -> Result<()> {
    let mut raiser = AdmittedConnection::connect(server, &own_tool("searched"))?;
    let long = |end: &str, bytes: usize| format!("{}{end}", "a".repeat(bytes));
    let mut infos: Vec<Info> = ["b", "c", "d"]
        .map(|end| Info::new(key::PMIX_CREDENTIAL, Value::string(&long(end, 200 << 10))))
        .to_vec();
    infos.push(Info::new(
        Key::new("test.text")?,
        Value::string(&long("e", 400 << 10)),
    ));
    let event = event(infos);
    raiser.ask(&event)?;
    println!("ready");
    for _ in 1..count {
        raiser.ask(&event)?;
    }
    Ok(())
}

/// Raises an event with a secret, as a user whose secret must not appear in the trail.
pub fn tell_secret(server: SocketAddr, secret: &str) -> Result<()> {
    let infos = vec![
        Info::new(key::PMIX_CREDENTIAL, Value::string(secret)),
        Info::new(Key::new("test.copy")?, Value::string(secret)),
    ];
    AdmittedConnection::connect(server, &own_tool("telling"))?.ask(&event(infos))?;
    Ok(())
}

/// Connects as a client of this rank of another user's job, and is refused.
pub fn claim(server: SocketAddr, job: &str) -> Result<()> {
    let proc = Proc::new(Nspace::new(job)?, Rank(0));
    flood(server, 1, &encoded(&hello(proc)))
}
