//! Requests of a connection that await their answer.
use crate::connection::ConnectionError;
use peal_model::CommandCode;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Open requests of a connection, by tag. The command is needed to pack the answer. An answer
/// without a request is not sent.
pub(crate) struct OpenRequests {
    commands: Mutex<OpenCommands>,
    max: usize,
}

/// Commands of the open requests. Most clients have at most one, and an idle client has none: then
/// there is no map, which would keep its memory when it is empty again.
#[derive(Default)]
struct OpenCommands {
    first: Option<OpenCommand>,
    /// The others, by tag.
    further: BTreeMap<u32, CommandCode>,
}

/// Open request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct OpenCommand {
    tag: u32,
    command: CommandCode,
}

impl OpenCommands {
    fn len(&self) -> usize {
        self.further.len() + usize::from(self.first.is_some())
    }

    /// Adds a request. Returns false if its tag is in use.
    fn insert(&mut self, tag: u32, command: CommandCode) -> bool {
        if self.get(tag).is_some() {
            return false;
        }
        if self.first.is_none() {
            self.first = Some(OpenCommand { tag, command });
        } else {
            self.further.insert(tag, command);
        }
        true
    }

    fn get(&self, tag: u32) -> Option<CommandCode> {
        match self.first.filter(|first| first.tag == tag) {
            Some(first) => Some(first.command),
            None => self.further.get(&tag).copied(),
        }
    }

    fn remove(&mut self, tag: u32) -> Option<CommandCode> {
        match self.first.take_if(|first| first.tag == tag) {
            Some(first) => Some(first.command),
            None => self.further.remove(&tag),
        }
    }
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

    /// Returns the number of open requests.
    pub(crate) fn len(&self) -> usize {
        self.commands().len()
    }

    pub(crate) fn open(&self, tag: u32, command: CommandCode) -> Result<(), ConnectionError> {
        let mut commands = self.commands();
        if commands.len() >= self.max {
            return Err(ConnectionError::OpenRequests(self.max));
        }
        if commands.insert(tag, command) {
            Ok(())
        } else {
            Err(ConnectionError::TagInUse(tag))
        }
    }

    /// Returns the command of the request of this tag, if it is the only open one.
    pub(crate) fn only(&self, tag: u32) -> Option<CommandCode> {
        let commands = self.commands();
        commands.get(tag).filter(|_| commands.len() == 1)
    }

    pub(crate) fn close(&self, tag: u32) -> Option<CommandCode> {
        self.commands().remove(tag)
    }

    /// Returns all open requests.
    pub(crate) fn list(&self) -> Vec<OpenCommand> {
        let commands = self.commands();
        let further = commands.further.iter();
        let further = further.map(|(&tag, &command)| OpenCommand { tag, command });
        commands.first.into_iter().chain(further).collect()
    }

    /// Adds the open requests of a connection that another process has served, whatever the limit.
    pub(crate) fn restore(&self, open: Vec<OpenCommand>) {
        let mut commands = self.commands();
        for OpenCommand { tag, command } in open {
            commands.insert(tag, command);
        }
    }

    fn commands(&self) -> MutexGuard<'_, OpenCommands> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CommandCode::{Fence, Get};

    #[test]
    fn requests_are_open_by_tag_in_any_order() {
        let open = OpenRequests::new(3);
        open.open(7, Fence).unwrap();
        assert_eq!((open.only(7), open.only(8)), (Some(Fence), None));
        open.open(8, Get).unwrap();
        assert_eq!((open.only(7), open.only(8)), (None, None));
        for tag in [7, 8] {
            let error = open.open(tag, Get).unwrap_err();
            assert!(matches!(error, ConnectionError::TagInUse(_)), "{tag}");
        }
        // The second one is the only one then.
        assert_eq!(open.close(7), Some(Fence));
        assert_eq!((open.only(8), open.close(7)), (Some(Get), None));
        assert!(open.open(8, Get).is_err());
        open.open(9, Fence).unwrap();
        assert!(!open.is_full());
        open.open(10, Fence).unwrap();
        let error = open.open(11, Get).unwrap_err();
        assert!(open.is_full() && matches!(error, ConnectionError::OpenRequests(3)));
        assert_eq!(
            [8, 9, 10].map(|tag| open.close(tag)),
            [Some(Get), Some(Fence), Some(Fence)]
        );
        assert_eq!(open.only(8), None);
    }
}
