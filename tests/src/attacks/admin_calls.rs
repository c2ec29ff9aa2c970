//! Calls of the admin socket that send nothing.
use anyhow::{Context, Result};
use std::{
    io::Read,
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Keeps this number of calls open, and begins one again when it ends, until it is killed. Prints the
/// first refusal.
pub fn attack(socket: &Path, count: usize) -> Result<()> {
    let is_told = AtomicBool::new(false);
    let call = || -> Result<()> {
        loop {
            let mut reply = String::new();
            UnixStream::connect(socket)
                .context("connecting")?
                .read_to_string(&mut reply)?;
            if reply.contains("open calls") && !is_told.swap(true, Ordering::Relaxed) {
                println!("{}", reply.trim_end());
            }
        }
    };
    thread::scope(|scope| {
        let calls: Vec<_> = (0..count).map(|_| scope.spawn(call)).collect();
        calls
            .into_iter()
            .try_for_each(|call| call.join().expect("no attacker panics"))
    })
}
