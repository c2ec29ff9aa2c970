//! Addresses of syslog servers: `unix:/dev/log`, `udp://host:514`, `tcp://host:601`,
//! `tls://host:6514`.
use std::{
    fmt,
    net::Ipv6Addr,
    path::{Path, PathBuf},
    str::FromStr,
};
use thiserror::Error;

/// Address and protocol of a syslog server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A datagram socket in the file system.
    Unix(PathBuf),
    /// UDP: one message per datagram, without confirmation.
    Udp(HostPort),
    /// TCP, each message after its length (RFC 6587).
    Tcp(HostPort),
    /// TLS, framed like TCP (RFC 5425).
    Tls(HostPort),
}

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// A name or an IP address; IPv6 without brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// Error of parsing an address of a syslog server.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{text:?} should be the address of a syslog server, unix:/PATH, udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT \
     with IPv6 addresses in brackets: {reason}"
)]
pub struct MalformedAddress {
    text: String,
    reason: &'static str,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Udp(peer) => write!(f, "udp://{peer}"),
            Address::Tcp(peer) => write!(f, "tcp://{peer}"),
            Address::Tls(peer) => write!(f, "tls://{peer}"),
        }
    }
}

impl FromStr for HostPort {
    type Err = &'static str;

    /// Parses `HOST:PORT`.
    fn from_str(text: &str) -> Result<HostPort, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
        let host = match host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            Some(inner) if inner.parse::<Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err("the text in brackets is not an IPv6 address"),
            None if host.is_empty() => return Err("the host is missing"),
            None if host.contains(':') => {
                return Err("an IPv6 address lacks brackets, or the port is missing");
            }
            None if host.len() <= 253 && host.chars().all(is_of_name) => host,
            None => return Err("the host is not a name"),
        };
        // `parse` accepts a sign, which a port must not have.
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if is_number && port != 0 => Ok(HostPort {
                host: host.to_owned(),
                port,
            }),
            _ => Err("the port is not a number from 1 to 65535"),
        }
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_')
}

impl FromStr for Address {
    type Err = MalformedAddress;

    fn from_str(text: &str) -> Result<Address, MalformedAddress> {
        let malformed = |reason| MalformedAddress {
            text: text.to_owned(),
            reason,
        };
        // A path has no `//` after the scheme.
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path).map_err(malformed);
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| malformed("the scheme is missing"))?;
        let kind = match scheme {
            "udp" => Address::Udp,
            "tcp" => Address::Tcp,
            "tls" => Address::Tls,
            _ => return Err(malformed("the scheme is unknown")),
        };
        rest.parse().map(kind).map_err(malformed)
    }
}

/// Maximum length of a socket's path in bytes.
const LONGEST_PATH: usize = 107;

fn unix(path: &str) -> Result<Address, &'static str> {
    // A relative path would depend on the working directory of the server.
    if !Path::new(path).is_absolute() {
        return Err("the path does not begin with /");
    }
    // `sockaddr_un` has 108 bytes, the last of which is a NUL.
    if path.len() > LONGEST_PATH || path.contains('\0') {
        return Err("the path is longer than 107 bytes, or has a NUL");
    }
    Ok(Address::Unix(PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_and_written() {
        let peer = |host: &str, port| HostPort {
            host: host.to_owned(),
            port,
        };
        for (text, address) in [
            ("unix:/dev/log", Address::Unix("/dev/log".into())),
            ("udp://localhost:514", Address::Udp(peer("localhost", 514))),
            ("tcp://10.0.0.1:601", Address::Tcp(peer("10.0.0.1", 601))),
            (
                "tls://log.example.org:6514",
                Address::Tls(peer("log.example.org", 6514)),
            ),
            (
                "tcp://[fe80::1]:65535",
                Address::Tcp(peer("fe80::1", 65535)),
            ),
        ] {
            assert_eq!(text.parse::<Address>().as_ref(), Ok(&address));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn invalid_address_is_refused_with_reason() {
        for (text, reason) in [
            ("", "the scheme is missing"),
            ("/dev/log", "the scheme is missing"),
            ("unix:dev/log", "the path does not begin with /"),
            ("unix:", "the path does not begin with /"),
            ("http://h:1", "the scheme is unknown"),
            ("udp://h", "the port is missing"),
            ("udp://:514", "the host is missing"),
            ("udp://h:0", "the port is not a number from 1 to 65535"),
            ("udp://h:65536", "the port is not a number from 1 to 65535"),
            ("udp://h:+5", "the port is not a number from 1 to 65535"),
            ("udp://h:", "the port is not a number from 1 to 65535"),
            (
                "tcp://::1:514",
                "an IPv6 address lacks brackets, or the port is missing",
            ),
            (
                "tcp://[::1]",
                "an IPv6 address lacks brackets, or the port is missing",
            ),
            (
                "tcp://[h]:514",
                "the text in brackets is not an IPv6 address",
            ),
            ("tcp://user@h:514", "the host is not a name"),
            ("tcp://h\n:514", "the host is not a name"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.reason, reason, "{text:?}");
            assert!(error.to_string().ends_with(&format!(": {reason}")));
        }
        let long = format!("unix:/{}", "x".repeat(107));
        assert!(
            long.parse::<Address>().is_err() && long[..long.len() - 1].parse::<Address>().is_ok()
        );
    }

    proptest! {
        #[test]
        fn address_is_written_as_read(text in "(unix:/|udp://|tcp://|tls://|)\\PC{0,20}(:[0-9]{1,5})?") {
            if let Ok(address) = text.parse::<Address>() {
                prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
            }
        }
    }
}
