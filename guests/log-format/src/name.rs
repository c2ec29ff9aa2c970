//! Names of channels: those of the Standard without `PMIX_LOG_`.
use peal_sdk::key;

/// Returns the name of the channel with this key; the key itself for a site's own channel.
pub fn channel_name(key: &str) -> &str {
    match key {
        key::PMIX_LOG_STDOUT => "stdout",
        key::PMIX_LOG_STDERR => "stderr",
        key::PMIX_LOG_SYSLOG => "syslog",
        key::PMIX_LOG_LOCAL_SYSLOG => "local_syslog",
        key::PMIX_LOG_GLOBAL_SYSLOG => "global_syslog",
        key::PMIX_LOG_EMAIL => "email",
        key::PMIX_LOG_JOB_RECORD => "job_record",
        key::PMIX_LOG_GLOBAL_DATASTORE => "global_datastore",
        other => other,
    }
}
