//! Trials: a module is handed what cases say, offline and always the same, and what comes out is compared.
//!
//! `docs/src/modules/module-tests.md` shows how cases are written. A file goes this way:
//!
//! ```text
//! CaseFile::read   TOML, or a recording of `peal event watch --json`      case.rs, texts.rs, recording.rs
//!   run            each in a fresh module, or one after the other         run.rs, in a scene.rs
//!     Report       what came out, and where that is not as expected       outcome.rs
//!   rewritten      the same file, expecting what came out                 written.rs
//! ```
mod case;
mod case_format;
mod case_parse;
mod fixture;
mod recording;
mod request_case;
mod result;
mod run;

pub use case::{Case, CaseError, Cases};
pub use result::CaseDifference;
pub(crate) use run::CaseRunner;
pub use run::{Candidate, CaseReport, TrialError, run};

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A file of cases, in either form.
#[derive(Debug)]
pub struct CaseFile {
    /// Which file.
    pub path: PathBuf,
    /// The cases.
    pub cases: Cases,
    /// Whether it was recorded, and not written.
    pub is_recording: bool,
    /// What of a recording has no form in a case.
    pub left_out: Vec<String>,
    text: Table,
}

impl CaseFile {
    /// Reads cases, or events that were recorded where `module` may have been among the handlers.
    pub fn read(path: &Path, module: &str) -> Result<CaseFile, CaseError> {
        let text = case::read(path)?;
        if recording::is_recording(&text) {
            let recording::RecordedCase { cases, left_out } =
                recording::cases(path, &text, module)?;
            let read = Cases::parse(path, &cases.to_string());
            return Ok(CaseFile {
                path: path.to_owned(),
                cases: read?,
                is_recording: true,
                left_out,
                text: cases,
            });
        }
        let cases = Cases::parse(path, &text)?;
        // It was read a moment ago.
        let text = text.parse().unwrap_or_default();
        Ok(CaseFile {
            path: path.to_owned(),
            cases,
            is_recording: false,
            left_out: Vec::new(),
            text,
        })
    }

    /// The same cases, expecting what came out of them. Comments are lost.
    pub fn rewritten(&self, reports: &[CaseReport]) -> String {
        let mut text = self.text.clone();
        if let Some(Value::Array(cases)) = text.get_mut("case") {
            for (case, report) in cases.iter_mut().zip(reports) {
                if let Value::Table(case) = case {
                    case.insert(
                        "expect".to_owned(),
                        Value::Table(report.expectation.clone()),
                    );
                }
            }
        }
        text.to_string()
    }
}
