//! Where what procs write goes: to the output of `peal` itself, whole lines at a time, and into files.
use super::{
    job_request::LaunchError,
    lines::{End, LONGEST_LINE, LineSplitter, Tagger, Tagging},
    output_sink::{Display, Outputs, Stream, StreamCopies},
    pulls::Pulled,
};
use peal_model::{IofChannel, Proc, Rank};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    process::Child,
    sync::watch,
    task::JoinSet,
};

/// How much is read at once of a proc that says little, in bytes: most say nothing for most of the time.
const LEAST_READ: usize = 128;

/// How long nothing may come from somebody who holds an output open although the job is gone.
const IDLE: Duration = Duration::from_secs(2);

/// Where the output of a job goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobOutput {
    /// What is written before each line that is shown.
    pub tagging: Tagging,
    /// Whether it is kept in files.
    pub kept: OutputFiles,
}

/// Whether output is kept in files below a directory, `rank.N/stdout` and `rank.N/stderr` for each proc.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum OutputFiles {
    /// It is not.
    #[default]
    Not,
    /// It is, and shown as well.
    Too(PathBuf),
    /// It is, instead of being shown.
    Only(PathBuf),
}

impl OutputFiles {
    fn dir(&self) -> Option<&Path> {
        match self {
            OutputFiles::Not => None,
            OutputFiles::Too(dir) | OutputFiles::Only(dir) => Some(dir),
        }
    }

    pub(super) fn display(&self) -> Display {
        match self {
            OutputFiles::Not | OutputFiles::Too(_) => Display::Shown,
            OutputFiles::Only(_) => Display::Hidden,
        }
    }

    /// The same in a directory of this name below.
    pub(crate) fn below(self, name: &str) -> OutputFiles {
        match self {
            OutputFiles::Not => OutputFiles::Not,
            OutputFiles::Too(dir) => OutputFiles::Too(dir.join(name)),
            OutputFiles::Only(dir) => OutputFiles::Only(dir.join(name)),
        }
    }
}

/// Whether anything of the job is left that could write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Writers {
    Alive,
    Gone,
}

/// What there must be before a proc starts: its files. One that starts again writes behind what it wrote before.
pub(super) struct ProcOutputs {
    stdout: Outlet<tokio::io::Stdout>,
    stderr: Outlet<tokio::io::Stderr>,
}

impl ProcOutputs {
    pub(super) fn open(
        output: &JobOutput,
        proc: &Proc,
        logged: &Outputs,
        pulled: impl Fn(IofChannel) -> Pulled,
    ) -> Result<ProcOutputs, LaunchError> {
        let rank = proc.rank;
        let dir = output
            .kept
            .dir()
            .map(|dir| dir.join(format!("rank.{rank}")));
        let file = |name: &str| dir.as_ref().map(|dir| open_in(dir, name)).transpose();
        let (stdout_file, stderr_file) = (file("stdout")?, file("stderr")?);
        for (stream, file) in [
            (Stream::Stdout, &stdout_file),
            (Stream::Stderr, &stderr_file),
        ] {
            let copies = StreamCopies::new(file.clone(), pulled(stream.iof_channel()));
            logged.copy_to(proc, stream, copies);
        }
        let is_shown = output.kept.display() == Display::Shown;
        let tagger = || Tagger::new(rank, output.tagging);
        Ok(ProcOutputs {
            stdout: Outlet {
                rank,
                shown: is_shown.then(tokio::io::stdout),
                logged: (logged.clone(), Stream::Stdout),
                tagger: tagger(),
                file: stdout_file,
                pulled: Some(pulled(IofChannel::STDOUT)),
            },
            stderr: Outlet {
                rank,
                shown: is_shown.then(tokio::io::stderr),
                logged: (logged.clone(), Stream::Stderr),
                tagger: tagger(),
                file: stderr_file,
                pulled: Some(pulled(IofChannel::STDERR)),
            },
        })
    }

    /// Forwards a proc's output until it ends.
    pub(super) fn forward(
        self,
        child: &mut Child,
        writers: &watch::Receiver<Writers>,
        tasks: &mut JoinSet<()>,
    ) {
        if let Some(out) = child.stdout.take() {
            tasks.spawn(copy(out, Box::new(self.stdout), writers.clone()));
        }
        if let Some(err) = child.stderr.take() {
            tasks.spawn(copy(err, Box::new(self.stderr), writers.clone()));
        }
    }
}

fn open_in(dir: &Path, name: &str) -> Result<Arc<File>, LaunchError> {
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |source| LaunchError::Output { path, source }
    };
    fs::create_dir_all(dir).map_err(refused(dir))?;
    let path = dir.join(name);
    let file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(refused(&path))?;
    Ok(Arc::new(file))
}

/// Where one output of one proc goes.
struct Outlet<W> {
    rank: Rank,
    shown: Option<W>,
    /// What procs log to the same stream: who logs and then writes is seen to have done so in that order.
    logged: (Outputs, Stream),
    tagger: Tagger,
    file: Option<Arc<File>>,
    pulled: Option<Pulled>,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    async fn write(&mut self, ready: Vec<u8>) {
        let ready: Arc<[u8]> = ready.into();
        let (logged, stream) = &self.logged;
        logged.written(*stream).await;
        if let Some(file) = &self.file
            && let Err(error) = keep(file.clone(), ready.clone()).await
        {
            tracing::error!(rank = %self.rank, %error, "what a proc writes cannot be kept: from here on it is not in its file");
            self.file = None;
        }
        if let Some(pulled) = &self.pulled {
            pulled.forward(&ready).await;
        }
        if let Some(shown) = &mut self.shown {
            // Nobody reads our own output any more: go on reading, so that the proc is not held up.
            let _ = shown.write_all(&self.tagger.tag(&ready)).await;
            let _ = shown.flush().await;
        }
    }

    async fn end(&self) {
        if let Some(pulled) = &self.pulled {
            pulled.forward(&[]).await;
        }
    }
}

/// A disk may take its time.
async fn keep(file: Arc<File>, ready: Arc<[u8]>) -> io::Result<()> {
    tokio::task::spawn_blocking(move || (&*file).write_all(&ready)).await?
}

/// Whoever reads our output may take any time; whoever writes to us may not, once the job is gone.
///
/// The outlet is in a box, and so is what is done when there is something to write: most procs are silent most of the time, and an
/// async function keeps room for all that it may wait for, and more than one place for its arguments.
async fn copy<W: AsyncWrite + Unpin>(
    mut from: impl AsyncRead + Unpin,
    mut to: Box<Outlet<W>>,
    mut writers: watch::Receiver<Writers>,
) {
    let (mut lines, mut room) = (LineSplitter::default(), LEAST_READ);
    loop {
        lines.waiting.reserve(room);
        let read = tokio::select! {
            read = from.read_buf(&mut lines.waiting) => read,
            () = idle(&mut writers) => {
                tracing::warn!(rank = %to.rank, "somebody holds the output of a job that has ended open: what comes there is lost");
                Ok(0)
            }
        };
        let end = match read {
            Ok(0) => End::Reached,
            Ok(count) => {
                room = if count < room {
                    LEAST_READ
                } else {
                    (4 * room).min(LONGEST_LINE)
                };
                End::NotYet
            }
            Err(error) => {
                tracing::warn!(rank = %to.rank, %error, "cannot read a proc's output");
                End::Reached
            }
        };
        let ready = lines.take(end);
        lines.waiting.shrink_to(room);
        if !ready.is_empty() {
            Box::pin(to.write(ready)).await;
        }
        if end == End::Reached {
            return Box::pin(to.end()).await;
        }
    }
}

async fn idle(writers: &mut watch::Receiver<Writers>) {
    // If the job's task is gone, so are its writers.
    let _ = writers.wait_for(|writers| *writers == Writers::Gone).await;
    Box::pin(tokio::time::sleep(IDLE)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    fn shown<W>(to: W) -> Box<Outlet<W>> {
        Box::new(Outlet {
            rank: Rank(0),
            shown: Some(to),
            logged: (Outputs::default(), Stream::Stdout),
            tagger: Tagger::new(Rank(0), Tagging::Plain),
            file: None,
            pulled: None,
        })
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
            let busy = self
                .busy
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(IDLE * 5)));
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
    async fn reader_may_be_slow_and_writer_ends_with_job() {
        let (_job, writers) = watch::channel(Writers::Gone);
        let written = b"a line\n".repeat(LONGEST_LINE);
        let mut slow = SlowReader {
            got: Vec::new(),
            busy: None,
        };
        copy(&written[..], shown(&mut slow), writers.clone()).await;
        assert_eq!(slow.got, written);
        let (mut outsider, held_open) = tokio::io::duplex(64);
        outsider.write_all(b"last\n").await.unwrap();
        let mut got = Vec::new();
        copy(held_open, shown(&mut got), writers).await;
        assert_eq!(got, b"last\n");
    }
}
