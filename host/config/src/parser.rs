//! Reading one text of a configuration: where in it one is, and what is wrong there.
use crate::problem::{Problem, ProblemOrigin, TextPosition};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use toml::de::DeValue;

/// The most problems that are told; whoever has more has another kind of problem.
const MAX_PROBLEMS: usize = 100;

/// How much of a text is quoted, in characters.
const MAX_QUOTED: usize = 60;

/// What a text is part of.
pub(crate) enum TextSource {
    /// A file, with where its lines start.
    File {
        path: PathBuf,
        text: String,
        lines: Vec<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// An option of the command line.
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

    /// Where a part of the text lies.
    pub(crate) fn origin(&self, span: &Range<usize>) -> ProblemOrigin {
        match self {
            TextSource::File { path, text, lines } => {
                let line = lines.partition_point(|start| *start <= span.start).max(1);
                let start = lines.get(line - 1).copied().unwrap_or_default();
                let before = text.get(start..span.start).unwrap_or_default();
                ProblemOrigin::File(TextPosition {
                    file: path.clone(),
                    line,
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

/// Reads one text; what is wrong is gathered, so that everything can be told at once.
pub(crate) struct DocumentParser<'a> {
    pub(crate) source: TextSource,
    /// Where relative paths start.
    pub(crate) base: PathBuf,
    /// The names of the capabilities that can be granted.
    pub(crate) capabilities: &'a [&'static str],
    pub(crate) problems: &'a mut Vec<Problem>,
    /// The setting that is being read.
    pub(crate) key: &'static str,
}

impl DocumentParser<'_> {
    /// Notes what is wrong with a part of the text.
    pub(crate) fn wrong(&mut self, span: &Range<usize>, message: impl Into<String>) {
        let origin = self.source.origin(span);
        self.problem(Problem::new(origin, message));
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// Notes that a value of the setting is not what it should be.
    pub(crate) fn refuse(&mut self, value: &toml::Spanned<DeValue<'_>>, wanted: &str) {
        let message = format!(
            "{} is {}; it should be {wanted}",
            self.key,
            described(value.get_ref())
        );
        self.wrong(&value.span(), message);
    }
}

/// A value as a message shows it.
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

/// The beginning of a text, with nothing in it that could end a line or move the cursor.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((at, _)) => format!("{:?}...", text.get(..at).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}
