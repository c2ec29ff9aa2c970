//! Texts of a log request that the host environment writes itself.
use peal_model::{Info, Key, Status, Value, code, key};
use peal_server::admin::json_value;

/// Prefix of the keys of channels and log directives.
const RESERVED: &str = "pmix.log.";

/// Returns the texts of a request for a channel, in the format of channel components. Those are
/// the values of the channel's key and of `PMIX_LOG_MSG`, and other infos with their keys. Values
/// that are no text are written as JSON.
///
/// # Errors
/// `PMIX_ERR_BAD_PARAM` for a value that should be a text and is none, and for a request without
/// texts.
pub(super) fn texts(channel: &Key, data: &[Info]) -> Result<Vec<Vec<u8>>, Status> {
    let mut texts = Vec::new();
    for Info { key, value, .. } in data {
        let text = match value {
            Value::String(Some(text)) => Some(text.as_bytes().to_vec()),
            _ => None,
        };
        if key == channel {
            texts.push(text.ok_or(code::PMIX_ERR_BAD_PARAM)?);
        } else if *key == key::PMIX_LOG_MSG {
            let bytes = match value {
                Value::ByteObject(bytes) => Some(bytes.as_slice().to_vec()),
                _ => None,
            };
            texts.push(text.or(bytes).ok_or(code::PMIX_ERR_BAD_PARAM)?);
        // Other keys with this prefix are directives or further channels, not payload.
        } else if !key.as_str().starts_with(RESERVED) {
            let shown = text.unwrap_or_else(|| match json_value(value) {
                serde_json::Value::Null => Vec::new(),
                serde_json::Value::String(words) => words.into_bytes(),
                other => other.to_string().into_bytes(),
            });
            texts.push([key.as_str().as_bytes(), b": ", &shown].concat());
        }
    }
    if texts.is_empty() {
        Err(code::PMIX_ERR_BAD_PARAM)
    } else {
        Ok(texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Bytes, KeyName};

    const OUT: KeyName = key::PMIX_LOG_STDOUT;

    fn of(data: &[(KeyName, Value)]) -> Result<Vec<String>, Status> {
        let data: Vec<Info> = data
            .iter()
            .map(|(key, value)| Info::new(*key, value.clone()))
            .collect();
        let texts = texts(&OUT.into(), &data)?;
        Ok(texts
            .into_iter()
            .map(|text| String::from_utf8(text).unwrap())
            .collect())
    }

    #[test]
    fn payload_is_written_behind_its_key() {
        let load = KeyName("site.load");
        let text = |text| Value::string(text);
        let written = of(&[
            (OUT, text("one")),
            (load, Value::Uint32(5)),
            (load, text("high")),
            (load, Value::Undef),
        ]);
        assert_eq!(
            written.unwrap(),
            ["one", "site.load: 5", "site.load: high", "site.load: "]
        );
        let message = Value::ByteObject(Bytes::from(&b"blob"[..]));
        assert_eq!(
            of(&[
                (key::PMIX_LOG_MSG, message),
                (key::PMIX_LOG_EMAIL_SUBJECT, text("mail"))
            ])
            .unwrap(),
            ["blob"]
        );
    }

    #[test]
    fn request_without_text_is_refused() {
        for data in [
            &[][..],
            &[(OUT, Value::Bool(true))],
            &[(key::PMIX_LOG_MSG, Value::Uint32(5))],
        ] {
            assert_eq!(of(data), Err(code::PMIX_ERR_BAD_PARAM));
        }
    }
}
