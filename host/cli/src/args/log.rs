//! What can be said on the command line about logging.
use super::ToolArgs;
use clap::Args as ClapArgs;
use peal_config::words;
use peal_core::log;
use peal_model::{Info, Key};

pub(super) const LOG_EXAMPLES: &str = "\
A channel is stdout, stderr, syslog, local_syslog, global_syslog, email, job_record, global_datastore, or one of the site's own by
its key, as site.log.board. Without --to and --required the message goes where the site has such messages go (log.order,
log.once), or to every channel there is.

Exit status: 0 if all went well; 1 if a channel failed or none is there; 125 if no server could be asked.

Examples:
  peal log --to global_syslog --priority warning 'node17 is drained'
  peal log --to email --mail-to ops@example.org --subject 'Nightly build' < report.txt
  peal log --to local_syslog --to email --once 'whichever works first'
  peal log --required job_record --to stderr --data site.load=5 'half way'";

/// `peal log`.
#[derive(ClapArgs)]
pub struct Log {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// A channel to write to; give it again for more, in the order in which they are to be tried
    #[arg(long = "to", value_name = "CHANNEL", value_parser = channel)]
    pub to: Vec<Key>,
    /// A channel without which it does not count as logged
    #[arg(long = "required", value_name = "CHANNEL", value_parser = channel)]
    pub required: Vec<Key>,
    /// One channel is enough: those behind the first that succeeds are not tried, unless they are required
    #[arg(long)]
    pub once: bool,
    /// Write the channel before each line
    #[arg(long)]
    pub tag: bool,
    /// Write the time before each line
    #[arg(long)]
    pub timestamp: bool,
    /// Write XML, where the channel can
    #[arg(long)]
    pub xml: bool,
    /// How grave it is, for syslog: emerg, alert, crit, err, warning, notice, info or debug, with a facility before it if need be, as in local0.err
    #[arg(long, value_name = "PRIORITY", value_parser = priority)]
    pub priority: Option<i32>,
    /// To whom to send mail; give it again for more
    #[arg(long, value_name = "ADDRESS")]
    pub mail_to: Vec<String>,
    /// The subject of mail
    #[arg(long, value_name = "TEXT")]
    pub subject: Option<String>,
    /// Something else to log beside the message; give it again for more
    #[arg(long = "data", value_name = "KEY=VALUE", value_parser = words::info)]
    pub data: Vec<Info>,
    /// A directive that there is no option for; give it again for more
    #[arg(long = "directive", value_name = "KEY=VALUE", value_parser = words::info)]
    pub directives: Vec<Info>,
    /// Print how it went as JSON
    #[arg(long)]
    pub json: bool,
    /// What to log; standard input, if it is - or not given
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

/// By the names and numbers of RFC 5424.
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
