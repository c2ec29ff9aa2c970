//! Texts and payload of a log request.
use crate::LogDirectives;
use peal_sdk::{Info, LogRequest, Value, key, status};

/// Prefix of the keys of channels and of formatting directives.
pub const RESERVED: &str = "pmix.log.";

/// Data to be written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Texts {
    /// Texts under the channel's own key and of `PMIX_LOG_MSG`, in their order.
    pub messages: Vec<String>,
    /// Data under no channel's key.
    pub payload: Vec<Info>,
}

impl Texts {
    /// Reads the infos of a request for the channel with this key: texts under its key, where a
    /// boolean only requests the payload, and payload.
    ///
    /// # Errors
    /// [`status::PMIX_ERR_BAD_PARAM`] for a value of the wrong type.
    pub fn of(infos: impl IntoIterator<Item = Info>, channel: &str) -> Result<Texts, i32> {
        let mut texts = Texts::default();
        for info in infos {
            match (info.key.as_str(), info.value) {
                (own, Value::Text(text)) if own == channel => texts.messages.push(text),
                (own, Value::Boolean(_)) if own == channel => {}
                (own, _) if own == channel => return Err(status::PMIX_ERR_BAD_PARAM),
                (key::PMIX_LOG_MSG, value) => texts.messages.push(message(value)?),
                (reserved, _) if reserved.starts_with(RESERVED) => {}
                (key, value) => texts.payload.push(Info::new(key, value)),
            }
        }
        Ok(texts)
    }

    /// Returns all lines, with the payload as text after its keys.
    pub fn all(&self) -> impl Iterator<Item = String> {
        let payload = self
            .payload
            .iter()
            .map(|info| format!("{}: {}", info.key, crate::readable(&info.value)));
        self.messages.iter().cloned().chain(payload)
    }

    /// Returns whether there are no data.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.payload.is_empty()
    }
}

/// Reads data and formatting of a request, by [`Texts::of`]. Calls the host once for each.
///
/// # Errors
/// Those of [`LogDirectives::of`], and [`status::PMIX_ERR_BAD_PARAM`] for a value of the wrong type
/// and for a request without data.
pub fn read(request: &LogRequest) -> Result<(LogDirectives, Texts), i32> {
    let data = request.data();
    let directives = LogDirectives::of(request, &data)?;
    let texts = Texts::of(data, request.channel())?;
    if texts.is_empty() {
        Err(status::PMIX_ERR_BAD_PARAM)
    } else {
        Ok((directives, texts))
    }
}

/// Converts bytes to text: the Standard does not define their content, and channels write text.
fn message(value: Value) -> Result<String, i32> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Bytes(bytes) => String::from_utf8(bytes).map_err(|_| status::PMIX_ERR_BAD_PARAM),
        _ => Err(status::PMIX_ERR_BAD_PARAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = key::PMIX_LOG_JOB_RECORD;

    fn texts(request: &LogRequest) -> Result<Texts, i32> {
        read(request).map(|(_, texts)| texts)
    }

    #[test]
    fn text_has_its_own_key_and_payload_a_common_one() {
        let request = LogRequest::for_test(OWN)
            .with(OWN, "first")
            .with("site.load", 5u32)
            .with(key::PMIX_LOG_EMAIL_SUBJECT, "not for it")
            .with(key::PMIX_LOG_MSG, b"blob".to_vec())
            .with(OWN, "second");
        let texts = texts(&request).unwrap();
        assert_eq!(texts.messages, ["first", "blob", "second"]);
        assert_eq!(texts.payload, [Info::new("site.load", 5u32)]);
        assert_eq!(
            texts.all().collect::<Vec<_>>(),
            ["first", "blob", "second", "site.load: 5"]
        );
    }

    #[test]
    fn boolean_means_the_payload() {
        let request = || LogRequest::for_test(OWN).with(OWN, true);
        assert!(
            texts(&request().with("site.load", 5u32))
                .unwrap()
                .messages
                .is_empty()
        );
        assert_eq!(texts(&request()), Err(status::PMIX_ERR_BAD_PARAM));
    }

    #[test]
    fn unreadable_text_refuses_whole_request() {
        let request = || LogRequest::for_test(OWN).with(OWN, "fine");
        for (key, value) in [
            (OWN, Value::from(1u64)),
            (OWN, Value::Undef),
            (key::PMIX_LOG_MSG, vec![0xffu8].into()),
        ] {
            assert_eq!(
                texts(&request().with(key, value)),
                Err(status::PMIX_ERR_BAD_PARAM)
            );
        }
        assert_eq!(
            texts(&LogRequest::for_test(OWN)),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
    }
}
