//! Storing of a message that an earlier attempt may have stored.
use async_nats::{
    HeaderMap,
    jetstream::{
        self,
        context::PublishError,
        publish::PublishAck,
        stream::{RawMessageError, RawMessageErrorKind},
    },
};
use rustix::{
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};
use thiserror::Error;

/// Header by which JetStream recognizes a message that is sent again.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Error of storing a message.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The message that has the id was not read.
    #[error("cannot read the message that was sent before: {0}")]
    Read(#[from] RawMessageError),
    #[error("no random number for the id of a message: {0}")]
    Random(#[from] Errno),
}

/// Message to be stored once.
pub(crate) struct StoredOnce<'a> {
    pub(crate) subject: &'a str,
    /// Id, the same in each attempt.
    pub(crate) id: &'a str,
    pub(crate) bytes: &'a [u8],
}

impl StoredOnce<'_> {
    /// Stores the message, unless an earlier attempt did.
    ///
    /// All nodes share the ids of a stream. One that guesses an id of another could use it up, and JetStream
    /// would take the other's message for a repeated one.
    pub(crate) async fn store(&self, context: &jetstream::Context) -> Result<(), StoreError> {
        let stored = self.publish(context, self.id).await?;
        if !stored.duplicate || self.is_at(context, &stored).await? {
            return Ok(());
        }
        tracing::warn!(
            subject = self.subject,
            sequence = stored.sequence,
            "id of a message used by another node, message stored with another id"
        );
        self.publish(context, &random_id()?).await?;
        Ok(())
    }

    async fn publish(
        &self,
        context: &jetstream::Context,
        id: &str,
    ) -> Result<PublishAck, PublishError> {
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, id);
        let (subject, bytes) = (self.subject.to_owned(), self.bytes.to_vec().into());
        let sent = context
            .publish_with_headers(subject, headers, bytes)
            .await?;
        sent.await
    }

    /// Returns true if the message that was stored before is this one.
    async fn is_at(
        &self,
        context: &jetstream::Context,
        stored: &PublishAck,
    ) -> Result<bool, StoreError> {
        // The name of the stream comes from the NATS server, and is a valid one.
        let Ok(stream) = context.get_stream_no_info(&stored.stream).await else {
            return Ok(false);
        };
        match stream.get_raw_message(stored.sequence).await {
            Ok(found) => Ok(found.subject.as_str() == self.subject && found.payload == self.bytes),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns an id that nobody can guess.
fn random_id() -> Result<String, Errno> {
    let mut id = [0; 16];
    getrandom(&mut id, GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(id)))
}
