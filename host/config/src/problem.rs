//! Origins of values, and problems.
use serde::Serialize;
use std::{fmt, path::PathBuf};
use thiserror::Error;

/// Position in a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TextPosition {
    /// Path of the file as it was given.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Layer of a value; each layer overrides those before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub enum ProblemOrigin {
    /// Built-in default.
    BuiltIn,
    /// `peal.toml`, or a file in `modules.d`.
    File(TextPosition),
    /// Environment variable.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// Command line.
    CommandLine {
        /// Option, as in `--set events.ring_size`.
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

/// Problem of a configuration, with a description of what would be valid.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// Origin; `None` for a file as a whole.
    at: Option<ProblemOrigin>,
    /// Description.
    message: String,
}

impl Problem {
    /// Creates a problem at an origin.
    pub fn new(at: ProblemOrigin, message: impl Into<String>) -> Problem {
        Problem {
            at: Some(at),
            message: message.into(),
        }
    }

    /// Creates a problem of a file as a whole; the message names the file.
    pub fn of_file(message: impl Into<String>) -> Problem {
        Problem {
            at: None,
            message: message.into(),
        }
    }
}

impl Problem {
    /// Returns true if the text of a file, a variable or an option is wrong. A file that cannot be read is
    /// another problem, which may end by itself.
    pub fn is_in_text(&self) -> bool {
        self.at.is_some()
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

/// All problems of a configuration, one a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Returns these problems as an error if there are any.
    pub(crate) fn or_none(self) -> Result<(), Problems> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}
