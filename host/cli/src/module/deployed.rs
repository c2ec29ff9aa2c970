//! `peal module list`, `disable`, `enable`, `reset` and `rollback`: modules of a running server.
use super::{deploy, deployed_cluster};
use crate::{
    admin,
    args::{ModuleNameArgs, ModuleRollback, QueryArgs, ServerArgs},
    table::{Side, table},
    units,
};
use anyhow::Result;
use peal_model::counted;
use peal_server::admin::{
    AdminReply, AdminRequest, ChainOwner, ChangeKind, Deployed, ModuleCall, ModuleList,
    ModuleState, ModuleStatus, VersionStatus,
};
use std::{
    io::Write,
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

/// Number of shown characters of a digest.
const DIGEST: usize = 12;

/// Returns the modules of a server.
pub fn modules(at: ServerArgs) -> Result<ModuleList> {
    match admin::request(at, &AdminRequest::Module(ModuleCall::List))?.0 {
        AdminReply::Modules(list) => Ok(list),
        reply => admin::unexpected(&reply),
    }
}

/// Prints the modules.
pub fn list(args: QueryArgs) -> Result<ExitCode> {
    let list = modules(args.at)?;
    let mut out = crate::output::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &list)?;
        writeln!(out)?;
    } else {
        print(&mut out, &list)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends a change of one module.
pub fn change(args: ModuleNameArgs, call: impl FnOnce(String) -> ModuleCall) -> Result<ExitCode> {
    let name = args.name.clone();
    let deployed = request_change(args.at, call(args.name))?;
    print_change(&deployed, &format!("module {name:?} is as it was"))
}

/// Runs an earlier version again.
pub fn rollback(args: ModuleRollback) -> Result<ExitCode> {
    if args.cluster {
        return deploy::rollback(args);
    }
    let deployed = request_change(args.at, ModuleCall::Rollback { to: args.to })?;
    print_change(&deployed, "the modules are those of that version already")?;
    crate::print_line(
        "the files of the configuration are as they were: what changes there next, `peal reload` or a restart takes them",
    );
    Ok(ExitCode::SUCCESS)
}

fn request_change(at: ServerArgs, call: ModuleCall) -> Result<Deployed> {
    match admin::request(at, &AdminRequest::Module(call))?.0 {
        AdminReply::Deployed(deployed) => Ok(deployed),
        reply => anyhow::bail!("the server sent an unexpected reply: {reply:?}"),
    }
}

fn print_change(deployed: &Deployed, nothing: &str) -> Result<ExitCode> {
    let mut out = crate::output::stdout();
    for change in &deployed.changes {
        writeln!(out, "{change}")?;
    }
    if deployed.changes.is_empty() {
        writeln!(out, "{nothing}")?;
    // A reset ends a quarantine, and the version stays.
    } else if deployed
        .changes
        .iter()
        .any(|change| change.what != ChangeKind::Reset)
    {
        writeln!(out, "version {} runs", deployed.version)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, list: &ModuleList) -> Result<()> {
    let rows: Vec<[String; 6]> = list.modules.iter().map(row).collect();
    let head =
        ["MODULE", "STATE", "OWNER", "ROLES", "SHA256", "KEY"].map(|name| (name, Side::Left));
    write!(out, "{}", table(head, &rows))?;
    for module in &list.modules {
        if module.state == ModuleState::Fetching {
            let artefact = module.path.as_deref().unwrap_or_default();
            let failure = module.failure.as_deref();
            let failure = failure.map(|failure| format!("; the last try: {failure}"));
            writeln!(
                out,
                "{} waits for {artefact}{}",
                module.name,
                failure.unwrap_or_default()
            )?;
        } else if let Some(failure) = &module.failure {
            let times = counted(module.failures, "time");
            writeln!(
                out,
                "{} failed {times} lately; the last failure: {failure}",
                module.name
            )?;
        }
    }
    for refused in &list.refused {
        writeln!(out, "{refused}")?;
    }
    if let Some(cluster) = &list.cluster {
        writeln!(out)?;
        deployed_cluster::print(out, cluster)?;
    }
    writeln!(out)?;
    for version in &list.versions {
        let runs = if version.version == list.version {
            " (runs)"
        } else {
            ""
        };
        writeln!(
            out,
            "version {}{runs}: {}",
            version.version,
            described(version)
        )?;
    }
    Ok(())
}

fn row(module: &ModuleStatus) -> [String; 6] {
    let owner = match &module.owner {
        ChainOwner::Site => "site".to_owned(),
        ChainOwner::User(uid) => format!("user {}", units::user(*uid)),
        ChainOwner::Namespace(nspace) => format!("namespace {nspace}"),
    };
    let digest = module.sha256.chars().take(DIGEST).collect();
    let key = module
        .signer
        .as_ref()
        .map_or_else(|| "-".to_owned(), |signer| signer.key.clone());
    [
        module.name.clone(),
        module.state.to_string(),
        owner,
        module.roles.join(","),
        digest,
        key,
    ]
}

/// Describes a time in seconds since the epoch.
pub(super) fn ago(at: u64) -> String {
    let age = UNIX_EPOCH
        .checked_add(Duration::from_secs(at))
        // This fails if the clock was set back since.
        .and_then(|at| at.elapsed().ok())
        .map_or(0, |age| age.as_secs());
    match age {
        0..60 => format!("{age} s ago"),
        60..3600 => format!("{} min ago", age / 60),
        3600..86_400 => format!("{} h ago", age / 3600),
        _ => format!("{} ago", counted(age / 86_400, "day")),
    }
}

fn described(version: &VersionStatus) -> String {
    let ago = ago(version.at);
    let modules = if version.modules.is_empty() {
        "none".to_owned()
    } else {
        version.modules.join(", ")
    };
    format!("{ago}, {}: {modules}", version.cause)
}
