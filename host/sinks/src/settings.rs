//! Settings of a sink that do not depend on its kind.
use crate::{FileSettings, MailSettings, SinkError, SyslogSettings};
use std::time::Duration;

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
    /// A file.
    File(FileSettings),
}

/// Bounds of a queue, including the message that is being delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueBounds {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum size of all messages in bytes.
    pub bytes: usize,
}

impl Default for QueueBounds {
    fn default() -> Self {
        QueueBounds {
            messages: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// Durability of accepted messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueDurability {
    /// Messages are in memory and are lost with the process.
    #[default]
    Memory,
    /// Messages are written to the store before the sender gets the result, and survive the end of
    /// the process.
    Store,
}

/// Repetition of failed deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Pause after the first failure. It doubles with each further failure.
    pub first: Duration,
    /// Maximum pause.
    pub longest: Duration,
    /// Age at which a message is given up after a failure.
    pub give_up: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(300),
            give_up: Duration::from_secs(5 * 24 * 3600),
        }
    }
}

impl Retry {
    /// Returns the pause after this number of failures.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

impl SinkSettings {
    /// Returns the default settings for a kind.
    pub fn new(name: impl Into<String>, kind: SinkKind) -> SinkSettings {
        let durability = match kind {
            SinkKind::Mail(_) => QueueDurability::Store,
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
        let refuse = |what: &'static str, value: String, right: &'static str| {
            Err(SinkError::Setting {
                name: self.name.clone(),
                what,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(5));
        let retry = Retry {
            first,
            longest,
            ..Retry::default()
        };
        let pauses: Vec<u64> = [1, 2, 3, 4, 40, u32::MAX]
            .map(|failures| retry.pause(failures).as_secs())
            .into();
        assert_eq!(pauses, [1, 2, 4, 5, 5, 5]);
    }
}
