//! Lines of the trace that are written once: what goes on being wrong is not worth one each time.
use std::sync::atomic::{AtomicBool, Ordering};

/// Allows one line ever.
#[derive(Debug, Default)]
pub(crate) struct Once(AtomicBool);

impl Once {
    /// Whether this is the first time.
    pub(crate) fn allow(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Writes a line: a warning the first time, for those who debug later on.
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
