//! Where the procs of a job log to: the output of `peal` itself, beside what they write there.
use super::lines::Tagging;
use peal_model::{Info, LogRequest, Nspace, Proc, Status, Value, code, key};
use peal_sandbox::Sink;
use std::{
    collections::{BTreeMap, BTreeSet},
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What is to be written, one after the other.
enum Piece {
    Bytes(Vec<u8>),
    /// Told when all before it has been written.
    Flushed(oneshot::Sender<()>),
}

/// One stream: whoever reads it may take any time, whoever logs does not wait for that.
struct Line {
    send: mpsc::Sender<Piece>,
    waiting: Arc<AtomicUsize>,
}

impl Line {
    /// Starts the thread that writes: a task would have to hand each piece to one, and be told.
    fn open(name: &str, to: impl Write + Send + 'static) -> io::Result<Line> {
        let (send, pieces) = mpsc::channel(PIECES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = waiting.clone();
        thread::Builder::new().name(format!("log to {name}")).spawn(move || write(to, pieces, &counted))?;
        Ok(Line { send, waiting })
    }

    fn write(&self, bytes: Vec<u8>) -> Result<(), Status> {
        let count = bytes.len();
        let waiting = self.waiting.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        if waiting > BYTES || self.send.try_send(Piece::Bytes(bytes)).is_err() {
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
            Piece::Bytes(bytes) => {
                // Where nobody reads our output any more, nobody misses it.
                let _ = to.write_all(&bytes).and_then(|()| to.flush());
                waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
            }
            Piece::Flushed(tell) => drop(tell.send(())),
        }
    }
}

struct Lines {
    stdout: Line,
    stderr: Line,
}

impl Lines {
    fn of(&self, stream: Stream) -> &Line {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

#[derive(Default)]
struct Inner {
    /// Open from the first job on.
    lines: Option<Lines>,
    /// The jobs that were launched, whose output is here.
    jobs: BTreeMap<Nspace, Tagging>,
    /// Those that others started, until they are forgotten.
    lent: BTreeSet<Nspace>,
}

impl Inner {
    fn open(&mut self) {
        if self.lines.is_some() {
            return;
        }
        let lines = Line::open("stdout", io::stdout())
            .and_then(|stdout| Ok(Lines { stdout, stderr: Line::open("stderr", io::stderr())? }));
        match lines {
            Ok(lines) => self.lines = Some(lines),
            Err(error) => tracing::error!(%error, "what is logged cannot be written to standard output and error"),
        }
    }

    fn tagging(&self, job: &Nspace) -> Option<Tagging> {
        self.jobs.get(job).copied().or_else(|| self.lent.contains(job).then(Tagging::default))
    }
}

/// The outputs of the jobs of one host.
#[derive(Clone, Default)]
pub(crate) struct Outputs(Arc<Mutex<Inner>>);

impl Outputs {
    /// From now on what procs of this job log appears here.
    pub(crate) fn open(&self, job: Nspace, tagging: Tagging) {
        let mut inner = self.lock();
        inner.open();
        inner.jobs.insert(job, tagging);
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
    fn write(&self, source: &Proc, stream: Stream, bytes: &[u8]) -> Result<(), Status> {
        let inner = self.lock();
        let (Some(lines), Some(tagging)) = (&inner.lines, inner.tagging(&source.nspace)) else {
            return Err(code::PMIX_ERR_NOT_AVAILABLE);
        };
        lines.of(stream).write(tagging.lines(source.rank, bytes))
    }

    /// Waits until what was logged has been written.
    pub(crate) async fn flush(&self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.written(stream).await;
        }
    }

    /// Waits until what was logged to a stream has been written there: what comes behind it there then stands behind it.
    pub(crate) async fn written(&self, stream: Stream) {
        let busy = self.lock().lines.as_ref().and_then(|lines| lines.of(stream).busy());
        if let Some(send) = busy {
            let (tell, told) = oneshot::channel();
            // The writers end only with the process.
            let _ = send.send(Piece::Flushed(tell)).await;
            let _ = told.await;
        }
    }

    /// The keys of the channels that the host environment itself is for a job.
    pub(crate) fn channels(&self, job: &Nspace) -> String {
        match self.lock().tagging(job) {
            Some(_) => format!("{},{}", key::PMIX_LOG_STDOUT.0, key::PMIX_LOG_STDERR.0),
            None => String::new(),
        }
    }

    /// Logs as the host environment itself does, where no module serves these channels.
    pub(crate) fn log(&self, source: &Proc, data: &[Info]) -> Result<(), Status> {
        for info in data {
            let stream = match (&info.key, &info.value) {
                (channel, Value::String(Some(text))) if *channel == key::PMIX_LOG_STDOUT => {
                    Some((Stream::Stdout, text))
                }
                (channel, Value::String(Some(text))) if *channel == key::PMIX_LOG_STDERR => {
                    Some((Stream::Stderr, text))
                }
                _ => None,
            };
            let (stream, text) = stream.ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
            self.write(source, stream, text.as_bytes())?;
        }
        Ok(())
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
        let source = request.source.as_ref().ok_or(code::PMIX_ERR_NOT_AVAILABLE)?;
        self.outputs.write(source, self.stream, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Rank;
    use std::io::{Read, pipe};

    fn outputs(to: impl Write + Send + 'static, tagging: Tagging) -> (Outputs, Proc) {
        let job = Nspace::new("job").unwrap();
        let lines =
            Lines { stdout: Line::open("a test", to).unwrap(), stderr: Line::open("nowhere", io::sink()).unwrap() };
        let inner = Inner { lines: Some(lines), jobs: [(job.clone(), tagging)].into(), ..Inner::default() };
        (Outputs(Arc::new(Mutex::new(inner))), Proc::new(job, Rank(3)))
    }

    #[tokio::test]
    async fn lines_appear_whole_and_tagged_and_other_jobs_have_no_output_here() {
        let (mut far, near) = pipe().unwrap();
        let (outputs, proc) = outputs(near, Tagging::Rank);
        let stranger = Proc::new(Nspace::new("other").unwrap(), Rank(0));
        assert_eq!(outputs.write(&stranger, Stream::Stdout, b"x"), Err(code::PMIX_ERR_NOT_AVAILABLE));
        outputs.write(&proc, Stream::Stdout, b"one\ntwo").unwrap();
        outputs.write(&proc, Stream::Stdout, b"three\n").unwrap();
        outputs.flush().await;
        let mut read = [0; 64];
        let count = far.read(&mut read).unwrap();
        assert_eq!(&read[..count], b"[3] one\n[3] two\n[3] three\n");
    }

    #[tokio::test]
    async fn a_job_that_others_started_has_the_output_of_peal_itself_until_it_is_forgotten() {
        let outputs = Outputs::default();
        let proc = |job: &str| Proc::new(Nspace::new(job).unwrap(), Rank(0));
        let write = |job: &str| outputs.write(&proc(job), Stream::Stderr, b"logged by a test\n");
        assert_eq!(write("theirs"), Err(code::PMIX_ERR_NOT_AVAILABLE));
        outputs.lend(proc("theirs").nspace);
        assert_eq!((write("theirs"), write("other")), (Ok(()), Err(code::PMIX_ERR_NOT_AVAILABLE)));
        // That jobs of the host's own end is not the end of others.
        outputs.retain(|_| false);
        assert_eq!(write("theirs"), Ok(()));
        outputs.take_back(&proc("theirs").nspace);
        assert_eq!(write("theirs"), Err(code::PMIX_ERR_NOT_AVAILABLE));
    }

    #[tokio::test]
    async fn who_logs_does_not_wait_for_a_slow_reader_and_is_told_when_there_is_no_room() {
        // Nobody reads what a pipe has no room for.
        let (_far, near) = pipe().unwrap();
        let (outputs, proc) = outputs(near, Tagging::Plain);
        let piece = vec![b'x'; BYTES / 4];
        let written: Vec<bool> = (0..5).map(|_| outputs.write(&proc, Stream::Stdout, &piece).is_ok()).collect();
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
    async fn whoever_waits_for_what_was_logged_waits_until_it_is_written() {
        let (tell, told) = std::sync::mpsc::channel();
        let got = Arc::new(Mutex::new(Vec::new()));
        let (outputs, proc) = outputs(Told(told, got.clone()), Tagging::Plain);
        outputs.written(Stream::Stdout).await;
        outputs.write(&proc, Stream::Stdout, b"logged\n").unwrap();
        outputs.written(Stream::Stderr).await;
        let mut written = std::pin::pin!(outputs.written(Stream::Stdout));
        let at_once = std::future::poll_fn(|context| std::task::Poll::Ready(written.as_mut().poll(context).is_ready()));
        assert!(!at_once.await, "nothing is written yet");
        tell.send(()).unwrap();
        written.await;
        assert_eq!(*got.lock().unwrap(), b"logged\n");
    }
}
