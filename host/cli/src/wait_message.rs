//! Message about long work: on a terminal a line that is removed at the end, elsewhere a line if
//! the work takes longer than two seconds.
use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Time before the line is shown on a terminal, and the interval of its updates.
const ON_TERMINAL: Duration = Duration::from_millis(300);
/// Time before the line is shown elsewhere.
const NON_TERMINAL_DELAY: Duration = Duration::from_secs(2);

/// Message that is shown until it is dropped.
pub struct WaitMessage {
    text: Arc<Mutex<String>>,
    end: Option<mpsc::Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl WaitMessage {
    /// Shows a message with this text.
    pub fn new(what: impl Into<String>) -> WaitMessage {
        let (text, (end, ended)) = (Arc::new(Mutex::new(what.into())), mpsc::channel());
        let shared_text = text.clone();
        // The work does not depend on the message.
        let teller = thread::Builder::new()
            .name("wait-message".to_owned())
            .spawn(move || show_until_ended(&shared_text, &ended))
            .ok();
        WaitMessage {
            text,
            end: Some(end),
            teller,
        }
    }

    /// Changes the text.
    pub fn show(&self, what: impl Into<String>) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }
}

impl Drop for WaitMessage {
    fn drop(&mut self) {
        // The closed channel ends the thread, which then clears its line.
        self.end = None;
        // The thread returns nothing.
        let _ = self.teller.take().map(JoinHandle::join);
    }
}

fn show_until_ended(what: &Mutex<String>, ended: &mpsc::Receiver<()>) {
    let began = Instant::now();
    let is_terminal = io::stderr().is_terminal();
    let pause = if is_terminal {
        ON_TERMINAL
    } else {
        NON_TERMINAL_DELAY
    };
    let mut last = String::new();
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let what = what.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if is_terminal {
            // A write error has no effect on the work.
            let _ = write!(
                io::stderr(),
                "\r\u{1b}[2Kpeal: {what} ({} s)",
                began.elapsed().as_secs()
            );
        } else if what != last {
            crate::print_line(&what);
        }
        last = what;
    }
    if is_terminal && !last.is_empty() {
        let _ = write!(io::stderr(), "\r\u{1b}[2K");
    }
}
