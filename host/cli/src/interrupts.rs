//! Signals to `peal run`, `peal attach` and `peal cluster dev`: those that end the job or program, and
//! those that are forwarded to procs.
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Meaning of a signal to `peal`, with its number.
pub enum UserSignal {
    /// End of the job or program.
    End(i32),
    /// Signal for the procs.
    Forward(i32),
}

/// Signals of either meaning.
const END: [SignalKind; 4] = [
    SignalKind::interrupt(),
    SignalKind::terminate(),
    SignalKind::hangup(),
    SignalKind::quit(),
];
const FORWARD: [SignalKind; 2] = [SignalKind::user_defined1(), SignalKind::user_defined2()];

/// Stream of arriving signals.
pub struct Interrupts {
    signals: mpsc::Receiver<UserSignal>,
}

impl Interrupts {
    /// Listens to signals, except those that the parent has set to be ignored (as `nohup` does).
    pub fn new() -> std::io::Result<Interrupts> {
        let ignored = ignored_signals();
        let (sender, signals) = mpsc::channel(16);
        // Bit N - 1 of the mask stands for signal N.
        let is_heard = |kind: &SignalKind| ignored & (1 << (kind.as_raw_value() - 1)) == 0;
        for kind in END.iter().chain(&FORWARD).copied().filter(is_heard) {
            let mut arrivals = signal(kind)?;
            let sender = sender.clone();
            let number = kind.as_raw_value();
            let action = move || {
                if END.contains(&kind) {
                    UserSignal::End(number)
                } else {
                    UserSignal::Forward(number)
                }
            };
            tokio::spawn(async move {
                while arrivals.recv().await.is_some() && sender.send(action()).await.is_ok() {}
            });
        }
        Ok(Interrupts { signals })
    }

    /// Returns the next signal.
    pub async fn next(&mut self) -> UserSignal {
        match self.signals.recv().await {
            Some(action) => action,
            // All signals are ignored.
            None => std::future::pending().await,
        }
    }

    /// Waits for a signal that ends the job.
    pub async fn end(&mut self) {
        while let UserSignal::Forward(_) = self.next().await {}
    }
}

/// Returns the ignored signals as bits, the lowest for signal 1.
fn ignored_signals() -> u64 {
    // A query by `sigaction` would need unsafe code.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}
