//! The files by which tools find a server (`pmix-wire.md`, section 1.4), there as long as the server is.

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

/// The release that the server says it is: a client that believes in a newer one uses what is not served. What stands behind it
/// (`Release::ADAPTS`) tells clients of Peal's own that it speaks as they do.
pub(crate) const SERVED_VERSION: &str = "4.2.2peal";

/// For whom a server is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Serves {
    /// For its own jobs: it is found by process id and by namespace.
    #[default]
    Itself,
    /// Also for whatever its user does on this node.
    Session,
    /// For the whole node as well.
    System,
}

/// Where the files lie, and which there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RendezvousSettings {
    /// The directory of the session: of this user, and writable by nobody else. Made if need be. Tools look for it below the
    /// system's.
    pub session_dir: PathBuf,
    /// The directory of the system, such as `/tmp`.
    pub system_dir: PathBuf,
    /// For whom the server is there.
    pub serves: Serves,
    /// The node's name, as tools have it.
    pub hostname: String,
}

impl Default for RendezvousSettings {
    /// Where tools of `libpmix` look that were started in the same environment.
    fn default() -> Self {
        RendezvousSettings::of(env::var_os)
    }
}

impl RendezvousSettings {
    /// Where tools look in an environment.
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

    /// The same with another directory of the system, and this user's below it.
    pub fn below(self, system_dir: PathBuf) -> RendezvousSettings {
        RendezvousSettings {
            session_dir: usual_session(&system_dir),
            system_dir,
            ..self
        }
    }

    /// Opens the directory of the session. Whoever made the usual one first does not keep root's server from starting, which
    /// has a place where nobody else can make anything.
    fn open_session(
        &self,
        fallback: Option<&Path>,
    ) -> Result<RendezvousDirectory, RendezvousError> {
        let opened = RendezvousDirectory::open(&self.session_dir, Sharing::Own);
        match (opened, fallback) {
            (Err(error), Some(fallback)) if self.session_dir == usual_session(&self.system_dir) => {
                let directory = RendezvousDirectory::open(fallback, Sharing::Own)?;
                tracing::warn!(%error, instead = %fallback.display(), "tools must be told where this server is");
                Ok(directory)
            }
            (opened, _) => opened,
        }
    }
}

/// The directory of this user's session, unless it is told: below the system's, where tools look.
fn usual_session(system_dir: &Path) -> PathBuf {
    system_dir.join(format!("peal-{}", geteuid().as_raw()))
}

/// Where root's files lie if somebody else has made the usual directory.
const ROOTS: &str = "/run/peal";

/// Why tools cannot be told where the server is.
#[derive(Debug, Error)]
pub enum RendezvousError {
    /// The directory is not one to write such files in.
    #[error("{path:?} is no directory for rendezvous files: {why}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// Another server has that file.
    #[error(
        "{path:?} belongs to a server that runs, process {pid}; if that is no server, remove the file"
    )]
    Taken {
        /// The file.
        path: PathBuf,
        /// Which process.
        pid: u32,
    },
    /// A namespace that cannot be part of a file's name.
    #[error("namespace {0:?} cannot be in the name of a file: it must be without \"/\" and short")]
    Nspace(Nspace),
    /// The system does not let us.
    #[error("cannot write {path:?}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// The files of a server. They are removed when this is dropped; what a killed server leaves, the next one removes.
#[derive(Debug)]
pub struct Rendezvous(Vec<Entry>);

impl Rendezvous {
    /// Writes the files of the server at `uri`, to be found by process, by its own namespace and by these.
    pub fn publish(
        settings: &RendezvousSettings,
        uri: &ServerUri,
        namespaces: &[Nspace],
    ) -> Result<Rendezvous, RendezvousError> {
        let session = settings.open_session(geteuid().is_root().then_some(Path::new(ROOTS)))?;
        Rendezvous::publish_in(&session, settings, uri, namespaces)
    }

    fn publish_in(
        session: &RendezvousDirectory,
        settings: &RendezvousSettings,
        uri: &ServerUri,
        namespaces: &[Nspace],
    ) -> Result<Rendezvous, RendezvousError> {
        let pid = std::process::id();
        let who = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        let contents = file::contents(uri, pid, who, SystemTime::now());
        let host = &settings.hostname;
        let mut names = vec![format!("pmix.{host}.tool.{pid}")];
        for nspace in std::iter::once(&uri.proc.nspace).chain(namespaces) {
            names.push(format!("pmix.{host}.tool.{}", file_name_of(nspace)?));
        }
        if settings.serves != Serves::Itself {
            names.push(format!("pmix.{host}.tool"));
        }
        let mut files = Rendezvous(Vec::new());
        // Of the servers of one user, one at a time looks for what others have left.
        let turn = session.take_turn()?;
        session.sweep();
        for name in names {
            files.0.push(session.write(&name, &contents)?);
        }
        drop(turn);
        if settings.serves == Serves::System {
            let system = RendezvousDirectory::open(&settings.system_dir, Sharing::Sticky)?;
            files
                .0
                .push(system.write(&format!("pmix.sys.{host}"), &contents)?);
        }
        Ok(files)
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|entry| entry.path.as_path())
    }
}

/// Longer names leave no room for what stands before them.
const LONGEST: usize = 128;

fn file_name_of(nspace: &Nspace) -> Result<&str, RendezvousError> {
    let name = nspace.as_str();
    let fits = !name.is_empty() && name.len() <= LONGEST && !name.contains(['/', '\0']);
    if fits {
        Ok(name)
    } else {
        Err(RendezvousError::Nspace(nspace.clone()))
    }
}
