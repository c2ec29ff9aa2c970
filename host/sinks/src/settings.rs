//! Settings of a sink that do not depend on its kind.
use crate::{
    FileSettings, MailSettings, QueueBounds, QueueDurability, Retry, SinkError, SyslogSettings,
    WebhookSettings,
};

/// Settings of a sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkSettings {
    /// The unique name of the sink.
    pub name: String,
    /// The destination.
    pub kind: SinkKind,
    /// The bounds of the queue. A file has no queue.
    pub queue: QueueBounds,
    /// The durability of the queue. A file has no queue.
    pub durability: QueueDurability,
    /// The repetition of failed deliveries. Files do not use it.
    pub retry: Retry,
}

/// Destination of a sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkKind {
    /// A syslog server.
    Syslog(SyslogSettings),
    /// Recipients reached through a mail server.
    Mail(Box<MailSettings>),
    /// A web service.
    Webhook(Box<WebhookSettings>),
    /// A file.
    File(FileSettings),
}

impl SinkSettings {
    /// Returns the default settings for a kind.
    pub fn new(name: impl Into<String>, kind: SinkKind) -> SinkSettings {
        let durability = match kind {
            SinkKind::Mail(_) | SinkKind::Webhook(_) => QueueDurability::Store,
            SinkKind::Syslog(_) | SinkKind::File(_) => QueueDurability::Memory,
        };
        SinkSettings {
            name: name.into(),
            kind,
            queue: QueueBounds::default(),
            durability,
            retry: Retry::default(),
        }
    }

    /// Checks the settings that do not depend on the kind.
    pub(crate) fn check(&self) -> Result<(), SinkError> {
        let refuse = |setting: &'static str, value: String, right: &'static str| {
            Err(SinkError::Setting {
                name: self.name.clone(),
                setting,
                value,
                right,
            })
        };
        if self.queue.messages == 0 {
            return refuse("queue.messages", "0".to_owned(), "at least 1");
        }
        if self.queue.bytes == 0 {
            return refuse("queue.bytes", "0".to_owned(), "at least 1");
        }
        if self.queue.user_messages == 0 {
            return refuse("queue.user_messages", "0".to_owned(), "at least 1");
        }
        if self.queue.user_bytes == 0 {
            return refuse("queue.user_bytes", "0".to_owned(), "at least 1");
        }
        // Zero stays zero when it is doubled: the worker would retry without a pause.
        if self.retry.first.is_zero() || self.retry.first > self.retry.longest {
            let value = format!("{:?}", self.retry.first);
            return refuse(
                "retry.first",
                value,
                "greater than 0, and at most retry.longest",
            );
        }
        Ok(())
    }
}
