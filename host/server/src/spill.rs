//! The thread that keeps on disk what the log of events has no room for in memory. It does what it is told in that order, so an
//! event that is recalled has been written.
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

/// How much may wait to be written, in bytes, before nothing new is taken on.
const BACKLOG: usize = 8 << 20;

/// In which form events are written; it never leaves this process.
const FORM: &str = "5.0.11";

/// Where and how much is spilled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpillSettings {
    /// The directory of the files, which have no names.
    pub dir: PathBuf,
    /// How much disk they may take, in bytes.
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

/// What tells the thread; it ends when this is dropped.
pub(crate) struct Spiller {
    settings: SpillSettings,
    limits: DecodeLimits,
    handle: ServerHandle,
    /// None until something was spilled.
    orders: Option<mpsc::Sender<SpillCommand>>,
    backlog: watch::Sender<usize>,
}

/// What waits for the disk.
pub(crate) struct SpillBacklog(watch::Receiver<usize>);

impl SpillBacklog {
    /// Whether the disk has not come so far that more may be spilled. Asked after every message.
    pub(crate) fn is_long(&self) -> bool {
        *self.0.borrow() > BACKLOG
    }

    /// Waits until the disk has come so far that more may be spilled.
    pub(crate) async fn breathe(&self) {
        if self.is_long() {
            // Who writes is gone only with the server.
            let _ = self.0.clone().wait_for(|backlog| *backlog <= BACKLOG).await;
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
            orders: None,
            backlog: watch::Sender::new(0),
        }
    }

    /// Has an event written.
    pub(crate) fn write(&mut self, at: Seq, event: Arc<Event>) {
        let bytes = Size::of_event(&event).bytes;
        self.backlog
            .send_modify(|backlog| *backlog = backlog.saturating_add(bytes));
        self.tell(SpillCommand::Write { at, event, bytes });
    }

    /// Has what was written under these numbers forgotten.
    pub(crate) fn forget(&mut self, first: Seq, last: Seq) {
        self.tell(SpillCommand::Forget { first, last });
    }

    /// Has events read; they come back as [`ActorMessage::Recalled`].
    pub(crate) fn recall(&mut self, peer: PeerId, events: Vec<Seq>) {
        self.tell(SpillCommand::Recall { peer, events });
    }

    /// How much waits to be written.
    pub(crate) fn backlog(&self) -> SpillBacklog {
        SpillBacklog(self.backlog.subscribe())
    }

    fn tell(&mut self, order: SpillCommand) {
        let orders = match self.orders.take() {
            Some(orders) => Some(orders),
            None => self.start(),
        };
        // Without a thread what is recalled cannot be had: the log says that it is lost.
        match &orders {
            Some(orders) => drop(orders.send(order)),
            None => self.undone(order),
        }
        self.orders = orders;
    }

    fn undone(&self, order: SpillCommand) {
        match order {
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
        let codec = match FORM.parse::<Release>() {
            Ok(release) => Codec {
                dialect: Dialect::new(release.version(), Encoding::V41),
                buffer_type: BufferType::NonDescribed,
                limits: self.limits,
            },
            Err(error) => {
                tracing::error!(%error, "events cannot be spilled");
                return None;
            }
        };
        let (orders, inbox) = mpsc::channel();
        let spill = Spill::new(&self.settings.dir, self.settings.max_bytes);
        let work = Work {
            spill,
            codec,
            handle: self.handle.clone(),
            backlog: self.backlog.clone(),
            fails: Fails::No,
        };
        match thread::Builder::new()
            .name("peal-spill".into())
            .spawn(move || work.run(&inbox))
        {
            Ok(_) => Some(orders),
            Err(error) => {
                tracing::error!(%error, "events cannot be spilled: there is no thread for that");
                None
            }
        }
    }
}

/// Whether the last write failed: of a row of failures the first is traced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    No,
    Yes,
}

struct Work {
    spill: Spill,
    codec: Codec,
    handle: ServerHandle,
    backlog: watch::Sender<usize>,
    fails: Fails,
}

impl Work {
    fn run(mut self, orders: &mpsc::Receiver<SpillCommand>) {
        for order in orders {
            match order {
                SpillCommand::Write { at, event, bytes } => {
                    self.write(at, &event);
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
            Ok(()) => self.fails = Fails::No,
            Err(error) if self.fails == Fails::No => {
                self.fails = Fails::Yes;
                tracing::error!(
                    error,
                    "an event cannot be spilled: those who register late will miss it, and perhaps more"
                );
            }
            Err(_) => {}
        }
    }

    fn read(&self, at: Seq) -> Option<Event> {
        let bytes = self
            .spill
            .read(at.0)
            .inspect_err(|error| tracing::error!(%error, "a spilled event is lost"));
        let event = self.codec.decode_event(&bytes.ok()??);
        event
            .inspect_err(|error| tracing::error!(%error, "a spilled event cannot be read"))
            .ok()
    }
}
