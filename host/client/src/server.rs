//! Which server it is that a call waits for, as it introduced itself.
use peal_wire::{Release, ServerUri};
use std::fmt;

/// A server that a client is connected to.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerInfo {
    /// Its name and address.
    pub uri: ServerUri,
    /// Its release, if it has said so.
    pub release: Option<Release>,
}

impl fmt::Display for ServerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uri)?;
        match &self.release {
            Some(release) => write!(f, " (release {})", release.as_str()),
            None => Ok(()),
        }
    }
}
