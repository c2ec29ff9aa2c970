//! Forwarding of the output of procs: in whole lines to the output of `peal`, to files and to
//! pulls.
use super::{
    job_request::LaunchError,
    lines::{End, LONGEST_LINE, LineSplitter, Tagger, Tagging},
    output_sink::{Display, Outputs, Stream, StreamCopies},
    pulls::Pulled,
};
use peal_model::{IofChannel, Proc, Rank};
use std::{
    cell::RefCell,
    fs::{self, File},
    future::poll_fn,
    io::{self, Write},
    path::{Path, PathBuf},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    process::Child,
    sync::Notify,
    task::JoinSet,
};

thread_local! {
    /// Read buffer. There is one per thread rather than per output, because most procs write
    /// nothing most of the time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LONGEST_LINE]);
}

/// Time after the end of a job until an output counts as ended that a process outside of the job
/// holds open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Destinations of the output of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JobOutput {
    /// Tags before the lines that are shown.
    pub tagging: Tagging,
    /// Files for the output.
    pub files: OutputFiles,
}

/// Use of output files: `rank.N/stdout` and `rank.N/stderr` for each proc, below a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum OutputFiles {
    /// Output is shown only.
    #[default]
    Not,
    /// Output is written to files below this directory and shown.
    Too(PathBuf),
    /// Output is written to files below this directory and not shown.
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

    /// Returns the same use with a subdirectory of this name.
    pub(crate) fn below(self, name: &str) -> OutputFiles {
        match self {
            OutputFiles::Not => OutputFiles::Not,
            OutputFiles::Too(dir) => OutputFiles::Too(dir.join(name)),
            OutputFiles::Only(dir) => OutputFiles::Only(dir.join(name)),
        }
    }
}

/// State of the processes of a job that can write to its outputs.
#[derive(Debug, Default)]
pub(super) struct Writers {
    are_gone: AtomicBool,
    /// Notified when they are gone.
    gone: Notify,
}

impl Writers {
    /// Notes that all processes of the job have ended.
    pub(super) fn end(&self) {
        self.are_gone.store(true, Ordering::Release);
        self.gone.notify_waiters();
    }

    fn are_gone(&self) -> bool {
        self.are_gone.load(Ordering::Acquire)
    }
}

/// Outputs of a proc, opened before it starts. The files of a restarted proc are appended to.
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
            .files
            .dir()
            .map(|dir| dir.join(format!("rank.{rank}")));
        let file = |name: &str| dir.as_ref().map(|dir| open_in(dir, name)).transpose();
        let stdout_file = file("stdout")?;
        let stderr_file = file("stderr")?;
        let copies = |stream: Stream, file: &Option<Arc<File>>| {
            let copies = StreamCopies::new(file.clone(), pulled(stream.iof_channel()));
            let copies = Arc::new(copies);
            logged.copy_to(proc, stream, copies.clone());
            Some(copies)
        };
        let is_shown = output.files.display() == Display::Shown;
        let tagger = || Tagger::new(rank, output.tagging);
        Ok(ProcOutputs {
            stdout: Outlet {
                rank,
                shown: is_shown.then(tokio::io::stdout),
                logged: (logged.clone(), Stream::Stdout),
                tagger: tagger(),
                copies: copies(Stream::Stdout, &stdout_file),
                file: stdout_file,
            },
            stderr: Outlet {
                rank,
                shown: is_shown.then(tokio::io::stderr),
                logged: (logged.clone(), Stream::Stderr),
                tagger: tagger(),
                copies: copies(Stream::Stderr, &stderr_file),
                file: stderr_file,
            },
        })
    }

    /// Starts the tasks that forward a proc's output until its end.
    pub(super) fn forward(
        self,
        child: &mut Child,
        writers: &Arc<Writers>,
        tasks: &mut JoinSet<()>,
    ) {
        if let Some(out) = child.stdout.take() {
            tasks.spawn(copy(OutputCopy::new(out, self.stdout, writers)));
        }
        if let Some(err) = child.stderr.take() {
            tasks.spawn(copy(OutputCopy::new(err, self.stderr, writers)));
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
        // Logged lines are appended to the same file by another thread, and a restarted proc
        // continues it.
        .append(true)
        .open(&path)
        .map_err(refused(&path))?;
    Ok(Arc::new(file))
}

/// Destinations of one output of one proc.
struct Outlet<W> {
    rank: Rank,
    shown: Option<W>,
    /// Lines that procs log to the same stream. They are written first, so that the order of a
    /// proc's log requests and writes is kept.
    logged: (Outputs, Stream),
    tagger: Tagger,
    file: Option<Arc<File>>,
    /// Destinations of the lines logged to the same stream. Its pulls get the output, too.
    copies: Option<Arc<StreamCopies>>,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    async fn write(&mut self, ready: Vec<u8>) {
        let ready: Arc<[u8]> = ready.into();
        let (logged, stream) = &self.logged;
        logged.written(*stream).await;
        if let Some(file) = &self.file
            && let Err(error) = keep(file.clone(), ready.clone()).await
        {
            tracing::error!(rank = %self.rank, %error, "cannot write output file of proc; its further output is not in it");
            // The file has a gap now, so nothing is appended behind it.
            self.file = None;
        }
        // Before `peal`'s own output, whose reader may be slow without limit.
        if let Some(copies) = &self.copies {
            copies.pulled.forward(&ready).await;
        }
        if let Some(shown) = &mut self.shown {
            // An error means that the reader of `peal`'s output is gone. The proc's output is still
            // read, so that the proc is not blocked.
            let _ = shown.write_all(&self.tagger.tag(&ready)).await;
            let _ = shown.flush().await;
        }
    }

    /// Passes the end of the output on to pulls.
    async fn end(&self) {
        if let Some(copies) = &self.copies {
            copies.pulled.forward(&[]).await;
        }
    }
}

/// Appends to a file, on another thread, since a disk may block.
async fn keep(file: Arc<File>, ready: Arc<[u8]>) -> io::Result<()> {
    tokio::task::spawn_blocking(move || (&*file).write_all(&ready)).await?
}

/// An output on its way to its destinations.
struct OutputCopy<R, W> {
    from: R,
    lines: LineSplitter,
    to: Outlet<W>,
    writers: Arc<Writers>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> OutputCopy<R, W> {
    fn new(from: R, to: Outlet<W>, writers: &Arc<Writers>) -> Box<OutputCopy<R, W>> {
        Box::new(OutputCopy {
            from,
            lines: LineSplitter::default(),
            to,
            writers: writers.clone(),
        })
    }

    /// Reads once, when there is output. Returns the number of bytes.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.from).poll_read(context, &mut buffer))?;
            self.lines.waiting.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    /// Reads once. The output ends if nothing can be read for some time.
    async fn read_or_give_up(&mut self) -> io::Result<usize> {
        let read = poll_fn(|context| self.poll_read(context));
        match tokio::time::timeout(IDLE_TIMEOUT, read).await {
            Ok(read) => read,
            Err(_) => {
                tracing::warn!(rank = %self.to.rank, "output of ended job held open by another process; its further output is lost");
                Ok(0)
            }
        }
    }

    /// Writes what has been read.
    async fn write(&mut self, read: io::Result<usize>) -> End {
        let end = match read {
            Ok(0) => End::Reached,
            Ok(_) => End::NotYet,
            Err(error) => {
                tracing::warn!(rank = %self.to.rank, %error, "cannot read output of proc");
                End::Reached
            }
        };
        let ready = self.lines.take(end);
        if !ready.is_empty() {
            self.to.write(ready).await;
        }
        if end == End::Reached {
            self.to.end().await;
        }
        end
    }
}

/// Copies an output to its destinations until its end. The reader of `peal`'s output may be slow
/// without limit. A writer that is silent after the end of the job is given up.
///
/// The copy and the futures of rare waits are boxed. Most procs are silent most of the time, and an
/// async function reserves memory for all that it may await.
async fn copy<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(mut copy: Box<OutputCopy<R, W>>) {
    let writers = copy.writers.clone();
    loop {
        let read = read(&mut copy, &writers).await;
        if Box::pin(copy.write(read)).await == End::Reached {
            return;
        }
    }
}

/// Reads once, with a time limit from the end of the job on.
async fn read<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    copy: &mut OutputCopy<R, W>,
    writers: &Writers,
) -> io::Result<usize> {
    let mut gone = pin!(writers.gone.notified());
    if !writers.are_gone() {
        let read = poll_fn(|context| match copy.poll_read(context) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => gone.as_mut().poll(context).map(|()| None),
        });
        if let Some(read) = read.await {
            return read;
        }
    }
    Box::pin(copy.read_or_give_up()).await
}

#[cfg(test)]
mod tests {
    use super::*;
    fn shown<W>(to: W) -> Outlet<W> {
        Outlet {
            rank: Rank(0),
            shown: Some(to),
            logged: (Outputs::default(), Stream::Stdout),
            tagger: Tagger::new(Rank(0), Tagging::Plain),
            file: None,
            copies: None,
        }
    }

    /// Reader that takes a long time for every piece.
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
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(IDLE_TIMEOUT * 5)));
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
        let writers = Arc::new(Writers::default());
        writers.end();
        let written = b"a line\n".repeat(LONGEST_LINE);
        let mut slow = SlowReader {
            got: Vec::new(),
            busy: None,
        };
        copy(OutputCopy::new(&written[..], shown(&mut slow), &writers)).await;
        assert_eq!(slow.got, written);
        let (mut outsider, held_open) = tokio::io::duplex(64);
        outsider.write_all(b"last\n").await.unwrap();
        let mut got = Vec::new();
        copy(OutputCopy::new(held_open, shown(&mut got), &writers)).await;
        assert_eq!(got, b"last\n");
    }
}
