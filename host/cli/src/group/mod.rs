//! `peal group`: groups and their members.
mod print;

use crate::{
    args::{GroupCommand, GroupShow},
    event,
    monitor::{usage::members, written},
    node, tool,
};
use anyhow::{Result, bail};
use peal_client::Tool;
use peal_config::nearest;
use peal_model::{Info, KeyName, Proc, Query, Value, key};
use std::process::ExitCode;

/// Exit status if there is no such group.
const MISSING: u8 = 1;

/// Group in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ListedGroup {
    name: String,
    uid: u64,
    context_id: Option<u64>,
    members: Vec<Proc>,
}

impl ListedGroup {
    fn of(info: &Info) -> Option<ListedGroup> {
        let infos = members(info)?;
        let value = |key: KeyName| {
            infos
                .iter()
                .find(|info| info.key == key)
                .map(|info| &info.value)
        };
        let Value::String(Some(name)) = value(key::PMIX_GROUP_ID)? else {
            return None;
        };
        Some(ListedGroup {
            name: name.to_string_lossy().into_owned(),
            uid: value(key::PMIX_USERID)?.as_u64()?,
            context_id: value(key::PMIX_GROUP_CONTEXT_ID).and_then(Value::as_u64),
            members: value(key::PMIX_GROUP_MEMBERSHIP)?.as_procs()?,
        })
    }
}

/// Runs the command.
pub fn run(command: GroupCommand) -> Result<ExitCode> {
    node::as_tool(async {
        let (server, named, json) = match command {
            GroupCommand::List(args) => (args.server, None, args.json),
            GroupCommand::Show(GroupShow { server, name, json }) => (server, Some(name), json),
        };
        let tool = tool::attach(event::tool_settings(server)?).await?;
        let gathered = gather(&tool).await;
        tool::leave(&tool).await;
        let groups = gathered?;
        let meant = match &named {
            // Names of groups are unique for one user only: root may see several groups of one
            // name.
            Some(name) => groups
                .iter()
                .filter(|group| group.name == *name)
                .cloned()
                .collect(),
            None => groups.clone(),
        };
        let text = match (&named, json) {
            (Some(name), _) if meant.is_empty() => {
                crate::print_line(&missing(name, &groups));
                return Ok(ExitCode::from(MISSING));
            }
            (_, true) => print::json(&meant)?,
            (Some(_), false) => print::show(&meant),
            (None, false) => print::list(&meant),
        };
        written(&text).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns all groups that the server reports.
async fn gather(tool: &Tool) -> Result<Vec<ListedGroup>> {
    let membership = key::PMIX_QUERY_GROUP_MEMBERSHIP;
    let query = Query {
        keys: vec![Some(membership.0.into())],
        // Without the id of a group, Peal's servers return all groups.
        qualifiers: Vec::new(),
    };
    let infos = tool.query(&[query]).await?.infos;
    let Some(all) = infos
        .iter()
        .find(|info| info.key == membership)
        .and_then(members)
    else {
        bail!("the server does not list groups; it should be a Peal server of this release");
    };
    let groups: Option<Vec<ListedGroup>> = all.into_iter().map(ListedGroup::of).collect();
    match groups {
        Some(groups) => Ok(groups),
        None => bail!("the server lists groups in an unknown form; it should be of this release"),
    }
}

/// Returns the message for a name that no group has.
fn missing(name: &str, groups: &[ListedGroup]) -> String {
    let hint = match nearest(name, groups.iter().map(|group| group.name.as_str())) {
        Some(near) => format!("did you mean {near:?}?"),
        None if groups.is_empty() => "there are no groups here".to_owned(),
        None => "`peal group list` shows all".to_owned(),
    };
    format!("no group of yours is called {name:?}; {hint}")
}
