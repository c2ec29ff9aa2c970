//! Terminal of `peal top`: keys, signals, and the screen, which is restored at each end of the command.
use super::{
    draw::{self, Colours},
    model::{TopAction, TopKey, TopModel},
    source::{ReportQueue, SourceItem},
};
use anyhow::{Context, Result};
use ratatui::{
    DefaultTerminal, Terminal,
    backend::CrosstermBackend,
    crossterm::{
        event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
        execute,
        terminal::{EnterAlternateScreen, enable_raw_mode},
    },
};
use rustix::process::{Signal, getpgrp, getpid, kill_process, kill_process_group};
use std::{
    io::{self, stdout},
    panic,
    sync::Once,
    thread,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// Capacity of the queue of keys; a full queue makes the terminal wait.
const MAX_QUEUED_KEYS: usize = 64;

/// Input from the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TerminalInput {
    /// Key of the model.
    Key(TopKey),
    /// Request to end.
    Quit,
    /// Request to suspend the processes of the terminal.
    Suspend,
    /// Request to draw everything again.
    Redraw,
    /// Change of the size.
    Resized,
}

/// Screen in its own mode, until it is dropped.
struct Screen(DefaultTerminal);

impl Screen {
    /// Switches to the other screen. A panic restores the terminal before its message is printed.
    fn open() -> Result<Screen> {
        static RESTORED_ON_PANIC: Once = Once::new();
        RESTORED_ON_PANIC.call_once(|| {
            let hook = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore();
                hook(info);
            }));
        });
        let opened = enter().inspect_err(|_| restore());
        opened.map(Screen).context("cannot use the terminal")
    }

    fn draw(&mut self, model: &mut TopModel, colours: Colours) -> Result<()> {
        let drawn = self.0.draw(|frame| draw::draw(frame, model, colours));
        drawn.map(drop).context("cannot write to the terminal")
    }

    /// Draws everything again with the next frame: another program may have written to the terminal.
    fn redraw(&mut self) -> Result<()> {
        // `Terminal::clear` would ask the terminal for the cursor, whose answer the reader of keys gets.
        let size = self.0.size().context("cannot use the terminal")?;
        let resized = self.0.resize(size.into());
        resized.context("cannot write to the terminal")
    }

    /// Gives the terminal back, stops the process, and takes the terminal again when it continues.
    fn suspend(self) -> Result<Screen> {
        drop(self);
        kill_process(getpid(), Signal::STOP).context("cannot stop this process")?;
        Screen::open()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ignore the error, as in `restore`.
        let _ = self.0.show_cursor();
        restore();
    }
}

fn enter() -> io::Result<DefaultTerminal> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stdout()))
}

fn restore() {
    // The terminal may have gone.
    let _ = ratatui::try_restore();
}

/// Shows the model until a key or signal ends it.
pub async fn show(mut model: TopModel, reports: &mut ReportQueue, colours: Colours) -> Result<()> {
    let mut ends = [
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    ];
    let [interrupt, terminate, hangup] = &mut ends;
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut screen = Screen::open()?;
    let mut input = inputs();
    loop {
        screen.draw(&mut model, colours)?;
        tokio::select! {
            item = reports.recv(), if model.over().is_none() => match item {
                Some(item) => take(&mut model, item),
                None => model.end("no source of reports is left".to_owned()),
            },
            key = input.recv() => match key {
                Some(TerminalInput::Key(key)) => {
                    if model.press(key) == TopAction::Quit {
                        return Ok(());
                    }
                }
                // All processes of the terminal stop, as without the mode of this screen. The signal of
                // this process is below.
                Some(TerminalInput::Suspend) => kill_process_group(getpgrp(), Signal::TSTP)
                    .context("cannot stop the processes of this terminal")?,
                Some(TerminalInput::Redraw) => screen.redraw()?,
                Some(TerminalInput::Resized) => {}
                // Without an open terminal nothing can be shown.
                Some(TerminalInput::Quit) | None => return Ok(()),
            },
            _ = stop.recv() => screen = screen.suspend()?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
        }
        // A slow terminal shows the latest state only.
        while let Ok(item) = reports.try_recv() {
            take(&mut model, item);
        }
    }
}

fn take(model: &mut TopModel, item: SourceItem) {
    match item {
        SourceItem::Report(report) => model.report(*report),
        SourceItem::Over(reason) => model.end(reason),
    }
}

/// Reads the terminal on a thread of its own, until it is closed.
fn inputs() -> mpsc::Receiver<TerminalInput> {
    let (sender, inputs) = mpsc::channel(MAX_QUEUED_KEYS);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Some(input) = input_of(&event)
                && sender.blocking_send(input).is_err()
            {
                return;
            }
        }
    });
    inputs
}

fn input_of(event: &Event) -> Option<TerminalInput> {
    let key = match event {
        Event::Resize(..) => return Some(TerminalInput::Resized),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(TerminalInput::Quit),
            KeyCode::Char('z') => Some(TerminalInput::Suspend),
            KeyCode::Char('l') => Some(TerminalInput::Redraw),
            _ => None,
        };
    }
    let key = match key.code {
        KeyCode::Char(of) => TopKey::Char(of),
        KeyCode::Up => TopKey::Up,
        KeyCode::Down => TopKey::Down,
        KeyCode::PageUp => TopKey::PageUp,
        KeyCode::PageDown => TopKey::PageDown,
        KeyCode::Home => TopKey::Home,
        KeyCode::End => TopKey::End,
        KeyCode::Tab | KeyCode::Right => TopKey::Next,
        KeyCode::BackTab | KeyCode::Left => TopKey::Previous,
        KeyCode::Enter => TopKey::Enter,
        KeyCode::Esc => TopKey::Escape,
        KeyCode::Backspace => TopKey::Backspace,
        _ => return None,
    };
    Some(TerminalInput::Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        env,
        process::{Command, Stdio},
    };

    /// Sequence that switches back from the other screen.
    const FIRST_SCREEN: &str = "\u{1b}[?1049l";

    /// Not a test, but the program of the next one.
    #[test]
    #[ignore = "the program of another test"]
    fn panics_while_it_has_the_terminal() {
        let _screen = Screen::open().unwrap();
        panic!("this is the panic");
    }

    #[test]
    fn panic_restores_the_terminal_before_its_message() {
        let program = env::current_exe().unwrap();
        let line = format!(
            "stty cols 80 rows 24; '{}' --ignored --exact --nocapture \
             top::terminal::tests::panics_while_it_has_the_terminal; stty -a",
            program.display()
        );
        let done = Command::new("script")
            .args(["-q", "-c", &line, "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&done.stdout);
        let restored = shown.find(FIRST_SCREEN);
        let message = shown.find("this is the panic");
        assert!(restored.is_some() && restored < message, "{shown:?}");
        // Lines are edited and signals are sent again.
        assert!(shown.contains("\nisig icanon "), "{shown:?}");
    }
}
