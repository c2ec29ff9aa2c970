//! The requests of a connection that await their answer.
use crate::connection::ConnectionError;
use peal_model::CommandCode;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// By tag. An answer can only be packed by knowing what was asked, and one that nobody asked for is never sent.
pub(crate) struct OpenRequests {
    commands: Mutex<BTreeMap<u32, CommandCode>>,
    max: usize,
}

impl OpenRequests {
    /// So many at once at most.
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
            Some(_) => Err(ConnectionError::TagInUse(tag)),
        }
    }

    /// What was asked under this tag, if nothing else is open.
    pub(crate) fn only(&self, tag: u32) -> Option<CommandCode> {
        let commands = self.commands();
        commands.get(&tag).copied().filter(|_| commands.len() == 1)
    }

    pub(crate) fn close(&self, tag: u32) -> Option<CommandCode> {
        self.commands().remove(&tag)
    }

    fn commands(&self) -> MutexGuard<'_, BTreeMap<u32, CommandCode>> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
