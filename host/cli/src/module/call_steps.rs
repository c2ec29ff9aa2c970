//! Steps through the host calls of a case, one for each line from a terminal, for `peal module test --debug`.
use crate::plain;
use peal_sandbox::HostCall;
use std::io::{self, BufRead, Write};

/// Commands, as they are shown before the first step.
const COMMANDS: &str = "Enter: next host call, p: its arguments in full, c: continue, q: quit";

/// Reader of the commands.
pub struct CallSteps<R> {
    /// Lines of the terminal; `None` prints all calls at once.
    input: Option<R>,
}

/// Continuation after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepEnd {
    /// The next host call is printed.
    Next,
    /// Nothing more is printed.
    Quit,
}

impl<R: BufRead> CallSteps<R> {
    /// Steps if there is a terminal to read commands from.
    pub fn new(input: Option<R>, out: &mut impl Write) -> io::Result<CallSteps<R>> {
        if input.is_some() {
            writeln!(out, "{COMMANDS}")?;
        }
        Ok(CallSteps { input })
    }

    /// Waits behind a host call until the next one is wanted.
    pub fn wait(&mut self, call: &HostCall, out: &mut impl Write) -> io::Result<StepEnd> {
        loop {
            let Some(input) = &mut self.input else {
                return Ok(StepEnd::Next);
            };
            // What was printed so far has to be seen before the command.
            out.flush()?;
            let mut line = String::new();
            // The end of the input quits: there is nobody to read more.
            if input.read_line(&mut line)? == 0 {
                return Ok(StepEnd::Quit);
            }
            match line.trim() {
                "" => return Ok(StepEnd::Next),
                "c" => self.input = None,
                "q" => return Ok(StepEnd::Quit),
                "p" => print_whole(call, out)?,
                _ => writeln!(out, "{COMMANDS}")?,
            }
        }
    }
}

/// Prints a host call with its arguments and answer, uncut.
fn print_whole(call: &HostCall, out: &mut impl Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(call)?;
    text.lines()
        .try_for_each(|line| writeln!(out, "      {}", plain(line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sandbox::{HostCallAnswer, HostCallRequest};

    fn call() -> HostCall {
        let key = "k".repeat(300);
        HostCall {
            request: HostCallRequest::Fetch { key },
            answer: Some(HostCallAnswer::Nothing),
        }
    }

    /// Returns the ends of as many steps, and what was printed.
    fn steps(input: Option<&[u8]>, count: usize) -> (Vec<StepEnd>, String) {
        let mut out = Vec::new();
        let mut steps = CallSteps::new(input, &mut out).unwrap();
        let ends = (0..count).map(|_| steps.wait(&call(), &mut out).unwrap());
        let ends = ends.collect();
        (ends, String::from_utf8(out).unwrap())
    }

    #[test]
    fn commands_step_print_continue_and_quit() {
        use StepEnd::{Next, Quit};
        let (ends, text) = steps(Some(b"\np\n\nx\nq\n"), 3);
        assert_eq!(ends, [Next, Next, Quit]);
        assert!(text.contains(&"k".repeat(300)), "{text}");
        assert_eq!(text.matches(COMMANDS).count(), 2, "{text}");
        assert_eq!(steps(Some(b"c\n"), 3).0, [Next, Next, Next]);
        assert_eq!(steps(Some(b""), 1).0, [Quit], "end of the input");
    }

    #[test]
    fn without_a_terminal_nothing_is_asked() {
        assert_eq!(
            steps(None, 2),
            (vec![StepEnd::Next, StepEnd::Next], String::new())
        );
    }
}
