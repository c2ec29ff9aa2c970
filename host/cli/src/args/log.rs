//! Command line of `peal log`.
use super::{DryRunArgs, FactFormats, OutputArgs, ToolArgs};
use clap::Args as ClapArgs;
use peal_config::words;
use peal_core::log;
use peal_model::{Info, Key};

pub(super) const LOG_EXAMPLES: &str = "\
The log channels are stdout, stderr, syslog, local_syslog, global_syslog, email, job_record, global_datastore, and channels of the
site by their keys, as in site.log.board. Without --channel and --required, log.order and log.once select the channels; if
log.order is empty, every available channel is used.

Exit status: 0 on success; 1 if a channel failed or none is available; 125 if no server was reached.

Examples:
  peal log --channel global_syslog --priority warning 'node17 is drained'
  peal log --channel email --mail-to ops@example.org --subject 'Nightly build' < report.txt
  peal log --channel local_syslog --channel email --once 'whichever works first'
  peal log --dry-run --channel email --channel job_record   # which of them are there
  peal log --required job_record --channel stderr --data site.load=5 'half way'";

/// `peal log`.
#[derive(ClapArgs)]
pub struct Log {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Write to CHANNEL. Repeat for more channels, in the order of attempts
    #[arg(long = "channel", value_name = "CHANNEL", value_parser = channel)]
    pub channels: Vec<Key>,
    /// Write to CHANNEL, and fail if that fails
    #[arg(long = "required", value_name = "CHANNEL", value_parser = channel)]
    pub required: Vec<Key>,
    /// Stop after the first channel that succeeds, except for required channels
    #[arg(long)]
    pub once: bool,
    /// Prefix each line with the channel
    #[arg(long)]
    pub tag: bool,
    /// Prefix each line with the time
    #[arg(long)]
    pub timestamp: bool,
    /// Write XML if the channel supports it
    #[arg(long)]
    pub xml: bool,
    /// Set the syslog PRIORITY: emerg, alert, crit, err, warning, notice, info or debug, with an
    /// optional facility as in local0.err
    #[arg(long, value_name = "PRIORITY", value_parser = priority)]
    pub priority: Option<i32>,
    /// Send mail to ADDRESS. Repeat for more addresses
    #[arg(long, value_name = "ADDRESS")]
    pub mail_to: Vec<String>,
    /// Set the subject of the mail to TEXT
    #[arg(long, value_name = "TEXT")]
    pub subject: Option<String>,
    /// Log a value in addition to the message. Repeat for more values
    #[arg(long = "data", value_name = "KEY=VALUE", value_parser = words::info)]
    pub data: Vec<Info>,
    /// Add a directive to the request. Repeat for more directives
    #[arg(long = "directive", value_name = "KEY=VALUE", value_parser = words::info)]
    pub directives: Vec<Info>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
    /// Message to log; default or -: standard input
    #[arg(value_name = "MESSAGE")]
    pub message: Option<String>,
}

pub(super) fn channel(name: &str) -> Result<Key, String> {
    let known: Vec<&str> = log::CHANNELS.iter().map(|channel| channel.0).collect();
    if !name.contains('.') && !known.contains(&name.to_lowercase().as_str()) {
        return Err(format!(
            "there is no channel {name:?}; there are {}, and a site's own has a dot",
            known.join(", ")
        ));
    }
    log::channel(name).map_err(|error| error.to_string())
}

/// Parses a syslog priority by the names and numbers of RFC 5424.
const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "console", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

fn priority(text: &str) -> Result<i32, String> {
    let (facility, severity) = text
        .split_once('.')
        .map_or((None, text), |(facility, rest)| (Some(facility), rest));
    let number = |names: &[&str], name: &str| {
        names
            .iter()
            .position(|known| *known == name)
            .and_then(|at| i32::try_from(at).ok())
    };
    let severity = number(&SEVERITIES, severity).ok_or_else(|| {
        format!(
            "there is no priority {severity:?}; there are {}",
            SEVERITIES.join(", ")
        )
    })?;
    let facility = facility.map_or(Ok(0), |name| {
        number(&FACILITIES, name).ok_or_else(|| {
            format!(
                "there is no facility {name:?}; there are {}",
                FACILITIES.join(", ")
            )
        })
    })?;
    // RFC 5424, section 6.2.1.
    Ok(facility * 8 + severity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_those_of_syslog() {
        for (text, number) in [
            ("emerg", 0),
            ("debug", 7),
            ("user.info", 14),
            ("local0.err", 131),
            ("local7.debug", 191),
        ] {
            assert_eq!(priority(text), Ok(number));
        }
        for (text, says) in [
            ("loud", "there is no priority \"loud\""),
            ("local8.err", "there is no facility \"local8\""),
        ] {
            assert!(priority(text).unwrap_err().starts_with(says), "{text}");
        }
    }

    #[test]
    fn channels_are_the_standards_or_have_a_dot() {
        assert_eq!(channel("Local_Syslog").unwrap().as_str(), "pmix.log.lsys");
        assert_eq!(
            channel("site.log.board").unwrap().as_str(),
            "site.log.board"
        );
        assert!(
            channel("board")
                .unwrap_err()
                .starts_with("there is no channel \"board\"; there are stdout, ")
        );
    }
}
