//! What can be said on the command line about groups.
use super::ToolArgs;
use clap::{Args as ClapArgs, Subcommand};

pub(super) const GROUP_EXAMPLES: &str = "\
A group is what procs of one or several jobs have formed by PMIx_Group_construct, or by inviting each other
(PMIx_Group_invite). Those of your own are shown, those of everybody to root. Only groups with members at the
server that is asked are known there.

Exit status: 0 if all went well; 1 if there is no such group; 125 if no server could be asked.

Examples:
  peal group list
  peal group show crew
  peal group list --json | jq -r '.[] | select(.context_id == 4) | .name'";

/// What can be told of groups.
#[derive(Subcommand)]
pub enum GroupCommand {
    /// Show the groups that there are, with how many members each has
    ///
    /// The context id is the number that no other group has; where there is a dash, the group was formed without one.
    List(GroupList),
    /// Show who is in a group, in the order of its ranks
    ///
    /// A rank in a group is a place among its members: `{crew, 2}` is the proc that stands behind 2 here.
    Show(GroupShow),
}

/// `peal group list`.
#[derive(ClapArgs)]
pub struct GroupList {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal group show`.
#[derive(ClapArgs)]
pub struct GroupShow {
    /// Which server is meant.
    #[command(flatten)]
    pub server: ToolArgs,
    /// The group's name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
