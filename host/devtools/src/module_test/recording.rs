//! Conversion of recordings, the output of `peal event watch -o json`, into cases.
use super::case::CaseError;
use peal_config::words;
use peal_model::{DataType, Status, names::DATA_TYPE_NAMES};
use serde::Deserialize;
use serde_json::Value as Json;
use std::path::Path;
use toml::{Table, Value};

/// Event in a recording.
#[derive(Deserialize)]
struct RecordedNames {
    code: SeenStatus,
    source: Option<String>,
    range: String,
    #[serde(default)]
    infos: Vec<SeenInfo>,
    #[serde(default)]
    chains: Vec<SeenChain>,
}

#[derive(Deserialize)]
struct SeenStatus {
    number: i32,
}

#[derive(Deserialize)]
struct SeenInfo {
    key: String,
    #[serde(rename = "type")]
    of: String,
    value: Json,
}

#[derive(Deserialize)]
struct SeenChain {
    results: Vec<SeenResult>,
}

#[derive(Deserialize)]
struct SeenResult {
    handler: String,
    status: SeenStatus,
    #[serde(default)]
    infos: Vec<SeenInfo>,
}

/// Recording as a case file, and the parts that have no form there.
#[derive(Debug)]
pub(super) struct RecordedCase {
    pub(super) cases: Table,
    pub(super) left_out: Vec<String>,
}

/// Returns true if a text is a recording: no case file begins in this way.
pub(super) fn is_recording(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Converts the events of a recording into cases. The result of the handler `module` becomes the
/// expectation; the results of earlier handlers become the chain results.
pub(super) fn cases(file: &Path, text: &str, module: &str) -> Result<RecordedCase, CaseError> {
    let mut cases = Vec::new();
    let mut left_out = Vec::new();
    let mut offset = 0;
    // The ends of the lines stay in, so that `offset` is a position in the whole text.
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if !line.trim().is_empty() {
            let seen: RecordedNames = serde_json::from_str(line).map_err(|error| {
                let message =
                    format!("this is no event as `peal event watch -o json` prints them: {error}");
                CaseError::at(
                    file,
                    text,
                    offset + error.column().saturating_sub(1),
                    &message,
                )
            })?;
            let mut keep = Keep {
                line: at + 1,
                left_out: &mut left_out,
            };
            cases.push(Value::Table(keep.case(&seen, module)));
        }
        offset += line.len();
    }
    let cases = Table::from_iter([("case".to_owned(), Value::Array(cases))]);
    Ok(RecordedCase { cases, left_out })
}

struct Keep<'a> {
    line: usize,
    left_out: &'a mut Vec<String>,
}

fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

fn code(status: &SeenStatus) -> Value {
    text(words::status_text(Status(status.number)))
}

impl Keep<'_> {
    fn case(&mut self, seen: &RecordedNames, module: &str) -> Table {
        let mut event = Table::from_iter([
            ("code".to_owned(), code(&seen.code)),
            ("range".to_owned(), text(seen.range.as_str())),
        ]);
        if let Some(source) = &seen.source {
            event.insert("source".to_owned(), text(proc_text(source)));
        }
        event.insert("infos".to_owned(), self.infos(&seen.infos));
        let name = format!(
            "line {}: {}",
            self.line,
            words::status_text(Status(seen.code.number))
        );
        let mut case = Table::from_iter([
            ("name".to_owned(), text(name)),
            ("event".to_owned(), Value::Table(event)),
        ]);
        let answered = seen.chains.iter().find_map(|chain| {
            let at = chain
                // A module sees the results of its own chain only.
                .results
                .iter()
                .position(|result| result.handler == module)?;
            chain.results.split_at_checked(at)
        });
        // An event that the module did not handle becomes a case without an expectation.
        if let Some((before, [own, ..])) = answered {
            let steps = before.iter().map(|result| {
                let mut step = self.answer(result);
                step.insert("name".to_owned(), text(result.handler.as_str()));
                Value::Table(step)
            });
            case.insert("steps".to_owned(), Value::Array(steps.collect()));
            case.insert("expect".to_owned(), Value::Table(self.answer(own)));
        }
        case
    }

    fn answer(&mut self, result: &SeenResult) -> Table {
        Table::from_iter([
            ("status".to_owned(), code(&result.status)),
            ("infos".to_owned(), self.infos(&result.infos)),
        ])
    }

    fn infos(&mut self, infos: &[SeenInfo]) -> Value {
        let mut kept = Vec::new();
        for info in infos {
            match info_value(info) {
                Some(value) => kept.push(value),
                None => self.left_out.push(format!(
                    "line {}: {} of type {}",
                    self.line, info.key, info.of
                )),
            }
        }
        Value::Array(kept)
    }
}

/// Returns the form of a proc in cases. A recording holds the wildcard rank by its name.
fn proc_text(seen: &str) -> String {
    seen.strip_suffix("PMIX_RANK_WILDCARD")
        .map_or_else(|| seen.to_owned(), |nspace| format!("{nspace}*"))
}

/// Returns the keyword of a type for its name in the Standard.
fn word(of: &str) -> Option<&'static str> {
    let number = DATA_TYPE_NAMES.iter().find(|entry| entry.1 == of)?.0;
    words::type_word(DataType(number))
}

fn info_value(info: &SeenInfo) -> Option<Value> {
    let mut table = Table::from_iter([("key".to_owned(), text(info.key.as_str()))]);
    if let Json::Array(items) = &info.value {
        table.extend(array(&info.key, items)?);
        return Some(Value::Table(table));
    }
    let word = word(&info.of)?;
    let value = scalar(word, &info.value)?;
    // A value that cannot be parsed again is left out, rather than changed.
    words::value(word, &value).ok()?;
    let short = format!("{}:{word}={value}", info.key);
    // A key with a colon or an equals sign would be parsed as another info.
    if words::info(&short).is_ok_and(|read| read.key.as_str() == info.key) {
        return Some(text(short));
    }
    table.extend([
        ("type".to_owned(), text(word)),
        ("value".to_owned(), text(value)),
    ]);
    Some(Value::Table(table))
}

/// Converts an array. Infos are recognized by their form. A recording does not hold the type of
/// other elements: they are taken as procs if all look so, else as strings.
fn array(key: &str, items: &[Json]) -> Option<Table> {
    if items.is_empty() {
        // An empty array does not show its type.
        return None;
    }
    let infos: Option<Vec<SeenInfo>> = items
        .iter()
        .map(|item| SeenInfo::deserialize(item).ok())
        .collect();
    if let Some(infos) = infos {
        // An array without one of its infos would be another value, so all of it is left out.
        let infos: Option<Vec<Value>> = infos.iter().map(info_value).collect();
        return Some(Table::from_iter([(
            "infos".to_owned(),
            Value::Array(infos?),
        )]));
    }
    let items: Option<Vec<&str>> = items.iter().map(Json::as_str).collect();
    let items: Vec<String> = items?.into_iter().map(proc_text).collect();
    // Under the key of a site a text may look like a proc by chance.
    let are_procs = key.starts_with("pmix.") && items.iter().all(|item| words::proc(item).is_ok());
    let of = if are_procs { "proc" } else { "string" };
    let items = items.into_iter().map(text).collect();
    Some(Table::from_iter([
        ("type".to_owned(), text(of)),
        ("values".to_owned(), Value::Array(items)),
    ]))
}

fn scalar(word: &str, value: &Json) -> Option<String> {
    Some(match (word, value) {
        // The name is followed by the number in brackets.
        ("status", Json::String(seen)) => seen.split(' ').next().unwrap_or_default().to_owned(),
        ("proc", Json::String(seen)) => proc_text(seen),
        ("rank", Json::String(seen)) if seen == "PMIX_RANK_WILDCARD" => "*".to_owned(),
        // A recording holds only their size.
        ("bytes" | "timeval", _) => return None,
        (_, Json::String(seen)) => seen.clone(),
        (_, Json::Bool(truth)) => truth.to_string(),
        (_, Json::Number(number)) => number.to_string(),
        // JSON has no NaN and no infinities.
        ("float" | "double", Json::Null) => "NaN".to_owned(),
        ("undef", Json::Null) => String::new(),
        _ => return None,
    })
}
