//! Confinement of `peal serve`: the paths that a server needs by its configuration, to which the
//! kernel confines it.
use crate::{
    config::{self, Readable},
    helper,
    supervisor::ProcessStarter,
};
use anyhow::{Context, Result, bail};
use peal_config::{
    Config, ConfinementMode, FilesMode, Module, ModuleEntry, Problem, ProblemOrigin,
};
use peal_confinement::{
    ActiveConfinement, Confinement, EnforcementLevel, ProcessRole, RefusedCalls,
};
use peal_helper::PrivilegedHelper;
use peal_nats::ClusterAccess;
use peal_server::Serves;
use peal_sinks::{ExternalAccess, WebServiceSettings};
use std::{
    collections::BTreeSet,
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Component, Path, PathBuf},
};

/// Maximum number of symbolic links in one path, as in the kernel.
const MAX_LINKS: u32 = 40;

/// Files below `/etc` that the C library reads for users, groups, time zones and host names. The
/// rest of `/etc` is closed unless the admin opens it.
pub const SYSTEM_FILES: [&str; 8] = [
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
];

/// Devices that a program may need, all without effect on others. The rest of `/dev` is closed: raw
/// disks, memory and terminals are there.
const DEVICES: [&str; 4] = ["/dev/full", "/dev/random", "/dev/urandom", "/dev/zero"];

/// Services that a server connects to, beside those of its sinks.
#[derive(Clone, Copy)]
pub struct ServerPeers<'a> {
    /// Cluster of the server.
    pub cluster: Option<&'a ClusterAccess>,
    /// Collector of its telemetry.
    pub collector: Option<&'a WebServiceSettings>,
}

/// Confines this process if the configuration says so, and returns the privileged helper for that
/// case. `files` are the configuration files, `socket` is the admin socket.
pub fn confine(
    readable: &Readable,
    files: &[PathBuf],
    socket: &Path,
    peers: ServerPeers<'_>,
    starter: Option<ProcessStarter>,
) -> Result<(Option<ActiveConfinement>, PrivilegedHelper)> {
    let config = &readable.resolved.config;
    let is_supervised = starter.is_some();
    let Some(refused) = refused_calls(config.confinement.mode) else {
        let helper = if is_supervised {
            helper::start(config, starter)?
        } else {
            PrivilegedHelper::default()
        };
        return Ok((None, helper));
    };
    // Before the confinement, since a confined process cannot start programs.
    let helper = helper::start(config, starter)?;
    let needed = Confinement {
        refused,
        ..needed_access(readable, files, socket, peers)
    };
    let raised = needed.enforce().context("cannot confine the server")?;
    // After it, because the connection takes a thread.
    helper.connect().context("cannot start the server")?;
    let files = raised.files;
    let calls = raised.calls;
    match (config.confinement.mode, files, calls) {
        (_, EnforcementLevel::Full, EnforcementLevel::Full) => {}
        (ConfinementMode::Require, ..) => {
            bail!(
                "this kernel cannot confine as `confinement.mode = \"require\"` demands: files are confined {}, system calls \
                 {}; \"try\" uses what the kernel has",
                extent(files),
                extent(calls)
            )
        }
        _ => tracing::warn!(
            files_confined = extent(files),
            system_calls_confined = extent(calls),
            "this kernel cannot confine the server wholly"
        ),
    }
    Ok((Some(raised), helper))
}

/// Returns the words for an extent.
pub fn extent(level: EnforcementLevel) -> &'static str {
    match level {
        EnforcementLevel::Full => "wholly",
        EnforcementLevel::Partial => "in part",
        EnforcementLevel::Missing => "not at all",
    }
}

/// Returns the paths that a server of this configuration needs.
fn needed_access(
    readable: &Readable,
    files: &[PathBuf],
    socket: &Path,
    peers: ServerPeers<'_>,
) -> Confinement {
    let config = &readable.resolved.config;
    let mut read: BTreeSet<PathBuf> = SYSTEM_FILES.map(PathBuf::from).into();
    read.extend(DEVICES.map(PathBuf::from));
    let mut shut = resolve_all(&config.confinement.inaccessible_paths);
    shut.push("/dev".into());
    leave_open(Path::new("/"), &shut, &mut read);
    let mut write = BTreeSet::from(["/dev/null".into(), directory(socket)]);
    // Editors replace a file by another one, which a rule for the old file does not cover. The rule
    // is therefore for the directory.
    read.extend(files.iter().map(|path| {
        if path.is_dir() {
            path.clone()
        } else {
            directory(path)
        }
    }));
    read.extend(config.deploy.user_modules_dir.clone());
    for module in &readable.resolved.modules {
        for (path, mode) in reached(&module.settings) {
            let into = if mode == FilesMode::ReadWrite {
                &mut write
            } else {
                &mut read
            };
            into.insert(path);
        }
        // The directory of the component is read too: it holds the signature and later versions.
        // A component in the root directory must not open everything.
        let beside = module.settings.path.file().map(directory);
        read.extend(beside.filter(|dir| dir != Path::new("/")));
    }
    read.extend(artifacts(config));
    write.extend(config.hosts.socket.as_deref().map(directory));
    write.extend(writable(config));
    let sinks: Vec<_> = readable
        .resolved
        .sinks
        .iter()
        // An invalid sink is reported when it is opened.
        .filter_map(|sink| sink.to_open().ok())
        .collect();
    let mut external = ExternalAccess::of(&sinks);
    if let Some(cluster) = peers.cluster {
        read.insert(cluster.credentials.clone());
        for server in &cluster.servers {
            external.add_tls_server(server.host(), server.port(), cluster.ca.as_ref());
        }
    }
    if let Some(collector) = peers.collector {
        external.add_web_service(collector);
    }
    read.extend(external.read);
    write.extend(external.write);
    read.extend(config.confinement.read_only_paths.iter().cloned());
    write.extend(config.confinement.read_write_paths.iter().cloned());
    Confinement {
        read,
        write,
        connect: external.connect,
        ..Confinement::of(ProcessRole::Server)
    }
}

/// Returns the treatment of system calls that a process does not have; none if it is not confined.
pub fn refused_calls(mode: ConfinementMode) -> Option<RefusedCalls> {
    match mode {
        ConfinementMode::Off => None,
        ConfinementMode::Log => Some(RefusedCalls::Log),
        ConfinementMode::Try | ConfinementMode::Require => Some(RefusedCalls::Fail),
    }
}

/// Resolves the symbolic links of paths, which need not exist: a path that is created later must
/// not be below a directory that was opened whole.
fn resolve_all(paths: &[PathBuf]) -> Vec<PathBuf> {
    let resolved = |path: &PathBuf| {
        let mut at = PathBuf::from("/");
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let mut links = MAX_LINKS;
        resolve(&mut at, &path, &mut links);
        at
    };
    paths.iter().map(resolved).collect()
}

/// Moves from one path along another, with up to this number of links.
fn resolve(at: &mut PathBuf, path: &Path, links: &mut u32) {
    for part in path.components() {
        match part {
            Component::RootDir => *at = PathBuf::from("/"),
            // Links before it are resolved, so this is the real parent.
            Component::ParentDir => drop(at.pop()),
            Component::Normal(name) => {
                at.push(name);
                // Links may form a circle.
                if *links > 0
                    && let Ok(target) = at.read_link()
                {
                    *links -= 1;
                    // A relative target starts at the directory of the link.
                    at.pop();
                    resolve(at, &target, links);
                }
            }
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
}

/// Adds everything below a directory except the shut paths. Entries that are created later beside a
/// shut path stay shut, too.
fn leave_open(path: &Path, shut: &[PathBuf], open: &mut BTreeSet<PathBuf>) {
    if shut.iter().all(|shut| !shut.starts_with(path)) {
        open.insert(path.to_owned());
    } else if !shut.iter().any(|shut| shut == path) {
        // A directory that cannot be listed stays shut.
        let entries = path.read_dir().into_iter().flatten().flatten();
        // The target of a symbolic link is opened or shut by its own path.
        let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
        real.for_each(|entry| leave_open(&entry.path(), shut, open));
    }
}

/// Returns the component of a module, and the directories that it may access.
fn reached(module: &Module) -> impl Iterator<Item = (PathBuf, FilesMode)> {
    let lent = module
        .files
        .iter()
        .map(|files| (files.path.clone(), files.mode));
    let component = module.path.file();
    lent.chain(component.map(|path| (path.to_owned(), FilesMode::Read)))
}

/// Returns the directory of artefacts, which is created here, since a rule needs an existing path.
fn artifacts(config: &Config) -> Option<PathBuf> {
    let directory = peal_modules::artifact_dir(config)?;
    // The directory of a store is not created: a wrong path must be reported.
    let is_beside_store = config.registry.store_dir.is_none() && config.store.path.is_some();
    // Errors are ignored here: the process that fetches reports what is wrong.
    let _ = DirBuilder::new()
        .recursive(!is_beside_store)
        .mode(0o755)
        .create(&directory);
    Some(directory)
}

/// Returns the paths that the server itself writes. Directories that it would create later are
/// created here, since a rule needs an existing path.
fn writable(config: &Config) -> Vec<PathBuf> {
    let store = &config.store.path;
    let audit = &config.audit.path;
    let records = [store, audit, &config.audit.checkpoint_file];
    let mut write: Vec<PathBuf> = records
        .into_iter()
        .flatten()
        // SQLite makes files of its own beside a database.
        .map(|path| directory(path))
        .collect();
    write.push(
        config
            .events
            .spill_dir
            .clone()
            .unwrap_or_else(std::env::temp_dir),
    );
    if let Some(code) = peal_modules::code_dir(&config.sandbox) {
        // Errors are ignored here: the code that opens the directory checks it and reports what is
        // wrong.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&code);
        write.push(code);
    }
    if let Some(tools) = config::tool_settings(config, Serves::Session) {
        // Tools of all users find the server by the files in this directory.
        let _ = DirBuilder::new().mode(0o755).create(&tools.session_dir);
        write.push(tools.session_dir);
        write.extend((tools.serves == Serves::System).then_some(tools.system_dir));
    }
    write
}

fn directory(path: &Path) -> PathBuf {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
        .to_owned()
}

/// Returns the problems of modules whose files the confinement of a running server blocks.
pub fn blocked_files(raised: &ActiveConfinement, modules: &[ModuleEntry]) -> Vec<Problem> {
    modules
        .iter()
        .flat_map(|module| of_module(raised, module))
        .collect()
}

fn of_module(raised: &ActiveConfinement, module: &ModuleEntry) -> Vec<Problem> {
    let at = |key| {
        module
            .origin_of(key)
            .cloned()
            .unwrap_or(ProblemOrigin::BuiltIn)
    };
    let shut = |(path, mode): (PathBuf, FilesMode)| {
        let (lets, key) = match mode {
            FilesMode::Read => (raised.can_read(&path), "read_only_paths"),
            FilesMode::ReadWrite => (raised.can_write(&path), "read_write_paths"),
        };
        let origin = if Some(&*path) == module.settings.path.file() {
            "module.path"
        } else {
            "module.files"
        };
        // A missing file is reported by the code that opens it.
        (!lets && path.exists()).then(|| {
            let path = path.display();
            let name = &module.settings.name;
            Problem::new(
                at(origin),
                format!(
                    "confinement keeps module {name} from {path}, which was not configured at startup: restart \
                    the server, with {path} in confinement.{key} if more files will be added there"
                ),
            )
        })
    };
    reached(&module.settings).filter_map(shut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn missing_inaccessible_path_does_not_open_its_parents() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (inner, beside) = (root.join("inner"), root.join("inner/beside"));
        fs::create_dir_all(&beside).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        symlink(&inner, root.join("link")).unwrap();
        symlink("inner/later", root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        for path in [
            "inner/later",
            "inner/later/below",
            "inner/later/../later",
            "link/later",
            "link/../inner/later",
            "dangling",
            "dangling/below",
        ] {
            let mut open = BTreeSet::new();
            leave_open(&root, &resolve_all(&[root.join(path)]), &mut open);
            assert_eq!(open, [beside.clone(), root.join("other")].into(), "{path}");
        }
        let mut open = BTreeSet::new();
        leave_open(&root, &resolve_all(&[root.join("loop")]), &mut open);
        assert_eq!(open, [inner, root.join("other")].into());
    }
}
