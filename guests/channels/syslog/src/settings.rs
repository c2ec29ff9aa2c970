//! Settings of the syslog channels.
use crate::facility;
use peal_sdk::{Config, key, status};

/// Minimum of the maximum message size: every receiver must accept this many bytes.
const LEAST: i64 = 480;
/// Maximum of the maximum message size.
const MOST: i64 = 65_536;

/// Format of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// RFC 5424.
    Rfc5424,
    /// RFC 3164.
    Rfc3164,
}

/// Destination of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Name of the sink.
    pub sink: String,
    /// Format of its messages.
    pub format: Format,
}

/// All settings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    local: Option<Target>,
    global: Option<Target>,
    /// Facility of requests that name none.
    pub facility: u8,
    /// Other facilities that a requester may name.
    pub facilities: Vec<u8>,
    /// Hostname in messages; none: the receiver adds it.
    pub hostname: Option<String>,
    max_bytes: Option<usize>,
}

impl Settings {
    /// Reads the settings of a module with these sinks.
    pub fn read(config: &Config, sinks: &[String]) -> Result<Settings, String> {
        config.allow_only(&[
            "local",
            "global",
            "format",
            "local_format",
            "facility",
            "facilities",
            "hostname",
            "max_bytes",
        ])?;
        let format = format(config, "format")?.unwrap_or(Format::Rfc5424);
        let local_format = self::format(config, "local_format")?.unwrap_or(format);
        let local = target(config, "local", "local-syslog", local_format, sinks)?;
        let global = target(config, "global", "global-syslog", format, sinks)?;
        if local.is_none() && global.is_none() {
            return Err(
                "no syslog is open to this module: name \"local-syslog\" or \"global-syslog\" in its \"sinks\", \
                        or name its sinks by the settings \"local\" and \"global\""
                    .to_owned(),
            );
        }
        let facilities = config
            .list("facilities")?
            .unwrap_or(facility::FOR_ANYBODY.to_vec());
        Ok(Settings {
            local,
            global,
            facility: facility::number(config.text("facility")?.unwrap_or("user"))?,
            facilities: facilities
                .into_iter()
                .map(facility::number)
                .collect::<Result<Vec<u8>, String>>()?,
            hostname: hostname(config)?,
            max_bytes: config
                .number("max_bytes", LEAST..=MOST)?
                .and_then(|most| usize::try_from(most).ok()),
        })
    }

    /// Returns the destination of the channel of this key.
    pub fn target(&self, channel: &str) -> Result<&Target, i32> {
        let target = match channel {
            key::PMIX_LOG_LOCAL_SYSLOG => self.local.as_ref(),
            key::PMIX_LOG_GLOBAL_SYSLOG => self.global.as_ref(),
            key::PMIX_LOG_SYSLOG => self.global.as_ref().or(self.local.as_ref()),
            _ => return Err(status::PMIX_ERR_NOT_SUPPORTED),
        };
        target.ok_or(status::PMIX_ERR_NOT_AVAILABLE)
    }

    /// Returns the maximum size of a message in bytes: the one that receivers should accept by its
    /// format, unless configured.
    pub fn max_bytes(&self, format: Format) -> usize {
        let usual = match format {
            Format::Rfc5424 => 2048,
            Format::Rfc3164 => 1024,
        };
        self.max_bytes.unwrap_or(usual)
    }
}

fn format(config: &Config, name: &str) -> Result<Option<Format>, String> {
    match config.text(name)? {
        None => Ok(None),
        Some("rfc5424") => Ok(Some(Format::Rfc5424)),
        Some("rfc3164") => Ok(Some(Format::Rfc3164)),
        Some(other) => Err(format!(
            "the setting {name:?} is {other:?}; there are rfc5424 and rfc3164"
        )),
    }
}

/// Reads the destination of one of the two sinks, which may be missing unless its name is
/// configured.
fn target(
    config: &Config,
    setting: &str,
    default: &str,
    format: Format,
    sinks: &[String],
) -> Result<Option<Target>, String> {
    if config.text(setting)?.is_none() && !sinks.iter().any(|sink| sink == default) {
        return Ok(None);
    }
    Ok(Some(Target {
        sink: peal_log_format::opened(config, setting, default, sinks)?,
        format,
    }))
}

fn hostname(config: &Config) -> Result<Option<String>, String> {
    let name = config.text("hostname")?.unwrap_or("-");
    if name.is_empty() || name.len() > 255 || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "the setting \"hostname\" is {name:?}; it is a name of at most 255 characters of ASCII"
        ));
    }
    Ok(Some(name.to_owned()).filter(|name| name != "-"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use peal_sdk::Info;

    /// Reads the settings, with both sinks.
    pub fn settings(given: impl IntoIterator<Item = Info>) -> Result<Settings, String> {
        Settings::read(
            &Config::for_test(given),
            &["global-syslog".to_owned(), "local-syslog".to_owned()],
        )
    }

    fn sink_of(settings: &Settings, channel: &str) -> Result<String, i32> {
        settings.target(channel).map(|target| target.sink.clone())
    }

    #[test]
    fn syslog_is_the_global_one_where_there_is_one() {
        let with = |sinks: &[&str]| {
            let sinks: Vec<String> = sinks.iter().map(|sink| (*sink).to_owned()).collect();
            let settings = Settings::read(&Config::for_test([]), &sinks).unwrap();
            [
                key::PMIX_LOG_LOCAL_SYSLOG,
                key::PMIX_LOG_GLOBAL_SYSLOG,
                key::PMIX_LOG_SYSLOG,
            ]
            .map(|channel| sink_of(&settings, channel))
        };
        let local = Ok("local-syslog".to_owned());
        let global = Ok("global-syslog".to_owned());
        let missing = Err(status::PMIX_ERR_NOT_AVAILABLE);
        assert_eq!(
            with(&["global-syslog", "local-syslog"]),
            [local.clone(), global.clone(), global.clone()]
        );
        assert_eq!(
            with(&["local-syslog"]),
            [local.clone(), missing.clone(), local]
        );
        assert_eq!(with(&["global-syslog"]), [missing, global.clone(), global]);
        let both = settings([]).unwrap();
        assert_eq!(
            sink_of(&both, key::PMIX_LOG_STDOUT),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
    }

    #[test]
    fn sinks_have_the_names_that_are_set_and_must_be_open() {
        let sinks = ["stdout".to_owned()];
        let read = |info| Settings::read(&Config::for_test([info]), &sinks);
        assert_eq!(
            sink_of(
                &read(Info::new("global", "stdout")).unwrap(),
                key::PMIX_LOG_SYSLOG
            ),
            Ok("stdout".to_owned())
        );
        assert!(
            read(Info::new("global", "elsewhere"))
                .unwrap_err()
                .contains("\"elsewhere\"")
        );
        assert!(
            read(Info::new("hostname", "node"))
                .unwrap_err()
                .contains("no syslog is open")
        );
    }

    #[test]
    fn the_local_syslog_may_have_a_form_of_its_own() {
        let formats = |given: Vec<Info>| {
            let settings = settings(given).unwrap();
            [key::PMIX_LOG_LOCAL_SYSLOG, key::PMIX_LOG_GLOBAL_SYSLOG]
                .map(|channel| settings.target(channel).unwrap().format)
        };
        assert_eq!(formats(Vec::new()), [Format::Rfc5424; 2]);
        assert_eq!(
            formats(vec![Info::new("format", "rfc3164")]),
            [Format::Rfc3164; 2]
        );
        assert_eq!(
            formats(vec![Info::new("local_format", "rfc3164")]),
            [Format::Rfc3164, Format::Rfc5424]
        );
        let long = settings([Info::new("max_bytes", 480)]).unwrap();
        let usual = settings([]).unwrap();
        let most = |settings: &Settings| {
            [Format::Rfc5424, Format::Rfc3164].map(|format| settings.max_bytes(format))
        };
        assert_eq!((most(&usual), most(&long)), ([2048, 1024], [480, 480]));
    }

    #[test]
    fn invalid_settings_are_refused_with_valid_values() {
        for (name, value, says) in [
            ("format", "rfc1", "there are rfc5424 and rfc3164"),
            ("facility", "kern", "is no facility"),
            ("facilities", "user, moon", "\"moon\" is no facility"),
            ("hostname", "two words", "\"hostname\""),
            ("hostname", "", "\"hostname\""),
            ("max_bytes", "many", "from 480 to 65536"),
            ("port", "514", "there is no setting \"port\""),
        ] {
            let refused = settings([Info::new(name, value)]).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
