//! How a request wishes to be written. What no channel knows is refused, not left out.
use crate::texts::RESERVED;
use peal_sdk::{Info, InfoFlags, LogRequest, Value, key, status};

/// What a request asks of any channel. Data win over directives, and what comes later over what came before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wishes {
    /// Each line with the name of its channel.
    pub tagged: bool,
    /// Each line with the time.
    pub dated: bool,
    /// As XML.
    pub xml: bool,
    /// When it was logged by the requester's word, in seconds since the epoch.
    pub timestamp: Option<u64>,
}

impl Wishes {
    /// Those of this request, whose data are these.
    ///
    /// # Errors
    /// [`status::PMIX_ERR_BAD_PARAM`] for a value of the wrong type, [`status::PMIX_ERR_NOT_SUPPORTED`] for a directive about
    /// logging that is unknown, and for any other unknown one that is required.
    pub fn of(request: &LogRequest, data: &[Info]) -> Result<Wishes, i32> {
        let mut wishes = Wishes::default();
        let mut asked = [false; 2];
        for info in request.directives() {
            let is_known = wishes.take(&info.key, &info.value, &mut asked)?;
            let must_be =
                info.key.starts_with(RESERVED) || info.flags.contains(InfoFlags::REQUIRED);
            if must_be && !is_known {
                return Err(status::PMIX_ERR_NOT_SUPPORTED);
            }
        }
        for info in data {
            wishes.take(&info.key, &info.value, &mut asked)?;
        }
        wishes.dated = asked.contains(&true);
        wishes.timestamp = request.timestamp().or(wishes.timestamp);
        Ok(wishes)
    }

    /// Takes one of them, or says that it is none that is known. `dated` says who asked for the time.
    fn take(&mut self, key: &str, value: &Value, dated: &mut [bool; 2]) -> Result<bool, i32> {
        let [generate, output] = dated;
        match key {
            key::PMIX_LOG_TAG_OUTPUT => self.tagged = flag(value)?,
            key::PMIX_LOG_XML_OUTPUT => self.xml = flag(value)?,
            key::PMIX_LOG_GENERATE_TIMESTAMP => *generate = flag(value)?,
            key::PMIX_LOG_TIMESTAMP_OUTPUT => *output = flag(value)?,
            key::PMIX_LOG_TIMESTAMP => {
                self.timestamp = Some(value.as_u64().ok_or(status::PMIX_ERR_BAD_PARAM)?)
            }
            other => return Ok(is_of_others(other)),
        }
        Ok(true)
    }

    /// That no XML is asked for.
    ///
    /// # Errors
    /// [`status::PMIX_ERR_NOT_SUPPORTED`] where it is.
    pub fn no_xml(self) -> Result<Wishes, i32> {
        if self.xml {
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        } else {
            Ok(self)
        }
    }
}

/// What the host minds, or a channel that reads it itself; all others have nothing to do with it.
fn is_of_others(key: &str) -> bool {
    const HOST: [&str; 5] = [
        key::PMIX_LOG_ONCE,
        key::PMIX_LOG_AGG,
        key::PMIX_LOG_KEY,
        key::PMIX_LOG_VAL,
        key::PMIX_LOG_SOURCE,
    ];
    const CHANNELS: [&str; 7] = [
        key::PMIX_LOG_SYSLOG_PRI,
        key::PMIX_LOG_EMAIL_ADDR,
        key::PMIX_LOG_EMAIL_SENDER_ADDR,
        key::PMIX_LOG_EMAIL_SUBJECT,
        key::PMIX_LOG_EMAIL_MSG,
        key::PMIX_LOG_EMAIL_SERVER,
        key::PMIX_LOG_EMAIL_SRVR_PORT,
    ];
    HOST.contains(&key) || CHANNELS.contains(&key)
}

/// A truth value. An info without a value is true, as the Standard's macros read it.
fn flag(value: &Value) -> Result<bool, i32> {
    match value {
        Value::Boolean(truth) => Ok(*truth),
        Value::Undef => Ok(true),
        _ => Err(status::PMIX_ERR_BAD_PARAM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(request: &LogRequest) -> Result<Wishes, i32> {
        Wishes::of(request, &request.data())
    }

    fn request() -> LogRequest {
        LogRequest::for_test(key::PMIX_LOG_STDOUT).with(key::PMIX_LOG_STDOUT, "text")
    }

    #[test]
    fn wishes_are_taken_from_data_and_directives_and_data_win() {
        let asked = request()
            .with_directive(key::PMIX_LOG_TAG_OUTPUT, true)
            .with_directive(key::PMIX_LOG_XML_OUTPUT, true)
            .with_directive(key::PMIX_LOG_GENERATE_TIMESTAMP, Value::Undef)
            .with_directive(key::PMIX_LOG_TIMESTAMP, Value::Time(5))
            .with_directive(key::PMIX_LOG_ONCE, true)
            .with_directive(key::PMIX_LOG_SYSLOG_PRI, 3i32)
            .with_directive("pmix.timeout", 1i32)
            .with(key::PMIX_LOG_XML_OUTPUT, false)
            .with(key::PMIX_LOG_TIMESTAMP_OUTPUT, false);
        let wanted = Wishes {
            tagged: true,
            dated: true,
            xml: false,
            timestamp: Some(5),
        };
        assert_eq!(wishes(&asked), Ok(wanted));
        assert_eq!(
            wishes(&asked.at(7)),
            Ok(Wishes {
                timestamp: Some(7),
                ..wanted
            })
        );
        assert_eq!(wishes(&request()), Ok(Wishes::default()));
    }

    #[test]
    fn unknown_and_invalid_options_are_refused() {
        let with = |key: &str, value: Value| wishes(&request().with_directive(key, value));
        assert_eq!(
            with("pmix.log.colour", true.into()),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
        for key in [key::PMIX_LOG_TAG_OUTPUT, key::PMIX_LOG_TIMESTAMP] {
            assert_eq!(
                with(key, "yes".into()),
                Err(status::PMIX_ERR_BAD_PARAM),
                "{key}"
            );
        }
        assert_eq!(
            wishes(&request().with(key::PMIX_LOG_XML_OUTPUT, 1i32)),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
        let xml = request().with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        assert_eq!(
            wishes(&xml).and_then(Wishes::no_xml),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
    }
}
