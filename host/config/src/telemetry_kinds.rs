//! Kinds of the values in `[telemetry]`.
use crate::{
    kinds::{TextKind, ValueKind},
    parser::DocumentParser,
};
use peal_sinks::WebhookUrl;
use toml::{Spanned, Value, de::DeValue};

/// Maximum length of a resource attribute, in bytes.
const MAX_ATTRIBUTE: usize = 256;

/// Kind of the URL of a collector. Without TLS it is on this machine.
pub(crate) struct CollectorUrl;

impl ValueKind<WebhookUrl> for CollectorUrl {
    fn read(
        &self,
        value: &Spanned<DeValue<'_>>,
        reading: &mut DocumentParser<'_>,
    ) -> Option<WebhookUrl> {
        let url = value.get_ref().as_str().and_then(|text| text.parse().ok());
        let url = url
            .filter(|url: &WebhookUrl| !url.has_query() && (url.is_https() || url.is_loopback()));
        if url.is_none() {
            reading.refuse(value, &self.accepted_values());
        }
        url
    }

    fn write(&self, value: &WebhookUrl) -> Option<Value> {
        Some(Value::String(value.to_string()))
    }

    fn accepted_values(&self) -> String {
        "https://HOST:PORT, or http:// and a loopback address in digits, as in \
         \"http://127.0.0.1:4318\"; a path may follow, without a query"
            .to_owned()
    }

    fn is_text(&self) -> bool {
        true
    }
}

/// Kind of a resource attribute, `NAME=VALUE`.
pub(crate) struct ResourceAttributeKind;

impl TextKind for ResourceAttributeKind {
    fn fits(&self, text: &str) -> bool {
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        text.len() <= MAX_ATTRIBUTE
            && text.split_once('=').is_some_and(|(name, value)| {
                !name.is_empty()
                    && name.chars().all(is_in_name)
                    && !value.is_empty()
                    && !value.contains(char::is_control)
            })
    }

    fn accepted_values(&self) -> String {
        format!(
            "an attribute NAME=VALUE of at most {MAX_ATTRIBUTE} bytes, as in \
             \"deployment.environment.name=production\""
        )
    }
}
