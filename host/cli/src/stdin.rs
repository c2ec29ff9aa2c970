//! Passes on what is piped or typed into `peal run` to those of its procs that shall read it.
use peal_launcher::{Inputs, StdinTarget};
use peal_model::Bytes;
use std::{
    io::{self, IsTerminal, Read},
    sync::Arc,
    thread,
};
use tokio::runtime::Handle;

/// How much is read at once, in bytes.
const READ: usize = 64 * 1024;

/// Reads on a thread of its own until there is no more, or nobody left who would take it: a terminal may say nothing for ever.
pub fn feed(inputs: Arc<Inputs>, readers: StdinTarget) {
    let runtime = Handle::current();
    let is_wanted = readers != StdinTarget::Nobody && may_read();
    let pump = move || {
        let mut buffer = vec![0; READ];
        while let Some(read) = if is_wanted { read(&mut buffer) } else { None } {
            if runtime.block_on(inputs.push(None, Some(Bytes::from(read)))) == 0 {
                return;
            }
        }
        runtime.block_on(inputs.push(None, None));
    };
    if let Err(error) = thread::Builder::new().name("stdin".to_owned()).spawn(pump) {
        tracing::error!(%error, "the job can read nothing");
    }
}

/// What is read next, if anything is.
fn read(buffer: &mut [u8]) -> Option<&[u8]> {
    loop {
        match io::stdin().read(buffer) {
            Ok(count) => return buffer.get(..count).filter(|read| !read.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "cannot read what the job shall read");
                return None;
            }
        }
    }
}

/// Whether reading would not stop us: a terminal stops who reads in the background.
fn may_read() -> bool {
    let stdin = io::stdin();
    !stdin.is_terminal()
        || rustix::termios::tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp())
}
