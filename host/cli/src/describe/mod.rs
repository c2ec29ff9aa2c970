//! `peal describe`: everything that is known about one thing.
mod job;
mod module;
mod record;
mod text;

use crate::{
    args::{DescribeCommand, OutputFormat},
    output,
};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};
use std::process::ExitCode;

/// Runs the command.
pub fn run(command: DescribeCommand) -> Result<ExitCode> {
    match command {
        DescribeCommand::Module(args) => module::describe(args),
        DescribeCommand::Job(args) => job::describe(args),
        DescribeCommand::Denial(args) => record::denial(args),
        DescribeCommand::Event(args) => record::event(args),
    }
}

/// Parts of a description, in their order.
#[derive(Default)]
struct DescribedParts {
    parts: Vec<DescribedPart>,
}

/// Part of a description.
struct DescribedPart {
    title: &'static str,
    value: Value,
}

impl DescribedParts {
    /// Adds a part; null for one that is not known.
    fn add(&mut self, title: &'static str, value: impl Serialize) -> Result<()> {
        let value = serde_json::to_value(value)?;
        self.parts.push(DescribedPart { title, value });
        Ok(())
    }

    /// Adds a part, or reports on standard error why it is not known.
    fn add_known<T: Serialize>(&mut self, title: &'static str, known: Result<T>) -> Result<()> {
        match known {
            Ok(value) => self.add(title, value),
            Err(error) => {
                crate::print_line(&format!("no {title}: {}", crate::error_text(&error)));
                self.add(title, Value::Null)
            }
        }
    }

    fn print(self, format: OutputFormat) -> Result<ExitCode> {
        output::print(&match format {
            OutputFormat::Data(form) => {
                let parts = self.parts.into_iter();
                let parts = parts.map(|part| (part.title.to_owned(), part.value));
                form.document(&parts.collect::<Map<String, Value>>())?
            }
            _ => text::description(&self.parts),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
