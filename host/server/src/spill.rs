//! Thread that keeps on disk the retained events for which memory has no space. It executes
//! commands in order, so an event is written before it can be recalled.
use crate::handle::{ActorMessage, ServerHandle};
use peal_core::server::{PeerId, Seq};
use peal_model::{Event, Size};
use peal_store::Spill;
use peal_wire::{BufferType, Codec, DecodeLimits, Dialect, Encoding, Release};
use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
};
use tokio::sync::watch;

/// Bytes that may wait to be written before no new requests are read.
const MAX_BACKLOG_BYTES: usize = 8 << 20;

/// Release of `libpmix` whose format is used on disk. No other process reads the files.
const FORMAT_RELEASE: &str = "5.0.11";

/// Directory and limit of spilled events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpillSettings {
    /// Directory of the files, which have no names.
    pub dir: PathBuf,
    /// Maximum disk space of the files, in bytes.
    pub max_bytes: u64,
}

impl Default for SpillSettings {
    fn default() -> Self {
        SpillSettings {
            dir: std::env::temp_dir(),
            max_bytes: 4 << 30,
        }
    }
}

enum SpillCommand {
    Write {
        at: Seq,
        event: Arc<Event>,
        bytes: usize,
    },
    Forget {
        first: Seq,
        last: Seq,
    },
    Recall {
        peer: PeerId,
        events: Vec<Seq>,
    },
}

/// Handle of the thread, which ends when this is dropped.
pub(crate) struct Spiller {
    settings: SpillSettings,
    limits: DecodeLimits,
    handle: ServerHandle,
    /// Queue of the thread, `None` until the first event is spilled.
    commands: Option<mpsc::Sender<SpillCommand>>,
    backlog: watch::Sender<usize>,
}

/// Bytes that wait to be written to disk.
pub(crate) struct SpillBacklog(watch::Receiver<usize>);

impl SpillBacklog {
    /// Returns true if too many bytes wait. Called after every message.
    pub(crate) fn is_long(&self) -> bool {
        *self.0.borrow() > MAX_BACKLOG_BYTES
    }

    /// Waits until further events may be spilled.
    pub(crate) async fn wait_for_capacity(&self) {
        if self.is_long() {
            // Ignore an error: the sender is dropped only with the server.
            let _ = self
                .0
                .clone()
                .wait_for(|backlog| *backlog <= MAX_BACKLOG_BYTES)
                .await;
        }
    }
}

impl Spiller {
    pub(crate) fn new(
        settings: SpillSettings,
        limits: DecodeLimits,
        handle: ServerHandle,
    ) -> Spiller {
        Spiller {
            settings,
            limits,
            handle,
            commands: None,
            backlog: watch::Sender::new(0),
        }
    }

    /// Queues an event for writing.
    pub(crate) fn write(&mut self, at: Seq, event: Arc<Event>) {
        let bytes = Size::of_event(&event).bytes;
        self.backlog
            .send_modify(|backlog| *backlog = backlog.saturating_add(bytes));
        self.command(SpillCommand::Write { at, event, bytes });
    }

    /// Removes the events written under these numbers.
    pub(crate) fn forget(&mut self, first: Seq, last: Seq) {
        self.command(SpillCommand::Forget { first, last });
    }

    /// Reads events. They come back as [`ActorMessage::Recalled`].
    pub(crate) fn recall(&mut self, peer: PeerId, events: Vec<Seq>) {
        self.command(SpillCommand::Recall { peer, events });
    }

    /// Returns a view of the bytes that wait to be written.
    pub(crate) fn backlog(&self) -> SpillBacklog {
        SpillBacklog(self.backlog.subscribe())
    }

    fn command(&mut self, command: SpillCommand) {
        let commands = match self.commands.take() {
            Some(commands) => Some(commands),
            None => self.start(),
        };
        let unsent = match &commands {
            Some(commands) => commands.send(command).err().map(|error| error.0),
            None => Some(command),
        };
        // Without a thread, recalled events are returned as lost.
        if let Some(command) = unsent {
            self.drop_command(command);
        }
        self.commands = commands;
    }

    /// Completes a command without the thread: the event is lost.
    fn drop_command(&self, command: SpillCommand) {
        match command {
            SpillCommand::Write { bytes, .. } => self
                .backlog
                .send_modify(|backlog| *backlog = backlog.saturating_sub(bytes)),
            SpillCommand::Forget { .. } => {}
            SpillCommand::Recall { peer, events } => {
                let events = events.into_iter().map(|at| (at, None)).collect();
                self.handle.send(ActorMessage::Recalled { peer, events });
            }
        }
    }

    fn start(&self) -> Option<mpsc::Sender<SpillCommand>> {
        let codec = match FORMAT_RELEASE.parse::<Release>() {
            Ok(release) => Codec {
                dialect: Dialect::new(release.version(), Encoding::V41),
                buffer_type: BufferType::NonDescribed,
                limits: self.limits,
            },
            Err(error) => {
                tracing::error!(%error, "spilling of events not started: unknown format");
                return None;
            }
        };
        let (commands, inbox) = mpsc::channel();
        let spill = Spill::new(&self.settings.dir, self.settings.max_bytes);
        let work = SpillThread {
            spill,
            codec,
            handle: self.handle.clone(),
            backlog: self.backlog.clone(),
            last_write: LastWrite::Succeeded,
        };
        match thread::Builder::new()
            .name("peal-spill".into())
            .spawn(move || work.run(&inbox))
        {
            Ok(_) => Some(commands),
            Err(error) => {
                tracing::error!(%error, "spilling of events not started: no thread");
                None
            }
        }
    }
}

/// Result of the last write. Of a series of failures, only the first is logged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastWrite {
    Succeeded,
    Failed,
}

struct SpillThread {
    spill: Spill,
    codec: Codec,
    handle: ServerHandle,
    backlog: watch::Sender<usize>,
    last_write: LastWrite,
}

impl SpillThread {
    fn run(mut self, commands: &mpsc::Receiver<SpillCommand>) {
        for command in commands {
            match command {
                SpillCommand::Write { at, event, bytes } => {
                    self.write(at, &event);
                    // After a failure, too: connections wait until the backlog is short.
                    self.backlog
                        .send_modify(|backlog| *backlog = backlog.saturating_sub(bytes));
                }
                SpillCommand::Forget { first, last } => self.spill.forget(first.0, last.0),
                SpillCommand::Recall { peer, events } => {
                    let events = events.into_iter().map(|at| (at, self.read(at))).collect();
                    self.handle.send(ActorMessage::Recalled { peer, events });
                }
            }
        }
    }

    fn write(&mut self, at: Seq, event: &Event) {
        let written = match self.codec.encode_event(event) {
            Ok(bytes) => self
                .spill
                .write(at.0, &bytes)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match written {
            Ok(()) => self.last_write = LastWrite::Succeeded,
            Err(error) if self.last_write == LastWrite::Succeeded => {
                self.last_write = LastWrite::Failed;
                tracing::error!(
                    error,
                    "event not spilled; late recipients miss this and possibly later events"
                );
            }
            Err(_) => {}
        }
    }

    fn read(&self, at: Seq) -> Option<Event> {
        let bytes = self
            .spill
            .read(at.0)
            .inspect_err(|error| tracing::error!(%error, "spilled event not read"));
        let event = self.codec.decode_event(&bytes.ok()??);
        event
            .inspect_err(|error| tracing::error!(%error, "spilled event not decoded"))
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{ActorInbox, Queues, queues};
    use peal_model::{Range, code};

    #[test]
    fn commands_after_end_of_thread_are_completed() {
        let (Queues { handle, .. }, ActorInbox { mut internal, .. }) = queues();
        let mut spiller = Spiller::new(SpillSettings::default(), DecodeLimits::default(), handle);
        let (commands, _) = mpsc::channel();
        spiller.commands = Some(commands);
        let event = Event {
            code: code::PMIX_ERR_PROC_ABORTED,
            source: None,
            range: Range::Rm,
            infos: Vec::new(),
        };
        spiller.write(Seq(1), Arc::new(event));
        assert_eq!(*spiller.backlog.borrow(), 0);
        spiller.recall(PeerId(7), vec![Seq(1)]);
        let Ok(ActorMessage::Recalled { peer, events }) = internal.try_recv() else {
            panic!("the recall should be answered")
        };
        assert_eq!((peer, events), (PeerId(7), vec![(Seq(1), None)]));
    }
}
