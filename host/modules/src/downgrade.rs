//! Refusal of versions that are older than the one that ran: otherwise a signed component whose
//! faults are known could be put back by everyone who can write its file.
use crate::{
    component::Component,
    version::{DesiredModule, Versions},
};
use peal_config::{ModuleEntry, Modules, Problem, Problems};
use semver::Version;

/// Refuses modules whose signed version is older than the configured minimum or, without one, than
/// the version that ran last. A rollback is not checked: an admin asked for it.
pub(crate) fn refuse_older(
    modules: &[DesiredModule],
    versions: &Versions,
    rules: &Modules,
) -> Result<(), Problems> {
    let older = |(entry, component): &DesiredModule| {
        let last = versions.last_of(&component.title);
        let last = last.and_then(|(_, component)| signed_version(component));
        problem(entry, component, last, rules)
    };
    let problems: Vec<Problem> = modules.iter().filter_map(older).collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems))
    }
}

/// Returns the version that a trusted key signed.
fn signed_version(component: &Component) -> Option<&Version> {
    component.signer.as_ref()?.conditions.version.as_ref()
}

fn problem(
    entry: &ModuleEntry,
    component: &Component,
    last: Option<&Version>,
    rules: &Modules,
) -> Option<Problem> {
    let name = &entry.settings.name;
    let version = signed_version(component);
    if let Some(least) = &entry.settings.min_version {
        let message = match version {
            Some(version) if version >= least => return None,
            Some(version) => {
                format!("module {name} is version {version}; the minimum is {least}")
            }
            None => format!(
                "module {name} has no version that a trusted key signed; the minimum is {least} (`peal module sign --version`)"
            ),
        };
        return Some(entry.problem("module.min_version", message));
    }
    let last = last?;
    let message = match version {
        Some(version) if version >= last => return None,
        Some(version) => format!(
            "module {name} is version {version}, and version {last} ran: an older one is refused, unless its [[module]] has \
             min_version = \"{version}\""
        ),
        // Where no signature is required, everyone who can write the file can replace it anyway.
        None if !rules.requires(component.module_owner()) => return None,
        None => format!(
            "module {name} is signed without a version, and version {last} ran: sign it with `peal module sign --version`"
        ),
    };
    Some(entry.problem("module.path", message))
}
