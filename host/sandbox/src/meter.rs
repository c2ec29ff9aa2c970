//! Meter of a call: its time, its host calls and its output.
use crate::{CallUsage, LimitKind, LimitSet, ModuleLimits};
use peal_model::{IdentError, MixedArray};
use std::time::{Duration, Instant};
use thiserror::Error;
use wasmtime::UpdateDeadline;

/// Clock that measures the time of a call.
#[derive(Clone, Copy)]
pub(crate) enum CallClock {
    /// Elapsed time: ticks of the engine for the guest, and the time since an instant for host calls. The clock is not
    /// read where a call begins, since that takes some 30 ns, a tenth of a short call.
    Wall(Instant),
    /// Processor time of the guest thread, which does not depend on the load of the machine.
    Processor,
}

impl CallClock {
    fn now(self) -> Duration {
        match self {
            CallClock::Wall(since) => since.elapsed(),
            CallClock::Processor => {
                let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                let seconds = u64::try_from(used.tv_sec);
                let nanoseconds = u32::try_from(used.tv_nsec);
                Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default())
            }
        }
    }
}

/// Reason for which the host ended a call.
#[derive(Debug, Error)]
pub(crate) enum CallAbort {
    #[error("made more than the {0} host calls that one call may make")]
    HostCalls(u32),
    #[error("spent more than {0:?} in host calls")]
    HostCallTime(Duration),
    #[error("pushed more than the {0} bytes that one call may push")]
    Output(usize),
    #[error("pushed arrays nested more than {0} deep")]
    Depth(usize),
    #[error("pushed an invalid value: {0}")]
    Ident(#[from] IdentError),
    #[error("pushed an array of mixed types: {0}")]
    Mixed(#[from] MixedArray),
    #[error("referred to array {0}, which was not passed before it")]
    NoArray(u32),
    #[error("referred to value {at} of data type {data_type}, which the call does not have")]
    NoOpaque { at: u32, data_type: u16 },
    #[error("requested random numbers, which are not available")]
    NoRandom,
    #[error("called wasi:cli/exit, but a module has no process to end")]
    Exit,
    #[error("requested a WASI handle beyond the limit of {0}")]
    Handles(u32),
    #[error("called a function of WASI that has no stub for its result")]
    NoWasi,
}

/// Resources that the current call has used. The start, the init and each call of an instance have
/// the time of one call each. So a limit that sufficed when the module was loaded suffices later.
pub(crate) struct CallMeter {
    limits: ModuleLimits,
    clock: CallClock,
    /// Processor time at the start of the call, if that is measured.
    started: Option<Duration>,
    host_time: Duration,
    /// Time of the ticks that were added for host calls.
    credited: Duration,
    host_calls: u32,
    output: usize,
    hits: LimitSet,
    /// Number of host calls after which the host time is over, in a replay of a call for which it
    /// was.
    host_time_after: Option<u32>,
}

impl CallMeter {
    pub(crate) fn new(limits: ModuleLimits, clock: CallClock) -> CallMeter {
        let hits = LimitSet::default();
        CallMeter {
            limits,
            clock,
            started: None,
            host_time: Duration::ZERO,
            credited: Duration::ZERO,
            host_calls: 0,
            output: 0,
            hits,
            host_time_after: None,
        }
    }

    /// Begins a call: time, host calls and output count from zero.
    pub(crate) fn begin(&mut self) {
        self.started = match self.clock {
            CallClock::Wall(_) => None,
            CallClock::Processor => Some(self.clock.now()),
        };
        (self.host_time, self.credited) = (Duration::ZERO, Duration::ZERO);
        (self.host_calls, self.output, self.hits) = (0, 0, LimitSet::default());
    }

    /// Notes a limit that was exceeded without ending the call.
    pub(crate) fn hit(&mut self, limit: LimitKind) {
        self.hits.insert(limit);
    }

    /// Sets the number of host calls after which the host time of the next call is over.
    pub(crate) fn expect_host_time(&mut self, after: Option<u32>) {
        self.host_time_after = after;
    }

    /// Returns the resources used since [`CallMeter::begin`], except for fuel.
    pub(crate) fn usage(&self) -> CallUsage {
        CallUsage {
            fuel: None,
            host_calls: self.host_calls,
            output: self.output,
            hits: self.hits,
        }
    }

    pub(crate) fn limits(&self) -> &ModuleLimits {
        &self.limits
    }

    /// Counts a host call.
    pub(crate) fn count(&mut self) -> Result<(), CallAbort> {
        if self.host_calls >= self.limits.host_calls {
            return Err(CallAbort::HostCalls(self.limits.host_calls));
        }
        let was_over = self
            .host_time_after
            .is_some_and(|most| self.host_calls >= most);
        if was_over || self.host_time > self.limits.host_call_time {
            return Err(CallAbort::HostCallTime(self.limits.host_call_time));
        }
        // A refused host call is not counted: a replay whose host time is over ends after the
        // recorded number of calls.
        self.host_calls += 1;
        Ok(())
    }

    /// Counts a host call and returns its start, which [`CallMeter::leave`] takes.
    pub(crate) fn begin_host_call(&mut self) -> Result<Duration, CallAbort> {
        self.count()?;
        Ok(self.clock.now())
    }

    /// Adds the time of a host call that ends now.
    pub(crate) fn leave(&mut self, entered: Duration) {
        self.host_time += self.clock.now().saturating_sub(entered);
    }

    /// Charges bytes to the output of the call.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), CallAbort> {
        self.output = self.output.saturating_add(bytes);
        if self.output > self.limits.output_bytes {
            Err(CallAbort::Output(self.limits.output_bytes))
        } else {
            Ok(())
        }
    }

    /// Decides whether a running call goes on whose ticks are over.
    pub(crate) fn on_deadline(&mut self, tick: Duration) -> UpdateDeadline {
        // The epoch interrupts guest code only, so no host call is open and `host_time` is
        // complete.
        let left = match self.started {
            Some(started) => {
                let passed = self.clock.now().saturating_sub(started);
                let guest_time = passed.saturating_sub(self.host_time);
                self.limits.call_time.saturating_sub(guest_time)
            }
            None => self.host_time.saturating_sub(self.credited),
        };
        match ticks(left, tick) {
            0 => UpdateDeadline::Interrupt,
            ticks => {
                // Whole ticks: a guest that makes a short host call in each tick would else get another one for each.
                let added = tick.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
                self.credited = self.credited.saturating_add(added);
                UpdateDeadline::Continue(ticks)
            }
        }
    }
}

/// Returns the number of ticks in a time, rounded up.
pub(crate) fn ticks(time: Duration, tick: Duration) -> u64 {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    nanoseconds(time)
        .div_ceil(nanoseconds(tick).max(1))
        // wasmtime adds the result to the current epoch without a check for overflow.
        .min(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_host_calls_is_not_the_guests() {
        let tick = Duration::from_millis(1);
        let began = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
        let mut meter = CallMeter::new(ModuleLimits::default(), CallClock::Wall(began));
        meter.begin();
        assert!(matches!(meter.on_deadline(tick), UpdateDeadline::Interrupt));
        meter.leave(Duration::from_secs(5));
        assert!(
            matches!(meter.on_deadline(tick), UpdateDeadline::Continue(ticks) if (6000..=7000).contains(&ticks))
        );
        assert!(
            matches!(meter.on_deadline(tick), UpdateDeadline::Interrupt),
            "time is added once"
        );
        assert!(
            matches!(meter.begin_host_call(), Err(CallAbort::HostCallTime(_))),
            "host calls have a limit of their own"
        );
        meter.begin();
        assert!(
            meter.begin_host_call().is_ok(),
            "what the start or init of an instance took is not its first call's"
        );
        assert!(matches!(meter.on_deadline(tick), UpdateDeadline::Interrupt));
    }

    #[test]
    fn short_host_calls_add_one_tick_in_all() {
        let tick = Duration::from_secs(1);
        let mut meter = CallMeter::new(ModuleLimits::default(), CallClock::Wall(Instant::now()));
        meter.begin();
        meter.host_time = Duration::from_micros(1);
        assert!(matches!(
            meter.on_deadline(tick),
            UpdateDeadline::Continue(1)
        ));
        for _ in 0..100 {
            meter.host_time += Duration::from_micros(1);
            assert!(matches!(meter.on_deadline(tick), UpdateDeadline::Interrupt));
        }
    }

    #[test]
    fn processor_time_does_not_pass_while_a_thread_waits() {
        let mut meter = CallMeter::new(ModuleLimits::default(), CallClock::Processor);
        meter.begin();
        assert!(matches!(
            meter.on_deadline(Duration::from_millis(1)),
            UpdateDeadline::Continue(_)
        ));
    }

    #[test]
    fn output_is_added_up() {
        let mut meter = CallMeter::new(
            ModuleLimits {
                output_bytes: 100,
                ..ModuleLimits::default()
            },
            CallClock::Processor,
        );
        assert!(meter.charge(60).is_ok());
        assert!(meter.charge(40).is_ok());
        assert!(matches!(meter.charge(1), Err(CallAbort::Output(100))));
        assert!(meter.charge(usize::MAX).is_err());
    }
}
