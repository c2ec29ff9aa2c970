//! Server of a call, as errors name it.
use peal_wire::{Release, ServerUri};
use std::fmt;

/// Server that a client is connected to.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerInfo {
    /// Name and address.
    pub uri: ServerUri,
    /// Release, if the server stated it.
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
