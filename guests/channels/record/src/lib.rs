//! Log channels that write JSON into the record of a job, a datastore or another sink of the site.
//! `peal-module.toml` says how, and declares the settings.
mod json;
mod record;

use peal_sdk::{Config, LogRequest, Registration, channel, clock, key, lifecycle, sink, status};
use record::record;
use std::sync::OnceLock;

/// Sinks of the channels.
#[derive(Debug)]
struct Settings {
    job_record: Option<String>,
    datastore: Option<String>,
    site: Option<String>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

impl Settings {
    fn read(config: &Config, sinks: &[String]) -> Result<Settings, String> {
        config.allow_only(&["job_record", "datastore", "sink"])?;
        let sink = |setting, default: &str| match config.text(setting)? {
            None if !sinks.iter().any(|sink| sink == default) => Ok(None),
            _ => peal_log_format::opened(config, setting, default, sinks).map(Some),
        };
        let settings = Settings {
            job_record: sink("job_record", "job-record")?,
            datastore: sink("datastore", "datastore")?,
            // Without the setting the module serves no channels of the site.
            site: match config.text("sink")? {
                None => None,
                Some(_) => Some(peal_log_format::opened(config, "sink", "", sinks)?),
            },
        };
        let all = [&settings.job_record, &settings.datastore, &settings.site];
        if all.into_iter().all(Option::is_none) {
            return Err(
                "no record is open to this module: name \"job-record\" or \"datastore\" in its \"sinks\"".to_owned()
            );
        }
        Ok(settings)
    }

    fn sink(&self, channel: &str) -> Result<&str, i32> {
        let sink = match channel {
            key::PMIX_LOG_JOB_RECORD => self.job_record.as_deref(),
            key::PMIX_LOG_GLOBAL_DATASTORE => self.datastore.as_deref(),
            _ if self.site.is_none() => return Err(status::PMIX_ERR_NOT_SUPPORTED),
            _ => self.site.as_deref(),
        };
        sink.ok_or(status::PMIX_ERR_NOT_AVAILABLE)
    }
}

fn init(config: &Config) -> Result<Vec<Registration>, String> {
    // An instance receives its settings only once.
    let _ = SETTINGS.set(Settings::read(config, &sink::names())?);
    Ok(Vec::new())
}

fn stop() {}

fn log(request: &LogRequest) -> Result<(), i32> {
    let settings = SETTINGS.get().ok_or(status::PMIX_ERR_INIT)?;
    sink::write(
        settings.sink(request.channel())?,
        record(request, || clock::now().as_secs())?,
    )
}

channel!(log);
lifecycle!(init, stop);

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::Info;

    #[test]
    fn a_channel_without_a_sink_is_not_available() {
        let sinks = ["job-record".to_owned(), "other".to_owned()];
        let read = |settings: &[Info], sinks: &[String]| {
            Settings::read(&Config::for_test(settings.to_vec()), sinks)
        };
        let one = read(&[], &sinks).unwrap();
        assert_eq!(one.sink(key::PMIX_LOG_JOB_RECORD), Ok("job-record"));
        assert_eq!(
            one.sink(key::PMIX_LOG_GLOBAL_DATASTORE),
            Err(status::PMIX_ERR_NOT_AVAILABLE)
        );
        assert_eq!(
            one.sink(key::PMIX_LOG_STDOUT),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
        let both = read(&[Info::new("datastore", "other")], &sinks).unwrap();
        assert_eq!(both.sink(key::PMIX_LOG_GLOBAL_DATASTORE), Ok("other"));
        assert_eq!(
            both.sink("site.log.hook"),
            Err(status::PMIX_ERR_NOT_SUPPORTED)
        );
        let site = read(&[Info::new("sink", "other")], &["other".to_owned()]).unwrap();
        assert_eq!(site.sink("site.log.hook"), Ok("other"));
        assert_eq!(
            site.sink(key::PMIX_LOG_JOB_RECORD),
            Err(status::PMIX_ERR_NOT_AVAILABLE)
        );
        assert!(
            read(&[Info::new("sink", "else")], &sinks)
                .unwrap_err()
                .contains("the sink \"else\" (setting \"sink\")")
        );
        assert!(read(&[], &[]).unwrap_err().contains("no record is open"));
        assert!(
            read(&[Info::new("datastore", "else")], &sinks)
                .unwrap_err()
                .contains("\"else\"")
        );
    }
}
