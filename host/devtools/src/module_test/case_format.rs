//! Infos and results in the format of case files.
use super::{
    case_parse::InfoWord,
    result::{CaseResult, change, failure_word},
};
use peal_config::words::{hex, info_text, range_text, status_text, value_text};
use peal_model::{DataArray, Info, InfoFlags, Value as PmixValue, data_type};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Formats an info for a case; `None` if its value has no form there.
pub(super) fn info_value(info: &Info) -> Option<Value> {
    if let Some(short) = info_text(info) {
        return Some(text(short));
    }
    let mut entries = table([(
        "key",
        text(info.key.standard_name().unwrap_or(info.key.as_str())),
    )]);
    match &info.value {
        PmixValue::DataArray(array) => entries.extend(array_table(array)?),
        value => {
            let (word, value) = value_text(value)?;
            entries.extend(table([("type", text(word)), ("value", text(value))]));
        }
    }
    let flags = [
        (InfoFlags::REQUIRED, "required"),
        (InfoFlags::ARRAY_END, "array-end"),
    ];
    let set: Vec<Value> = flags
        .iter()
        .filter(|(flag, _)| info.flags.contains(*flag))
        .map(|(_, word)| text(*word))
        .collect();
    if !set.is_empty() {
        entries.insert("flags".to_owned(), Value::Array(set));
    }
    // Text that would be parsed as another info is no form of this one.
    let read = InfoWord::deserialize(Value::Table(entries.clone())).ok()?;
    (read.0.flags == info.flags && read.0.key == info.key).then_some(Value::Table(entries))
}

fn array_table(array: &DataArray) -> Option<Table> {
    if let Some(infos) = array.as_infos() {
        let infos: Option<Vec<Value>> = infos.into_iter().map(info_value).collect();
        return Some(table([("infos", Value::Array(infos?))]));
    }
    // An array has no form as a text, so inner arrays are tables.
    if array.element() == data_type::PMIX_DATA_ARRAY {
        let inner = |item: &PmixValue| match item {
            PmixValue::DataArray(array) => array_table(array).map(Value::Table),
            _ => None,
        };
        let items: Option<Vec<Value>> = array.items().iter().map(inner).collect();
        return Some(table([
            ("type", text("array")),
            ("values", Value::Array(items?)),
        ]));
    }
    let items: Option<Vec<(&str, String)>> = array.items().iter().map(value_text).collect();
    let items = items?;
    let word = match items.first() {
        Some((word, _)) => word,
        // An empty array has no element that shows its type.
        None => peal_config::words::type_word(array.element())?,
    };
    let items = items.iter().map(|(_, item)| text(item.as_str())).collect();
    Some(table([
        ("type", text(word)),
        ("values", Value::Array(items)),
    ]))
}

/// Formats an info for a case, in one line.
pub(super) fn info_line(info: &Info) -> String {
    match info_value(info) {
        // Escaped quotes would be harder to read, and nothing here needs them.
        Some(Value::String(short)) => short
            .escape_debug()
            .to_string()
            .replace("\\\"", "\"")
            .replace("\\'", "'"),
        Some(value) => value.to_string(),
        None => format!("{info:?}"),
    }
}

/// Formats bytes for a case, in one line.
pub(super) fn bytes_text(bytes: &[u8]) -> String {
    bytes_value(bytes).to_string()
}

fn bytes_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        // Other control characters could not be seen in a file, so these bytes become digits.
        Ok(plain) if !plain.chars().any(|of| of.is_control() && of != '\n') => text(plain),
        _ => Value::Table(table([("bytes", text(hex(bytes)))])),
    }
}

fn named_bytes(bytes: &BTreeMap<String, Vec<u8>>) -> Value {
    Value::Table(
        bytes
            .iter()
            .map(|(name, bytes)| (name.clone(), bytes_value(bytes)))
            .collect(),
    )
}

/// Formats infos for a case; those without a form are left out.
fn infos(of: &[Info]) -> Value {
    Value::Array(of.iter().filter_map(info_value).collect())
}

impl CaseResult {
    /// Returns the expectation that this result fulfils.
    pub(super) fn expectation(&self) -> Table {
        let mut expect = Table::new();
        let mut add = |name: &str, value: Value| drop(expect.insert(name.to_owned(), value));
        // Nothing was called or nothing was started, so there is nothing else to expect.
        if self.is_passed_over {
            add("called", Value::Boolean(false));
            return expect;
        }
        if let Some(reason) = &self.refused {
            add("refused", text(reason.as_str()));
            return expect;
        }
        if let Some(failure) = &self.failure {
            add("failure", text(failure_word(failure.kind)));
        }
        if let Some(outcome) = self.outcome {
            add("outcome", text(outcome));
        }
        if let Some(status) = self.status {
            add("status", text(status_text(status)));
        }
        add("infos", infos(&self.infos));
        for (how, changed) in [("amended", &self.amended), ("rewritten", &self.rewritten)] {
            if let Some(changed) = changed {
                add(how, infos(changed));
            }
        }
        if let Some(range) = self.range.and_then(range_text) {
            add("range", text(range));
        }
        if !self.raises.is_empty() {
            let raised = self.raises.iter().map(|raised| {
                let range = text(range_text(raised.range).unwrap_or("session"));
                let head = table([("code", text(status_text(raised.code))), ("range", range)]);
                Value::Table(
                    head.into_iter()
                        .chain(table([("infos", infos(&raised.infos))]))
                        .collect(),
                )
            });
            add("raises", Value::Array(raised.collect()));
        }
        if !self.changes.is_empty() {
            add(
                "changes",
                Value::Array(self.changes.iter().map(|of| text(change(of))).collect()),
            );
        }
        if !self.controls.is_empty() {
            let controls = self.controls.iter().map(|request| {
                let targets = request
                    .targets
                    .iter()
                    .map(|proc| text(proc.to_string()))
                    .collect();
                Value::Table(table([
                    ("targets", Value::Array(targets)),
                    ("directives", infos(&request.directives)),
                ]))
            });
            add("controls", Value::Array(controls.collect()));
        }
        if !self.reports.is_empty() {
            let reports = self.reports.iter().map(|request| {
                Value::Table(table([
                    ("data", infos(&request.data)),
                    ("directives", infos(&request.directives)),
                ]))
            });
            add("reports", Value::Array(reports.collect()));
        }
        if !self.logs.is_empty() {
            add(
                "logs",
                Value::Array(self.logs.iter().map(|line| text(line.as_str())).collect()),
            );
        }
        if !self.state.is_empty() {
            add("state", named_bytes(&self.state));
        }
        if !self.writes.is_empty() {
            add("writes", named_bytes(&self.writes));
        }
        expect
    }
}
