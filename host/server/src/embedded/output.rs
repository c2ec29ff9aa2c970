//! Forwards what procs write, line by line, so that lines of different procs never mix.
use peal_model::Rank;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    task::JoinSet,
};

/// A line longer than this is passed on in pieces, in bytes.
const LONGEST_LINE: u64 = 64 * 1024;

/// Whether lines of output say which proc wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tagging {
    /// As written.
    #[default]
    Plain,
    /// Behind `[rank]`.
    Rank,
}

/// Forwards a proc's output to ours until it ends.
pub(crate) fn forward(child: &mut tokio::process::Child, rank: Rank, tagging: Tagging, tasks: &mut JoinSet<()>) {
    if let Some(out) = child.stdout.take() {
        tasks.spawn(copy(out, tokio::io::stdout(), rank, tagging));
    }
    if let Some(err) = child.stderr.take() {
        tasks.spawn(copy(err, tokio::io::stderr(), rank, tagging));
    }
}

async fn copy(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, rank: Rank, tagging: Tagging) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = match tagging {
            Tagging::Plain => Vec::new(),
            Tagging::Rank => format!("[{rank}] ").into_bytes(),
        };
        match (&mut from).take(LONGEST_LINE).read_until(b'\n', &mut line).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%rank, %error, "cannot read a proc's output");
                return;
            }
        }
        // Nobody reads our own output any more: go on reading, so that the proc is not held up.
        let _ = to.write_all(&line).await;
        let _ = to.flush().await;
    }
}
