//! Settings of the administrator.
use peal_sdk::{Config, Value, key};
use std::time::Duration;

/// Settings, as `peal-module.toml` declares them.
#[derive(Debug)]
pub struct Settings {
    /// Codes of the remembered events; none: all.
    pub codes: Vec<i32>,
    /// Number of events of a job that a report has.
    pub events: usize,
    /// Abnormal ends that are reported.
    pub ends: ReportedEnds,
    /// Time after which the usage of a proc is asked for again; none: it is never asked for.
    pub sample: Option<Duration>,
    /// Pattern of the file with the output of a proc.
    pub output: Option<String>,
    /// Number of lines of output that a report has.
    pub lines: usize,
    /// Key of the log channel.
    pub channel: &'static str,
}

/// Abnormal ends of a job that are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportedEnds {
    First,
    All,
}

const NAMES: [&str; 7] = [
    "codes", "events", "each", "sample", "output", "lines", "log",
];

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// Returns a message for the administrator that names the setting.
    pub fn read(config: &Config) -> Result<Settings, String> {
        config.allow_only(&NAMES)?;
        let number = |name, least, most, default: u32| -> Result<u32, String> {
            let number = config.number(name, least..=most)?;
            Ok(number.map_or(default, |number| u32::try_from(number).unwrap_or(default)))
        };
        let each = config.get("each").map_or(Some(false), Value::as_bool);
        let each = each.ok_or("the setting \"each\" is wrong; it should be a boolean")?;
        let channel = match config.text("log")?.unwrap_or("job_record") {
            "job_record" => key::PMIX_LOG_JOB_RECORD,
            "stderr" => key::PMIX_LOG_STDERR,
            "syslog" => key::PMIX_LOG_SYSLOG,
            other => {
                return Err(format!(
                    "the setting \"log\" is {other:?}; there are job_record, stderr, syslog"
                ));
            }
        };
        let seconds = number("sample", 0, 3600, 10)?;
        Ok(Settings {
            codes: codes(config)?,
            events: number("events", 0, 200, 20)? as usize,
            ends: if each {
                ReportedEnds::All
            } else {
                ReportedEnds::First
            },
            sample: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
            output: config
                .text("output")?
                .filter(|pattern| !pattern.is_empty())
                .map(str::to_owned),
            lines: number("lines", 1, 200, 20)? as usize,
            channel,
        })
    }
}

fn codes(config: &Config) -> Result<Vec<i32>, String> {
    let texts = config.list("codes")?.unwrap_or_default();
    let codes = texts.into_iter().map(|text| {
        let code = text.parse().ok().filter(|code| *code < 0);
        code.ok_or_else(|| {
            format!("{text:?} in \"codes\" is no code; it should list numbers of codes, as in \"-3001, -25\"")
        })
    });
    codes.collect()
}
