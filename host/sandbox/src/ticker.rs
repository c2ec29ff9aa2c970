//! Thread that advances the epoch of an engine while guests run. An idle engine wakes no thread.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

/// Number of ticks without a running guest after which the thread waits for the next call. Waking it
/// takes longer than a short call, so that it does not wait after each of them.
const QUIET_TICKS: u32 = 200;

/// Ticker of an engine, shared by all that call guests. Its thread ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Ticker(Arc<TickerHandle>);

#[derive(Debug)]
struct TickerHandle {
    state: Arc<TickerState>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct TickerState {
    /// Number of calls that run.
    running: AtomicUsize,
    /// True while the thread waits for a call.
    is_waiting: AtomicBool,
    is_closed: AtomicBool,
}

/// Call of a guest, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningCall<'a>(&'a TickerState);

impl Ticker {
    /// Starts the thread, which calls `advance` at each tick. Late ticks are not made up for.
    pub(crate) fn start(tick: Duration, advance: impl Fn() + Send + 'static) -> io::Result<Ticker> {
        let state = Arc::new(TickerState::default());
        let of_thread = state.clone();
        let thread = thread::Builder::new()
            .name("peal-epoch".into())
            .spawn(move || run(&of_thread, tick, advance))?;
        let thread = thread.thread().clone();
        Ok(Ticker(Arc::new(TickerHandle { state, thread })))
    }

    /// Has the thread tick until the call ends.
    pub(crate) fn begin(&self) -> RunningCall<'_> {
        let TickerHandle { state, thread } = &*self.0;
        // In one order with the thread's stores and loads: it sees this call, or this sees it wait.
        state.running.fetch_add(1, Ordering::SeqCst);
        if state.is_waiting.load(Ordering::SeqCst) && state.is_waiting.swap(false, Ordering::SeqCst)
        {
            thread.unpark();
        }
        RunningCall(state)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for TickerHandle {
    fn drop(&mut self) {
        self.state.is_closed.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn run(state: &TickerState, tick: Duration, advance: impl Fn()) {
    let mut quiet = 0;
    loop {
        thread::sleep(tick);
        if state.is_closed.load(Ordering::SeqCst) {
            return;
        }
        advance();
        let is_quiet = state.running.load(Ordering::SeqCst) == 0;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        if quiet >= QUIET_TICKS {
            quiet = 0;
            state.is_waiting.store(true, Ordering::SeqCst);
            while state.running.load(Ordering::SeqCst) == 0
                && state.is_waiting.load(Ordering::SeqCst)
                && !state.is_closed.load(Ordering::SeqCst)
            {
                thread::park();
            }
            state.is_waiting.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_micros(200);

    fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            thread::yield_now();
        }
    }

    #[test]
    fn idle_engine_has_no_ticks_and_calls_have_some() {
        let ticks = Arc::new(AtomicUsize::new(0));
        let counted = ticks.clone();
        let ticker = Ticker::start(TICK, move || {
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
        let state = ticker.0.state.clone();
        let count = || ticks.load(Ordering::SeqCst);
        for _ in 0..3 {
            until(|| state.is_waiting.load(Ordering::SeqCst));
            let idle = count();
            let call = ticker.begin();
            // More than it would have made without the call.
            let enough = idle + 2 * usize::try_from(QUIET_TICKS).unwrap();
            until(|| count() > enough);
            drop(call);
        }
        drop(ticker);
        until(|| Arc::strong_count(&state) == 1);
    }

    #[test]
    fn waiting_thread_ends_with_its_engine() {
        let ticker = Ticker::start(TICK, || {}).unwrap();
        let state = ticker.0.state.clone();
        until(|| state.is_waiting.load(Ordering::SeqCst));
        let other = ticker.clone();
        drop(ticker);
        assert!(!state.is_closed.load(Ordering::SeqCst));
        drop(other);
        until(|| Arc::strong_count(&state) == 1);
    }
}
