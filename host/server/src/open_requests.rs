//! Requests of a connection that await their answer.
use crate::connection::ConnectionError;
use peal_model::CommandCode;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Open requests of a connection, by tag. The command is needed to pack the answer. An answer
/// without a request is not sent.
pub(crate) struct OpenRequests {
    commands: Mutex<BTreeMap<u32, CommandCode>>,
    max: usize,
}

impl OpenRequests {
    /// Creates a table of at most `max` requests.
    pub(crate) fn new(max: usize) -> OpenRequests {
        OpenRequests {
            commands: Mutex::default(),
            max,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.commands().len() >= self.max
    }

    pub(crate) fn open(&self, tag: u32, command: CommandCode) -> Result<(), ConnectionError> {
        let mut commands = self.commands();
        if commands.len() >= self.max {
            return Err(ConnectionError::OpenRequests(self.max));
        }
        match commands.insert(tag, command) {
            None => Ok(()),
            // The connection is closed after this error, so the replaced entry is not needed.
            Some(_) => Err(ConnectionError::TagInUse(tag)),
        }
    }

    /// Returns the command of the request of this tag, if it is the only open one.
    pub(crate) fn only(&self, tag: u32) -> Option<CommandCode> {
        let commands = self.commands();
        commands.get(&tag).copied().filter(|_| commands.len() == 1)
    }

    pub(crate) fn close(&self, tag: u32) -> Option<CommandCode> {
        self.commands().remove(&tag)
    }

    fn commands(&self) -> MutexGuard<'_, BTreeMap<u32, CommandCode>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
