//! Module tests: the inputs of cases are passed to a module, offline and reproducibly, and the
//! results are compared.
//!
//! `docs/src/modules/module-tests.md` describes the format of cases. The steps are:
//!
//! ```text
//! CaseFile::read   TOML (case.rs, case_parse.rs), or a recording (recording.rs)
//!   run            each in a fresh module, or as a sequence (run.rs, fixture.rs)
//!     CaseReport   result, and differences from the expectation (result.rs)
//!   rewritten      the same file, with the results as expectations (case_format.rs)
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
pub use run::{CallRecords, Candidate, CaseReport, TrialError, run};

#[cfg(test)]
mod tests;

use schemars::generate::SchemaSettings;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Case file, in either format.
#[derive(Debug)]
pub struct CaseFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Cases of the file.
    pub cases: Cases,
    /// True if the file is a recording.
    pub is_recording: bool,
    /// Parts of a recording that have no form in a case.
    pub left_out: Vec<String>,
    text: Table,
}

/// Returns the JSON Schema of case files.
pub fn schema() -> serde_json::Value {
    let generator = SchemaSettings::draft07().into_generator();
    generator.into_root_schema_for::<Cases>().to_value()
}

impl CaseFile {
    /// Reads cases, or a recording of events whose handlers may include `module`.
    pub fn read(path: &Path, module: &str) -> Result<CaseFile, CaseError> {
        let text = case::read(path)?;
        // The content decides, not the name of the file.
        if recording::is_recording(&text) {
            let recording::RecordedCase { cases, left_out } =
                recording::cases(path, &text, module)?;
            // Parsed from text like a case file, so that both are read by the same code.
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
        // The same text was parsed successfully just before.
        let text = text.parse().unwrap_or_default();
        Ok(CaseFile {
            path: path.to_owned(),
            cases,
            is_recording: false,
            left_out: Vec::new(),
            text,
        })
    }

    /// Returns the same cases, which expect these results.
    ///
    /// # Errors
    ///
    /// Fails if a result has no form in a case.
    pub fn expecting(&self, reports: &[CaseReport]) -> Result<CaseFile, CaseError> {
        let text = self.rewritten(reports);
        Ok(CaseFile {
            path: self.path.clone(),
            cases: Cases::parse(&self.path, &text)?,
            is_recording: self.is_recording,
            left_out: self.left_out.clone(),
            text: self.text.clone(),
        })
    }

    /// Returns the same cases with these results as expectations. Comments are lost.
    pub fn rewritten(&self, reports: &[CaseReport]) -> String {
        let mut text = self.text.clone();
        if let Some(Value::Array(cases)) = text.get_mut("case") {
            // Reports are in the order of the cases, and tables keep it.
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
