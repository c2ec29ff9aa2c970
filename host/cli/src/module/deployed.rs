//! `peal module list`, `disable`, `enable`, `reset` and `rollback`: modules of a running server.
use super::{deploy, deployed_cluster};
use crate::{
    admin,
    args::{
        DryRunArgs, ModuleChangeArgs, ModuleListArgs, ModuleRollback, OutputFormat, ServerArgs,
    },
    listing::{ListColumn, ListItem, ListSelection, listed, names},
    output, units, users,
};
use anyhow::Result;
use peal_model::counted;
use peal_server::admin::{
    AdminReply, AdminRequest, ChainOwner, ChangeKind, Deployed, ModuleCall, ModuleChange,
    ModuleList, ModuleState, ModuleStatus, VersionStatus,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    io::{self, Write},
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
pub fn list(args: ModuleListArgs) -> Result<ExitCode> {
    let selection = ListSelection {
        user: args.user.user,
        states: args.state.state,
        order: args.order.sort,
    };
    let mut list = modules(args.at)?;
    list.modules.retain(|module| {
        selection.has_user(owner(module)) && selection.has_state(&module.state.to_string())
    });
    selection.sort(&mut list.modules);
    match args.format.output {
        OutputFormat::Data(form) => output::print(&form.document(&as_json(&list)?)?)?,
        OutputFormat::Name => {
            output::print(&names(list.modules.iter().map(|module| &module.name)))?;
        }
        format => print(&mut output::stdout(), &list, format)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a list of modules as JSON, with the names of users.
fn as_json(list: &ModuleList) -> Result<Value> {
    let mut told = serde_json::to_value(list)?;
    let modules = list.modules.iter().map(|module| PrintedModule {
        module,
        uid: owner(module),
        user: owner(module).and_then(users::name),
    });
    let modules = serde_json::to_value(modules.collect::<Vec<_>>())?;
    if let Some(fields) = told.as_object_mut() {
        fields.insert("modules".to_owned(), modules);
    }
    Ok(told)
}

/// Module for programs.
#[derive(Serialize)]
struct PrintedModule<'a> {
    #[serde(flatten)]
    module: &'a ModuleStatus,
    /// User that owns the module, if one does.
    uid: Option<u32>,
    /// Name of the user, if this system knows one.
    user: Option<String>,
}

/// Sends a change of one module.
pub fn change(args: ModuleChangeArgs, call: impl FnOnce(String) -> ModuleCall) -> Result<ExitCode> {
    let ModuleChangeArgs { named, dry_run } = args;
    let nothing = format!("module {:?} is as it was", named.name);
    let deployed = request_change(named.at, call(named.name), dry_run)?;
    print_deployed(&deployed, &nothing, dry_run)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs an earlier version again.
pub fn rollback(args: ModuleRollback) -> Result<ExitCode> {
    if args.cluster {
        return deploy::rollback(args);
    }
    let call = ModuleCall::Rollback { to: args.to };
    let deployed = request_change(args.at, call, args.dry_run)?;
    print_deployed(
        &deployed,
        "the modules are those of that version already",
        args.dry_run,
    )?;
    if !args.dry_run.dry_run {
        crate::print_line(
            "the files of the configuration are as they were: what changes there next, `peal reload` or a restart takes them",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn request_change(at: ServerArgs, call: ModuleCall, dry_run: DryRunArgs) -> Result<Deployed> {
    match admin::request_change(at, AdminRequest::Module(call), dry_run)?.0 {
        AdminReply::Deployed(deployed) => Ok(deployed),
        reply => admin::unexpected(&reply),
    }
}

fn print_deployed(deployed: &Deployed, nothing: &str, dry_run: DryRunArgs) -> Result<()> {
    let mut out = output::stdout();
    let changes = &deployed.changes;
    write_changes(&mut out, changes, dry_run)?;
    // A reset ends a quarantine, and the version stays.
    let is_reset = |change: &ModuleChange| change.what == ChangeKind::Reset;
    match dry_run.dry_run {
        true if changes.is_empty() => writeln!(out, "would change nothing: {nothing}")?,
        false if changes.is_empty() => writeln!(out, "{nothing}")?,
        false if !changes.iter().all(is_reset) => {
            writeln!(out, "version {} runs", deployed.version)?;
        }
        _ => {}
    }
    Ok(())
}

/// Writes changes of modules, one a line.
pub fn write_changes(
    out: &mut impl Write,
    changes: &[ModuleChange],
    dry_run: DryRunArgs,
) -> io::Result<()> {
    changes.iter().try_for_each(|change| {
        let ModuleChange { name, what } = change;
        if dry_run.dry_run {
            writeln!(out, "module {name:?} would be {what}")
        } else {
            writeln!(out, "{change}")
        }
    })
}

fn print(out: &mut impl Write, list: &ModuleList, format: OutputFormat) -> Result<()> {
    write!(out, "{}", listed(&list.modules, format))?;
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

impl ListItem for ModuleStatus {
    const COLUMNS: &'static [ListColumn<ModuleStatus>] = &[
        ListColumn::<ModuleStatus>::text("module", |module| module.name.clone()),
        ListColumn::<ModuleStatus>::text("state", |module| module.state.to_string()),
        ListColumn::<ModuleStatus>::text("owner", |module| users::owner(&module.owner)),
        ListColumn::<ModuleStatus>::text("roles", |module| module.roles.join(",")),
        ListColumn::<ModuleStatus>::number(
            "failures",
            |module| Some(module.failures as f64),
            units::count,
        )
        .wide(),
        ListColumn::<ModuleStatus>::number(
            "memory",
            |module| Some(module.memory as f64),
            units::bytes,
        )
        .wide(),
        ListColumn::<ModuleStatus>::text("sha256", |module| {
            module.sha256.chars().take(DIGEST).collect()
        }),
        ListColumn::<ModuleStatus>::optional_text("key", |module| {
            let signer = module.signer.as_ref();
            signer.map(|signer| signer.key.clone())
        }),
        ListColumn::<ModuleStatus>::optional_text("path", |module| module.path.clone()).wide(),
    ];

    const STATES: &'static [&'static str] = &[
        "active",
        "shadow",
        "disabled",
        "waiting",
        "compiling",
        "fetching",
        "quarantined",
    ];
}

/// Returns the user that owns a module, if one does.
fn owner(module: &ModuleStatus) -> Option<u32> {
    match module.owner {
        ChainOwner::User(uid) => Some(uid),
        ChainOwner::Site | ChainOwner::Namespace(_) => None,
    }
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
