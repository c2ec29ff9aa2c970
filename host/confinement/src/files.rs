//! Files and TCP connections that Landlock confines.
use crate::{ConfinementError, EnforcementLevel};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Version of Landlock with the rights used here; an older kernel enforces fewer of them.
const KNOWN: ABI = ABI::V5;

/// Confines the calling thread and all threads and processes that it starts.
pub(crate) fn confine(
    (read, write, remove): (&BTreeSet<PathBuf>, &BTreeSet<PathBuf>, &BTreeSet<PathBuf>),
    connect: &BTreeSet<u16>,
) -> Result<EnforcementLevel, ConfinementError> {
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    // A server runs no programs and creates no devices.
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock;
    let writing = AccessFs::from_all(KNOWN) & !never;
    let removing = AccessFs::ReadDir | AccessFs::RemoveFile | AccessFs::RemoveDir;
    let rules = Ruleset::default()
        // What is handled here and allowed by no rule below is refused. The crate leaves out rights
        // that the kernel does not know.
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::ConnectTcp)?
        .create()?;
    let rules = read
        .iter()
        .try_fold(rules, |rules, path| allow(rules, path, reading))?;
    let rules = write
        .iter()
        .try_fold(rules, |rules, path| allow(rules, path, writing))?;
    let rules = remove
        .iter()
        .try_fold(rules, |rules, path| allow(rules, path, removing))?;
    let port = |rules: RulesetCreated, port: &u16| {
        rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))
    };
    let rules = connect.iter().try_fold(rules, port)?;
    Ok(match rules.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => EnforcementLevel::Full,
        RulesetStatus::PartiallyEnforced => EnforcementLevel::Partial,
        RulesetStatus::NotEnforced => EnforcementLevel::Missing,
    })
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, ConfinementError> {
    // The path existed a moment ago. If it is gone, nothing can reach it.
    let Ok(place) = PathFd::new(path) else {
        return Ok(rules);
    };
    let access = if path.is_dir() {
        access
    } else {
        // The kernel refuses a rule for a file that has rights of directories.
        access & AccessFs::from_file(KNOWN)
    };
    Ok(rules.add_rule(PathBeneath::new(place, access))?)
}
