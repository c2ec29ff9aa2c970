//! Events as lines, for people and for programs. Texts of programs and components are escaped, so
//! that they cannot end a line or move the cursor.
use crate::{
    args::{DataFormat, OutputFormat},
    short_text::{plain_start, shortened},
    users,
};
use anyhow::Result;
use peal_model::{NodeName, counted};
use peal_server::admin::{WatchedChain, WatchedEvent, WatchedInfo, WatchedResult, WatchedStatus};
use serde::Serialize;
use serde_json::Value;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
};

/// Output format of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventFormat {
    /// For people.
    Plain,
    /// For people, on a terminal.
    Colored,
    /// For programs.
    Data(DataFormat),
}

impl EventFormat {
    /// Returns the format of events at standard output.
    pub fn of(format: OutputFormat) -> EventFormat {
        match format {
            OutputFormat::Data(form) => EventFormat::Data(form),
            _ if io::stdout().is_terminal() => EventFormat::Colored,
            _ => EventFormat::Plain,
        }
    }
}

/// Returns the line that says how many events a watcher has missed.
pub fn missed(events: u64) -> String {
    let events = counted(events, "event");
    format!("{events} missed: they come faster than they are read")
}

/// Event with the node at which it was raised.
#[derive(Serialize)]
struct EventOfNode<'a> {
    node: &'a NodeName,
    #[serde(flatten)]
    event: &'a WatchedEvent,
}

/// Formats an event of a node as a line with its line end.
pub fn of_node(node: &NodeName, event: &WatchedEvent, form: EventFormat) -> Result<String> {
    match form {
        EventFormat::Data(form) => form.record(&EventOfNode { node, event }),
        EventFormat::Plain | EventFormat::Colored => Ok(format!("{node}: {}", whole(event, form)?)),
    }
}

/// Formats an event as a line with its line end.
pub fn whole(event: &WatchedEvent, form: EventFormat) -> Result<String> {
    Ok(match form {
        EventFormat::Plain => line(event) + "\n",
        EventFormat::Colored => colored(event) + "\n",
        EventFormat::Data(form) => return form.record(event),
    })
}

/// Formats an event as a line without its line end.
pub fn line(event: &WatchedEvent) -> String {
    let source = event
        .source
        .as_ref()
        .map_or("the resource manager".to_owned(), |source| {
            plain_start(source)
        });
    let mut line = format!(
        "{} from {source}, range {}",
        status(&event.code),
        plain_start(&event.range)
    );
    for of in &event.infos {
        // A write to a string cannot fail.
        let _ = write!(line, ", {}", info(of));
    }
    for result in event.chains.iter().flatten().flat_map(results) {
        let _ = write!(line, " -> {result}");
    }
    line
}

/// Formats an event with an emphasized code, for terminals.
fn colored(event: &WatchedEvent) -> String {
    let code = status(&event.code);
    let line = line(event);
    let rest = line.strip_prefix(&code).unwrap_or_default();
    format!("\u{1b}[1m{code}\u{1b}[0m{rest}")
}

/// Formats an info as `key=value`.
pub fn info(info: &WatchedInfo) -> String {
    let key = info.attribute.as_ref().unwrap_or(&info.key);
    format!("{}={}", plain_start(key), shortened(value(&info.value)))
}

fn results(chain: &WatchedChain) -> impl Iterator<Item = String> {
    let owner = plain_start(&users::owner(&chain.owner));
    chain.results.iter().map(
        move |WatchedResult {
                  handler,
                  status: of,
                  infos,
              }| {
            let infos: String = infos.iter().map(|of| format!(" {}", info(of))).collect();
            format!("{owner}/{}: {}{infos}", plain_start(handler), status(of))
        },
    )
}

fn status(status: &WatchedStatus) -> String {
    match &status.name {
        Some(name) => format!("{} ({})", plain_start(name), status.number),
        None => status.number.to_string(),
    }
}

fn value(of: &Value) -> String {
    match of {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(value).collect::<Vec<_>>().join(", ")
        ),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, of)| format!("{}: {}", plain_start(name), value(of)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_server::admin::ChainOwner;

    fn text(text: &str) -> WatchedInfo {
        WatchedInfo {
            key: "site.\u{1b}[2J".into(),
            attribute: None,
            data_type: "PMIX_STRING".into(),
            value: text.into(),
        }
    }

    #[test]
    fn nothing_in_an_event_moves_the_cursor() {
        let evil = "\n\u{1b}[2J\u{9b}H\u{7f}\u{202e}";
        let status = WatchedStatus {
            number: -3001,
            name: None,
        };
        let result = WatchedResult {
            handler: evil.into(),
            status: status.clone(),
            infos: vec![text(evil)],
        };
        let chain = WatchedChain {
            owner: ChainOwner::Namespace(evil.into()),
            results: vec![result],
        };
        let infos = vec![
            text(evil),
            WatchedInfo {
                value: vec![evil; 3].into(),
                ..text("")
            },
        ];
        let event = WatchedEvent {
            code: status,
            source: Some(evil.into()),
            range: "PMIX_RANGE_LOCAL".into(),
            infos,
            chains: Some(vec![chain]),
        };
        let people = line(&event);
        assert!(
            !people.chars().any(|of| of.is_control() || of == '\u{202e}'),
            "{people:?}"
        );
        assert!(
            people.contains(" -> namespace ") && people.contains(": -3001 "),
            "{people}"
        );
        assert!(colored(&event).starts_with("\u{1b}[1m-3001\u{1b}[0m from "));
        let programs = DataFormat::Json.record(&event).unwrap();
        assert!(
            !programs
                .trim_end_matches('\n')
                .chars()
                .any(char::is_control),
            "{programs:?}"
        );
        assert_eq!(
            serde_json::from_str::<WatchedEvent>(&programs).unwrap(),
            event
        );
    }
}
