//! Connections through a program of another user, which the kernel takes for that user's.
use super::connection::AdmittedConnection;
use crate::raw_client::hello;
use anyhow::{Context, Result};
use peal_model::{Nspace, Proc, Rank};
use peal_wire::{ClaimedUser, Credential};
use std::{
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Forwards connections to a server. Prints the address that it listens at.
pub fn forward(server: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    loop {
        let (near, _) = listener.accept()?;
        let far = TcpStream::connect(server).context("connecting")?;
        for (from, to) in [
            (near.try_clone()?, far.try_clone()?),
            (far.try_clone()?, near.try_clone()?),
        ] {
            thread::spawn(move || copy(from, to));
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    // The end of one direction may be a reset.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Claims to be the first proc of a job, as another user. Prints the server's decision.
pub fn claim(server: SocketAddr, job: &str, uid: u32) -> Result<()> {
    let mut hello = hello(Proc::new(Nspace::new(job)?, Rank(0)));
    hello.credential = Credential::Native(ClaimedUser { uid, gid: uid });
    let admitted = AdmittedConnection::try_connect(server, &hello)?;
    println!(
        "{}",
        if admitted.is_some() {
            "admitted"
        } else {
            "refused"
        }
    );
    Ok(())
}
