//! Meters one call: its time, its host calls and its output.
use crate::Limits;
use peal_model::{IdentError, MixedArray};
use std::time::{Duration, Instant};
use thiserror::Error;
use wasmtime::UpdateDeadline;

/// Why the host ended a call.
#[derive(Debug, Error)]
pub(crate) enum Stop {
    #[error("made more than the {0} host calls that one call may make")]
    HostCalls(u32),
    #[error("spent more than {0:?} in host calls")]
    HostTime(Duration),
    #[error("pushed more than the {0} bytes that one call may push")]
    Output(usize),
    #[error("pushed arrays nested more than {0} deep")]
    Depth(usize),
    #[error("pushed what cannot be: {0}")]
    Ident(#[from] IdentError),
    #[error("pushed an array of mixed types: {0}")]
    Mixed(#[from] MixedArray),
    #[error("named array {0}, which this call does not have")]
    NoArray(u32),
    #[error("named value {at} of data type {data_type}, which this call does not have")]
    NoOpaque { at: u32, data_type: u16 },
}

/// What one call has used.
pub(crate) struct Meter {
    limits: Limits,
    started: Instant,
    host_time: Duration,
    host_calls: u32,
    output: usize,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Meter {
        Meter { limits, started: Instant::now(), host_time: Duration::ZERO, host_calls: 0, output: 0 }
    }

    /// Starts anew for the next call.
    pub(crate) fn rearm(&mut self) {
        *self = Meter::new(self.limits);
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts a host call that begins now; hand what it returns to [`Meter::leave`].
    pub(crate) fn enter(&mut self) -> Result<Instant, Stop> {
        if self.host_calls >= self.limits.host_calls {
            return Err(Stop::HostCalls(self.limits.host_calls));
        }
        if self.host_time > self.limits.host_time {
            return Err(Stop::HostTime(self.limits.host_time));
        }
        self.host_calls += 1;
        Ok(Instant::now())
    }

    /// Sets the time of a host call apart from the guest's own.
    pub(crate) fn leave(&mut self, entered: Instant) {
        self.host_time += entered.elapsed();
    }

    /// Takes this many bytes from what the call may still push.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Stop> {
        self.output = self.output.saturating_add(bytes);
        if self.output > self.limits.output { Err(Stop::Output(self.limits.output)) } else { Ok(()) }
    }

    /// How many ticks to wait before asking [`Meter::on_deadline`] about this much time.
    pub(crate) fn ticks(time: Duration, tick: Duration) -> u64 {
        let ticks = time.as_nanos().div_ceil(tick.as_nanos().max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX / 2).clamp(1, u64::MAX / 2)
    }

    /// Whether a call that is still running may go on.
    pub(crate) fn on_deadline(&self, tick: Duration) -> UpdateDeadline {
        let guest_time = self.started.elapsed().saturating_sub(self.host_time);
        match self.limits.call_time.checked_sub(guest_time) {
            Some(rest) if !rest.is_zero() => UpdateDeadline::Continue(Meter::ticks(rest, tick)),
            _ => UpdateDeadline::Interrupt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_host_calls_is_not_the_guests() {
        let tick = Duration::from_millis(1);
        let mut meter = Meter::new(Limits { call_time: Duration::from_secs(10), ..Limits::default() });
        meter.started = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
        assert!(matches!(meter.on_deadline(tick), UpdateDeadline::Interrupt));
        meter.leave(Instant::now().checked_sub(Duration::from_secs(5)).unwrap());
        assert!(matches!(meter.on_deadline(tick), UpdateDeadline::Continue(ticks) if (3000..=4000).contains(&ticks)));
        assert!(matches!(meter.enter(), Err(Stop::HostTime(_))), "host calls have a limit of their own");
        meter.rearm();
        assert!(meter.enter().is_ok());
    }

    #[test]
    fn output_is_added_up() {
        let mut meter = Meter::new(Limits { output: 100, ..Limits::default() });
        assert!(meter.charge(60).is_ok());
        assert!(meter.charge(40).is_ok());
        assert!(matches!(meter.charge(1), Err(Stop::Output(100))));
        assert!(meter.charge(usize::MAX).is_err());
    }
}
