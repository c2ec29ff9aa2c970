//! Rendezvous of a client with its server: the server's URI, and the environment variables of a
//! client.
use crate::{Quoted, WireError};
use peal_model::{Nspace, Proc, Rank};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// Environment variables by which a process learns that it is a client.
pub mod variable {
    /// Namespace of the client.
    pub const NAMESPACE: &str = "PMIX_NAMESPACE";
    /// Rank of the client, in decimal.
    pub const RANK: &str = "PMIX_RANK";
    /// URI of the server for encoding `v41`, which every release from 4.1 on reads.
    pub const SERVER_URI: &str = "PMIX_SERVER_URI41";
    /// Older names of the same variable, for programs that test whether they are set.
    pub const OLDER_SERVER_URIS: [&str; 4] = [
        "PMIX_SERVER_URI4",
        "PMIX_SERVER_URI3",
        "PMIX_SERVER_URI21",
        "PMIX_SERVER_URI2",
    ];
    /// Security modules that the server allows, separated by commas.
    pub const SECURITY_MODE: &str = "PMIX_SECURITY_MODE";
    /// Buffer type, as [`crate::BufferType::name`].
    pub const BUFFER_TYPE: &str = "PMIX_BFROP_BUFFER_TYPE";
    /// Data stores of the server, separated by commas, best first.
    pub const GDS_MODULE: &str = "PMIX_GDS_MODULE";
    /// Directory for files of the session.
    pub const SERVER_TMPDIR: &str = "PMIX_SERVER_TMPDIR";
    /// Directory for files of the system.
    pub const SYSTEM_TMPDIR: &str = "PMIX_SYSTEM_TMPDIR";
    /// Host name that both sides use.
    pub const HOSTNAME: &str = "PMIX_HOSTNAME";
    /// Release of the server.
    pub const VERSION: &str = "PMIX_VERSION";
}

/// Data store in which all data are sent in messages, the only one that Peal supports.
pub const GDS_HASH: &str = "hash";

/// Name and address of a server: `NSPACE.RANK;tcp4://ADDRESS:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUri {
    /// Proc of the server.
    pub proc: Proc,
    /// Address on which it listens.
    pub addr: SocketAddr,
}

impl fmt::Display for ServerUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.addr.is_ipv4() { "tcp4" } else { "tcp6" };
        write!(
            f,
            "{}.{};{scheme}://{}",
            self.proc.nspace, self.proc.rank.0, self.addr
        )
    }
}

impl FromStr for ServerUri {
    type Err = WireError;

    fn from_str(text: &str) -> Result<ServerUri, WireError> {
        let wrong = |reason| WireError::Uri {
            text: Quoted::new(text),
            reason,
        };
        let (name, place) = text
            .split_once(';')
            .ok_or_else(|| wrong("no semicolon after the server's name"))?;
        // The namespace may contain dots, the rank cannot.
        let (nspace, rank) = name
            .rsplit_once('.')
            .ok_or_else(|| wrong("no rank in the server's name"))?;
        let rank = rank
            .parse()
            .map_err(|_| wrong("the rank is not a number"))?;
        let (scheme, addr) = place.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        // An IPv6 address has colons of its own, so the last one precedes the port.
        let (ip, port) = addr.rsplit_once(':').ok_or_else(|| wrong("no port"))?;
        // Servers write IPv6 addresses with and without square brackets.
        let bare = ip
            .strip_prefix('[')
            .and_then(|ip| ip.strip_suffix(']'))
            .unwrap_or(ip);
        let ip: IpAddr = bare
            .parse()
            .map_err(|_| wrong("the address is not numeric"))?;
        let port = port
            .parse()
            .map_err(|_| wrong("the port is not a number below 65536"))?;
        match (scheme, ip) {
            ("tcp4", IpAddr::V4(_)) | ("tcp6", IpAddr::V6(_)) => {}
            _ => {
                return Err(wrong(
                    "the scheme is not tcp4 with an IPv4 or tcp6 with an IPv6 address",
                ));
            }
        }
        Ok(ServerUri {
            proc: Proc::new(Nspace::new(nspace)?, Rank(rank)),
            addr: SocketAddr::new(ip, port),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_and_written() {
        for text in [
            "labserver.0;tcp4://127.0.0.1:58089",
            "a.b.c.7;tcp6://[::1]:1",
        ] {
            assert_eq!(text.parse::<ServerUri>().unwrap().to_string(), text);
        }
        let bare: ServerUri = "s.0;tcp6://fe80::1:99".parse().unwrap();
        assert_eq!(bare.addr, "[fe80::1]:99".parse().unwrap());
    }

    #[test]
    fn invalid_parts_are_named() {
        for (text, reason) in [
            ("labserver.0", "no semicolon after the server's name"),
            (
                "labserver;tcp4://127.0.0.1:1",
                "no rank in the server's name",
            ),
            ("labserver.x;tcp4://127.0.0.1:1", "the rank is not a number"),
            ("labserver.0;127.0.0.1:1", "no scheme"),
            (
                "labserver.0;tcp4://localhost:1",
                "the address is not numeric",
            ),
            (
                "labserver.0;tcp4://127.0.0.1:70000",
                "the port is not a number below 65536",
            ),
            (
                "labserver.0;tcp6://127.0.0.1:1",
                "the scheme is not tcp4 with an IPv4 or tcp6 with an IPv6 address",
            ),
        ] {
            let wrong = WireError::Uri {
                text: Quoted::new(text),
                reason,
            };
            assert_eq!(text.parse::<ServerUri>(), Err(wrong));
        }
    }
}
