//! Log lines that are written once at warning level, because an error that persists would repeat
//! them.
use std::sync::atomic::{AtomicBool, Ordering};

/// Limit that allows a single line.
#[derive(Debug, Default)]
pub(crate) struct Once(AtomicBool);

impl Once {
    /// Returns true at the first call.
    pub(crate) fn allow(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Writes a log line: at warning level the first time, later at debug level.
macro_rules! warn_once {
    ($once:expr, $($line:tt)+) => {
        if $once.allow() { tracing::warn!($($line)+) } else { tracing::debug!($($line)+) }
    };
}
pub(crate) use warn_once;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_is_once() {
        let once = Once::default();
        assert_eq!(
            [once.allow(), once.allow(), once.allow()],
            [true, false, false]
        );
    }
}
