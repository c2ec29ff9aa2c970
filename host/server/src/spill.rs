//! Thread that keeps on disk the retained events for which memory has no space. It executes
//! commands in order, so an event is written before it can be recalled.
use crate::handle::{ActorMessage, ServerHandle};
use peal_core::server::{PeerId, Seq};
use peal_model::{Event, Size};
use peal_store::{Spill, SpillParts};
use peal_wire::{BufferType, Codec, DecodeLimits, Dialect, Encoding, Release};
use std::{
    cell::Cell,
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
};
use tokio::sync::watch;

/// Bytes that may wait to be written before no new requests are read of users with more than their
/// part of them.
const MAX_BACKLOG_BYTES: usize = 8 << 20;

/// Part of these bytes for one user.
const MAX_USER_BACKLOG_BYTES: usize = 1 << 20;

/// Bytes that may wait to be written before no new requests are read at all.
const MAX_TOTAL_BACKLOG_BYTES: usize = 64 << 20;

/// Release of `libpmix` whose format is used on disk. A process that continues the server reads the files: a
/// change of this is a change of the form of the state.
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
        uid: Option<u32>,
    },
    Forget {
        first: Seq,
        last: Seq,
    },
    Recall {
        peer: PeerId,
        events: Vec<Seq>,
    },
    /// Returns the spill for another process.
    HandOver(mpsc::Sender<io::Result<SpillParts>>),
}

/// Handle of the thread, which ends when this is dropped.
pub(crate) struct Spiller {
    settings: SpillSettings,
    limits: DecodeLimits,
    handle: ServerHandle,
    /// Queue of the thread, `None` until the first event is spilled.
    commands: Option<mpsc::Sender<SpillCommand>>,
    backlog: watch::Sender<BacklogBytes>,
    /// Recalls whose events have not come back.
    open_recalls: usize,
    /// Spill of another process of the server, until the thread has it.
    continued: Cell<Option<SpillParts>>,
}

/// Bytes that wait to be written, in total and of each user.
#[derive(Debug, Default)]
struct BacklogBytes {
    total: usize,
    users: BTreeMap<u32, usize>,
}

impl BacklogBytes {
    fn add(&mut self, uid: Option<u32>, bytes: usize) {
        self.total = self.total.saturating_add(bytes);
        if let Some(uid) = uid {
            *self.users.entry(uid).or_default() += bytes;
        }
    }

    fn subtract(&mut self, uid: Option<u32>, bytes: usize) {
        self.total = self.total.saturating_sub(bytes);
        let Some(uid) = uid else { return };
        if let Some(own) = self.users.get_mut(&uid) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.users.remove(&uid);
            }
        }
    }

    /// Returns true if requests of a user should wait. Without a user, these are messages of the
    /// host environment and other servers.
    fn is_long(&self, uid: Option<u32>) -> bool {
        let own = || uid.and_then(|uid| self.users.get(&uid));
        self.total > MAX_BACKLOG_BYTES
            && (self.total > MAX_TOTAL_BACKLOG_BYTES
                || own().is_some_and(|own| *own > MAX_USER_BACKLOG_BYTES))
    }
}

/// View of the bytes that wait to be written to disk.
pub(crate) struct SpillBacklog(watch::Receiver<BacklogBytes>);

impl SpillBacklog {
    /// Returns true if too many bytes wait for requests of this user. Called after every message.
    pub(crate) fn is_long(&self, uid: Option<u32>) -> bool {
        self.0.borrow().is_long(uid)
    }

    /// Waits until requests of this user may cause further events.
    pub(crate) async fn wait_for_capacity(&self, uid: Option<u32>) {
        if self.is_long(uid) {
            // Ignore an error: the sender is dropped only with the server.
            let _ = self
                .0
                .clone()
                .wait_for(|backlog| !backlog.is_long(uid))
                .await;
        }
    }
}

impl Spiller {
    pub(crate) fn new(
        settings: SpillSettings,
        limits: DecodeLimits,
        handle: ServerHandle,
        continued: Option<SpillParts>,
    ) -> Spiller {
        Spiller {
            settings,
            limits,
            handle,
            commands: None,
            backlog: watch::Sender::new(BacklogBytes::default()),
            open_recalls: 0,
            continued: Cell::new(continued),
        }
    }

    /// Returns the spill for another process, if there is one. Blocks until the thread has written everything.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses further descriptors.
    pub(crate) fn parts(&mut self) -> io::Result<Option<SpillParts>> {
        if self.commands.is_none() && self.continued.get_mut().is_none() {
            return Ok(None);
        }
        let (reply, parts) = mpsc::channel();
        self.command(SpillCommand::HandOver(reply));
        // Without a thread all spilled events are lost.
        parts.recv().ok().transpose()
    }

    /// Queues an event for writing, which is charged to a user.
    pub(crate) fn write(&mut self, at: Seq, event: Arc<Event>, uid: Option<u32>) {
        let bytes = Size::of_event(&event).bytes;
        self.backlog.send_modify(|backlog| backlog.add(uid, bytes));
        self.command(SpillCommand::Write {
            at,
            event,
            bytes,
            uid,
        });
    }

    /// Removes the events written under these numbers.
    pub(crate) fn forget(&mut self, first: Seq, last: Seq) {
        self.command(SpillCommand::Forget { first, last });
    }

    /// Reads events. They come back as [`ActorMessage::Recalled`].
    pub(crate) fn recall(&mut self, peer: PeerId, events: Vec<Seq>) {
        self.open_recalls += 1;
        self.command(SpillCommand::Recall { peer, events });
    }

    /// Notes that the events of a recall have come back.
    pub(crate) fn recalled(&mut self) {
        self.open_recalls = self.open_recalls.saturating_sub(1);
    }

    /// Returns a view of the bytes that wait to be written.
    pub(crate) fn backlog(&self) -> SpillBacklog {
        SpillBacklog(self.backlog.subscribe())
    }

    /// Returns true if events wait to be written or read.
    pub(crate) fn is_busy(&self) -> bool {
        self.open_recalls > 0 || self.backlog.borrow().total > 0
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
            SpillCommand::Write { bytes, uid, .. } => self
                .backlog
                .send_modify(|backlog| backlog.subtract(uid, bytes)),
            SpillCommand::Forget { .. } | SpillCommand::HandOver(_) => {}
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
        let SpillSettings { dir, max_bytes } = &self.settings;
        let spill = match self.continued.take() {
            Some(parts) => Spill::continued(dir, *max_bytes, parts),
            None => Spill::new(dir, *max_bytes),
        };
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
    backlog: watch::Sender<BacklogBytes>,
    last_write: LastWrite,
}

impl SpillThread {
    fn run(mut self, commands: &mpsc::Receiver<SpillCommand>) {
        for command in commands {
            match command {
                SpillCommand::Write {
                    at,
                    event,
                    bytes,
                    uid,
                } => {
                    self.write(at, &event);
                    // After a failure, too: connections wait until the backlog is short.
                    self.backlog
                        .send_modify(|backlog| backlog.subtract(uid, bytes));
                }
                SpillCommand::Forget { first, last } => self.spill.forget(first.0, last.0),
                SpillCommand::HandOver(reply) => {
                    // The caller waits.
                    let _ = reply.send(self.spill.parts());
                }
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
    use crate::{
        handle::{ActorInbox, Queues, queues},
        server_inbox::InboxLimits,
    };
    use peal_model::{Range, code};

    #[test]
    fn backlog_of_one_user_pauses_that_user_alone() {
        let mut backlog = BacklogBytes::default();
        let paused = |backlog: &BacklogBytes| {
            [Some(1), Some(2), Some(3), None].map(|uid| backlog.is_long(uid))
        };
        backlog.add(Some(2), MAX_USER_BACKLOG_BYTES);
        backlog.add(Some(1), MAX_BACKLOG_BYTES - MAX_USER_BACKLOG_BYTES);
        assert_eq!(paused(&backlog), [false; 4], "the disk keeps up");
        backlog.add(Some(1), 1);
        assert_eq!(paused(&backlog), [true, false, false, false]);
        backlog.add(None, MAX_TOTAL_BACKLOG_BYTES);
        assert_eq!(paused(&backlog), [true; 4]);
        backlog.subtract(None, MAX_TOTAL_BACKLOG_BYTES);
        backlog.subtract(Some(1), 1);
        assert_eq!(paused(&backlog), [false; 4]);
        backlog.subtract(Some(1), MAX_BACKLOG_BYTES - MAX_USER_BACKLOG_BYTES);
        backlog.subtract(Some(2), MAX_USER_BACKLOG_BYTES);
        assert!(backlog.users.is_empty() && backlog.total == 0);
    }

    #[test]
    fn commands_after_end_of_thread_are_completed() {
        let (Queues { handle, .. }, ActorInbox { mut internal, .. }) =
            queues(InboxLimits::default());
        let mut spiller = Spiller::new(
            SpillSettings::default(),
            DecodeLimits::default(),
            handle,
            None,
        );
        let (commands, _) = mpsc::channel();
        spiller.commands = Some(commands);
        let event = Event {
            code: code::PMIX_ERR_PROC_ABORTED,
            source: None,
            range: Range::Rm,
            infos: Vec::new(),
        };
        spiller.write(Seq(1), Arc::new(event), Some(1000));
        assert_eq!(spiller.backlog.borrow().total, 0);
        assert!(spiller.backlog.borrow().users.is_empty());
        spiller.recall(PeerId(7), vec![Seq(1)]);
        let Ok(ActorMessage::Recalled { peer, events }) = internal.try_recv() else {
            panic!("the recall should be answered")
        };
        assert_eq!((peer, events), (PeerId(7), vec![(Seq(1), None)]));
    }
}
