//! Files, TCP connections, abstract sockets and signals that Landlock confines.
use crate::{Confinement, ConfinementError, EnforcementLevel, roles::SignalScope};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::path::Path;

/// Version of Landlock with the rights used here; an older kernel enforces fewer of them.
const KNOWN: ABI = ABI::V6;

/// Confines the calling thread and all threads and processes that it starts.
pub(crate) fn confine(confinement: &Confinement) -> Result<EnforcementLevel, ConfinementError> {
    let Confinement {
        role,
        read,
        write,
        execute,
        connect,
        ..
    } = confinement;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    // No process creates devices or controls them.
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let writing = AccessFs::from_all(KNOWN) & !never;
    let executing = reading | AccessFs::Execute;
    let rules = Ruleset::default()
        // What is handled here and allowed by no rule below is refused. The crate leaves out rights
        // that the kernel does not know.
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::ConnectTcp)?
        .scope(Scope::AbstractUnixSocket)?;
    let rules = match role.access().signals {
        SignalScope::Everything => rules,
        SignalScope::Itself | SignalScope::Descendants => rules.scope(Scope::Signal)?,
    };
    let groups = [(read, reading), (write, writing), (execute, executing)];
    let mut rules = rules.create()?;
    for (paths, access) in groups {
        rules = paths
            .iter()
            .try_fold(rules, |rules, path| allow(rules, path, access))?;
    }
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
