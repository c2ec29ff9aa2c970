//! What an admin says of a sink, beside what its kind has to be told.
use crate::{FileSettings, MailSettings, SinkError, SyslogSettings};
use std::time::Duration;

/// A sink as it is to be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkSettings {
    /// By which it is known; one name, one sink.
    pub name: String,
    /// Where it leads.
    pub kind: SinkKind,
    /// How much may wait. A file has no queue.
    pub queue: QueueBounds,
    /// What its queue survives. A file has none.
    pub durability: QueueDurability,
    /// When what failed is tried again. Not with files.
    pub retry: Retry,
}

/// Where a sink leads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkKind {
    /// A server of syslog.
    Syslog(SyslogSettings),
    /// People, by way of a mail server.
    Mail(Box<MailSettings>),
    /// A file.
    File(FileSettings),
}

/// How much may wait for a peer, what is being delivered included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueBounds {
    /// Messages.
    pub messages: usize,
    /// Bytes of all messages.
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

/// What accepted messages survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueDurability {
    /// Nothing: they are in memory.
    #[default]
    Memory,
    /// The end of the process, however sudden: they are in the store before their sender is told that they were accepted.
    Store,
}

/// When what could not be delivered is tried again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// How long after it failed first; each time after that twice as long.
    pub first: Duration,
    /// No longer than so.
    pub longest: Duration,
    /// What fails when it is older than this is given up.
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
    /// How long to wait after so many failures.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

impl SinkSettings {
    /// A sink with the defaults of its kind.
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

    /// Whether it can work at all, its kind apart.
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
            return refuse("queue.messages", "0".to_owned(), "one at least");
        }
        if self.queue.bytes == 0 {
            return refuse("queue.bytes", "0".to_owned(), "one at least");
        }
        if self.retry.first.is_zero() || self.retry.first > self.retry.longest {
            let value = format!("{:?}", self.retry.first);
            return refuse(
                "retry.first",
                value,
                "more than nothing, and no more than retry.longest",
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
