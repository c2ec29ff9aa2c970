//! Reading and writing of the one sequence of joins, leaves and verdicts.
use crate::{
    streams::ClusterStream,
    subjects::{ClusterSubject, ClusterSubjects},
};
use async_nats::{
    Client, HeaderMap,
    datetime::DateTime,
    jetstream::{
        self,
        stream::{RawMessageErrorKind, Stream},
    },
};
use peal_cluster::{MembershipRecord, RecordPosition, encode_record};
use peal_model::NodeName;
use std::time::Duration;
use thiserror::Error;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

/// Time between two attempts to write a record.
const WRITE_EACH: Duration = Duration::from_millis(500);

/// Time limit of a read. A request of which the connection was lost has no answer.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Reason of a read that has failed for its time limit.
const NO_ANSWER: &str = "no answer";

/// Record of the stream.
pub(crate) struct StoredRecord {
    pub(crate) at: RecordPosition,
    pub(crate) subject: String,
    pub(crate) bytes: Vec<u8>,
}

/// Error of reading the stream of members.
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

/// Reader of the stream of members.
pub(crate) struct RecordReader {
    context: jetstream::Context,
    name: String,
    stream: Option<Stream>,
    /// Time at which the stream was made, as it was last seen.
    created: Option<DateTime>,
}

/// Identity of the stream since it was last seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamIdentity {
    Same,
    /// The stream was made anew.
    Another,
}

impl RecordReader {
    pub(crate) fn new(client: &Client, subjects: &ClusterSubjects) -> RecordReader {
        RecordReader {
            context: jetstream::new(client.clone()),
            name: subjects.stream_name(ClusterStream::Members),
            stream: None,
            created: None,
        }
    }

    /// Looks at the stream, before its records are read.
    pub(crate) async fn look(&mut self) -> Result<StreamIdentity, RecordReadError> {
        let stream = timeout(READ_TIMEOUT, self.context.get_stream(&self.name)).await;
        let stream = match stream {
            Ok(stream) => stream.map_err(|error| self.failed(error.to_string()))?,
            Err(_) => return Err(self.failed(NO_ANSWER.to_owned())),
        };
        let created = stream.cached_info().created;
        self.stream = Some(stream);
        let before = self.created.replace(created);
        Ok(if before.is_none_or(|before| before == created) {
            StreamIdentity::Same
        } else {
            StreamIdentity::Another
        })
    }

    fn failed(&self, reason: String) -> RecordReadError {
        RecordReadError::Stream {
            stream: self.name.clone(),
            reason,
        }
    }

    /// Returns the first record that follows a position, if there is one, of the stream that was last
    /// looked at.
    pub(crate) async fn next_after(
        &self,
        position: RecordPosition,
    ) -> Result<Option<StoredRecord>, RecordReadError> {
        let Some(stream) = &self.stream else {
            return Ok(None);
        };
        let next = position.0.saturating_add(1);
        let read = stream.get_first_raw_message_by_subject(">", next);
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
            MembershipRecord::Joined(_) | MembershipRecord::Left => &self.members,
            MembershipRecord::Gone(_) => &self.verdicts,
        };
        let bytes = match encode_record(record) {
            Ok(bytes) => bytes,
            Err(error) => return tracing::error!(%error, "record of the cluster not written"),
        };
        // The stream stores a repeated record once.
        let mut headers = HeaderMap::new();
        self.written += 1;
        headers.insert("Nats-Msg-Id", format!("{:016x}-{}", self.run, self.written));
        let connection = *self.connection.borrow();
        loop {
            let sent = self.context.publish_with_headers(
                subject.clone(),
                headers.clone(),
                bytes.clone().into(),
            );
            let stored = async { sent.await?.await };
            match stored.await {
                Ok(_) => return,
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
