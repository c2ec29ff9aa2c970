//! Limit of the bytes that are sent to a client before it has read the previous ones.
//!
//! `libpmix` misreads its stream if a frame's header arrives in two pieces: it loses the part that
//! arrives in a first short read. That happens when a receiver is so far behind that its TCP window
//! ends inside a frame. At most the bytes that the window holds for certain are therefore in flight
//! at any time: every batch of frames then arrives whole.
use crate::identity::{unread, untaken};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tokio::{net::TcpStream, task::yield_now, time::sleep};

/// Number of checks of a client that has not read, with only a yield between them, before the task
/// sleeps.
const YIELDS: u32 = 4;

/// Least and longest pause between two checks of a client that does not read.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(500);

/// Send window of one client.
pub(crate) struct SendWindow {
    /// Addresses of the client and of the server, if they are known.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// Bytes sent since the client was last found to have read everything.
    sent: AtomicUsize,
}

impl SendWindow {
    /// Bytes that may be in flight: half of the window that Linux gives a new connection.
    pub(crate) const AT_ONCE: usize = 32 * 1024;

    /// Creates the window of a client that has read everything.
    pub(crate) fn of(stream: &TcpStream) -> SendWindow {
        SendWindow {
            ends: stream.peer_addr().ok().zip(stream.local_addr().ok()),
            sent: AtomicUsize::new(0),
        }
    }

    /// Waits until `bytes` may be sent: not at all while they fit into the window, and otherwise
    /// until the client has read everything before them.
    pub(crate) async fn room(&self, bytes: usize) {
        if !self.room_at_once(bytes) {
            // Part of a message longer than the window may still be in the server's send buffer.
            // Other bytes leave it as they are written.
            let ends = if self.sent() > SendWindow::AT_ONCE {
                Ends::Both
            } else {
                Ends::Far
            };
            self.read_up(ends).await;
            self.sent.store(bytes, Ordering::Relaxed);
        }
    }

    /// Returns true if `bytes` may be sent at once, and counts them as sent.
    pub(crate) fn room_at_once(&self, bytes: usize) -> bool {
        let sent = self.sent().saturating_add(bytes);
        let is_room = sent <= SendWindow::AT_ONCE;
        if is_room {
            self.sent.store(sent, Ordering::Relaxed);
        }
        is_room
    }

    /// Returns the number of sent bytes. It cannot change before the caller stores a new one,
    /// because only one task writes to a client at a time.
    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Waits until the client has read everything. Returns at once if the kernel does not report
    /// it.
    async fn read_up(&self, ends: Ends) {
        let Some((far, near)) = self.ends else { return };
        let is_some = |bytes: std::io::Result<Option<u32>>| {
            bytes.is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes > 0))
        };
        let has_unread =
            || is_some(unread(far, near)) || (ends == Ends::Both && is_some(untaken(far, near)));
        let mut yields = 0;
        let mut pause = SHORTEST;
        while has_unread() {
            // Yield first: a sleep would delay clients that read soon.
            if yields < YIELDS {
                yields += 1;
                yield_now().await;
            } else {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

/// Ends of the connection at which unread bytes may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The client's end.
    Far,
    /// The client's and the server's end.
    Both,
}
