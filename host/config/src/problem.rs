//! Where values come from, and what is wrong with them.
use serde::Serialize;
use std::{fmt, path::PathBuf};
use thiserror::Error;

/// A place in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TextPosition {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// The layer that a value comes from; each overrides those before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub enum ProblemOrigin {
    /// Nobody said anything else.
    BuiltIn,
    /// `peal.toml`, or a file in `modules.d`.
    File(TextPosition),
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// The command line.
    CommandLine {
        /// The option, as in `--set events.ring_size`.
        option: String,
    },
}

impl fmt::Display for ProblemOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemOrigin::BuiltIn => f.write_str("built-in"),
            ProblemOrigin::File(position) => position.fmt(f),
            ProblemOrigin::Environment { variable } => f.write_str(variable),
            ProblemOrigin::CommandLine { option } => f.write_str(option),
        }
    }
}

/// Something that is wrong with a configuration, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// Where; none for a file as a whole.
    at: Option<ProblemOrigin>,
    /// And what.
    message: String,
}

impl Problem {
    /// What is wrong at a place.
    pub fn new(at: ProblemOrigin, message: impl Into<String>) -> Problem {
        Problem {
            at: Some(at),
            message: message.into(),
        }
    }

    /// What is wrong with a file as a whole; the message names it.
    pub fn of_file(message: impl Into<String>) -> Problem {
        Problem {
            at: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Everything that is wrong with a configuration, one line each.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Nothing where nothing is wrong, else these as the error.
    pub(crate) fn or_none(self) -> Result<(), Problems> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}
