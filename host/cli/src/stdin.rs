//! Standard input of `peal run`, forwarded to the procs that read it.
use peal_launcher::{Inputs, StdinTarget};
use peal_model::Bytes;
use std::{
    io::{self, IsTerminal, Read},
    sync::Arc,
    thread,
};
use tokio::runtime::Handle;

/// Size of the read buffer, in bytes.
const READ: usize = 64 * 1024;

/// Reads on a thread of its own until the end of the input or until no proc reads it any more: a
/// read from a terminal may block forever.
pub fn feed(inputs: Arc<Inputs>, readers: StdinTarget) {
    let runtime = Handle::current();
    let is_wanted = readers != StdinTarget::NoRank && may_read();
    let pump = move || {
        let mut buffer = vec![0; READ];
        while let Some(read) = if is_wanted { read(&mut buffer) } else { None } {
            if runtime.block_on(inputs.push(None, Some(Bytes::from(read)))) == 0 {
                return;
            }
        }
        // Also where nothing is read: procs must see the end of the input, and not wait for it.
        runtime.block_on(inputs.push(None, None));
    };
    if let Err(error) = thread::Builder::new().name("stdin".to_owned()).spawn(pump) {
        tracing::error!(%error, "standard input not forwarded: thread not started");
    }
}

/// Returns the next bytes; `None` at the end.
fn read(buffer: &mut [u8]) -> Option<&[u8]> {
    loop {
        match io::stdin().read(buffer) {
            Ok(count) => return buffer.get(..count).filter(|read| !read.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "standard input not read");
                return None;
            }
        }
    }
}

/// Returns true if a read would not stop this process: a terminal stops background processes that
/// read.
fn may_read() -> bool {
    let stdin = io::stdin();
    !stdin.is_terminal()
        || rustix::termios::tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp())
}
