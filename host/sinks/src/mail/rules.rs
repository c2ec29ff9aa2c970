//! What requesters may choose: patterns of addresses, and servers.
use crate::syslog::HostPort;
use lettre::Address;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Addresses that are allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// All.
    Any,
    /// Those that one of these stands for.
    Only(Vec<AddressPattern>),
}

/// An address, or all of a domain: `ops@example.org`, `@example.org`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressPattern {
    /// This one.
    Address(String),
    /// All of this domain, and of none below it.
    Domain(String),
}

/// What stands for no addresses.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{0:?} stands for no address: it must be like ops@example.org, or @example.org for all of a domain"
)]
pub struct MalformedPattern(String);

/// A mail server.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SmtpServer {
    /// A name, or a number; that of IPv6 without brackets.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

/// What is no mail server.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{text:?} is no mail server, {why}: it must be HOST:PORT, a host of IPv6 in brackets")]
pub struct MalformedServer {
    text: String,
    why: &'static str,
}

impl Addresses {
    /// Whether this one is allowed. Domains are compared without regard to case, and so is what stands before: no server that
    /// tells `Ops` from `ops` is known.
    pub(super) fn allow(&self, address: &Address) -> bool {
        match self {
            Addresses::Any => true,
            Addresses::Only(patterns) => patterns.iter().any(|pattern| match pattern {
                AddressPattern::Address(text) => text.eq_ignore_ascii_case(address.as_ref()),
                AddressPattern::Domain(domain) => domain.eq_ignore_ascii_case(address.domain()),
            }),
        }
    }
}

impl FromStr for AddressPattern {
    type Err = MalformedPattern;

    fn from_str(text: &str) -> Result<AddressPattern, MalformedPattern> {
        let malformed = || MalformedPattern(text.to_owned());
        match text.strip_prefix('@') {
            // What is no domain is no address with a user before it.
            Some(domain) => match Address::new("user", domain) {
                Ok(_) => Ok(AddressPattern::Domain(domain.to_owned())),
                Err(_) => Err(malformed()),
            },
            None => match text.parse::<Address>() {
                Ok(_) => Ok(AddressPattern::Address(text.to_owned())),
                Err(_) => Err(malformed()),
            },
        }
    }
}

impl fmt::Display for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressPattern::Address(address) => f.write_str(address),
            AddressPattern::Domain(domain) => write!(f, "@{domain}"),
        }
    }
}

impl FromStr for SmtpServer {
    type Err = MalformedServer;

    fn from_str(text: &str) -> Result<SmtpServer, MalformedServer> {
        let peer: HostPort = text.parse().map_err(|why| MalformedServer {
            text: text.to_owned(),
            why,
        })?;
        Ok(SmtpServer {
            host: peer.host,
            port: peer.port,
        })
    }
}

impl fmt::Display for SmtpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HostPort {
            host: self.host.clone(),
            port: self.port,
        }
        .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_exact_address_or_domain_only() {
        let allowed = Addresses::Only(vec![
            "ops@example.org".parse().unwrap(),
            "@Site.example".parse().unwrap(),
        ]);
        let allow = |text: &str| allowed.allow(&text.parse().unwrap());
        assert!(
            allow("ops@example.org") && allow("OPS@EXAMPLE.org") && allow("anybody@site.EXAMPLE")
        );
        assert!(
            !allow("root@example.org")
                && !allow("a@sub.site.example")
                && !allow("a@notsite.example")
        );
        assert!(!allow("ops@example.org.evil.test"));
        for text in [
            "",
            "@",
            "ops",
            "*@example.org@",
            "a@b@c",
            "@exa mple.org",
            "@a\nb",
        ] {
            assert_eq!(
                text.parse::<AddressPattern>(),
                Err(MalformedPattern(text.to_owned()))
            );
        }
    }

    #[test]
    fn servers_are_read_and_written() {
        for text in ["mail.example.org:587", "[::1]:25"] {
            assert_eq!(text.parse::<SmtpServer>().unwrap().to_string(), text);
        }
        let error = "mail.example.org"
            .parse::<SmtpServer>()
            .unwrap_err()
            .to_string();
        let wanted = "\"mail.example.org\" is no mail server, it has no port: it must be HOST:PORT, a host of IPv6 in brackets";
        assert_eq!(error, wanted);
    }
}
