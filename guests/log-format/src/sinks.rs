//! Settings that name a sink.
use peal_sdk::Config;

/// Returns the sink that a setting names, or the default. It must be among the sinks that the admin
/// opened for the module.
///
/// # Errors
/// A message for the admin, if it is not.
pub fn opened(
    config: &Config,
    setting: &str,
    default: &str,
    sinks: &[String],
) -> Result<String, String> {
    let name = config.text(setting)?.unwrap_or(default);
    if sinks.iter().any(|sink| sink == name) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "the sink {name:?} (setting {setting:?}) is not open to this module: name it in its \"sinks\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::Info;

    #[test]
    fn a_sink_must_be_open() {
        let sinks = ["file".to_owned(), "other".to_owned()];
        let config = |name: &str| Config::for_test([Info::new("sink", name)]);
        assert_eq!(
            opened(&Config::for_test([]), "sink", "file", &sinks),
            Ok("file".to_owned())
        );
        assert_eq!(
            opened(&config("other"), "sink", "file", &sinks),
            Ok("other".to_owned())
        );
        let refused = opened(&config("third"), "sink", "file", &sinks).unwrap_err();
        assert!(
            refused.contains("\"third\"") && refused.contains("\"sinks\""),
            "{refused}"
        );
    }
}
