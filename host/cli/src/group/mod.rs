//! `peal group`: groups and their members.
mod print;

use crate::{
    args::{GroupCommand, GroupShow, OutputFormat},
    event,
    listing::{ListSelection, listed, names},
    monitor::{usage::members, written},
    node,
    tool::{self, ServerAnswers, ToolAnswer},
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
pub struct ListedGroup {
    /// Name of the server, if several are asked.
    server: Option<String>,
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
            server: None,
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
        let mut selection = ListSelection::default();
        let (server, named, format) = match command {
            GroupCommand::List(args) => {
                selection.user = args.user.user;
                selection.order = args.order.sort;
                (args.server, None, args.format.output)
            }
            GroupCommand::Show(GroupShow {
                server,
                name,
                format,
            }) => (server, Some(name), format.output),
        };
        let tools = tool::attach_to_all(event::tool_settings(server)?).await?;
        let gathered = tools.ask_each(gather).await;
        tools.leave().await;
        let ServerAnswers {
            answers,
            is_complete,
        } = gathered?;
        let of_server = |ToolAnswer { server, answer }: ToolAnswer<Vec<ListedGroup>>| {
            let groups = answer.into_iter();
            groups.map(move |group| ListedGroup {
                server: server.clone(),
                ..group
            })
        };
        let groups: Vec<ListedGroup> = answers.into_iter().flat_map(of_server).collect();
        let mut meant: Vec<ListedGroup> = match &named {
            // Names of groups are unique for one user only: root may see several groups of one
            // name.
            Some(name) => groups
                .iter()
                .filter(|group| group.name == *name)
                .cloned()
                .collect(),
            None => {
                let groups = groups.iter();
                let selected =
                    groups.filter(|group| selection.has_user(u32::try_from(group.uid).ok()));
                selected.cloned().collect()
            }
        };
        selection.sort(&mut meant);
        let text = match (&named, format) {
            (Some(name), _) if meant.is_empty() && !is_complete => {
                bail!("group {name:?} is not known: a server was left out");
            }
            (Some(name), _) if meant.is_empty() => {
                crate::print_line(&missing(name, &groups));
                return Ok(ExitCode::from(MISSING));
            }
            (_, OutputFormat::Data(form)) => form.document(&print::as_json(&meant))?,
            (Some(_), OutputFormat::Name) => print::members(&meant),
            (None, OutputFormat::Name) => names(meant.iter().map(|group| &group.name)),
            (Some(_), _) => print::show(&meant),
            (None, _) if meant.is_empty() && !is_complete => {
                "there are no groups at the servers that answer\n".to_owned()
            }
            (None, _) if meant.is_empty() => "there are no groups here\n".to_owned(),
            (None, _) => listed(&meant, format),
        };
        written(&text).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the names of all groups that the server reports.
pub async fn group_names(tool: &Tool) -> Result<Vec<String>> {
    let groups = gather(tool).await?;
    Ok(groups.into_iter().map(|group| group.name).collect())
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
