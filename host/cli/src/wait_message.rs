//! A message about work that takes its time: on a terminal a line that is gone when the work is done, elsewhere a line for work that
//! takes longer than two seconds.
use std::{
    io::{self, IsTerminal, Write},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long work goes on before it is told on a terminal, and how often the line is drawn.
const ON_TERMINAL: Duration = Duration::from_millis(300);
/// How long it goes on before it is told elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(2);

/// Tells what is being done until it is dropped.
pub struct WaitMessage {
    what: Arc<Mutex<String>>,
    end: Option<mpsc::Sender<()>>,
    teller: Option<JoinHandle<()>>,
}

impl WaitMessage {
    /// A message that says this.
    pub fn new(what: impl Into<String>) -> WaitMessage {
        let (what, (end, ended)) = (Arc::new(Mutex::new(what.into())), mpsc::channel());
        let told = what.clone();
        // The work is done as well where nobody can tell of it.
        let teller = thread::Builder::new()
            .name("wait-message".to_owned())
            .spawn(move || tell(&told, &ended))
            .ok();
        WaitMessage {
            what,
            end: Some(end),
            teller,
        }
    }

    /// Says something else from now on.
    pub fn say(&self, what: impl Into<String>) {
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }
}

impl Drop for WaitMessage {
    fn drop(&mut self) {
        self.end = None;
        // It has nothing to return.
        let _ = self.teller.take().map(JoinHandle::join);
    }
}

fn tell(what: &Mutex<String>, ended: &mpsc::Receiver<()>) {
    let (began, is_terminal) = (Instant::now(), io::stderr().is_terminal());
    let pause = if is_terminal { ON_TERMINAL } else { ELSEWHERE };
    let mut last = String::new();
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let what = what.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if is_terminal {
            // Where nobody reads it nobody misses it.
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
