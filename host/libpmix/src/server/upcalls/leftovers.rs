//! Rests of answered upcalls, for the progress thread: the arguments, and the call of the release function.
//! On that thread the function of the host environment has returned, and no lock of its callback is held.
use super::{super::lock, UpcallArguments};
use crate::{
    abi::CReleaseCallback,
    client::{operations::ProgramData, progress::call_program},
};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::{
    ffi::c_void,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Time after which the progress thread is woken for the rests, in nanoseconds. In a row of fences the
/// next upcall wakes it first: a switch to it for each answer would take longer than the answer.
const DELAY: i64 = 5_000_000;

/// Rest of an answered upcall.
#[derive(Debug)]
pub(super) struct Leftover {
    release: Option<ReleaseCall>,
    /// Dropped behind the release function.
    _arguments: UpcallArguments,
}

impl Leftover {
    pub(super) fn new(release: Option<ReleaseCall>, arguments: UpcallArguments) -> Leftover {
        Leftover {
            release,
            _arguments: arguments,
        }
    }
}

/// Release function of the host environment for what it has passed to a callback.
#[derive(Debug)]
pub(super) struct ReleaseCall {
    function: unsafe extern "C" fn(*mut c_void),
    data: ProgramData,
}

impl ReleaseCall {
    pub(super) fn new(function: CReleaseCallback, data: *mut c_void) -> Option<ReleaseCall> {
        Some(ReleaseCall {
            function: function?,
            data: ProgramData::new(data),
        })
    }
}

/// Rests that wait for the progress thread. At the end of the library they are freed without a call:
/// what the host environment would release is then its own.
#[derive(Debug)]
pub(in super::super) struct Leftovers {
    waiting: Mutex<Vec<Leftover>>,
    alarm: AsyncFd<OwnedFd>,
}

impl Leftovers {
    /// Makes a place for the rests of a server.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a descriptor.
    pub(in super::super) fn new() -> io::Result<Leftovers> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let alarm = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: the owned descriptor stays open and the same until the drop.
        let alarm = unsafe { AsyncFd::register_with_interest(alarm, Interest::READABLE) };
        Ok(Leftovers {
            waiting: Mutex::default(),
            alarm: alarm.map_err(|error| error.into_parts().1)?,
        })
    }

    /// Keeps a rest for the progress thread.
    pub(super) fn add(&self, leftover: Leftover) {
        let mut waiting = lock(&self.waiting);
        waiting.push(leftover);
        // The alarm is set already for those before it.
        if waiting.len() > 1 {
            return;
        }
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: 0,
                tv_nsec: DELAY,
            },
        };
        let flags = TimerfdTimerFlags::empty();
        if let Err(error) = timerfd_settime(self.alarm.get_ref(), flags, &once) {
            tracing::warn!(%error, "release of answers waits for the next upcall");
        }
    }

    /// Calls the release functions and frees the arguments. For the progress thread, outside of upcalls.
    pub(in super::super) fn drop_all(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for leftover in waiting {
            if let Some(ReleaseCall { function, data }) = leftover.release {
                // SAFETY: the program passed the function for this call, which comes once.
                call_program(|| unsafe { function(data.get()) });
            }
        }
    }

    /// Drops the rests for which no upcall comes.
    pub(in super::super) async fn drop_late(self: Arc<Leftovers>) {
        while let Ok(mut rung) = self.alarm.readable().await {
            // The alarm is readable until it is read or set again.
            let read = rung.try_io(|alarm| Ok(rustix::io::read(alarm.get_ref(), &mut [0; 8])?));
            if read.is_ok() {
                self.drop_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    unsafe extern "C" fn release(data: *mut c_void) {
        // SAFETY: the data are the sender of `rest`, which lives on.
        let sender = unsafe { &*data.cast::<UnboundedSender<()>>() };
        sender.send(()).unwrap();
    }

    /// Returns a rest whose release function sends to a channel.
    fn rest(sender: &UnboundedSender<()>) -> Leftover {
        let data = std::ptr::from_ref(sender).cast_mut().cast();
        Leftover::new(
            ReleaseCall::new(Some(release), data),
            UpcallArguments::default(),
        )
    }

    fn count(released: &mut UnboundedReceiver<()>) -> usize {
        std::iter::from_fn(|| released.try_recv().ok()).count()
    }

    #[tokio::test]
    async fn rests_are_released_at_the_next_upcall() {
        let (sender, mut released) = unbounded_channel();
        let leftovers = Leftovers::new().unwrap();
        leftovers.add(rest(&sender));
        leftovers.add(rest(&sender));
        assert_eq!(count(&mut released), 0);
        leftovers.drop_all();
        assert_eq!(count(&mut released), 2);
        leftovers.drop_all();
        assert_eq!(count(&mut released), 0);
    }

    #[tokio::test]
    async fn rests_are_released_without_an_upcall_too() {
        let (sender, mut released) = unbounded_channel();
        let leftovers = Arc::new(Leftovers::new().unwrap());
        let alarm = tokio::spawn(leftovers.clone().drop_late());
        for _ in 0..3 {
            leftovers.add(rest(&sender));
            released.recv().await.unwrap();
        }
        alarm.abort();
    }
}
