//! Forwards what procs write, whole lines at a time, so that lines of different procs never mix.
use peal_model::Rank;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
    task::JoinSet,
};

/// A line longer than this is passed on in pieces, in bytes.
const LONGEST_LINE: usize = 64 * 1024;

/// How much is read at once of a proc that says little, in bytes: most say nothing for most of the time.
const LEAST_READ: usize = 128;

/// How long nothing may come from somebody who holds an output open although the job is gone.
const IDLE: Duration = Duration::from_secs(2);

/// Whether lines of output say which proc wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tagging {
    /// As written.
    #[default]
    Plain,
    /// Behind `[rank]`.
    Rank,
}

impl Tagging {
    /// What a proc of that rank has to say at once, in whole lines.
    pub(crate) fn lines(self, rank: Rank, bytes: &[u8]) -> Vec<u8> {
        let mut lines = Lines::new(rank, self);
        lines.waiting.extend_from_slice(bytes);
        if !bytes.ends_with(b"\n") {
            lines.waiting.push(b'\n');
        }
        lines.take(End::Reached)
    }
}

/// Whether anything of the job is left that could write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writers {
    Alive,
    Gone,
}

/// Forwards a proc's output to ours until it ends.
pub(crate) fn forward(
    child: &mut tokio::process::Child,
    rank: Rank,
    tagging: Tagging,
    writers: &watch::Receiver<Writers>,
    tasks: &mut JoinSet<()>,
) {
    if let Some(out) = child.stdout.take() {
        tasks.spawn(copy(out, tokio::io::stdout(), Lines::new(rank, tagging), writers.clone()));
    }
    if let Some(err) = child.stderr.take() {
        tasks.spawn(copy(err, tokio::io::stderr(), Lines::new(rank, tagging), writers.clone()));
    }
}

/// Whoever reads our output may take any time; whoever writes to us may not, once the job is gone.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut lines: Lines,
    mut writers: watch::Receiver<Writers>,
) {
    let mut room = LEAST_READ;
    loop {
        lines.waiting.reserve(room);
        let read = tokio::select! {
            read = from.read_buf(&mut lines.waiting) => read,
            () = idle(&mut writers) => {
                tracing::warn!(rank = %lines.rank, "somebody holds the output of a job that has ended open: what comes there is lost");
                Ok(0)
            }
        };
        let end = match read {
            Ok(0) => End::Reached,
            Ok(count) => {
                room = if count < room { LEAST_READ } else { (4 * room).min(LONGEST_LINE) };
                End::NotYet
            }
            Err(error) => {
                tracing::warn!(rank = %lines.rank, %error, "cannot read a proc's output");
                End::Reached
            }
        };
        let ready = lines.take(end);
        lines.waiting.shrink_to(room);
        if !ready.is_empty() {
            // Nobody reads our own output any more: go on reading, so that the proc is not held up.
            let _ = to.write_all(&ready).await;
            let _ = to.flush().await;
        }
        if end == End::Reached {
            return;
        }
    }
}

async fn idle(writers: &mut watch::Receiver<Writers>) {
    // If the job's task is gone, so are its writers.
    let _ = writers.wait_for(|writers| *writers == Writers::Gone).await;
    tokio::time::sleep(IDLE).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Reached,
    NotYet,
}

/// Output that has been read and not yet passed on.
struct Lines {
    rank: Rank,
    tagging: Tagging,
    waiting: Vec<u8>,
    /// Whether what comes next begins a line.
    at_start: bool,
}

impl Lines {
    fn new(rank: Rank, tagging: Tagging) -> Lines {
        Lines { rank, tagging, waiting: Vec::new(), at_start: true }
    }

    /// What can be passed on: up to the last end of a line, or all if nothing follows or the line is too long.
    fn take(&mut self, end: End) -> Vec<u8> {
        let whole = self.waiting.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let all = end == End::Reached || (whole == 0 && self.waiting.len() >= LONGEST_LINE);
        let count = if all { self.waiting.len() } else { whole };
        let ready: Vec<u8> = self.waiting.drain(..count).collect();
        match self.tagging {
            Tagging::Plain => ready,
            Tagging::Rank => self.tagged(&ready),
        }
    }

    fn tagged(&mut self, ready: &[u8]) -> Vec<u8> {
        let tag = format!("[{}] ", self.rank).into_bytes();
        let mut tagged = Vec::with_capacity(ready.len() + tag.len());
        for line in ready.split_inclusive(|byte| *byte == b'\n') {
            if self.at_start {
                tagged.extend_from_slice(&tag);
            }
            tagged.extend_from_slice(line);
            self.at_start = line.ends_with(b"\n");
        }
        tagged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    fn read(lines: &mut Lines, bytes: &[u8], end: End) -> String {
        lines.waiting.extend_from_slice(bytes);
        String::from_utf8(lines.take(end)).unwrap()
    }

    /// Takes its time over every piece.
    struct SlowReader {
        got: Vec<u8>,
        busy: Option<Pin<Box<tokio::time::Sleep>>>,
    }

    impl AsyncWrite for SlowReader {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            piece: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            let busy = self.busy.get_or_insert_with(|| Box::pin(tokio::time::sleep(IDLE * 5)));
            std::task::ready!(busy.as_mut().poll(context));
            self.busy = None;
            self.got.extend_from_slice(piece);
            Poll::Ready(Ok(piece.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_may_take_its_time_and_a_writer_may_not_outstay_the_job() {
        let (_job, writers) = watch::channel(Writers::Gone);
        let written = b"a line\n".repeat(LONGEST_LINE);
        let mut slow = SlowReader { got: Vec::new(), busy: None };
        copy(&written[..], &mut slow, Lines::new(Rank(0), Tagging::Plain), writers.clone()).await;
        assert_eq!(slow.got, written);
        let (mut outsider, held_open) = tokio::io::duplex(64);
        outsider.write_all(b"last\n").await.unwrap();
        let mut got = Vec::new();
        copy(held_open, &mut got, Lines::new(Rank(0), Tagging::Plain), writers).await;
        assert_eq!(got, b"last\n");
    }

    #[test]
    fn lines_stay_whole_and_what_has_no_end_is_passed_on_at_last() {
        let mut lines = Lines::new(Rank(3), Tagging::Rank);
        assert_eq!(read(&mut lines, b"one\ntw", End::NotYet), "[3] one\n");
        assert_eq!(read(&mut lines, b"", End::NotYet), "");
        assert_eq!(read(&mut lines, b"o\nthree", End::Reached), "[3] two\n[3] three");
    }

    #[test]
    fn much_at_once_is_cut_at_the_end_of_a_line_and_a_long_line_is_tagged_once() {
        let mut lines = Lines::new(Rank(0), Tagging::Plain);
        let much = [&vec![b'x'; LONGEST_LINE], &b"\nrest"[..]].concat();
        assert!(read(&mut lines, &much, End::NotYet).ends_with("x\n"));
        assert_eq!(lines.waiting, b"rest");
        let mut lines = Lines::new(Rank(0), Tagging::Rank);
        let first = read(&mut lines, &[b'x'; LONGEST_LINE], End::NotYet);
        let second = read(&mut lines, b"end\nnext\n", End::NotYet);
        assert!(first.starts_with("[0] x") && second == "end\n[0] next\n", "{second}");
    }
}
