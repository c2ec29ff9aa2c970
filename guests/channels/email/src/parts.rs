//! Attributes of a mail, collected from the array, the data and the directives.
use peal_log_format::RESERVED;
use peal_sdk::{Info, LogRequest, Value, key, status};

/// Parts of a mail that a request gives.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parts {
    /// Sender.
    pub sender: Option<String>,
    /// Recipients.
    pub recipients: Vec<String>,
    /// Subject.
    pub subject: Option<String>,
    /// Text.
    pub text: Option<String>,
    /// Mail server.
    pub server: Option<String>,
    /// Port of the mail server.
    pub port: Option<u16>,
    /// Other data, including the infos of the arrays.
    pub data: Vec<Info>,
}

impl Parts {
    /// Reads the parts of a request with these data. Later sources take precedence: directives,
    /// data, and the arrays of the channel's own key.
    pub fn of(request: &LogRequest, data: Vec<Info>) -> Result<Parts, i32> {
        let mut parts = Parts::default();
        for info in request.directives() {
            parts.take(&info)?;
        }
        let (own, beside): (Vec<Info>, Vec<Info>) = data
            .into_iter()
            .partition(|info| info.key == request.channel());
        for info in beside {
            if !parts.take(&info)? {
                parts.data.push(info);
            }
        }
        for array in own {
            let Value::Infos(infos) = array.value else {
                return Err(status::PMIX_ERR_BAD_PARAM);
            };
            for info in infos {
                parts.take_inner(info)?;
            }
        }
        Ok(parts)
    }

    /// Reads an info of the array: an attribute, text or payload. Formatting is given among the
    /// directives.
    fn take_inner(&mut self, info: Info) -> Result<(), i32> {
        if self.take(&info)? {
            return Ok(());
        }
        if info.key.starts_with(RESERVED) && info.key != key::PMIX_LOG_MSG {
            return Err(status::PMIX_ERR_NOT_SUPPORTED);
        }
        self.data.push(info);
        Ok(())
    }

    /// Reads an attribute of the mail, or reports that the info is none.
    fn take(&mut self, info: &Info) -> Result<bool, i32> {
        let text = || match &info.value {
            Value::Text(text) => Ok(text.as_str()),
            _ => Err(status::PMIX_ERR_BAD_PARAM),
        };
        match info.key.as_str() {
            key::PMIX_LOG_EMAIL_ADDR => self.recipients = addresses(text()?)?,
            key::PMIX_LOG_EMAIL_SENDER_ADDR => self.sender = Some(address(text()?)?),
            key::PMIX_LOG_EMAIL_SUBJECT => self.subject = Some(one_line(text()?)?),
            key::PMIX_LOG_EMAIL_MSG => self.text = Some(text()?.to_owned()),
            key::PMIX_LOG_EMAIL_SERVER => self.server = Some(server(text()?)?),
            key::PMIX_LOG_EMAIL_SRVR_PORT => self.port = Some(port(&info.value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Parses comma-separated addresses.
pub fn addresses(text: &str) -> Result<Vec<String>, i32> {
    text.split(',')
        .map(|part| part.trim_matches(' '))
        .filter(|part| !part.is_empty())
        .map(address)
        .collect()
}

/// Checks an address, which may have a name before it. The sink validates it completely.
fn address(text: &str) -> Result<String, i32> {
    let text = one_line(text)?.trim().to_owned();
    let has_both = text
        .split_once('@')
        .is_some_and(|(user, domain)| !user.is_empty() && !domain.is_empty());
    if has_both {
        Ok(text)
    } else {
        Err(status::PMIX_ERR_BAD_PARAM)
    }
}

/// Checks text for a header.
pub fn one_line(text: &str) -> Result<String, i32> {
    let fits = |character: char| character != '\t' && peal_log_format::is_plain(character);
    if text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(status::PMIX_ERR_BAD_PARAM)
    }
}

fn server(text: &str) -> Result<String, i32> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(status::PMIX_ERR_BAD_PARAM)
    }
}

fn port(value: &Value) -> Result<u16, i32> {
    let port = value.as_i64().and_then(|port| u16::try_from(port).ok());
    port.filter(|port| *port != 0)
        .ok_or(status::PMIX_ERR_BAD_PARAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = key::PMIX_LOG_EMAIL;
    const BAD: Result<Parts, i32> = Err(status::PMIX_ERR_BAD_PARAM);

    fn parts(request: &LogRequest) -> Result<Parts, i32> {
        Parts::of(request, request.data())
    }

    fn infos(pairs: &[(&str, &str)]) -> Vec<Info> {
        pairs
            .iter()
            .map(|(key, text)| Info::new(*key, *text))
            .collect()
    }

    #[test]
    fn attributes_of_all_places_are_read_and_array_takes_precedence() {
        let array = infos(&[
            (key::PMIX_LOG_EMAIL_SUBJECT, "array"),
            (key::PMIX_LOG_EMAIL_MSG, "text"),
            ("site.inner", "x"),
        ]);
        let request = LogRequest::for_test(OWN)
            .with(OWN, array)
            .with(key::PMIX_LOG_EMAIL_SUBJECT, "beside")
            .with(key::PMIX_LOG_EMAIL_ADDR, "a@x.example, B <b@x.example>,")
            .with("site.outer", 5u32)
            .with_directive(key::PMIX_LOG_EMAIL_SUBJECT, "directive")
            .with_directive(key::PMIX_LOG_EMAIL_ADDR, "c@x.example")
            .with_directive(key::PMIX_LOG_EMAIL_SENDER_ADDR, "me@x.example")
            .with_directive(key::PMIX_LOG_EMAIL_SERVER, "mail.x.example")
            .with_directive(key::PMIX_LOG_EMAIL_SRVR_PORT, 587i32);
        let wanted = Parts {
            sender: Some("me@x.example".to_owned()),
            recipients: vec!["a@x.example".to_owned(), "B <b@x.example>".to_owned()],
            subject: Some("array".to_owned()),
            text: Some("text".to_owned()),
            server: Some("mail.x.example".to_owned()),
            port: Some(587),
            data: vec![Info::new("site.outer", 5u32), Info::new("site.inner", "x")],
        };
        assert_eq!(parts(&request), Ok(wanted));
    }

    #[test]
    fn wrong_types_are_refused_at_any_place() {
        for (key, value) in [
            (key::PMIX_LOG_EMAIL_ADDR, Value::from(1u32)),
            (key::PMIX_LOG_EMAIL_SENDER_ADDR, Value::Undef),
            (key::PMIX_LOG_EMAIL_SUBJECT, true.into()),
            (key::PMIX_LOG_EMAIL_MSG, b"bytes".to_vec().into()),
            (key::PMIX_LOG_EMAIL_SERVER, 1u32.into()),
            (key::PMIX_LOG_EMAIL_SRVR_PORT, "587".into()),
            (key::PMIX_LOG_EMAIL_SRVR_PORT, 0i32.into()),
            (key::PMIX_LOG_EMAIL_SRVR_PORT, 65_536i32.into()),
            (key::PMIX_LOG_EMAIL_SRVR_PORT, (-1i32).into()),
        ] {
            let request = || LogRequest::for_test(OWN);
            assert_eq!(parts(&request().with(key, value.clone())), BAD, "{key}");
            assert_eq!(
                parts(&request().with_directive(key, value.clone())),
                BAD,
                "{key}"
            );
            assert_eq!(
                parts(&request().with(OWN, vec![Info::new(key, value)])),
                BAD,
                "{key}"
            );
        }
        assert_eq!(parts(&LogRequest::for_test(OWN).with(OWN, "text")), BAD);
    }

    #[test]
    fn nothing_makes_a_header_of_its_own() {
        for text in [
            "a@x.example\r\nBcc: b@x.example",
            "a@x.example\n",
            "a\u{0}@x.example",
            "a\u{2028}@x.example",
        ] {
            for key in [
                key::PMIX_LOG_EMAIL_ADDR,
                key::PMIX_LOG_EMAIL_SENDER_ADDR,
                key::PMIX_LOG_EMAIL_SUBJECT,
            ] {
                assert_eq!(
                    parts(&LogRequest::for_test(OWN).with_directive(key, text)),
                    BAD,
                    "{key} {text:?}"
                );
            }
        }
        for server in ["", "mail.x.example\r\nQUIT", "two words"] {
            let request =
                LogRequest::for_test(OWN).with_directive(key::PMIX_LOG_EMAIL_SERVER, server);
            assert_eq!(parts(&request), BAD, "{server:?}");
        }
        for address in ["ops", "@x.example", "ops@"] {
            assert_eq!(
                addresses(address),
                Err(status::PMIX_ERR_BAD_PARAM),
                "{address}"
            );
        }
    }

    #[test]
    fn array_selects_no_form() {
        let array = vec![Info::new(key::PMIX_LOG_TAG_OUTPUT, true)];
        let request = LogRequest::for_test(OWN).with(OWN, array);
        assert_eq!(parts(&request), Err(status::PMIX_ERR_NOT_SUPPORTED));
    }
}
