//! Directories of the configuration, which must be those of the server's user before it starts.
use super::ServerAccount;
use anyhow::{Context, Result, bail};
use peal_config::{Config, TenantProcess};
use peal_modules::user_code_dir;
use peal_system::as_user;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
};

/// Directory that the server writes.
struct ServerDirectory {
    path: PathBuf,
    /// Mode, if it is created.
    mode: u32,
    /// Setting that names it, for messages.
    setting: &'static str,
}

/// File or directory that the server writes.
struct ServerFile {
    path: PathBuf,
    /// Setting that names it, for messages.
    setting: &'static str,
}

/// Creates the missing directories for the server's user, and checks the others.
///
/// # Errors
///
/// Names the first directory or file that the user cannot write.
pub fn prepare(config: &Config, account: &ServerAccount, socket: &Path) -> Result<()> {
    for directory in needed(config, account, socket) {
        let ServerDirectory {
            path,
            mode,
            setting,
        } = &directory;
        create(path, *mode, account)
            .with_context(|| format!("cannot create {} ({setting})", path.display()))?;
        check(path, account).with_context(|| setting.to_string())?;
    }
    if config.tenant.process != Some(TenantProcess::Shared) {
        let code = user_code_dir(&account.code_dir(config));
        let wrong = || {
            format!(
                "cannot open {} to users' processes (sandbox.cache_dir)",
                code.display()
            )
        };
        open_to_group(&code, account).with_context(wrong)?;
    }
    for ServerFile { path, setting } in files(config) {
        check(&path, account).context(setting)?;
    }
    Ok(())
}

/// Returns what keeps the server's user from directories and files that exist. Changes nothing.
pub fn unusable_directories(
    config: &Config,
    account: &ServerAccount,
    socket: &Path,
) -> Vec<anyhow::Error> {
    let directories = needed(config, account, socket).into_iter();
    let directories =
        directories.map(|ServerDirectory { path, setting, .. }| ServerFile { path, setting });
    directories
        .filter(|directory| directory.path.exists())
        .chain(files(config))
        .filter_map(|ServerFile { path, setting }| check(&path, account).context(setting).err())
        .collect()
}

/// Returns the files that are there. A server that ran as root before has left files that belong to root.
fn files(config: &Config) -> impl Iterator<Item = ServerFile> {
    let files = [
        ("store.path", config.store.path.clone()),
        ("audit.path", config.audit.path.clone()),
    ];
    files.into_iter().filter_map(|(setting, path)| {
        let path = path.filter(|path| path.exists())?;
        Some(ServerFile { path, setting })
    })
}

fn needed(config: &Config, account: &ServerAccount, socket: &Path) -> Vec<ServerDirectory> {
    let parent = |path: &Path| path.parent().map(Path::to_owned).unwrap_or_default();
    let mut needed = vec![ServerDirectory {
        path: parent(socket),
        mode: 0o755,
        setting: "admin.socket",
    }];
    let files = [
        ("hosts.socket", config.hosts.socket.clone(), 0o755),
        ("store.path", config.store.path.clone(), 0o700),
        ("audit.path", config.audit.path.clone(), 0o700),
        (
            "audit.checkpoint_file",
            config.audit.checkpoint_file.clone(),
            0o700,
        ),
    ];
    needed.extend(files.into_iter().filter_map(|(setting, path, mode)| {
        Some(ServerDirectory {
            path: parent(&path?),
            mode,
            setting,
        })
    }));
    let code = account.code_dir(config);
    let directories = [
        ("events.spill_dir", config.events.spill_dir.clone(), 0o700),
        // First, since a directory above both that is missing gets its mode.
        ("sandbox.cache_dir", Some(user_code_dir(&code)), 0o750),
        ("sandbox.cache_dir", Some(code), 0o700),
        (
            "registry.store_dir",
            Some(account.artifact_dir(config)),
            0o755,
        ),
        // Tools of all users find the server by files there.
        ("tools.session_dir", config.tools.session_dir.clone(), 0o755),
    ];
    needed.extend(directories.into_iter().filter_map(|(setting, path, mode)| {
        Some(ServerDirectory {
            path: path?,
            mode,
            setting,
        })
    }));
    needed
}

/// Creates a directory and those above it that are missing. They belong to the server's user.
fn create(path: &Path, mode: u32, account: &ServerAccount) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .collect();
    for path in missing.into_iter().rev() {
        match DirBuilder::new().mode(mode).create(path) {
            // `create` fails where something exists, so this is no link of somebody else.
            Ok(()) => {}
            // Another server was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        chown(path, Some(account.identity.uid), Some(account.identity.gid))?;
    }
    Ok(())
}

/// Permission bit by which the group of a directory enters it.
const GROUP_ENTERS: u32 = 0o010;

/// Lets the group of the server's user enter this directory and those above it, as far as they are the
/// server's own. Processes of users have this group, and read the code that was compiled for them.
fn open_to_group(path: &Path, account: &ServerAccount) -> io::Result<()> {
    for directory in path.ancestors() {
        let found = fs::metadata(directory)?;
        let is_own = found.uid() == account.identity.uid && found.gid() == account.identity.gid;
        if is_own && found.mode() & GROUP_ENTERS == 0 {
            let mode = (found.mode() & 0o7777) | GROUP_ENTERS;
            let open = || fs::set_permissions(directory, fs::Permissions::from_mode(mode));
            // Root may do so only with a capability that its unit does not have.
            as_user::run(account.identity, open)??;
        }
    }
    Ok(())
}

/// Checks that the server's user can write a file or directory.
fn check(path: &Path, account: &ServerAccount) -> Result<()> {
    let access = Access::READ_OK | Access::WRITE_OK;
    let done = as_user::run(account.identity, || {
        accessat(CWD, path, access, AtFlags::EACCESS)
    })
    .context("cannot act as the server's user")?;
    if let Err(error) = done {
        let owner = fs::metadata(path).map(|found| found.uid());
        let owner = owner.map_or_else(|error| error.to_string(), |uid| format!("user {uid}"));
        bail!(
            "user {name} cannot write {path} of {owner}: {error}; `chown -R {name} {path}` gives it to the server, server.user = \"root\" \
             keeps a server of root",
            name = account.name,
            path = path.display(),
        );
    }
    Ok(())
}
