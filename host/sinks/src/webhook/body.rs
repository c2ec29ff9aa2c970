//! Bodies of requests: made of what modules write, and checked while the requester waits.
use super::{WebhookFormat, WebhookSettings};
use crate::{
    SinkWriteError,
    queue::{QueuedMessage, unique_id},
};
use serde_json::{Map, Value, json};

/// Rules for the bodies of a sink.
#[derive(Debug)]
pub(crate) struct WebhookBody {
    name: String,
    peer: String,
    format: WebhookFormat,
    most: usize,
}

impl WebhookBody {
    pub(crate) fn new(name: &str, settings: &WebhookSettings) -> WebhookBody {
        WebhookBody {
            name: name.to_owned(),
            peer: settings.url.origin(),
            format: settings.format,
            most: settings.max_bytes,
        }
    }

    /// Returns the message that is posted, with a new id.
    pub(crate) fn message_for(&self, bytes: &[u8]) -> Result<QueuedMessage, SinkWriteError> {
        // Modules end what they write with a line end, which a body does not need.
        let bytes = bytes.trim_ascii_end();
        if bytes.is_empty() {
            return Err(SinkWriteError::Empty {
                name: self.name.clone(),
            });
        }
        // The size is checked before a body is made, which may be longer, and again after it.
        self.check_size(bytes.len())?;
        let body = match self.format {
            WebhookFormat::Text => self.text(bytes)?,
            WebhookFormat::Json => self.object(bytes)?,
        };
        self.check_size(body.len())?;
        Ok(QueuedMessage {
            peer: self.peer.clone(),
            head: unique_id(&self.name)?,
            body,
        })
    }

    fn text(&self, bytes: &[u8]) -> Result<Vec<u8>, SinkWriteError> {
        let refuse = |character: String, at| SinkWriteError::NoText {
            name: self.name.clone(),
            character,
            at,
        };
        let text = str::from_utf8(bytes)
            .map_err(|error| refuse("invalid UTF-8".to_owned(), error.valid_up_to()))?;
        let controls = |character: char| character.is_control() && !"\t\n".contains(character);
        if let Some((at, character)) = text.char_indices().find(|(_, found)| controls(*found)) {
            return Err(refuse(format!("U+{:04X}", u32::from(character)), at));
        }
        Ok(json!({ "text": without_markup(text) })
            .to_string()
            .into_bytes())
    }

    fn object(&self, bytes: &[u8]) -> Result<Vec<u8>, SinkWriteError> {
        // The parser bounds the depth. The bytes are sent as they are: numbers may have more digits
        // than the parsed ones.
        let parsed: Result<Map<String, Value>, _> = serde_json::from_slice(bytes);
        parsed
            .map(|_| bytes.to_owned())
            .map_err(|source| SinkWriteError::NoObject {
                name: self.name.clone(),
                source,
            })
    }

    fn check_size(&self, bytes: usize) -> Result<(), SinkWriteError> {
        SinkWriteError::check_size(&self.name, bytes, self.most)
    }
}

/// Escapes the characters with which chat services write links and notify groups: `<URL|text>`,
/// `<!channel>`.
fn without_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::code;
    use proptest::prelude::*;

    fn made(format: WebhookFormat, bytes: &[u8]) -> Result<String, SinkWriteError> {
        let settings = WebhookSettings {
            format,
            max_bytes: 40,
            ..WebhookSettings::new("https://chat.example.org/x".parse().unwrap())
        };
        let message = WebhookBody::new("s", &settings).message_for(bytes)?;
        assert_eq!(message.peer, "https://chat.example.org");
        Ok(String::from_utf8(message.body).unwrap())
    }

    #[test]
    fn text_becomes_a_field_without_markup() {
        for (text, body) in [
            ("half done\n", r#"{"text":"half done"}"#),
            ("a\n\tb\n\n", r#"{"text":"a\n\tb"}"#),
            (r#"","x":""#, r#"{"text":"\",\"x\":\""}"#),
            ("<!here> &", r#"{"text":"&lt;!here&gt; &amp;"}"#),
            ("Grüße", r#"{"text":"Grüße"}"#),
        ] {
            assert_eq!(made(WebhookFormat::Text, text.as_bytes()).unwrap(), body);
        }
    }

    #[test]
    fn objects_are_sent_as_they_were_written() {
        for text in [
            r#"{"a":1,"text":"x"}"#,
            r#"{ "n": 12345678901234567890123 }"#,
        ] {
            let line = format!("{text}\n");
            let body = made(WebhookFormat::Json, line.as_bytes());
            assert_eq!(body.unwrap(), text);
        }
    }

    #[test]
    fn invalid_message_is_refused_with_reason() {
        use WebhookFormat::{Json, Text};
        for (format, bytes, says) in [
            (Text, &b"\n"[..], "is empty"),
            (Text, b"a\x1b[2J", "has U+001B at byte 1"),
            (Text, b"a\rb", "has U+000D at byte 1"),
            (Text, b"a\xff", "has invalid UTF-8 at byte 1"),
            (Text, &[b'x'; 41], "has 41 bytes; the limit is 40"),
            // Its body has more.
            (Text, &[b'<'; 12], "has 59 bytes; the limit is 40"),
            (Json, b"", "is empty"),
            (Json, b"half", "is not one JSON object: expected value"),
            (
                Json,
                b"[{}]",
                "is not one JSON object: invalid type: sequence",
            ),
            (
                Json,
                b"{} {}",
                "is not one JSON object: trailing characters",
            ),
            (Json, b"{\"a\":1", "is not one JSON object: EOF"),
            (Json, b"{\"a\":\"\xff\"}", "is not one JSON object: "),
        ] {
            let refused = made(format, bytes).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
            assert_eq!(refused.status(), code::PMIX_ERR_BAD_PARAM);
        }
    }

    #[test]
    fn deep_object_is_refused() {
        let settings = WebhookSettings {
            format: WebhookFormat::Json,
            ..WebhookSettings::new("https://chat.example.org/x".parse().unwrap())
        };
        let body = WebhookBody::new("s", &settings);
        let nested = |depth| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        body.message_for(nested(100).as_bytes()).unwrap();
        let refused = body.message_for(nested(10_000).as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("recursion limit"), "{refused}");
    }

    proptest! {
        /// The text of any accepted message is one field, in which nothing is markup.
        #[test]
        fn accepted_text_is_one_field(text in "(?s:[<>&\"\\\\{}:,@!|a \t\n]|.){0,20}") {
            if let Ok(body) = made(WebhookFormat::Text, text.as_bytes()) {
                let body: Map<String, Value> = serde_json::from_str(&body).unwrap();
                let read = body["text"].as_str().unwrap();
                prop_assert_eq!(body.len(), 1);
                prop_assert!(!read.contains(['<', '>']));
                let read = read.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
                prop_assert_eq!(read, text.trim_end_matches(|end: char| end.is_ascii_whitespace()));
            }
        }
    }
}
