//! Command line of `peal group`.
use super::{ListFormats, OutputArgs, SortArgs, TableFormats, ToolArgs, UserArgs};
use crate::{completion, group::ListedGroup};
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;

pub(super) const GROUP_EXAMPLES: &str = "\
Procs of one or several jobs form groups with PMIx_Group_construct or by invitation
(PMIx_Group_invite). Your own groups are shown; root sees the groups of all users. A server knows
only groups with members among its clients.

Exit status: 0 on success; 1 if the group does not exist; 125 if no server was reached.

Examples:
  peal group list
  peal group show crew
  peal group list -o json | jq -r '.[] | select(.context_id == 4) | .name'";

/// `peal group`.
#[derive(Subcommand)]
pub enum GroupCommand {
    /// List the groups and their numbers of members
    ///
    /// The context id is the unique number of a group; a dash means that the group has none.
    List(GroupList),
    /// Show the members of a group in the order of their group ranks
    ///
    /// A group rank is the index of a member: `{crew, 2}` is the proc that is printed after 2.
    Show(GroupShow),
}

/// `peal group list`.
#[derive(ClapArgs)]
pub struct GroupList {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<TableFormats>,
    /// Selection by user.
    #[command(flatten)]
    pub user: UserArgs,
    /// Order of the groups.
    #[command(flatten)]
    pub order: SortArgs<ListedGroup>,
}

/// `peal group show`.
#[derive(ClapArgs)]
pub struct GroupShow {
    /// Selection of the server.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Name of the group
    #[arg(add = ArgValueCandidates::new(completion::groups), value_name = "NAME")]
    pub name: String,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<ListFormats>,
}
