//! Formatting that a log request selects. Unknown directives are refused, not ignored.
use crate::texts::RESERVED;
use peal_sdk::{Info, InfoFlags, LogRequest, Value, key, status};

/// Formatting directives for any channel. Data take precedence over directives, later infos over
/// earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogDirectives {
    /// True if each line has the name of its channel.
    pub tagged: bool,
    /// True if each line has the time.
    pub dated: bool,
    /// True if the output is XML.
    pub xml: bool,
    /// Time of the request as stated by the requester, in seconds since the epoch.
    pub timestamp: Option<u64>,
}

impl LogDirectives {
    /// Reads the formatting of a request with these data.
    ///
    /// # Errors
    /// [`status::PMIX_ERR_BAD_PARAM`] for a value of the wrong type,
    /// [`status::PMIX_ERR_NOT_SUPPORTED`] for an unknown directive about logging, and for any other
    /// unknown directive that is required.
    pub fn of(request: &LogRequest, data: &[Info]) -> Result<LogDirectives, i32> {
        let mut directives = LogDirectives::default();
        let mut requested = [false; 2];
        for info in request.directives() {
            let is_known = directives.take(&info.key, &info.value, &mut requested)?;
            let must_be =
                info.key.starts_with(RESERVED) || info.flags.contains(InfoFlags::REQUIRED);
            if must_be && !is_known {
                return Err(status::PMIX_ERR_NOT_SUPPORTED);
            }
        }
        for info in data {
            directives.take(&info.key, &info.value, &mut requested)?;
        }
        directives.dated = requested.contains(&true);
        directives.timestamp = request.timestamp().or(directives.timestamp);
        Ok(directives)
    }

    /// Reads one directive, and returns whether it is known. `dated` receives the source of the
    /// request for the time.
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

    /// Checks that no XML is requested.
    ///
    /// # Errors
    /// [`status::PMIX_ERR_NOT_SUPPORTED`] if it is.
    pub fn no_xml(self) -> Result<LogDirectives, i32> {
        if self.xml {
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        } else {
            Ok(self)
        }
    }
}

/// Returns whether the host or a particular channel handles this key; channels ignore it otherwise.
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

/// Reads a truth value. An info without a value is true, as in the Standard's macros.
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

    fn directives(request: &LogRequest) -> Result<LogDirectives, i32> {
        LogDirectives::of(request, &request.data())
    }

    fn request() -> LogRequest {
        LogRequest::for_test(key::PMIX_LOG_STDOUT).with(key::PMIX_LOG_STDOUT, "text")
    }

    #[test]
    fn wishes_are_taken_from_data_and_directives_and_data_win() {
        let requested = request()
            .with_directive(key::PMIX_LOG_TAG_OUTPUT, true)
            .with_directive(key::PMIX_LOG_XML_OUTPUT, true)
            .with_directive(key::PMIX_LOG_GENERATE_TIMESTAMP, Value::Undef)
            .with_directive(key::PMIX_LOG_TIMESTAMP, Value::Time(5))
            .with_directive(key::PMIX_LOG_ONCE, true)
            .with_directive(key::PMIX_LOG_SYSLOG_PRI, 3i32)
            .with_directive("pmix.timeout", 1i32)
            .with(key::PMIX_LOG_XML_OUTPUT, false)
            .with(key::PMIX_LOG_TIMESTAMP_OUTPUT, false);
        let wanted = LogDirectives {
            tagged: true,
            dated: true,
            xml: false,
            timestamp: Some(5),
        };
        assert_eq!(directives(&requested), Ok(wanted));
        assert_eq!(
            directives(&requested.with_timestamp(7)),
            Ok(LogDirectives {
                timestamp: Some(7),
                ..wanted
            })
        );
        assert_eq!(directives(&request()), Ok(LogDirectives::default()));
    }

    #[test]
    fn unknown_and_invalid_options_are_refused() {
        let with = |key: &str, value: Value| directives(&request().with_directive(key, value));
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
            directives(&request().with(key::PMIX_LOG_XML_OUTPUT, 1i32)),
            Err(status::PMIX_ERR_BAD_PARAM)
        );
        let xml = request().with_directive(key::PMIX_LOG_XML_OUTPUT, true);
        assert_eq!(
            directives(&xml).and_then(LogDirectives::no_xml),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
    }
}
