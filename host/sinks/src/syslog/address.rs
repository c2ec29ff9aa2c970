//! Where servers of syslog listen: `unix:/dev/log`, `udp://host:514`, `tcp://host:601`, `tls://host:6514`.
use std::{
    fmt,
    net::Ipv6Addr,
    path::{Path, PathBuf},
    str::FromStr,
};
use thiserror::Error;

/// Where a server of syslog listens, and what is spoken there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A socket of datagrams in the file system.
    Unix(PathBuf),
    /// UDP: one datagram, one message, and nobody knows whether it arrives.
    Udp(HostPort),
    /// TCP, each message behind its length (RFC 6587).
    Tcp(HostPort),
    /// The same in TLS (RFC 5425).
    Tls(HostPort),
}

/// A machine and a port of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPort {
    /// A name, or a number; that of IPv6 without brackets.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

/// What is no address of a server of syslog.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{text:?} is no address of a syslog server, {why}: it must be unix:/PATH, udp://HOST:PORT, tcp://HOST:PORT or \
     tls://HOST:PORT, a host of IPv6 in brackets"
)]
pub struct MalformedAddress {
    text: String,
    why: &'static str,
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

    /// Of `HOST:PORT`.
    fn from_str(text: &str) -> Result<HostPort, &'static str> {
        let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
        let host = match host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            Some(inner) if inner.parse::<Ipv6Addr>().is_ok() => inner,
            Some(_) => return Err("what is in brackets is no address of IPv6"),
            None if host.is_empty() => return Err("it has no host"),
            None if host.contains(':') => {
                return Err("an address of IPv6 has no brackets, or there is no port");
            }
            None if host.len() <= 253 && host.chars().all(is_of_name) => host,
            None => return Err("its host is no name"),
        };
        // `parse` would take a sign.
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if is_number && port != 0 => Ok(HostPort {
                host: host.to_owned(),
                port,
            }),
            _ => Err("its port is no number from 1 to 65535"),
        }
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_')
}

impl FromStr for Address {
    type Err = MalformedAddress;

    fn from_str(text: &str) -> Result<Address, MalformedAddress> {
        let malformed = |why| MalformedAddress {
            text: text.to_owned(),
            why,
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path).map_err(malformed);
        }
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| malformed("it does not say how to get there"))?;
        let kind = match scheme {
            "udp" => Address::Udp,
            "tcp" => Address::Tcp,
            "tls" => Address::Tls,
            _ => return Err(malformed("it says a way that is not known")),
        };
        rest.parse().map(kind).map_err(malformed)
    }
}

/// The longest path of a socket, in bytes.
const LONGEST_PATH: usize = 107;

fn unix(path: &str) -> Result<Address, &'static str> {
    if !Path::new(path).is_absolute() {
        return Err("its path does not begin with /");
    }
    if path.len() > LONGEST_PATH || path.contains('\0') {
        return Err("its path is longer than 107 bytes, or has a NUL");
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
        for (text, why) in [
            ("", "it does not say how to get there"),
            ("/dev/log", "it does not say how to get there"),
            ("unix:dev/log", "its path does not begin with /"),
            ("unix:", "its path does not begin with /"),
            ("http://h:1", "it says a way that is not known"),
            ("udp://h", "it has no port"),
            ("udp://:514", "it has no host"),
            ("udp://h:0", "its port is no number from 1 to 65535"),
            ("udp://h:65536", "its port is no number from 1 to 65535"),
            ("udp://h:+5", "its port is no number from 1 to 65535"),
            ("udp://h:", "its port is no number from 1 to 65535"),
            (
                "tcp://::1:514",
                "an address of IPv6 has no brackets, or there is no port",
            ),
            (
                "tcp://[::1]",
                "an address of IPv6 has no brackets, or there is no port",
            ),
            ("tcp://[h]:514", "what is in brackets is no address of IPv6"),
            ("tcp://user@h:514", "its host is no name"),
            ("tcp://h\n:514", "its host is no name"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert_eq!(error.why, why, "{text:?}");
            assert!(error.to_string().starts_with(&format!(
                "{text:?} is no address of a syslog server, {why}: "
            )));
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
