//! User that a server of root runs as.
use super::USUAL_CACHE;
use anyhow::{Context, Result, bail};
use nix::unistd::User;
use peal_config::Config;
use peal_model::UserIdentity;
use peal_system::as_user;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// User of the server where the configuration names none.
const USUAL: &str = "peal";

/// User that a server runs as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerAccount {
    /// Name of the user.
    pub name: String,
    /// User and group.
    pub identity: UserIdentity,
    /// Home directory.
    pub home: PathBuf,
}

impl ServerAccount {
    /// Returns the user to which a server of root changes: `server.user`, or the user `peal` if there
    /// is one. None if this process is not root, or the server is to stay root. Blocks while the
    /// system's directory service responds.
    ///
    /// # Errors
    ///
    /// Fails if there is no such user, or if only root can change to it.
    pub fn of(config: &Config) -> Result<Option<ServerAccount>> {
        let configured = config.server.user.as_deref();
        if !rustix::process::geteuid().is_root() {
            return match configured {
                Some(name) if !is_own(name)? => {
                    bail!(
                        "server.user is {name:?}, to which only a server that root starts can change"
                    )
                }
                _ => Ok(None),
            };
        }
        let name = configured.unwrap_or(USUAL);
        match (find(name)?, configured) {
            (Some(user), _) if user.uid.is_root() => Ok(None),
            (Some(user), _) => Ok(Some(ServerAccount {
                name: user.name,
                identity: UserIdentity {
                    uid: user.uid.as_raw(),
                    gid: user.gid.as_raw(),
                },
                home: user.dir,
            })),
            (None, Some(name)) => bail!(
                "server.user: there is no user {name:?} here; `useradd --system {name}` creates it, \"root\" keeps root"
            ),
            (None, None) => Ok(None),
        }
    }
}

impl ServerAccount {
    /// Returns the directory of the server's compiled code. The environment of this process is that of
    /// root.
    pub fn code_dir(&self, config: &Config) -> PathBuf {
        let configured = config.sandbox.cache_dir.clone();
        configured.unwrap_or_else(|| USUAL_CACHE.into())
    }

    /// Returns the server's directory of artefacts.
    pub fn artifact_dir(&self, config: &Config) -> PathBuf {
        peal_modules::artifact_dir_beside(config, &self.code_dir(config))
    }
}

fn is_own(name: &str) -> Result<bool> {
    let own = rustix::process::geteuid().as_raw();
    Ok(find(name)?.is_some_and(|user| user.uid.as_raw() == own))
}

fn find(name: &str) -> Result<Option<User>> {
    User::from_name(name).with_context(|| format!("cannot look up user {name:?}"))
}

/// Opens a file as its owner, if this process is root. Files that root would create beside the database
/// of a server's user could not be used by that server.
///
/// # Errors
///
/// Fails if root cannot act as that user. `open` has not run then.
pub fn as_owner_of<T: Send>(path: &Path, open: impl FnOnce() -> T + Send) -> Result<T> {
    let owner = fs::metadata(path).ok().map(|found| UserIdentity {
        uid: found.uid(),
        gid: found.gid(),
    });
    match owner.filter(|owner| owner.uid != 0 && rustix::process::geteuid().is_root()) {
        Some(owner) => as_user::run(owner, open)
            .with_context(|| format!("cannot open {} as user {}", path.display(), owner.uid)),
        None => Ok(open()),
    }
}
