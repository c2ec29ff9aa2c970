//! Drained nodes: the state of the module, and the words about them.
use crate::settings::Settings;
use peal_sdk::state;

/// Prefix of the keys of drained nodes.
const PREFIX: &str = "drained/";

/// Nodes that are to be drained, and why.
pub struct Drained<'a> {
    /// Code of the counted events.
    pub code: i32,
    /// Group whose nodes were touched.
    pub group: Option<&'a str>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Number of events on the node, or of touched nodes of the group.
    pub count: usize,
}

impl<'a> Drained<'a> {
    /// Creates the drain of one node.
    pub fn node(code: i32, node: String, count: usize) -> Drained<'a> {
        Drained {
            code,
            group: None,
            nodes: vec![node],
            count,
        }
    }

    /// Creates the drain of the touched nodes of a group.
    pub fn group(code: i32, group: &'a str, nodes: Vec<String>) -> Drained<'a> {
        let count = nodes.len();
        Drained {
            code,
            group: Some(group),
            nodes,
            count,
        }
    }

    /// Returns the reason in words.
    pub fn text(&self, settings: &Settings) -> String {
        let nodes = self.nodes.join(", ");
        let (code, count) = (self.code, self.count);
        let seconds = settings.window / 1000;
        match self.group {
            None => format!(
                "node {nodes} is drained: event {code} came {count} times within {seconds} s"
            ),
            Some(group) => format!(
                "nodes {nodes} are drained: event {code} touched {count} nodes of group {group} within {seconds} s"
            ),
        }
    }
}

fn key(node: &str) -> String {
    format!("{PREFIX}{node}")
}

/// Notes that a node is drained. Returns false if it was already.
pub fn add(node: &str, code: i32, now: u64) -> Result<bool, i32> {
    let key = key(node);
    if state::get(&key)?.is_some() {
        return Ok(false);
    }
    state::set(&key, format!("{code} {now}").as_bytes())?;
    Ok(true)
}

/// Ends the drain of a node. Returns false if it was not drained.
pub fn remove(node: &str) -> Result<bool, i32> {
    let key = key(node);
    let was_drained = state::get(&key)?.is_some();
    if was_drained {
        state::delete(&key)?;
    }
    Ok(was_drained)
}

/// Returns the code because of which a node is drained; `None` if it is not.
pub fn of(node: &str) -> Result<Option<i32>, i32> {
    let Some(bytes) = state::get(&key(node))? else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes);
    let code = text.split(' ').next().and_then(|code| code.parse().ok());
    // A drain with a code that cannot be read is a drain.
    Ok(Some(code.unwrap_or_default()))
}
