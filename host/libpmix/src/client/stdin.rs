//! Standard input of the process, pushed to procs (`PMIX_IOF_PUSH_STDIN`).
use super::library::Running;
use peal_model::{Bytes, Info, Proc, Status, code};
use std::{
    io,
    sync::{Arc, Weak},
    thread,
};

/// Size of a piece, in bytes.
const PIECE: usize = 4096;

/// Time between two looks at whether the library is still initialized, in milliseconds.
const LOOK_MS: i32 = 200;

/// Starts a thread that pushes the standard input, until its end or the finalization.
///
/// # Errors
///
/// Fails if the system refuses a thread.
pub(crate) fn push(
    running: Arc<Running>,
    targets: Vec<Proc>,
    directives: Vec<Info>,
) -> Result<(), Status> {
    let running = Arc::downgrade(&running);
    let started = thread::Builder::new()
        .name("peal-stdin".to_owned())
        .spawn(move || push_all(&running, &targets, &directives));
    started.map(drop).map_err(|error| {
        tracing::error!(%error, "thread for the standard input not started");
        code::PMIX_ERR_OUT_OF_RESOURCE
    })
}

fn push_all(running: &Weak<Running>, targets: &[Proc], directives: &[Info]) {
    loop {
        if !is_ready() {
            // A strong reference is not held during the wait, so that the last finalize ends it.
            if running.strong_count() == 0 {
                return;
            }
            continue;
        }
        let piece = match read_piece() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::debug!(%error, "standard input not read");
                return;
            }
        };
        let Some(running) = running.upgrade() else {
            return;
        };
        let is_end = piece.is_empty();
        let data = (!is_end).then(|| Bytes::from(piece.as_slice()));
        let client = running.client.clone();
        let (targets, directives) = (targets.to_vec(), directives.to_vec());
        let push = async move { client.push_input(&targets, &directives, data).await };
        match running.progress.wait(push) {
            Some(Ok(())) if !is_end => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "standard input not pushed");
                return;
            }
            _ => return,
        }
    }
}

/// Waits for a while for input, and returns true if there is some, or an end or error.
fn is_ready() -> bool {
    let mut waited = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `waited` is one structure.
    unsafe { libc::poll(&raw mut waited, 1, LOOK_MS) > 0 }
}

/// Reads what is there; empty at the end.
fn read_piece() -> io::Result<Vec<u8>> {
    let mut piece = vec![0_u8; PIECE];
    // SAFETY: the buffer has as many bytes.
    let read = unsafe { libc::read(libc::STDIN_FILENO, piece.as_mut_ptr().cast(), piece.len()) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    piece.truncate(read);
    Ok(piece)
}
