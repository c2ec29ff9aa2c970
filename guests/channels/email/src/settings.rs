//! Settings of the mail channel.
use crate::parts::{addresses, one_line};
use peal_sdk::{Config, Value};

/// All settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Sink for mails.
    pub sink: String,
    /// Recipients of a mail that names none.
    pub recipients: Vec<String>,
    /// Subject of a mail that has none.
    pub subject: String,
    /// True if the mail ends with a line about the requester.
    pub footer: bool,
}

impl Settings {
    /// Reads the settings of a module with these sinks.
    pub fn read(config: &Config, sinks: &[String]) -> Result<Settings, String> {
        config.allow_only(&["sink", "recipients", "subject", "footer"])?;
        let wrong = |name: &str, what: &str| format!("the setting {name:?} is {what}");
        let recipients = addresses(config.text("recipients")?.unwrap_or_default());
        let subject = one_line(config.text("subject")?.unwrap_or("Message from a job"));
        let footer = config.get("footer").map_or(Some(true), Value::as_bool);
        Ok(Settings {
            sink: peal_log_format::opened(config, "sink", "mail", sinks)?,
            recipients: recipients
                .map_err(|_| wrong("recipients", "addresses with commas between them"))?,
            subject: subject
                .map_err(|_| wrong("subject", "one line without control characters"))?,
            footer: footer.ok_or_else(|| wrong("footer", "true or false"))?,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use peal_sdk::Info;

    /// Reads the settings, with the sink "mail".
    pub fn settings(given: impl IntoIterator<Item = Info>) -> Result<Settings, String> {
        Settings::read(&Config::for_test(given), &["mail".to_owned()])
    }

    #[test]
    fn all_settings_have_defaults() {
        let settings = settings([]).unwrap();
        let wanted = Settings {
            sink: "mail".to_owned(),
            recipients: Vec::new(),
            subject: "Message from a job".to_owned(),
            footer: true,
        };
        assert_eq!(settings, wanted);
    }

    #[test]
    fn invalid_settings_are_refused() {
        for (name, value, says) in [
            ("recipients", Value::from("ops"), "addresses"),
            (
                "recipients",
                "a@b.example\r\nBcc: c@d.example".into(),
                "addresses",
            ),
            ("subject", "one\ntwo".into(), "one line"),
            ("footer", "no".into(), "true or false"),
            ("sink", "post".into(), "not open"),
            ("server", "mail.example".into(), "there is no setting"),
        ] {
            let refused = settings([Info::new(name, value)]).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
