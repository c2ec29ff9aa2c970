//! Parser state of one text of a configuration: positions and problems.
use crate::problem::{Problem, ProblemOrigin, TextPosition};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use toml::de::DeValue;

/// Limit of reported problems.
const MAX_PROBLEMS: usize = 100;

/// Limit of quoted text, in characters.
const MAX_QUOTED: usize = 60;

/// Source of a text.
pub(crate) enum TextSource {
    /// File, with the offsets of its lines.
    File {
        path: PathBuf,
        text: String,
        lines: Vec<usize>,
    },
    /// Environment variable.
    Variable(String),
    /// Command-line option.
    Option(String),
}

impl TextSource {
    pub(crate) fn file(path: &Path, text: &str) -> TextSource {
        let starts = text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| *byte == b'\n')
            .map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        TextSource::File {
            path: path.to_owned(),
            text: text.to_owned(),
            lines,
        }
    }

    /// Returns the origin of a part of the text.
    pub(crate) fn origin(&self, span: &Range<usize>) -> ProblemOrigin {
        match self {
            TextSource::File { path, text, lines } => {
                let line = lines.partition_point(|start| *start <= span.start).max(1);
                let start = lines.get(line - 1).copied().unwrap_or_default();
                let before = text.get(start..span.start).unwrap_or_default();
                ProblemOrigin::File(TextPosition {
                    file: path.clone(),
                    line,
                    // Editors count characters and not bytes.
                    column: before.chars().count() + 1,
                })
            }
            TextSource::Variable(variable) => ProblemOrigin::Environment {
                variable: variable.clone(),
            },
            TextSource::Option(option) => ProblemOrigin::CommandLine {
                option: option.clone(),
            },
        }
    }
}

/// Parser of one text. It collects problems, so that all can be reported at once.
pub(crate) struct DocumentParser<'a> {
    pub(crate) source: TextSource,
    /// Directory at which relative paths start.
    pub(crate) base: PathBuf,
    /// Names of the capabilities that can be granted.
    pub(crate) capabilities: &'a [&'static str],
    pub(crate) problems: &'a mut Vec<Problem>,
    /// Number of problems of this text, with those beyond the limit of reported ones.
    pub(crate) found: usize,
    /// Key of the setting that is being read.
    pub(crate) key: &'static str,
}

impl DocumentParser<'_> {
    /// Notes a problem of a part of the text.
    pub(crate) fn add_problem(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let origin = self.source.origin(span);
        self.problem(Problem::new(origin, message));
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        self.found += 1;
        // A file that is no configuration could have a problem in each line.
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Notes that a value of the setting is invalid.
    pub(crate) fn refuse(&mut self, value: &toml::Spanned<DeValue<'_>>, wanted: &str) {
        let message = format!(
            "{} is {}; it should be {wanted}",
            self.key,
            described(value.get_ref())
        );
        self.add_problem(&value.span(), message);
    }
}

/// Formats a value for a message.
pub(crate) fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Quotes the beginning of a text, with escapes for characters that could end a line or move the
/// cursor.
pub(crate) fn quoted(text: &str) -> String {
    // A text in a file may be of any length.
    match text.char_indices().nth(MAX_QUOTED) {
        Some((at, _)) => format!("{:?}...", text.get(..at).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}
