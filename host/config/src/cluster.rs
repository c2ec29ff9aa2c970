//! Addresses of NATS servers, and the kinds of values in `[cluster]`.
use crate::{kinds::ValueKind, parser::DocumentParser};
use peal_model::{ClusterName, NodeName};
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};
use thiserror::Error;
use toml::{Spanned, Value, de::DeValue};

/// Scheme of the addresses: nodes prove themselves with keys, and what they say is encrypted.
const SCHEME: &str = "tls://";
/// Port of a NATS server without one in its address.
const DEFAULT_PORT: u16 = 4222;
/// Maximum length of a host name, by RFC 1035.
const MAX_HOST: usize = 253;

/// Error for a text that is not the address of a NATS server.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{text:?} is no address of a NATS server; one is tls://HOST or tls://HOST:PORT, as in tls://nats1.example.org:4222"
)]
pub struct NatsAddressError {
    text: String,
}

/// Address of a NATS server, reached by TLS.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NatsAddress {
    host: String,
    port: u16,
}

impl NatsAddress {
    /// Creates the address of a server on this machine.
    pub fn loopback(port: u16) -> NatsAddress {
        NatsAddress {
            host: "127.0.0.1".to_owned(),
            port,
        }
    }

    /// Returns the host name or IP address; one of IPv6 has no brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the IP address if the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl FromStr for NatsAddress {
    type Err = NatsAddressError;

    fn from_str(text: &str) -> Result<NatsAddress, NatsAddressError> {
        let parsed = text.strip_prefix(SCHEME).and_then(|rest| {
            let (host, port) = match rest.strip_prefix('[') {
                Some(rest) => {
                    let (host, port) = rest.split_once(']')?;
                    host.parse::<Ipv6Addr>().ok()?;
                    (
                        host,
                        port.strip_prefix(':').or(port.is_empty().then_some(""))?,
                    )
                }
                None => match rest.split_once(':') {
                    // A colon without a port is a slip.
                    Some((_, "")) => return None,
                    Some((host, port)) => (is_host(host).then_some(host)?, port),
                    None => (is_host(rest).then_some(rest)?, ""),
                },
            };
            let port = match port {
                "" => DEFAULT_PORT,
                digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    digits.parse().ok()?
                }
                _ => return None,
            };
            (port != 0).then(|| NatsAddress {
                host: host.to_owned(),
                port,
            })
        });
        parsed.ok_or_else(|| NatsAddressError {
            text: text.chars().take(MAX_HOST).collect(),
        })
    }
}

impl fmt::Display for NatsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NatsAddress { host, port } = self;
        if host.contains(':') {
            write!(f, "{SCHEME}[{host}]:{port}")
        } else {
            write!(f, "{SCHEME}{host}:{port}")
        }
    }
}

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.len() <= MAX_HOST && host.split('.').all(is_label)
}

/// Defines the kinds of values that are parsed from a text and written as it.
macro_rules! parsed_texts {
    ($($(#[doc = $doc:literal])+ $kind:ident: $ty:ty, $accepted:literal;)+) => { $(
        $(#[doc = $doc])+
        pub(crate) struct $kind;

        impl ValueKind<$ty> for $kind {
            fn read(&self, value: &Spanned<DeValue<'_>>, reading: &mut DocumentParser<'_>) -> Option<$ty> {
                let read = value.get_ref().as_str().and_then(|text| text.parse().ok());
                if read.is_none() {
                    reading.refuse(value, $accepted);
                }
                read
            }

            fn write(&self, value: &$ty) -> Option<Value> {
                Some(Value::String(value.to_string()))
            }

            fn accepted_values(&self) -> String {
                $accepted.to_owned()
            }

            fn is_text(&self) -> bool {
                true
            }
        }
    )+ };
}

parsed_texts! {
    /// Kind of the name of a cluster.
    ClusterNameKind: ClusterName, "a name of 1 to 63 characters of A-Z, a-z, 0-9, _ and -";
    /// Kind of the name of a node.
    NodeNameKind: NodeName, "a name of 1 to 63 characters of A-Z, a-z, 0-9, _ and -";
    /// Kind of the address of a NATS server.
    NatsAddressKind: NatsAddress, "the address of a NATS server, as in \"tls://nats1.example.org:4222\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_written_with_port() {
        for (text, host, port) in [
            ("tls://nats1", "nats1", 4222),
            ("tls://nats1.example.org:4333", "nats1.example.org", 4333),
            ("tls://127.0.0.1:1", "127.0.0.1", 1),
            ("tls://[::1]", "::1", 4222),
            ("tls://[fe80::2]:65535", "fe80::2", 65535),
        ] {
            let address: NatsAddress = text.parse().unwrap();
            assert_eq!((address.host(), address.port()), (host, port));
            assert_eq!(address.to_string().parse::<NatsAddress>().unwrap(), address);
        }
    }

    #[test]
    fn other_texts_are_refused_with_form_of_address() {
        for text in [
            "",
            "nats1:4222",
            "nats://nats1",
            "ws://nats1",
            "tls://",
            "tls://:4222",
            "tls://nats1:",
            "tls://nats1:0",
            "tls://nats1:65536",
            "tls://nats1:+5",
            "tls://nats1/path",
            "tls://user:password@nats1",
            "tls://nats1:4222:4222",
            "tls://a..b",
            "tls://-a",
            "tls://\"a\"",
            "tls://[::1",
            "tls://[::1]x",
            "tls://[nats1]",
        ] {
            assert!(text.parse::<NatsAddress>().is_err(), "{text:?}");
        }
        assert_eq!(
            "nats://n1".parse::<NatsAddress>().unwrap_err().to_string(),
            "\"nats://n1\" is no address of a NATS server; one is tls://HOST or tls://HOST:PORT, as in tls://nats1.example.org:4222"
        );
    }
}
