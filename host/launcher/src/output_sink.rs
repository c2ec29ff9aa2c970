//! Where the procs of a job log to: where goes what they write, which is the output of `peal` itself, their files, and who pulls it.
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
};
use tokio::sync::{mpsc, oneshot};

/// How many pieces may wait to be written to one stream, and how much memory they may take, in bytes.
const PIECES: usize = 1024;
const BYTES: usize = 16 << 20;

/// An output of `peal`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The stream that a log channel is.
    fn of_channel(channel: &Key) -> Option<Stream> {
        match channel {
            channel if *channel == key::PMIX_LOG_STDOUT => Some(Stream::Stdout),
            channel if *channel == key::PMIX_LOG_STDERR => Some(Stream::Stderr),
            _ => None,
        }
    }

    /// The same stream as it is pulled.
    pub(super) fn iof_channel(self) -> IofChannel {
        match self {
            Stream::Stdout => IofChannel::STDOUT,
            Stream::Stderr => IofChannel::STDERR,
        }
    }
}

/// Whether what procs write and log is shown on the output of `peal`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Display {
    #[default]
    Shown,
    Hidden,
}

/// Where one stream of a proc goes beside the output of `peal`.
pub(super) struct StreamCopies {
    /// Its file, until that cannot be written.
    file: Mutex<Option<Arc<File>>>,
    pulled: Pulled,
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
            tracing::error!(%proc, %error, "what a proc logs cannot be kept: from here on it is not in its file");
            *file = None;
        }
        self.pulled.forward_logged(lines);
    }
}

/// Lines that were logged.
struct LoggedLines {
    lines: Vec<u8>,
    /// The same as they are shown.
    shown: Option<Vec<u8>>,
    copies: Option<Arc<StreamCopies>>,
}

/// What is to be written, one after the other.
enum Piece {
    Logged(LoggedLines),
    /// Told when all before it has been written.
    Flushed(oneshot::Sender<()>),
}

/// One stream: whoever reads it may take any time, whoever logs does not wait for that.
struct StreamWriter {
    send: mpsc::Sender<Piece>,
    waiting: Arc<AtomicUsize>,
}

impl StreamWriter {
    /// Starts the thread that writes: a task would have to hand each piece to one, and be told.
    fn open(name: &str, to: impl Write + Send + 'static) -> io::Result<StreamWriter> {
        let (send, pieces) = mpsc::channel(PIECES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = waiting.clone();
        thread::Builder::new()
            .name(format!("log to {name}"))
            .spawn(move || write(to, pieces, &counted))?;
        Ok(StreamWriter { send, waiting })
    }

    fn write(&self, logged: LoggedLines) -> Result<(), Status> {
        let count = logged.lines.len();
        let waiting = self
            .waiting
            .fetch_add(count, Ordering::Relaxed)
            .saturating_add(count);
        if waiting > BYTES || self.send.try_send(Piece::Logged(logged)).is_err() {
            self.waiting.fetch_sub(count, Ordering::Relaxed);
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        Ok(())
    }

    /// By what to ask it, if it has not written everything.
    fn busy(&self) -> Option<mpsc::Sender<Piece>> {
        (self.waiting.load(Ordering::Relaxed) > 0).then(|| self.send.clone())
    }
}

/// Writes until nobody has more to say.
fn write(mut to: impl Write, mut pieces: mpsc::Receiver<Piece>, waiting: &AtomicUsize) {
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Logged(LoggedLines {
                lines,
                shown,
                copies,
            }) => {
                if let Some(copies) = copies {
                    copies.write(&lines);
                }
                if let Some(shown) = shown {
                    // Where nobody reads our output any more, nobody misses it.
                    let _ = to.write_all(&shown).and_then(|()| to.flush());
                }
                waiting.fetch_sub(lines.len(), Ordering::Relaxed);
            }
            Piece::Flushed(tell) => drop(tell.send(())),
        }
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

/// The output of one job.
#[derive(Default)]
struct SharedOutput {
    tagging: Tagging,
    display: Display,
    copies: BTreeMap<(Rank, Stream), Arc<StreamCopies>>,
}

#[derive(Default)]
struct Inner {
    /// Open from the first job on.
    lines: Option<LineBuffer>,
    /// The jobs that were launched, whose output is here.
    jobs: BTreeMap<Nspace, SharedOutput>,
    /// Those that others started, until they are forgotten.
    lent: BTreeSet<Nspace>,
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
                tracing::error!(%error, "what is logged cannot be written to standard output and error")
            }
        }
    }

    /// Lines of a job as they are written, if its output is here. Those that are only about a proc are shown.
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
            None if self.lent.contains(&source.nspace) => Some(LoggedLines {
                shown: shown(Tagging::default()),
                copies: None,
                lines,
            }),
            None => None,
        }
    }

    fn knows(&self, job: &Nspace) -> bool {
        self.jobs.contains_key(job) || self.lent.contains(job)
    }
}

/// Who logs something about a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Author {
    /// That proc.
    Proc,
    /// The host environment.
    Host,
}

/// The outputs of the jobs of one host.
#[derive(Clone, Default)]
pub(crate) struct Outputs(Arc<Mutex<Inner>>);

impl Outputs {
    /// From now on what procs of this job log appears here.
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

    /// From now on what this proc logs to a stream goes there as well.
    pub(super) fn copy_to(&self, proc: &Proc, stream: Stream, copies: StreamCopies) {
        if let Some(job) = self.lock().jobs.get_mut(&proc.nspace) {
            job.copies.insert((proc.rank, stream), Arc::new(copies));
        }
    }

    /// A job has ended: its files are closed when what was logged is written.
    pub(super) fn job_ended(&self, job: &Nspace) {
        if let Some(job) = self.lock().jobs.get_mut(job) {
            job.copies.clear();
        }
    }

    /// From now on what procs of a job log that others started appears on the output of `peal` itself: the channels to
    /// there have no other.
    pub(crate) fn lend(&self, job: Nspace) {
        let mut inner = self.lock();
        inner.open();
        inner.lent.insert(job);
    }

    /// Forgets a job whose output was lent.
    pub(crate) fn take_back(&self, job: &Nspace) {
        self.lock().lent.remove(job);
    }

    /// Forgets jobs that were launched and have ended.
    pub(crate) fn retain(&self, runs: impl Fn(&Nspace) -> bool) {
        self.lock().jobs.retain(|job, _| runs(job));
    }

    /// Writes whole lines for a proc.
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

    /// Waits until what was logged has been written.
    pub(crate) async fn flush(&self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.written(stream).await;
        }
    }

    /// Waits until what was logged to a stream has been written there: what comes behind it there then stands behind it.
    pub(crate) async fn written(&self, stream: Stream) {
        let busy = self
            .lock()
            .lines
            .as_ref()
            .and_then(|lines| lines.of(stream).busy());
        if let Some(send) = busy {
            let (tell, told) = oneshot::channel();
            // The writers end only with the process.
            let _ = send.send(Piece::Flushed(tell)).await;
            let _ = told.await;
        }
    }

    /// The channels that the host environment itself is for a job.
    pub(crate) fn channels(&self, job: &Nspace) -> Vec<Key> {
        let streams = [key::PMIX_LOG_STDOUT, key::PMIX_LOG_STDERR].map(Key::from);
        if self.lock().knows(job) {
            streams.into()
        } else {
            Vec::new()
        }
    }

    /// Logs as the host environment itself does, where no module serves these channels.
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
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream as a sink: what a channel writes there appears where the output of the requester's job goes.
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
        outputs.lend(proc("theirs").nspace);
        assert_eq!(
            (write("theirs"), write("other")),
            (Ok(()), Err(code::PMIX_ERR_NOT_AVAILABLE))
        );
        // That jobs of the host's own end is not the end of others.
        outputs.retain(|_| false);
        assert_eq!(write("theirs"), Ok(()));
        outputs.take_back(&proc("theirs").nspace);
        assert_eq!(write("theirs"), Err(code::PMIX_ERR_NOT_AVAILABLE));
    }

    #[tokio::test]
    async fn log_does_not_wait_for_slow_reader_and_full_sink_is_reported() {
        // Nobody reads what a pipe has no room for.
        let (_far, near) = pipe().unwrap();
        let (outputs, proc) = outputs(near, Tagging::Plain);
        let piece = vec![b'x'; BYTES / 4];
        let written: Vec<bool> = (0..5)
            .map(|_| {
                outputs
                    .write(&proc, Author::Proc, Stream::Stdout, &piece)
                    .is_ok()
            })
            .collect();
        // Each piece ends its line, so the fourth is too much already.
        assert_eq!(written, [true, true, true, false, false]);
    }

    /// Writes when it is told to.
    struct Told(std::sync::mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Told {
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
        let (tell, told) = std::sync::mpsc::channel();
        let got = Arc::new(Mutex::new(Vec::new()));
        let (outputs, proc) = outputs(Told(told, got.clone()), Tagging::Plain);
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
        tell.send(()).unwrap();
        written.await;
        assert_eq!(*got.lock().unwrap(), b"logged\n");
    }
}
