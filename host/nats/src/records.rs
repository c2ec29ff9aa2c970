//! Reading of streams of records, and writing of the one sequence of joins, leaves and verdicts.
use crate::{
    storing::StoredOnce,
    streams::ClusterStream,
    subjects::{ClusterSubject, ClusterSubjects},
};
use async_nats::{
    Client,
    datetime::DateTime,
    jetstream::{
        self,
        stream::{RawMessageErrorKind, Stream},
    },
};
use futures_util::{StreamExt, stream::FuturesOrdered};
use peal_cluster::{MembershipRecord, RecordPosition, encode_record};
use peal_model::NodeName;
use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use thiserror::Error;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

/// Time between two attempts to write a record.
const WRITE_EACH: Duration = Duration::from_millis(500);

/// Time limit of a read. A request of which the connection was lost has no answer, and is made again
/// when there is another connection.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Reason of a read that has failed for its time limit.
const NO_ANSWER: &str = "no answer";
/// Maximum number of records that were asked for and have not been taken. JetStream drops requests when
/// 10,000 wait, which many servers may make at the same time.
const MAX_ASKED: usize = 8;

/// Record of the stream.
pub(crate) struct StoredRecord {
    pub(crate) at: RecordPosition,
    pub(crate) subject: String,
    pub(crate) bytes: Vec<u8>,
}

/// Error of reading a stream of records.
#[derive(Debug, Error)]
pub enum RecordReadError {
    /// The stream cannot be reached.
    #[error("stream {stream}: {reason}")]
    Stream {
        /// Name of the stream.
        stream: String,
        /// Answer of the NATS server.
        reason: String,
    },
}

/// Result of a read of the stream.
pub(crate) enum ReadStep {
    /// The stream was made anew since it was last read. The read has ended.
    Restarted,
    /// The next record.
    Record(StoredRecord),
    /// The records up to a position are known: those that were there when the read began, or that precede
    /// one that came by itself. The read has ended.
    End(RecordPosition),
    /// The read has ended without that.
    Failed(RecordReadError),
}

/// Step of the task that reads.
enum TaskStep {
    /// Time at which the stream was made.
    Created(DateTime),
    Record(StoredRecord),
    End(RecordPosition),
}

/// Reader of a stream of records. A task reads, so that the reader's own one does not wait for each
/// answer.
pub(crate) struct RecordReader {
    context: jetstream::Context,
    name: String,
    reading: Option<Reading>,
    /// Time at which the stream was made, as it was last seen.
    created: Option<DateTime>,
}

/// Read that has not ended.
struct Reading {
    steps: mpsc::Receiver<Result<TaskStep, RecordReadError>>,
    /// First position that need not be read.
    end: Arc<AtomicU64>,
}

impl RecordReader {
    pub(crate) fn new(
        client: &Client,
        subjects: &ClusterSubjects,
        stream: ClusterStream,
    ) -> RecordReader {
        RecordReader {
            context: jetstream::new(client.clone()),
            name: subjects.stream_name(stream),
            reading: None,
            created: None,
        }
    }

    /// Begins to read the records that follow a position. Those that are stored later come by themselves.
    /// A read that has not ended is given up.
    pub(crate) fn begin(&mut self, after: RecordPosition) {
        let (sender, steps) = mpsc::channel(MAX_ASKED);
        let end = Arc::new(AtomicU64::new(u64::MAX));
        let task = ReaderTask {
            context: self.context.clone(),
            name: self.name.clone(),
            known: self.created,
            after,
            end: end.clone(),
            steps: sender,
        };
        tokio::spawn(task.run());
        self.reading = Some(Reading { steps, end });
    }

    /// Ends the read before a record that came by itself: later ones do, too.
    pub(crate) fn end_before(&self, at: RecordPosition) {
        if let Some(reading) = &self.reading {
            reading.end.store(at.0, Ordering::Relaxed);
        }
    }

    /// Gives up the read.
    pub(crate) fn stop(&mut self) {
        self.reading = None;
    }

    /// Returns true if a read has not ended.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Returns the next step of the read. Waits for ever if there is none. May be cancelled.
    pub(crate) async fn next(&mut self) -> ReadStep {
        let Some(reading) = &mut self.reading else {
            return future::pending().await;
        };
        loop {
            match reading.steps.recv().await {
                Some(Ok(TaskStep::Created(created))) => {
                    let before = self.created.replace(created);
                    if before.is_some_and(|before| before != created) {
                        self.reading = None;
                        return ReadStep::Restarted;
                    }
                }
                Some(Ok(TaskStep::Record(record))) => return ReadStep::Record(record),
                Some(Ok(TaskStep::End(last))) => {
                    self.reading = None;
                    return ReadStep::End(last);
                }
                Some(Err(error)) => {
                    self.reading = None;
                    return ReadStep::Failed(error);
                }
                // The task ends with one of these steps, unless its runtime ends.
                None => {
                    self.reading = None;
                    return future::pending().await;
                }
            }
        }
    }
}

/// Task of one read.
struct ReaderTask {
    context: jetstream::Context,
    name: String,
    known: Option<DateTime>,
    after: RecordPosition,
    end: Arc<AtomicU64>,
    steps: mpsc::Sender<Result<TaskStep, RecordReadError>>,
}

impl ReaderTask {
    async fn run(self) {
        if let Err(error) = self.read().await {
            // The reader may have given up.
            let _ = self.steps.send(Err(error)).await;
        }
    }

    async fn read(&self) -> Result<(), RecordReadError> {
        let stream = timeout(READ_TIMEOUT, self.context.get_stream(&self.name)).await;
        let stream = match stream {
            Ok(stream) => stream.map_err(|error| self.failed(error.to_string()))?,
            Err(_) => return Err(self.failed(NO_ANSWER.to_owned())),
        };
        let info = stream.cached_info();
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        let created = TaskStep::Created(info.created);
        let is_another = self.known.is_some_and(|known| known != info.created);
        if self.steps.send(Ok(created)).await.is_err() || is_another {
            return Ok(());
        }
        // Several requests are on their way, since each of them takes the time of a journey. Most
        // positions have a record.
        let mut next = first.max(self.after.0.saturating_add(1));
        let mut passed = self.after;
        let mut asked = FuturesOrdered::new();
        loop {
            let end = self.end.load(Ordering::Relaxed);
            while asked.len() < MAX_ASKED && next <= last && next < end {
                asked.push_back(self.first_from(&stream, next));
                next += 1;
            }
            let Some(answer) = asked.next().await else {
                // The last positions may have no records.
                let passed = RecordPosition(last.min(end.saturating_sub(1))).max(passed);
                let _ = self.steps.send(Ok(TaskStep::End(passed))).await;
                return Ok(());
            };
            // The answer to a request for a position without a record is the next record.
            let Some(record) = answer?.filter(|record| record.at > passed) else {
                continue;
            };
            passed = record.at;
            next = next.max(passed.0.saturating_add(1));
            if self.steps.send(Ok(TaskStep::Record(record))).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Returns the first record from a position on, if there is one.
    async fn first_from(
        &self,
        stream: &Stream,
        position: u64,
    ) -> Result<Option<StoredRecord>, RecordReadError> {
        let read = stream.get_first_raw_message_by_subject(">", position);
        let Ok(message) = timeout(READ_TIMEOUT, read).await else {
            return Err(self.failed(NO_ANSWER.to_owned()));
        };
        match message {
            Ok(message) => Ok(Some(StoredRecord {
                at: RecordPosition(message.sequence),
                subject: message.subject.to_string(),
                bytes: message.payload.to_vec(),
            })),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(self.failed(error.to_string())),
        }
    }

    fn failed(&self, reason: String) -> RecordReadError {
        RecordReadError::Stream {
            stream: self.name.clone(),
            reason,
        }
    }
}

/// Order to the task that writes records.
enum WriterOrder {
    Write(MembershipRecord),
    /// Answered when everything before it is written.
    Finish(oneshot::Sender<()>),
}

/// Writer of a node's records. Each is repeated until the stream has it.
pub(crate) struct RecordWriter {
    orders: mpsc::UnboundedSender<WriterOrder>,
    /// Number of connections so far: records of earlier ones are not written any more.
    connection: watch::Sender<u64>,
}

impl RecordWriter {
    /// Starts the task.
    pub(crate) fn start(
        client: &Client,
        subjects: &ClusterSubjects,
        node: &NodeName,
        run: u64,
    ) -> RecordWriter {
        // There are few records: one for each change of this server's view.
        let (orders, receiver) = mpsc::unbounded_channel();
        let connection = watch::Sender::new(0);
        let task = WriterTask {
            context: jetstream::new(client.clone()),
            members: subjects.text(&ClusterSubject::Member { node: node.clone() }),
            verdicts: subjects.text(&ClusterSubject::Verdict { by: node.clone() }),
            connection: connection.subscribe(),
            run,
            written: 0,
        };
        tokio::spawn(task.run(receiver));
        RecordWriter { orders, connection }
    }

    pub(crate) fn write(&self, record: MembershipRecord) {
        // An error means that the task has ended with its runtime.
        let _ = self.orders.send(WriterOrder::Write(record));
    }

    /// Gives up what is not written. Whether it is needed is decided after the next connection.
    pub(crate) fn drop_pending(&self) {
        self.connection.send_modify(|count| *count += 1);
    }

    /// Waits until everything is written or was given up.
    pub(crate) async fn finish(&self) {
        let (done, finished) = oneshot::channel();
        if self.orders.send(WriterOrder::Finish(done)).is_ok() {
            // An error means that the task has ended.
            let _ = finished.await;
        }
    }
}

struct WriterTask {
    context: jetstream::Context,
    members: String,
    verdicts: String,
    connection: watch::Receiver<u64>,
    /// Number of the process, and of its records so far.
    run: u64,
    written: u64,
}

impl WriterTask {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<WriterOrder>) {
        while let Some(order) = orders.recv().await {
            match order {
                WriterOrder::Write(record) => self.write(&record).await,
                WriterOrder::Finish(done) => {
                    // Ignore an error: nobody waits any more.
                    let _ = done.send(());
                }
            }
        }
    }

    async fn write(&mut self, record: &MembershipRecord) {
        let subject = match record {
            MembershipRecord::Joined(_)
            | MembershipRecord::Repeated { .. }
            | MembershipRecord::Left => &self.members,
            MembershipRecord::Gone(_) => &self.verdicts,
        };
        let bytes = match encode_record(record) {
            Ok(bytes) => bytes,
            Err(error) => return tracing::error!(%error, "record of the cluster not written"),
        };
        self.written += 1;
        let id = format!("{:016x}-{}", self.run, self.written);
        let message = StoredOnce {
            subject,
            id: &id,
            bytes: &bytes,
        };
        let connection = *self.connection.borrow();
        loop {
            match message.store(&self.context).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(%error, "record of the cluster not stored yet"),
            }
            tokio::select! {
                () = sleep(WRITE_EACH) => {}
                _ = self.connection.changed() => {}
            }
            if *self.connection.borrow() != connection {
                return;
            }
        }
    }
}
