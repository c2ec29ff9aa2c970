//! Records as JSON for people and scripts. Bytes that are valid text appear as text.
use crate::AuditError;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ciborium::Value as Cbor;
use serde_json::{Map, Value as Json};
use std::{
    fmt::Write as _,
    time::{Duration, UNIX_EPOCH},
};

/// Formats a time in milliseconds since the epoch for people.
pub fn shown_time(at: u64) -> String {
    let mut text = String::new();
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(at));
    // An altered row can hold a time outside of the calendar; it is shown as a number.
    let shown = time.map(|time| write!(text, "{}", humantime::format_rfc3339_millis(time)));
    if matches!(shown, Some(Ok(()))) {
        text
    } else {
        format!("{at} ms")
    }
}

/// Converts the body of a record to JSON. Bytes that are not text appear in base64 after `base64:`,
/// numbers that JSON lacks as text.
pub fn readable(body: &[u8]) -> Result<Json, AuditError> {
    Ok(json(
        crate::entry::from_cbor(body).map_err(AuditError::from)?,
    ))
}

fn json(tree: Cbor) -> Json {
    match tree {
        Cbor::Integer(number) => {
            // `serde_json` has integers of at most 64 bits.
            let number = i128::from(number);
            u64::try_from(number)
                .map(Json::from)
                .or_else(|_| i64::try_from(number).map(Json::from))
                .unwrap_or(Json::Null)
        }
        Cbor::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Json::String(text),
            Err(error) => Json::String(format!("base64:{}", STANDARD.encode(error.as_bytes()))),
        },
        // JSON has neither infinities nor NaN.
        Cbor::Float(number) => serde_json::Number::from_f64(number)
            .map_or_else(|| Json::String(number.to_string()), Json::Number),
        Cbor::Text(text) => Json::String(text),
        Cbor::Bool(truth) => Json::Bool(truth),
        Cbor::Array(items) => Json::Array(items.into_iter().map(json).collect()),
        Cbor::Map(entries) => {
            let name = |key: Cbor| key.into_text().unwrap_or_else(|other| format!("{other:?}"));
            Json::Object(
                entries
                    .into_iter()
                    .map(|(key, value)| (name(key), json(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Cbor::Tag(_, inner) => json(*inner),
        _ => Json::Null,
    }
}
