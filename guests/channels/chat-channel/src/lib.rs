//! Log channel that writes lines of JSON for a chat service. `peal-module.toml` says how, and declares the
//! settings.
use peal_log_format::{json_line, opened, read};
use peal_sdk::{Config, LogRequest, Registration, channel, lifecycle, sink, status};
use serde_json::json;
use std::sync::OnceLock;

#[derive(Debug)]
struct Settings {
    sink: String,
    room: String,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

impl Settings {
    fn read(config: &Config, sinks: &[String]) -> Result<Settings, String> {
        config.allow_only(&["room", "sink"])?;
        let room = config.text("room")?;
        let room = room.ok_or("the setting \"room\" is missing: it is a text, as in \"#jobs\"")?;
        Ok(Settings {
            sink: opened(config, "sink", "chat", sinks)?,
            room: room.to_owned(),
        })
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
    sink::write(&settings.sink, line(request, &settings.room)?)
}

/// Formats a request. A chat has no XML, and shows time and channel by itself.
fn line(request: &LogRequest, room: &str) -> Result<String, i32> {
    let (directives, texts) = read(request)?;
    if directives.xml || directives.tagged || directives.dated {
        return Err(status::PMIX_ERR_NOT_SUPPORTED);
    }
    let source = request.source();
    let who = source.map_or("the resource manager".to_owned(), |proc| proc.to_string());
    let text = texts.all().collect::<Vec<_>>().join("\n");
    let message = json!({ "channel": room, "who": who, "text": text });
    // JSON in ASCII: no text can end the line or control a terminal.
    let is_shown = |character: char| character.is_ascii() && character != '\u{7f}';
    Ok(json_line(&message.to_string(), is_shown))
}

channel!(log);
lifecycle!(init, stop);

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::Info;

    const CHANNEL: &str = "site.log.chat";

    #[test]
    fn message_is_one_line_of_ascii_that_json_reads_back() {
        let said = "half\n\u{1b}[2J \u{7f} é \u{2028} \u{1f514} \"";
        let request = LogRequest::for_test(CHANNEL).with(CHANNEL, said);
        let line = line(&request, "#jobs").unwrap();
        let (json, rest) = line.split_once('\n').unwrap();
        assert_eq!(rest, "");
        assert!(
            json.bytes().all(|byte| (b' '..0x7f).contains(&byte)),
            "{json}"
        );
        let read: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(
            read,
            json!({ "channel": "#jobs", "who": "the resource manager", "text": said })
        );
    }

    #[test]
    fn room_is_required_and_a_text() {
        let sinks = ["chat".to_owned()];
        let refused = |config: Config| Settings::read(&config, &sinks).unwrap_err();
        assert!(refused(Config::for_test([])).contains("is missing"));
        let number = Config::for_test([Info::new("room", 3u32)]);
        assert_eq!(refused(number), "the setting \"room\" is a text");
    }
}
