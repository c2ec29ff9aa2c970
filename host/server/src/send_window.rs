//! How much a client is sent before it has read what came before.
//!
//! `libpmix` misreads its stream if a frame's header arrives in two pieces (ARCHITECTURE, "Decisions worth knowing"). That
//! happens when a receiver is so far behind that its window ends inside of a frame. So no more than its window certainly
//! holds is on the way at any time: then every bunch of frames arrives whole.
use crate::identity::{unread, untaken};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{net::TcpStream, task::yield_now, time::sleep};

/// How often a client is looked at again that has not read, before others are let run for longer than a turn.
const GLANCES: u32 = 4;

/// The least and the longest time between two looks at a client that does not read.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(500);

/// The pace of one client.
pub(crate) struct SendWindow {
    /// The client's end and ours, as far as they are known.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// What was sent since the client was last seen to have read everything, in bytes.
    sent: AtomicUsize,
}

impl SendWindow {
    /// How much may be on the way, in bytes: half of the window that Linux gives a new connection.
    pub(crate) const AT_ONCE: usize = 32 * 1024;

    /// That of a client that has read everything.
    pub(crate) fn of(stream: &TcpStream) -> SendWindow {
        SendWindow {
            ends: stream.peer_addr().ok().zip(stream.local_addr().ok()),
            sent: AtomicUsize::new(0),
        }
    }

    /// Waits until so many bytes may be sent: at once as long as they are few, else when the client has read all before them.
    pub(crate) async fn room(&self, bytes: usize) {
        if !self.room_at_once(bytes) {
            // Of what was longer than the window some may lie with us yet; all else has left when it was written.
            let ends = if self.sent() > SendWindow::AT_ONCE {
                Ends::Both
            } else {
                Ends::Far
            };
            self.read_up(ends).await;
            self.sent.store(bytes, Ordering::Relaxed);
        }
    }

    /// Whether so many bytes may be sent at once; then they are taken to be on their way.
    pub(crate) fn room_at_once(&self, bytes: usize) -> bool {
        let sent = self.sent().saturating_add(bytes);
        let is_room = sent <= SendWindow::AT_ONCE;
        if is_room {
            self.sent.store(sent, Ordering::Relaxed);
        }
        is_room
    }

    /// Only one writes to a client at a time, so that nothing changes it meanwhile.
    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Waits until the client has read everything; where the kernel does not say, not at all.
    async fn read_up(&self, ends: Ends) {
        let Some((far, near)) = self.ends else { return };
        let is_some = |bytes: std::io::Result<Option<u32>>| {
            bytes.is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes > 0))
        };
        let has_unread =
            || is_some(unread(far, near)) || (ends == Ends::Both && is_some(untaken(far, near)));
        let (mut glances, mut pause) = (0, SHORTEST);
        while has_unread() {
            if glances < GLANCES {
                glances += 1;
                yield_now().await;
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

/// Where bytes may lie that the client has not read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// At its end.
    Far,
    /// At its end and at ours.
    Both,
}
