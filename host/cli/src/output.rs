//! Standard output of commands that print something and end.
//!
//! The reader may close the pipe at any time, as `head` does. The rest of the output is then
//! discarded. The command finishes its work and returns the exit status of that work.
use anyhow::Result;
use std::{
    env,
    io::{self, IsTerminal, StdoutLock, Write},
};

/// State of an output's reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PipeReader {
    Present,
    Gone,
}

/// Output whose reader may close the pipe.
#[derive(Debug)]
pub struct PrintTarget<W> {
    to: W,
    reader: PipeReader,
}

/// Returns true if standard output is a terminal and `NO_COLOR` is unset or empty.
pub fn has_colour() -> bool {
    io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Locks standard output until the result is dropped.
pub fn stdout() -> PrintTarget<StdoutLock<'static>> {
    PrintTarget::new(io::stdout().lock())
}

/// Prints a text.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

impl<W: Write> PrintTarget<W> {
    fn new(to: W) -> PrintTarget<W> {
        PrintTarget {
            to,
            reader: PipeReader::Present,
        }
    }

    /// Returns true if the reader has closed the pipe: a command with endless output may end.
    pub fn is_closed(&self) -> bool {
        self.reader == PipeReader::Gone
    }

    /// Returns the result of a write; a closed pipe is not an error.
    fn unless_closed<T>(&mut self, written: io::Result<T>, discarded: T) -> io::Result<T> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.reader = PipeReader::Gone;
                Ok(discarded)
            }
            written => written,
        }
    }
}

impl<W: Write> Write for PrintTarget<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed() {
            return Ok(bytes.len());
        }
        let written = self.to.write(bytes);
        self.unless_closed(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_closed() {
            return Ok(());
        }
        let flushed = self.to.flush();
        self.unless_closed(flushed, ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writer that fails after this number of writes.
    struct Failing(usize, io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(self.1)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn output_without_reader_is_discarded() {
        let mut out = PrintTarget::new(Failing(1, io::ErrorKind::BrokenPipe));
        writeln!(out, "one").unwrap();
        assert!(!out.is_closed());
        for _ in 0..3 {
            writeln!(out, "two").and_then(|()| out.flush()).unwrap();
            assert!(out.is_closed());
        }
    }

    #[test]
    fn other_errors_of_an_output_are_reported() {
        let mut out = PrintTarget::new(Failing(0, io::ErrorKind::StorageFull));
        assert_eq!(
            writeln!(out, "one").unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
        assert!(!out.is_closed());
    }
}
