//! Confirmation of what cannot be undone, on terminals.
use crate::args::ConfirmArgs;
use anyhow::{Result, bail};
use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
};

/// Exit status if the user declines.
const DECLINED: u8 = 1;

/// Answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserConsent {
    Given,
    Declined,
}

impl ConfirmArgs {
    /// Asks whether to do something, unless the option or a standard input that is no terminal answers.
    ///
    /// # Errors
    ///
    /// Fails if `what` fails, if the question could not be read on a terminal, or if the terminal cannot be
    /// read.
    pub fn ask(self, what: impl FnOnce() -> Result<String>) -> Result<UserConsent> {
        if self.yes || !io::stdin().is_terminal() {
            return Ok(UserConsent::Given);
        }
        let mut out = io::stderr();
        if !out.is_terminal() {
            bail!("standard error is no terminal on which to confirm this; --yes confirms it");
        }
        let question = format!("{}? [y/N] ", what()?);
        out.write_all(question.as_bytes())
            .and_then(|()| out.flush())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        Ok(consent_in(&answer))
    }
}

fn consent_in(answer: &str) -> UserConsent {
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => UserConsent::Given,
        _ => UserConsent::Declined,
    }
}

/// Says that nothing was done, and returns the exit status.
pub fn report_declined() -> ExitCode {
    crate::print_line("nothing was done");
    ExitCode::from(DECLINED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_consent() {
        for answer in ["y\n", "Y\n", " yes \n", "YES"] {
            assert_eq!(consent_in(answer), UserConsent::Given, "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "yep\n", "no\n"] {
            assert_eq!(consent_in(answer), UserConsent::Declined, "{answer:?}");
        }
    }
}
