//! Rendezvous files, by which tools find a server (`pmix-wire.md`, section 1.4). They exist while
//! the server runs.

mod directory;
mod file;
#[cfg(test)]
mod tests;

use self::directory::{Entry, RendezvousDirectory, Sharing};
use peal_model::{Nspace, UserIdentity};
use peal_wire::{ServerUri, variable};
use rustix::process::{getegid, geteuid};
use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};
use thiserror::Error;

/// Release that the server reports. A newer one would let clients use features that the server does
/// not support. The suffix (`Release::ADAPTS`) informs Peal's own clients that the server adapts to
/// their release.
pub(crate) const SERVED_VERSION: &str = "4.2.2peal";

/// Scope in which tools find a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Serves {
    /// Its own jobs: by process id and by namespace.
    #[default]
    Itself,
    /// In addition the session of its user on this node.
    Session,
    /// In addition the whole node.
    System,
}

/// Directories of the rendezvous files, and the scope of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RendezvousSettings {
    /// Session directory. It belongs to this user, and no other user may write to it. Created if it
    /// is missing. Tools search for it below the system directory.
    pub session_dir: PathBuf,
    /// System directory, such as `/tmp`.
    pub system_dir: PathBuf,
    /// Scope of the server.
    pub serves: Serves,
    /// Name of the node, as tools use it.
    pub hostname: String,
}

impl Default for RendezvousSettings {
    /// Returns the directories where tools of `libpmix` search if they are started in the same
    /// environment.
    fn default() -> Self {
        RendezvousSettings::of(env::var_os)
    }
}

impl RendezvousSettings {
    /// Returns the directories where tools search in an environment.
    pub fn of(get: impl Fn(&'static str) -> Option<OsString>) -> RendezvousSettings {
        let set = |name| {
            get(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let system_dir = [variable::SYSTEM_TMPDIR, "TMPDIR", "TEMP", "TMP"]
            .into_iter()
            .find_map(set);
        let settings = RendezvousSettings {
            session_dir: PathBuf::new(),
            system_dir: PathBuf::new(),
            serves: Serves::default(),
            hostname: peal_system::hostname(),
        };
        let settings = settings.below(system_dir.unwrap_or_else(|| PathBuf::from("/tmp")));
        let session_dir =
            set(variable::SERVER_TMPDIR).unwrap_or_else(|| settings.session_dir.clone());
        RendezvousSettings {
            session_dir,
            ..settings
        }
    }

    /// Returns the settings with another system directory, and the session directory of this user
    /// below it.
    pub fn below(self, system_dir: PathBuf) -> RendezvousSettings {
        RendezvousSettings {
            session_dir: usual_session(&system_dir),
            system_dir,
            ..self
        }
    }

    /// Opens the session directory. If another user has created the usual one first, root's server
    /// still starts: it uses a directory where no other user can create files.
    fn open_session(
        &self,
        fallback: Option<&Path>,
    ) -> Result<RendezvousDirectory, RendezvousError> {
        let opened = RendezvousDirectory::open(&self.session_dir, Sharing::Own);
        match (opened, fallback) {
            (Err(error), Some(fallback)) if self.session_dir == usual_session(&self.system_dir) => {
                let directory = RendezvousDirectory::open(fallback, Sharing::Own)?;
                tracing::warn!(%error, instead = %fallback.display(), "usual session directory not usable; tools need the URI of this server");
                Ok(directory)
            }
            (opened, _) => opened,
        }
    }
}

/// Returns the session directory of this user if none is configured. It is below the system
/// directory, where tools search.
fn usual_session(system_dir: &Path) -> PathBuf {
    system_dir.join(format!("peal-{}", geteuid().as_raw()))
}

/// Directory of root's files if another user has created the usual directory.
const ROOT_DIRECTORY: &str = "/run/peal";

/// Error of the publication of rendezvous files.
#[derive(Debug, Error)]
pub enum RendezvousError {
    /// The directory is not safe for such files.
    #[error("cannot use directory {path:?} for rendezvous files: {why}")]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Problem, and what would be right.
        why: String,
    },
    /// Another server uses the file.
    #[error(
        "{path:?} belongs to a running server, process {pid}; if that process is no server, remove the file"
    )]
    Taken {
        /// Path of the file.
        path: PathBuf,
        /// Process id of the server; zero if it is unknown.
        pid: u32,
    },
    /// The namespace cannot be part of a file name.
    #[error(
        "namespace {0:?} cannot be part of a file name: it must have at most {max} bytes and not contain \"/\"",
        max = MAX_NSPACE_BYTES
    )]
    Nspace(Nspace),
    /// A system call failed.
    #[error("cannot write {path:?}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// System error.
        source: io::Error,
    },
}

/// Rendezvous files of a server. They are removed on drop; the next server removes those of a
/// killed one.
#[derive(Debug)]
pub struct Rendezvous(Vec<Entry>);

impl Rendezvous {
    /// Writes the files of the server at `uri`. It is found by its process id, its own namespace
    /// and `namespaces`.
    pub fn publish(
        settings: &RendezvousSettings,
        uri: &ServerUri,
        namespaces: &[Nspace],
    ) -> Result<Rendezvous, RendezvousError> {
        let session =
            settings.open_session(geteuid().is_root().then_some(Path::new(ROOT_DIRECTORY)))?;
        Rendezvous::publish_in(&session, settings, uri, namespaces)
    }

    fn publish_in(
        session: &RendezvousDirectory,
        settings: &RendezvousSettings,
        uri: &ServerUri,
        namespaces: &[Nspace],
    ) -> Result<Rendezvous, RendezvousError> {
        let pid = std::process::id();
        let owner = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        let contents = file::contents(uri, pid, owner, SystemTime::now());
        let host = &settings.hostname;
        let mut names = vec![format!("pmix.{host}.tool.{pid}")];
        for nspace in std::iter::once(&uri.proc.nspace).chain(namespaces) {
            names.push(format!("pmix.{host}.tool.{}", file_name_of(nspace)?));
        }
        if settings.serves != Serves::Itself {
            names.push(format!("pmix.{host}.tool"));
        }
        // After an error, the drop of this removes the files that were written so far.
        let mut files = Rendezvous(Vec::new());
        // Only one server of a user sweeps at a time, so that it does not remove files that another
        // one is writing.
        let turn = session.lock_for_sweep()?;
        session.sweep();
        for name in names {
            files.0.push(session.write(&name, &contents)?);
        }
        // The system directory is not swept, so it needs no lock.
        drop(turn);
        if settings.serves == Serves::System {
            let system = RendezvousDirectory::open(&settings.system_dir, Sharing::Sticky)?;
            files
                .0
                .push(system.write(&format!("pmix.sys.{host}"), &contents)?);
        }
        Ok(files)
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|entry| entry.path.as_path())
    }
}

/// Upper bound of the length of a namespace, in bytes. It leaves space for the rest of the file
/// name.
const MAX_NSPACE_BYTES: usize = 128;

fn file_name_of(nspace: &Nspace) -> Result<&str, RendezvousError> {
    let name = nspace.as_str();
    let fits = !name.is_empty() && name.len() <= MAX_NSPACE_BYTES && !name.contains(['/', '\0']);
    if fits {
        Ok(name)
    } else {
        Err(RendezvousError::Nspace(nspace.clone()))
    }
}
