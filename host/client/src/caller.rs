//! Wait of a caller on its own thread. While it waits, it reads from the connection in place of the
//! connection's task.
use crate::{
    inbound::{Inbound, TurnProgress},
    lock,
};
use std::{
    cell::Cell,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};
use tokio::runtime::Handle;

/// Place where the caller of a request waits for its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallerWait {
    /// Its own thread, by [`wait`].
    OnItsThread,
    /// A task.
    InTask,
}

thread_local! {
    /// Place of the caller that is polled on this thread.
    static POLLED: Cell<CallerWait> = const { Cell::new(CallerWait::InTask) };
}

impl CallerWait {
    /// Returns the place of the caller that runs.
    pub(crate) fn current() -> CallerWait {
        POLLED.get()
    }
}

/// Mark that this thread polls its own call.
struct OwnPoll;

impl OwnPoll {
    fn begin() -> OwnPoll {
        POLLED.set(CallerWait::OnItsThread);
        OwnPoll
    }
}

impl Drop for OwnPoll {
    fn drop(&mut self) {
        POLLED.set(CallerWait::InTask);
    }
}

/// Waker of a caller.
struct WaitingCaller {
    thread: Thread,
    is_woken: AtomicBool,
    /// Connection that the caller reads from.
    reads: Mutex<Option<Arc<Inbound>>>,
}

impl WaitingCaller {
    fn take_wake(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }

    fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::SeqCst)
    }
}

impl Wake for WaitingCaller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        // A caller that has read its own reply does not wait.
        if thread::current().id() == self.thread.id() {
            return;
        }
        // The flag is set first: a caller that begins to read afterwards sees it.
        match &*lock(&self.reads) {
            Some(inbound) => inbound.interrupt_caller(),
            None => self.thread.unpark(),
        }
    }
}

/// Waits for a call, which may use this runtime. The caller reads from `inbound` unless another one
/// does.
pub(crate) fn wait<T>(
    runtime: &Handle,
    inbound: Option<Arc<Inbound>>,
    call: impl Future<Output = T>,
) -> T {
    let _context = runtime.enter();
    let caller = Arc::new(WaitingCaller {
        thread: thread::current(),
        is_woken: AtomicBool::new(false),
        reads: Mutex::default(),
    });
    let waker = Waker::from(caller.clone());
    let mut call = pin!(call);
    let mut poll = || {
        let _own = OwnPoll::begin();
        call.as_mut().poll(&mut Context::from_waker(&waker))
    };
    let mut polled = poll();
    let inbound = inbound.filter(|_| polled.is_pending());
    let mut turn = inbound.as_ref().and_then(|inbound| inbound.caller_turn());
    if turn.is_some() {
        *lock(&caller.reads) = inbound.clone();
    }
    loop {
        match polled {
            Poll::Ready(output) => {
                *lock(&caller.reads) = None;
                return output;
            }
            Poll::Pending if caller.take_wake() => polled = poll(),
            Poll::Pending => match &mut turn {
                Some(reading) => {
                    if reading.read() == TurnProgress::Over {
                        // The rest of the wait is left to the task.
                        *lock(&caller.reads) = None;
                        turn = None;
                    }
                }
                None if caller.is_woken() => {}
                None => thread::park(),
            },
        }
    }
}
