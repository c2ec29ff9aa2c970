//! Syslog sinks: they check and frame complete messages and send them to a server.
mod address;
mod connection;
mod tls;

pub use address::{Address, HostPort, MalformedAddress};
pub use tls::{TlsIdentity, TlsSettings, certificates};
pub(crate) use tls::{client_tls, roots};

use crate::{
    SinkError, SinkWriteError,
    queue::QueuedMessage,
    worker::{DeliveryResult, IdleTransport, SinkTransport},
};
use connection::{Dial, SyslogConnection};
use rustix::io::Errno;
use std::time::Duration;

/// Settings of a syslog sink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyslogSettings {
    /// The address of the server.
    pub address: Address,
    /// Maximum length of a message in bytes. A message that exceeds a datagram's size is given up.
    pub max_message: usize,
    /// Maximum time for connecting and for writing.
    pub timeout: Duration,
    /// Authorities and client certificate for TLS addresses.
    pub tls: TlsSettings,
}

impl SyslogSettings {
    /// Returns the default settings for an address.
    pub fn new(address: Address) -> SyslogSettings {
        SyslogSettings {
            address,
            max_message: 8192,
            timeout: Duration::from_secs(10),
            tls: TlsSettings::default(),
        }
    }

    /// Creates the transport.
    pub(crate) fn carrier(&self, name: &str) -> Result<Box<dyn SinkTransport>, SinkError> {
        let invalid = |setting, value, right| SinkError::Setting {
            name: name.to_owned(),
            setting,
            value,
            right,
        };
        // The functions of sockets reject a timeout of zero.
        if self.timeout.is_zero() {
            return Err(invalid("timeout", "0".to_owned(), "greater than 0"));
        }
        if self.max_message == 0 {
            return Err(invalid("max_message", "0".to_owned(), "at least 1"));
        }
        let dial = Dial::new(name, self)?;
        Ok(Box::new(SyslogSink { dial, link: None }))
    }
}

/// Checks of messages before they are accepted.
#[derive(Debug)]
pub(crate) struct SyslogFormat {
    name: String,
    peer: String,
    most: usize,
}

impl SyslogFormat {
    pub(crate) fn new(name: &str, settings: &SyslogSettings) -> SyslogFormat {
        SyslogFormat {
            name: name.to_owned(),
            peer: settings.address.to_string(),
            most: settings.max_message,
        }
    }

    /// Refuses messages that the server, or a reader of its files, could take for more than one.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), SinkWriteError> {
        if bytes.is_empty() {
            return Err(SinkWriteError::Empty {
                name: self.name.clone(),
            });
        }
        if bytes.len() > self.most {
            return Err(SinkWriteError::TooLong {
                name: self.name.clone(),
                bytes: bytes.len(),
                most: self.most,
            });
        }
        let refuse = |character: String, at| {
            Err(SinkWriteError::NoLine {
                name: self.name.clone(),
                character,
                at,
            })
        };
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return refuse("invalid UTF-8".to_owned(), error.valid_up_to()),
        };
        match text
            .char_indices()
            .find(|(_, character)| forges(*character))
        {
            Some((at, character)) => refuse(format!("U+{:04X}", u32::from(character)), at),
            None => Ok(()),
        }
    }

    pub(crate) fn parcel(&self, body: Vec<u8>) -> QueuedMessage {
        QueuedMessage {
            peer: self.peer.clone(),
            head: String::new(),
            body,
        }
    }
}

/// Returns true for control characters and for others that some programs take for the end of a
/// line.
fn forges(character: char) -> bool {
    character != '\t' && character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Transport to one server.
struct SyslogSink {
    dial: Dial,
    link: Option<SyslogConnection>,
}

impl SyslogSink {
    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        // Check for a closed connection first: data written after the peer closed it are lost
        // without an error.
        if let Some(mut link) = self.link.take()
            && !link.is_closed()
        {
            match link.send(message) {
                Ok(()) => {
                    self.link = Some(link);
                    return Ok(());
                }
                // A server that does not read this connection does not read another one. A new one
                // would only give its unread data more buffers.
                Err(error) if connection::is_nothing_yet(&error) => return Err(error),
                Err(_) => {}
            }
        }
        let mut link = self.dial.open()?;
        link.send(message)?;
        self.link = Some(link);
        Ok(())
    }
}

impl SinkTransport for SyslogSink {
    fn peer(&self, _: &str) -> String {
        self.dial.address().to_string()
    }

    fn carry(&mut self, parcel: &mut QueuedMessage) -> DeliveryResult {
        match self.send(&parcel.body) {
            Ok(()) => DeliveryResult::Delivered {
                refused: Vec::new(),
            },
            // A message that exceeds a datagram does so at every attempt.
            Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
                DeliveryResult::Never(format!(
                    "{} accepts no datagram of {} bytes",
                    self.dial.address(),
                    parcel.body.len()
                ))
            }
            Err(error) => DeliveryResult::Unreachable(format!("{}: {error}", self.dial.address())),
        }
    }

    fn rest(&mut self) -> IdleTransport {
        if self.link.is_some() {
            IdleTransport::Connected
        } else {
            IdleTransport::Closed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::code;
    use proptest::prelude::*;

    fn lines(most: usize) -> SyslogFormat {
        let settings = SyslogSettings::new("udp://localhost:514".parse().unwrap());
        SyslogFormat::new(
            "s",
            &SyslogSettings {
                max_message: most,
                ..settings
            },
        )
    }

    #[test]
    fn message_readable_as_two_is_refused_with_position() {
        for (text, what) in [
            ("<13>1 a\n<13>1 b", "U+000A at byte 7"),
            ("<13>1 a\r", "U+000D at byte 7"),
            ("<13>1 \0", "U+0000 at byte 6"),
            ("<13>1 \u{1b}[2J", "U+001B at byte 6"),
            ("<13>1 ü\u{9b}2J", "U+009B at byte 8"),
            ("<13>1 \u{7f}", "U+007F at byte 6"),
            ("<13>1 a\u{2028}b", "U+2028 at byte 7"),
        ] {
            let refused = lines(100).check(text.as_bytes()).unwrap_err();
            assert!(refused.to_string().contains(what), "{refused}");
            assert_eq!(refused.status(), code::PMIX_ERR_BAD_PARAM);
        }
        let refused = lines(100).check(b"<13>1 \xff").unwrap_err().to_string();
        assert_eq!(
            refused,
            "a message for sink \"s\" has invalid UTF-8 at byte 6: it must be UTF-8 without control characters but tabs"
        );
        assert_eq!(
            lines(100).check(b"").unwrap_err().to_string(),
            "a message for sink \"s\" is empty"
        );
        assert!(matches!(
            lines(5).check(b"123456"),
            Err(SinkWriteError::TooLong {
                bytes: 6,
                most: 5,
                ..
            })
        ));
        lines(100)
            .check("<13>1 \u{feff}Grüße\tund mehr".as_bytes())
            .unwrap();
    }

    proptest! {
        #[test]
        fn accepted_message_has_no_line_end(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if lines(30).check(&bytes).is_ok() {
                prop_assert!(bytes.len() <= 30 && !bytes.is_empty());
                prop_assert!(bytes.iter().all(|byte| *byte >= 0x20 && *byte != 0x7f || *byte == b'\t'));
            }
        }
    }
}
