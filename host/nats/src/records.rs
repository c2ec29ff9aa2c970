//! Reading and writing of the one sequence of joins, leaves and verdicts.
use crate::{
    streams::ClusterStream,
    subjects::{ClusterSubject, ClusterSubjects},
};
use async_nats::{
    Client, HeaderMap,
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
    time::sleep,
};

/// Time between two attempts to write a record.
const WRITE_EACH: Duration = Duration::from_millis(500);

/// Record of the stream.
pub(crate) struct StoredRecord {
    pub(crate) at: RecordPosition,
    pub(crate) subject: String,
    pub(crate) bytes: Vec<u8>,
}

/// Error of reading the stream of members.
#[derive(Debug, Error)]
pub(crate) enum RecordReadError {
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
    stream: Option<Stream<()>>,
}

impl RecordReader {
    pub(crate) fn new(client: &Client, subjects: &ClusterSubjects) -> RecordReader {
        RecordReader {
            context: jetstream::new(client.clone()),
            name: subjects.stream_name(ClusterStream::Members),
            stream: None,
        }
    }

    /// Returns the first record that follows a position, if there is one.
    pub(crate) async fn next_after(
        &mut self,
        position: RecordPosition,
    ) -> Result<Option<StoredRecord>, RecordReadError> {
        let failed = |stream: &str, reason: String| RecordReadError::Stream {
            stream: stream.to_owned(),
            reason,
        };
        let stream = match &self.stream {
            Some(stream) => stream,
            None => {
                let stream = self.context.get_stream_no_info(&self.name).await;
                let stream = stream.map_err(|error| failed(&self.name, error.to_string()))?;
                self.stream.insert(stream)
            }
        };
        let next = position.0.saturating_add(1);
        match stream.get_first_raw_message_by_subject(">", next).await {
            Ok(message) => Ok(Some(StoredRecord {
                at: RecordPosition(message.sequence),
                subject: message.subject.to_string(),
                bytes: message.payload.to_vec(),
            })),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(failed(&self.name, error.to_string())),
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
