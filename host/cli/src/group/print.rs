//! Groups as a table, and as JSON.
use super::ListedGroup;
use crate::{
    plain,
    table::{Side, table},
    units,
};
use serde_json::{Value, json};

/// Placeholder for a missing value.
const NONE: &str = "-";

/// Formats all groups, with the last line end.
pub fn list(groups: &[ListedGroup]) -> String {
    if groups.is_empty() {
        return "there are no groups here\n".to_owned();
    }
    let row = |group: &ListedGroup| {
        [
            group.name.clone(),
            user(group),
            context_id(group),
            group.members.len().to_string(),
        ]
    };
    let rows: Vec<[String; 4]> = groups.iter().map(row).collect();
    let head = [
        ("group", Side::Left),
        ("user", Side::Left),
        ("context id", Side::Right),
        ("members", Side::Right),
    ];
    table(head, &rows)
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
    u32::try_from(group.uid).map_or_else(|_| group.uid.to_string(), units::user)
}

fn context_id(group: &ListedGroup) -> String {
    group
        .context_id
        .map_or(NONE.to_owned(), |id| id.to_string())
}

/// Formats groups as JSON.
pub fn json(groups: &[ListedGroup]) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&groups.iter().map(group_json).collect::<Vec<_>>())? + "\n")
}

fn group_json(group: &ListedGroup) -> Value {
    let member = |member: &peal_model::Proc| json!({ "nspace": member.nspace.as_str(), "rank": member.rank.0 });
    let members: Vec<Value> = group.members.iter().map(member).collect();
    json!({ "name": group.name, "uid": group.uid, "context_id": group.context_id, "members": members })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Proc, Rank};

    fn group(name: &str, context_id: Option<u64>, ranks: u32) -> ListedGroup {
        let nspace = Nspace::new("solver").unwrap();
        let members = (0..ranks)
            .rev()
            .map(|rank| Proc::new(nspace.clone(), Rank(rank)))
            .collect();
        ListedGroup {
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
        assert_eq!(list(&groups), expected);
        assert_eq!(list(&[]), "there are no groups here\n");
        let expected = "\
group a\\u{1b}[2J, user 4000000, context id -
rank  member
   0  solver:1
   1  solver:0
";
        assert_eq!(show(&groups[1..]), expected);
        let told: Value = serde_json::from_str(&json(&groups).unwrap()).unwrap();
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
