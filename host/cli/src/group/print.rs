//! Groups as a table, and for programs.
use super::ListedGroup;
use crate::{
    listing::{ListColumn, ListItem, NONE, names},
    plain,
    table::{Side, table},
    units, users,
};
use serde_json::{Value, json};

impl ListItem for ListedGroup {
    const COLUMNS: &'static [ListColumn<ListedGroup>] = &[
        ListColumn::<ListedGroup>::optional_text("server", |group| group.server.clone()).if_given(),
        ListColumn::<ListedGroup>::text("group", |group| group.name.clone()),
        ListColumn::<ListedGroup>::text("user", user),
        ListColumn::<ListedGroup>::number(
            "context id",
            |group| group.context_id.map(|id| id as f64),
            units::count,
        ),
        ListColumn::<ListedGroup>::number(
            "members",
            |group| Some(group.members.len() as f64),
            units::count,
        ),
        ListColumn::<ListedGroup>::text("procs", |group| {
            let procs: Vec<String> = group.members.iter().map(ToString::to_string).collect();
            procs.join(",")
        })
        .wide(),
    ];
}

/// Formats groups of one name, each with its members.
pub fn show(groups: &[ListedGroup]) -> String {
    groups.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn text(group: &ListedGroup) -> String {
    let rows: Vec<[String; 2]> = group
        .members
        .iter()
        // The rank in a group is the position among its members.
        .enumerate()
        .map(|(rank, member)| [rank.to_string(), member.to_string()])
        .collect();
    let members = table([("rank", Side::Right), ("member", Side::Left)], &rows);
    format!(
        "group {}, user {}, context id {}\n{members}",
        plain(&group.name),
        user(group),
        context_id(group)
    )
}

/// Returns the name of the user that owns a group.
fn user(group: &ListedGroup) -> String {
    u32::try_from(group.uid).map_or_else(|_| group.uid.to_string(), users::shown)
}

fn user_name(group: &ListedGroup) -> Option<String> {
    u32::try_from(group.uid).ok().and_then(users::name)
}

fn context_id(group: &ListedGroup) -> String {
    group
        .context_id
        .map_or(NONE.to_owned(), |id| id.to_string())
}

/// Formats the members of groups, one a line.
pub fn members(groups: &[ListedGroup]) -> String {
    let members = groups.iter().flat_map(|group| &group.members);
    names(members.map(ToString::to_string))
}

/// Returns groups as JSON.
pub fn as_json(groups: &[ListedGroup]) -> Vec<Value> {
    groups.iter().map(group_json).collect()
}

fn group_json(group: &ListedGroup) -> Value {
    let member = |member: &peal_model::Proc| json!({ "nspace": member.nspace.as_str(), "rank": member.rank.0 });
    let members: Vec<Value> = group.members.iter().map(member).collect();
    json!({ "server": group.server, "name": group.name, "uid": group.uid, "user": user_name(group), "context_id": group.context_id, "members": members })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::OutputFormat, listing::listed};
    use peal_model::{Nspace, Proc, Rank};

    fn group(name: &str, context_id: Option<u64>, ranks: u32) -> ListedGroup {
        let nspace = Nspace::new("solver").unwrap();
        let members = (0..ranks)
            .rev()
            .map(|rank| Proc::new(nspace.clone(), Rank(rank)))
            .collect();
        ListedGroup {
            server: None,
            name: name.to_owned(),
            uid: 4_000_000,
            context_id,
            members,
        }
    }

    #[test]
    fn groups_are_in_tables_and_their_names_are_escaped() {
        let groups = [group("crew", Some(4), 12), group("a\u{1b}[2J", None, 2)];
        let expected = "\
group       user     context id  members
crew        4000000           4       12
a\\u{1b}[2J  4000000           -        2
";
        assert_eq!(listed(&groups, OutputFormat::Text), expected);
        let wide = listed(&groups[1..], OutputFormat::Wide);
        assert!(wide.ends_with("2  solver:1,solver:0\n"), "{wide}");
        assert_eq!(members(&groups[1..]), "solver:1\nsolver:0\n");
        let expected = "\
group a\\u{1b}[2J, user 4000000, context id -
rank  member
   0  solver:1
   1  solver:0
";
        assert_eq!(show(&groups[1..]), expected);
        let told = as_json(&groups);
        assert_eq!(
            (&told[0]["context_id"], &told[1]["context_id"]),
            (&4.into(), &Value::Null)
        );
        assert_eq!(
            told[1]["members"][0],
            json!({ "nspace": "solver", "rank": 1 })
        );
    }
}
