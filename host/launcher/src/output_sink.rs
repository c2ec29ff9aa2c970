//! Log channels of the host environment. Lines that procs log go where their output goes: to the
//! output of `peal`, to their files and to pulls.
use super::{lines::Tagging, log_text, pulls::Pulled};
use peal_model::{Info, IofChannel, Key, LogRequest, Nspace, Proc, Rank, Status, code, key};
use peal_sandbox::Sink;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of pieces that wait to be written to one stream.
const MAX_QUEUED_PIECES: usize = 1024;
/// Maximum size of these pieces together, in bytes.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Size of the lines above which no further ones are written with them, in bytes.
const LONGEST_WRITE: usize = 64 << 10;
/// Time between two writes, within which lines of several requests gather.
const BETWEEN_WRITES: Duration = Duration::from_millis(1);

/// Output of `peal`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Returns the stream of a log channel.
    fn of_channel(channel: &Key) -> Option<Stream> {
        match channel {
            channel if *channel == key::PMIX_LOG_STDOUT => Some(Stream::Stdout),
            channel if *channel == key::PMIX_LOG_STDERR => Some(Stream::Stderr),
            _ => None,
        }
    }

    /// Returns the IOF channel of the stream.
    pub(super) fn iof_channel(self) -> IofChannel {
        match self {
            Stream::Stdout => IofChannel::STDOUT,
            Stream::Stderr => IofChannel::STDERR,
        }
    }
}

/// Visibility of output and logged lines of procs on the output of `peal`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Display {
    #[default]
    Shown,
    Hidden,
}

/// Destinations of one stream of a proc in addition to the output of `peal`.
pub(super) struct StreamCopies {
    /// Output file; none after a failed write.
    file: Mutex<Option<Arc<File>>>,
    pub(super) pulled: Pulled,
}

impl StreamCopies {
    pub(super) fn new(file: Option<Arc<File>>, pulled: Pulled) -> StreamCopies {
        pulled.open();
        StreamCopies {
            file: Mutex::new(file),
            pulled,
        }
    }

    /// Writes whole lines that the proc has logged. Blocks.
    fn write(&self, lines: &[u8]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = file.as_deref().map(|mut file| file.write_all(lines)) {
            let proc = &self.pulled.source;
            tracing::error!(%proc, %error, "cannot write logged lines to output file of proc; further ones are not in it");
            *file = None;
        }
        self.pulled.forward_logged(lines);
    }
}

/// Logged lines.
struct LoggedLines {
    lines: Vec<u8>,
    /// The lines with tags, if they are shown.
    shown: Option<Vec<u8>>,
    copies: Option<Arc<StreamCopies>>,
}

/// Item in the queue of a writer thread.
enum Piece {
    Logged(LoggedLines),
    /// Signalled when all earlier items have been written.
    Flushed(oneshot::Sender<()>),
}

/// Writer of one stream, with its thread. A slow reader of the stream delays no log request.
struct StreamWriter {
    send: mpsc::Sender<Piece>,
    waiting: Arc<AtomicUsize>,
}

impl StreamWriter {
    /// Starts the writer thread. A thread is simpler than a task, which would have to hand each
    /// piece to a blocking thread.
    fn open(name: &str, to: impl Write + Send + 'static) -> io::Result<StreamWriter> {
        let (send, pieces) = mpsc::channel(MAX_QUEUED_PIECES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = waiting.clone();
        thread::Builder::new()
            .name(format!("log to {name}"))
            .spawn(move || write(to, pieces, &counted))?;
        Ok(StreamWriter { send, waiting })
    }

    /// Queues lines.
    ///
    /// # Errors
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the queue is full.
    fn write(&self, logged: LoggedLines) -> Result<(), Status> {
        let count = logged.lines.len();
        // Counted before it is queued, since the writer thread subtracts it when it is written.
        let waiting = self
            .waiting
            .fetch_add(count, Ordering::Relaxed)
            .saturating_add(count);
        if waiting > MAX_QUEUED_BYTES || self.send.try_send(Piece::Logged(logged)).is_err() {
            self.waiting.fetch_sub(count, Ordering::Relaxed);
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        Ok(())
    }

    /// Returns the queue if not all of it has been written.
    fn busy(&self) -> Option<mpsc::Sender<Piece>> {
        (self.waiting.load(Ordering::Relaxed) > 0).then(|| self.send.clone())
    }
}

/// Writes queued items until the queue is closed.
fn write(mut to: impl Write, mut pieces: mpsc::Receiver<Piece>, waiting: &AtomicUsize) {
    while let Some(first) = pieces.blocking_recv() {
        let mut next = Some(first);
        // More lines mostly follow the first ones. They are written together after a pause, in
        // which the server need not wake this thread for each: that takes longer than all else that
        // it does for a line.
        while let Some(piece) = next {
            write_queued(&mut to, piece, &mut pieces, waiting);
            thread::sleep(BETWEEN_WRITES);
            next = pieces.try_recv().ok();
        }
    }
}

/// Writes an item and those behind it, as far as they are queued.
fn write_queued(
    to: &mut impl Write,
    first: Piece,
    pieces: &mut mpsc::Receiver<Piece>,
    waiting: &AtomicUsize,
) {
    let mut shown_lines = Vec::new();
    let mut written = 0;
    let mut flushed = Vec::new();
    let mut next = Some(first);
    while let Some(piece) = next {
        match piece {
            Piece::Logged(LoggedLines {
                lines,
                shown,
                copies,
            }) => {
                if let Some(copies) = copies {
                    copies.write(&lines);
                }
                shown_lines.extend(shown.unwrap_or_default());
                written += lines.len();
            }
            Piece::Flushed(sender) => flushed.push(sender),
        }
        // Hidden lines count too: more may be queued for as long as these are written.
        let has_room = written < LONGEST_WRITE;
        next = has_room.then(|| pieces.try_recv().ok()).flatten();
    }
    // An error means that the reader of `peal`'s output is gone; then the lines are lost.
    let _ = to.write_all(&shown_lines).and_then(|()| to.flush());
    // Only after the write: until then `busy` must report the lines.
    waiting.fetch_sub(written, Ordering::Relaxed);
    for sender in flushed {
        // The caller may have given up.
        let _ = sender.send(());
    }
}

struct LineBuffer {
    stdout: StreamWriter,
    stderr: StreamWriter,
}

impl LineBuffer {
    fn of(&self, stream: Stream) -> &StreamWriter {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

/// Output of one job.
#[derive(Default)]
struct SharedOutput {
    tagging: Tagging,
    display: Display,
    copies: BTreeMap<(Rank, Stream), Arc<StreamCopies>>,
}

#[derive(Default)]
struct Inner {
    /// Writers of both streams, opened with the first job.
    lines: Option<LineBuffer>,
    /// Launched jobs.
    jobs: BTreeMap<Nspace, SharedOutput>,
    /// Jobs of other launchers, until they are released.
    external: BTreeSet<Nspace>,
}

impl Inner {
    fn open(&mut self) {
        if self.lines.is_some() {
            return;
        }
        let lines = StreamWriter::open("stdout", io::stdout()).and_then(|stdout| {
            Ok(LineBuffer {
                stdout,
                stderr: StreamWriter::open("stderr", io::stderr())?,
            })
        });
        match lines {
            Ok(lines) => self.lines = Some(lines),
            Err(error) => {
                tracing::error!(%error, "cannot start log writers of standard output and error")
            }
        }
    }

    /// Returns the lines of a job for the writer, if the job is known. Lines of the host
    /// environment about a proc are always shown and not copied.
    fn logged(
        &self,
        source: &Proc,
        author: Author,
        stream: Stream,
        text: &[u8],
    ) -> Option<LoggedLines> {
        let lines = Tagging::Plain.lines(source.rank, text);
        let shown = |tagging: Tagging| Some(tagging.lines(source.rank, text));
        match self.jobs.get(&source.nspace) {
            Some(job) => {
                let copies = job
                    .copies
                    .get(&(source.rank, stream))
                    .filter(|_| author == Author::Proc)
                    .cloned();
                let is_shown = job.display == Display::Shown || copies.is_none();
                Some(LoggedLines {
                    shown: is_shown.then(|| shown(job.tagging)).flatten(),
                    copies,
                    lines,
                })
            }
            None if self.external.contains(&source.nspace) => Some(LoggedLines {
                shown: shown(Tagging::default()),
                copies: None,
                lines,
            }),
            None => None,
        }
    }

    fn knows(&self, job: &Nspace) -> bool {
        self.jobs.contains_key(job) || self.external.contains(job)
    }
}

/// Author of a log request about a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Author {
    /// The proc itself.
    Proc,
    /// The host environment.
    Host,
}

/// Outputs of the jobs of one host environment.
#[derive(Clone, Default)]
pub(crate) struct Outputs(Arc<Mutex<Inner>>);

impl Outputs {
    /// Adds a launched job.
    pub(super) fn open(&self, job: Nspace, tagging: Tagging, display: Display) {
        let mut inner = self.lock();
        inner.open();
        inner.jobs.insert(
            job,
            SharedOutput {
                tagging,
                display,
                copies: BTreeMap::new(),
            },
        );
    }

    /// Sets the additional destinations of lines that this proc logs to a stream.
    pub(super) fn copy_to(&self, proc: &Proc, stream: Stream, copies: Arc<StreamCopies>) {
        if let Some(job) = self.lock().jobs.get_mut(&proc.nspace) {
            job.copies.insert((proc.rank, stream), copies);
        }
    }

    /// Removes the additional destinations of a job that has ended. Files are closed when the
    /// queued lines have been written.
    pub(super) fn job_ended(&self, job: &Nspace) {
        if let Some(job) = self.lock().jobs.get_mut(job) {
            job.copies.clear();
        }
    }

    /// Adds a job of another launcher. Its logged lines appear on the output of `peal`, since these
    /// log channels have no other destination.
    pub(crate) fn add_external(&self, job: Nspace) {
        let mut inner = self.lock();
        inner.open();
        inner.external.insert(job);
    }

    /// Removes a job of another launcher.
    pub(crate) fn remove_external(&self, job: &Nspace) {
        self.lock().external.remove(job);
    }

    /// Removes launched jobs for which `runs` returns false.
    pub(crate) fn retain(&self, runs: impl Fn(&Nspace) -> bool) {
        self.lock().jobs.retain(|job, _| runs(job));
    }

    /// Queues text of or about a proc, as whole lines.
    fn write(
        &self,
        source: &Proc,
        author: Author,
        stream: Stream,
        text: &[u8],
    ) -> Result<(), Status> {
        let inner = self.lock();
        match (&inner.lines, inner.logged(source, author, stream, text)) {
            (Some(lines), Some(logged)) => lines.of(stream).write(logged),
            _ => Err(code::PMIX_ERR_NOT_AVAILABLE),
        }
    }

    /// Waits until all logged lines have been written.
    pub(crate) async fn flush(&self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.written(stream).await;
        }
    }

    /// Waits until all lines logged to a stream have been written, so that later output follows
    /// them.
    pub(crate) async fn written(&self, stream: Stream) {
        // The lock is released before the wait, which may be long.
        let busy = self
            .lock()
            .lines
            .as_ref()
            .and_then(|lines| lines.of(stream).busy());
        if let Some(send) = busy {
            let (sender, written) = oneshot::channel();
            // Errors are ignored, since the writers end only with the process.
            let _ = send.send(Piece::Flushed(sender)).await;
            let _ = written.await;
        }
    }

    /// Returns the log channels that the host environment itself serves for a job.
    pub(crate) fn channels(&self, job: &Nspace) -> Vec<Key> {
        let streams = [key::PMIX_LOG_STDOUT, key::PMIX_LOG_STDERR].map(Key::from);
        if self.lock().knows(job) {
            streams.into()
        } else {
            Vec::new()
        }
    }

    /// Writes a log request as the host environment's own channel, where no module serves it.
    pub(crate) fn log(&self, source: &Proc, channel: &Key, data: &[Info]) -> Result<(), Status> {
        let stream = Stream::of_channel(channel).ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
        if !self.lock().knows(&source.nspace) {
            return Err(code::PMIX_ERR_NOT_AVAILABLE);
        }
        let texts = log_text::texts(channel, data)?;
        texts
            .iter()
            .try_for_each(|text| self.write(source, Author::Proc, stream, text))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stream as a sink of channel components. Lines appear where the output of the requester's job
/// goes.
pub(crate) struct JobSink {
    pub(crate) outputs: Outputs,
    pub(crate) stream: Stream,
}

impl Sink for JobSink {
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        let source = request
            .source
            .as_ref()
            .ok_or(code::PMIX_ERR_NOT_AVAILABLE)?;
        // Requests without an identity come from the host environment, not from a proc.
        let author = if request.identity.is_some() {
            Author::Proc
        } else {
            Author::Host
        };
        self.outputs.write(source, author, self.stream, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Rank;
    use std::io::{Read, pipe};

    fn outputs(to: impl Write + Send + 'static, tagging: Tagging) -> (Outputs, Proc) {
        let job = Nspace::new("job").unwrap();
        let lines = LineBuffer {
            stdout: StreamWriter::open("a test", to).unwrap(),
            stderr: StreamWriter::open("nowhere", io::sink()).unwrap(),
        };
        let inner = Inner {
            lines: Some(lines),
            jobs: [(
                job.clone(),
                SharedOutput {
                    tagging,
                    ..SharedOutput::default()
                },
            )]
            .into(),
            ..Inner::default()
        };
        (
            Outputs(Arc::new(Mutex::new(inner))),
            Proc::new(job, Rank(3)),
        )
    }

    #[tokio::test]
    async fn lines_are_whole_and_tagged_and_other_jobs_have_no_output() {
        let (mut far, near) = pipe().unwrap();
        let (outputs, proc) = outputs(near, Tagging::Rank);
        let stranger = Proc::new(Nspace::new("other").unwrap(), Rank(0));
        assert_eq!(
            outputs.write(&stranger, Author::Proc, Stream::Stdout, b"x"),
            Err(code::PMIX_ERR_NOT_AVAILABLE)
        );
        outputs
            .write(&proc, Author::Proc, Stream::Stdout, b"one\ntwo")
            .unwrap();
        outputs
            .write(&proc, Author::Proc, Stream::Stdout, b"three\n")
            .unwrap();
        outputs.flush().await;
        let mut read = [0; 64];
        let count = far.read(&mut read).unwrap();
        assert_eq!(&read[..count], b"[3] one\n[3] two\n[3] three\n");
    }

    #[tokio::test]
    async fn external_job_has_output_of_peal_until_forgotten() {
        let outputs = Outputs::default();
        let proc = |job: &str| Proc::new(Nspace::new(job).unwrap(), Rank(0));
        let write = |job: &str| {
            outputs.write(
                &proc(job),
                Author::Proc,
                Stream::Stderr,
                b"logged by a test\n",
            )
        };
        assert_eq!(write("theirs"), Err(code::PMIX_ERR_NOT_AVAILABLE));
        outputs.add_external(proc("theirs").nspace);
        assert_eq!(
            (write("theirs"), write("other")),
            (Ok(()), Err(code::PMIX_ERR_NOT_AVAILABLE))
        );
        // The end of launched jobs does not affect jobs of other launchers.
        outputs.retain(|_| false);
        assert_eq!(write("theirs"), Ok(()));
        outputs.remove_external(&proc("theirs").nspace);
        assert_eq!(write("theirs"), Err(code::PMIX_ERR_NOT_AVAILABLE));
    }

    #[tokio::test]
    async fn log_does_not_wait_for_slow_reader_and_full_sink_is_reported() {
        // The pipe is not read, so that the writer blocks when it is full.
        let (_far, near) = pipe().unwrap();
        let (outputs, proc) = outputs(near, Tagging::Plain);
        let piece = vec![b'x'; MAX_QUEUED_BYTES / 4];
        let written: Vec<bool> = (0..5)
            .map(|_| {
                outputs
                    .write(&proc, Author::Proc, Stream::Stdout, &piece)
                    .is_ok()
            })
            .collect();
        // A line end is added to each piece, so the fourth exceeds the limit.
        assert_eq!(written, [true, true, true, false, false]);
    }

    #[test]
    fn one_write_ends_although_more_hidden_lines_are_queued() {
        let (send, mut pieces) = mpsc::channel(3);
        let hidden = || {
            Piece::Logged(LoggedLines {
                lines: vec![b'x'; LONGEST_WRITE / 2],
                shown: None,
                copies: None,
            })
        };
        for _ in 0..2 {
            send.try_send(hidden()).unwrap();
        }
        let waiting = AtomicUsize::new(3 * (LONGEST_WRITE / 2));
        write_queued(&mut io::sink(), hidden(), &mut pieces, &waiting);
        assert_eq!(waiting.into_inner(), LONGEST_WRITE / 2);
        assert!(pieces.try_recv().is_ok(), "one is left");
    }

    /// Writer that waits for a signal before each write.
    struct GatedWriter(std::sync::mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for GatedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().unwrap();
            self.1.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn flush_waits_until_logged_lines_are_written() {
        let (open_gate, gate) = std::sync::mpsc::channel();
        let got = Arc::new(Mutex::new(Vec::new()));
        let (outputs, proc) = outputs(GatedWriter(gate, got.clone()), Tagging::Plain);
        outputs.written(Stream::Stdout).await;
        outputs
            .write(&proc, Author::Proc, Stream::Stdout, b"logged\n")
            .unwrap();
        outputs.written(Stream::Stderr).await;
        let mut written = std::pin::pin!(outputs.written(Stream::Stdout));
        let at_once = std::future::poll_fn(|context| {
            std::task::Poll::Ready(written.as_mut().poll(context).is_ready())
        });
        assert!(!at_once.await, "nothing is written yet");
        open_gate.send(()).unwrap();
        written.await;
        assert_eq!(*got.lock().unwrap(), b"logged\n");
    }
}
