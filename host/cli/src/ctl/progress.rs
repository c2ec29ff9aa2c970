//! Progress line on a terminal: the pending request and the time so far, removed at the end.
//! Nothing is printed if standard error is not a terminal.
use std::{
    cell::RefCell,
    io::{self, IsTerminal},
    pin::pin,
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, MissedTickBehavior, interval},
};

/// Interval between two drawings.
const SPINNER_INTERVAL: Duration = Duration::from_millis(100);
/// Time before the line is shown: shorter requests need none.
const SHOW_DELAY: Duration = Duration::from_millis(300);
/// Characters of the animation.
const WHEEL: [char; 4] = ['|', '/', '-', '\\'];

/// Text of the progress line.
#[derive(Debug, Default)]
pub struct Progress(RefCell<String>);

impl Progress {
    /// Sets the text.
    pub fn show(&self, what: String) {
        self.0.replace(what);
    }

    /// Shows the line until a future is ready.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        if !io::stderr().is_terminal() {
            return work.await;
        }
        let mut work = pin!(work);
        let began = Instant::now();
        let mut turns = interval(SPINNER_INTERVAL);
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut shown = false;
        loop {
            tokio::select! {
                // The result comes first, so that the line is not drawn again for a request that
                // has ended.
                biased;
                done = &mut work => {
                    if shown {
                        draw("\r\u{1b}[2K").await;
                    }
                    return done;
                }
                _ = turns.tick() => if began.elapsed() >= SHOW_DELAY {
                    shown = true;
                    let line = line(&self.0.borrow(), began.elapsed());
                    draw(&line).await;
                },
            }
        }
    }
}

fn line(what: &str, waited: Duration) -> String {
    let turns = waited.as_millis() / SPINNER_INTERVAL.as_millis();
    let wheel = WHEEL
        .iter()
        .cycle()
        .nth((turns % WHEEL.len() as u128) as usize)
        .unwrap_or(&' ');
    format!(
        "\r\u{1b}[2K\u{1b}[36m{wheel}\u{1b}[0m {} ({} s)",
        crate::plain(what),
        waited.as_secs()
    )
}

/// Writes to the terminal, within a time limit: a terminal that accepts no output must not delay
/// the request.
async fn draw(text: &str) {
    let mut terminal = tokio::io::stderr();
    let write = async {
        terminal.write_all(text.as_bytes()).await?;
        terminal.flush().await
    };
    // A failed or late drawing is ignored, since the next one replaces it.
    let _ = tokio::time::timeout(SPINNER_INTERVAL, write).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_turns_counts_and_does_no_harm() {
        let at = |millis| line("pause a\n\u{1b}[2J", Duration::from_millis(millis));
        assert_eq!(
            at(2100),
            "\r\u{1b}[2K\u{1b}[36m/\u{1b}[0m pause a\\n\\u{1b}[2J (2 s)"
        );
        assert_ne!(at(2100), at(2200));
    }
}
