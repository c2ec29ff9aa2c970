//! Values that requesters may choose: patterns of addresses, and servers.
use crate::syslog::HostPort;
use lettre::Address;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Allowed addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// All addresses.
    Any,
    /// Addresses that match one of these patterns.
    Only(Vec<AddressPattern>),
}

/// Pattern of an address or of all addresses of a domain: `ops@example.org`, `@example.org`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressPattern {
    /// One address.
    Address(String),
    /// All addresses of this domain, not of its subdomains.
    Domain(String),
}

/// Error of parsing a pattern.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{0:?} should be an address like ops@example.org, or @example.org for all addresses of a domain"
)]
pub struct MalformedPattern(String);

/// A mail server.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SmtpServer {
    /// A name or an IP address; IPv6 without brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// Error of parsing a mail server.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{text:?} should be a mail server, HOST:PORT with IPv6 addresses in brackets: {reason}")]
pub struct MalformedServer {
    text: String,
    reason: &'static str,
}

impl Addresses {
    /// Returns true if the address is allowed. Domains and users are compared without case: no
    /// server is known that distinguishes `Ops` from `ops`.
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
            // A domain is valid if an address with a user before it is.
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
        let peer: HostPort = text.parse().map_err(|reason| MalformedServer {
            text: text.to_owned(),
            reason,
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
        let wanted = "\"mail.example.org\" should be a mail server, HOST:PORT with IPv6 addresses in brackets: the port is missing";
        assert_eq!(error, wanted);
    }
}
