//! Logs each event in one line of bounded length, and pushes the number of earlier handlers. Takes
//! no other action.
use peal_log_format::{readable, visible};
use peal_sdk::{Event, Outcome, handler, log};
use std::fmt::{self, Write};

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 1024;

/// Line that accepts text up to the maximum length.
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.0.len() + character.len_utf8() > MAX_LINE {
                return Err(fmt::Error);
            }
            self.0.push(character);
        }
        Ok(())
    }
}

fn describe(event: &Event, line: &mut Line) -> fmt::Result {
    write!(line, "event {} from ", event.code())?;
    match event.source() {
        Some(proc) => write!(line, "{proc}")?,
        None => write!(line, "the resource manager")?,
    }
    let mut before = ": ";
    for info in event.infos() {
        write!(
            line,
            "{before}{} = {}",
            visible(&info.key),
            visible(&readable(&info.value))
        )?;
        before = ", ";
    }
    Ok(())
}

fn report(event: &Event) -> Outcome {
    let mut line = Line(String::new());
    if describe(event, &mut line).is_err() {
        line.0.push('…');
    }
    log::info(line.0);
    Outcome::no_action().with("peal.report.seen", event.previous_count())
}

handler!(report);
