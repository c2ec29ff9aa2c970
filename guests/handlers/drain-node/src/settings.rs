//! Settings of the module.
use peal_name_patterns::Pattern;
use peal_sdk::{Config, Range, Value};

const NAMES: [&str; 11] = [
    "codes", "into", "release", "count", "seconds", "groups", "spread", "here", "node_key",
    "range", "deny",
];

/// Nodes that fail together.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NodeGroup {
    name: String,
    nodes: Vec<Pattern>,
}

/// All settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Counted codes.
    pub codes: Vec<i32>,
    /// Code of the raised event.
    pub into: i32,
    /// Code of the event that ends a drain.
    pub release: Option<i32>,
    /// Number of events after which a node is drained.
    pub count: usize,
    /// Time in which they must come, in milliseconds.
    pub window: u64,
    /// Number of nodes of a group after which they are drained.
    pub spread: usize,
    /// Node of this server.
    pub here: String,
    /// Key of the node of an event.
    pub node_key: String,
    /// Range of the raised event.
    pub range: Range,
    /// True if spawns are denied.
    pub deny: bool,
    groups: Vec<NodeGroup>,
}

impl Settings {
    /// Reads the settings.
    pub fn read(config: &Config) -> Result<Settings, String> {
        config.allow_only(&NAMES)?;
        let codes = codes(config)?;
        let into =
            code(config, "into")?.ok_or("the setting \"into\" is missing: the code to raise")?;
        let release = code(config, "release")?;
        if codes.contains(&into)
            || release.is_some_and(|code| code == into || codes.contains(&code))
        {
            return Err("\"codes\", \"into\" and \"release\" should be different codes".to_owned());
        }
        let number = |name, most, default| -> Result<u64, String> {
            let least = i64::from(name == "spread") + 1;
            let number = config.number(name, least..=most)?;
            Ok(number
                .and_then(|number| u64::try_from(number).ok())
                .unwrap_or(default))
        };
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let range = match config.text("range")?.unwrap_or("session") {
            "rm" => Range::Rm,
            "local" => Range::Local,
            "session" => Range::Session,
            "global" => Range::Global,
            other => {
                return Err(format!(
                    "the setting \"range\" is {other:?}; there are rm, local, session and global"
                ));
            }
        };
        let deny = match config.get("deny") {
            None => true,
            Some(Value::Boolean(deny)) => *deny,
            Some(_) => return Err("the setting \"deny\" is true or false".to_owned()),
        };
        Ok(Settings {
            codes,
            into,
            release,
            count: size(number("count", 1000, 5)?),
            window: number("seconds", 86_400, 600)?.saturating_mul(1000),
            spread: size(number("spread", 1000, 3)?),
            here: config.text("here")?.unwrap_or("localhost").to_owned(),
            node_key: config.text("node_key")?.unwrap_or("pmix.hname").to_owned(),
            range,
            deny,
            groups: groups(config.text("groups")?.unwrap_or_default())?,
        })
    }

    /// Returns the name of the first group with this node.
    pub fn group_of(&self, node: &str) -> Option<&str> {
        let has = |group: &&NodeGroup| group.nodes.iter().any(|pattern| pattern.is_for(node));
        self.groups
            .iter()
            .find(has)
            .map(|group| group.name.as_str())
    }
}

fn code(config: &Config, name: &str) -> Result<Option<i32>, String> {
    let code = config.number(name, i32::MIN.into()..=-1)?;
    Ok(code.and_then(|code| i32::try_from(code).ok()))
}

fn codes(config: &Config) -> Result<Vec<i32>, String> {
    if let Some(Value::Int64(_)) = config.get("codes") {
        return Ok(code(config, "codes")?.into_iter().collect());
    }
    let read = |text: &str| {
        let code = text.parse().ok().filter(|code: &i32| *code < 0);
        code.ok_or_else(|| format!("{text:?} in \"codes\" is no number of a code"))
    };
    let codes = config.list("codes")?.unwrap_or_default().into_iter();
    let codes = codes.map(read).collect::<Result<Vec<i32>, String>>()?;
    if codes.is_empty() {
        return Err(
            "the setting \"codes\" is missing; it should list the codes of counted events, as in \"-3001, -25\""
                .to_owned(),
        );
    }
    Ok(codes)
}

fn groups(text: &str) -> Result<Vec<NodeGroup>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(group).collect()
}

fn group(line: &str) -> Result<NodeGroup, String> {
    let wrong =
        || format!("{line:?} in \"groups\" is no NAME: NODE, NODE, as in \"switch1: n1*, login1\"");
    let (name, nodes) = line.split_once(':').ok_or_else(wrong)?;
    let name = name.trim().to_owned();
    let nodes = nodes.split(',').map(|node| Pattern::read(node.trim()));
    let nodes = nodes.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok(NodeGroup { name, nodes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_sdk::Info;

    #[test]
    fn node_belongs_to_first_group_that_names_it() {
        let groups = "a: n1*, login\n\nb: n*";
        let config = Config::for_test([
            Info::new("codes", "-1"),
            Info::new("into", Value::Int64(-2)),
            Info::new("groups", groups),
        ]);
        let settings = Settings::read(&config).unwrap();
        for (node, group) in [
            ("n17", Some("a")),
            ("login", Some("a")),
            ("n2", Some("b")),
            ("x", None),
        ] {
            assert_eq!(settings.group_of(node), group, "{node}");
        }
    }
}
