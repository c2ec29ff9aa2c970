//! Rendezvous files, by which tools find servers.
use crate::ClientError;
use peal_model::Nspace;
use peal_wire::{Release, ServerUri};
use rustix::fs::OFlags;
use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata, OpenOptions, ReadDir},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Server that a tool attaches to.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum AttachTarget {
    /// Server at this address (`PMIX_SERVER_URI`).
    Uri(ServerUri),
    /// Server of this rendezvous file (`PMIX_TOOL_ATTACHMENT_FILE`, or a URI `file:PATH`).
    File(PathBuf),
    /// System server, and no other (`PMIX_CONNECT_TO_SYSTEM`).
    System,
    /// System server if there is one, else as [`AttachTarget::Any`] (`PMIX_CONNECT_SYSTEM_FIRST`).
    SystemFirst,
    /// Server with this process id (`PMIX_SERVER_PIDINFO`).
    Pid(u32),
    /// Server with this namespace (`PMIX_SERVER_NSPACE`).
    Nspace(Nspace),
    /// Server that the environment names, whose client the tool then is; else the only server on
    /// this node.
    #[default]
    Any,
}

/// Location of the rendezvous files.
#[derive(Clone, PartialEq, Debug)]
pub struct Places {
    /// Name of this node, as the file names contain it.
    pub host: String,
    /// Directory of the system; files are searched in the tree below it.
    pub directory: PathBuf,
}

/// Contents of a rendezvous file.
#[derive(Debug)]
pub(crate) struct RendezvousEntry {
    pub(crate) server: ServerUri,
    pub(crate) release: Option<Release>,
    /// Lines behind the first two, which servers of older releases leave out.
    pub(crate) rest: Vec<String>,
}

/// Limits of the search below a directory: depth, and number of entries.
const MAX_DEPTH: usize = 8;
const MAX_ENTRIES: usize = 100_000;

/// Limit of the length of a file, in bytes.
const MAX_FILE: u64 = 4096;

/// Directory of the node's server. Its supervisor gives it to the server's user.
const SERVER_DIRECTORY: &str = "/run/peal";

/// Permission of group and others to write.
const WRITE_BY_OTHERS: u32 = 0o022;

/// Number and interval of attempts to read a file that its server is still writing.
const RETRIES: usize = 20;
const RETRY: Duration = Duration::from_millis(10);

/// File names that a search accepts.
enum FileSelector {
    Exactly(String),
    Beginning(String),
    /// Names of the files of all servers of this node.
    OfHost(String),
}

impl FileSelector {
    fn covers(&self, name: &str) -> bool {
        match self {
            FileSelector::Exactly(wanted) => name == wanted,
            FileSelector::Beginning(wanted) => name.starts_with(wanted),
            FileSelector::OfHost(host) => name == system(host) || name.starts_with(&tool(host)),
        }
    }

    fn text(&self) -> String {
        match self {
            FileSelector::Exactly(wanted) => wanted.clone(),
            FileSelector::Beginning(wanted) => format!("{wanted}*"),
            FileSelector::OfHost(host) => format!("{}, {}*", system(host), tool(host)),
        }
    }
}

/// Returns the name of the file of a node's system server.
fn system(host: &str) -> String {
    format!("pmix.sys.{host}")
}

/// Returns the prefix of the names of files for tools on a node.
fn tool(host: &str) -> String {
    format!("pmix.{host}.tool")
}

/// Result of a search: readable files by the addresses in them, and the obstacles.
#[derive(Default)]
struct RendezvousSearch {
    found: BTreeMap<String, (PathBuf, RendezvousEntry)>,
    passed_by: usize,
    unreadable: Option<ClientError>,
    is_whole: bool,
}

impl Places {
    /// Returns the system server, if it has left a file.
    pub(crate) fn system(&self) -> Result<RendezvousEntry, ClientError> {
        let name = system(&self.host);
        let path = self.directory.join(&name);
        match trusted(&path, &self.trusted_users()) {
            Ok(Some(file)) => read(&path, file),
            Ok(None) => Err(self.none(name, 1)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.none(name, 0)),
            Err(source) => Err(ClientError::UnreadableFile { path, source }),
        }
    }

    /// Returns the server with this process id.
    pub(crate) fn pid(&self, pid: u32) -> Result<RendezvousEntry, ClientError> {
        // The C library accepts every file that begins like this: process 12 could be mistaken for
        // 123.
        self.search(FileSelector::Exactly(format!("{}.{pid}", tool(&self.host))))
    }

    /// Returns the server with this namespace.
    pub(crate) fn nspace(&self, nspace: &Nspace) -> Result<RendezvousEntry, ClientError> {
        self.search(FileSelector::Exactly(format!(
            "{}.{nspace}",
            tool(&self.host)
        )))
    }

    /// Returns the only server of this node.
    pub(crate) fn any(&self) -> Result<RendezvousEntry, ClientError> {
        self.search(FileSelector::Beginning(tool(&self.host)))
    }

    /// Returns the users whose files count: root, the caller, the user that a server of root changes to,
    /// and the owner of the directory if nobody else can write it.
    fn trusted_users(&self) -> Vec<u32> {
        let owner = |directory: &Path| {
            let found = fs::symlink_metadata(directory).ok()?;
            let is_closed = found.is_dir() && found.mode() & WRITE_BY_OTHERS == 0;
            is_closed.then_some(found.uid())
        };
        let own = rustix::process::geteuid().as_raw();
        // Only root can make a directory in `/run`, so its owner is the user that root chose.
        let server = owner(Path::new(SERVER_DIRECTORY));
        [Some(0), Some(own), server, owner(&self.directory)]
            .into_iter()
            .flatten()
            .collect()
    }

    fn none(&self, name: String, passed_by: usize) -> ClientError {
        ClientError::NoServer {
            name,
            directory: self.directory.clone(),
            passed_by,
        }
    }

    /// Returns every server of this node.
    pub(crate) fn every(&self) -> Result<Vec<RendezvousEntry>, ClientError> {
        let selector = FileSelector::OfHost(self.host.clone());
        let RendezvousSearch {
            found,
            unreadable,
            is_whole,
            ..
        } = self.look_for(&selector)?;
        match unreadable {
            Some(error) if found.is_empty() => Err(error),
            _ if !is_whole => Err(self.too_much(&selector)),
            _ => Ok(found.into_values().map(|(_, server)| server).collect()),
        }
    }

    fn search(&self, selector: FileSelector) -> Result<RendezvousEntry, ClientError> {
        let RendezvousSearch {
            found,
            passed_by,
            unreadable,
            is_whole,
        } = self.look_for(&selector)?;
        if found.len() > 1 {
            let found = found.into_values().map(|(path, _)| path).collect();
            return Err(ClientError::SeveralServers {
                name: selector.text(),
                found,
            });
        }
        let only = found.into_values().next().map(|(_, server)| server);
        only.ok_or_else(|| match unreadable {
            Some(error) => error,
            None if !is_whole => self.too_much(&selector),
            None => self.none(selector.text(), passed_by),
        })
    }

    fn too_much(&self, selector: &FileSelector) -> ClientError {
        let name = selector.text();
        let directory = self.directory.clone();
        ClientError::TooMuchToSearch {
            name,
            directory,
            limit: MAX_ENTRIES,
        }
    }

    fn look_for(&self, selector: &FileSelector) -> Result<RendezvousSearch, ClientError> {
        let mut paths = Vec::new();
        let mut left = MAX_ENTRIES;
        match fs::read_dir(&self.directory) {
            Ok(entries) => walk(entries, selector, MAX_DEPTH, &mut left, &mut paths),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(ClientError::UnreadableFile {
                    path: self.directory.clone(),
                    source,
                });
            }
        }
        let mut search = RendezvousSearch {
            is_whole: left > 0,
            ..RendezvousSearch::default()
        };
        let users = self.trusted_users();
        for path in paths {
            match trusted(&path, &users) {
                // Invalid files are ignored: files come and go during the search.
                Ok(Some(file)) => {
                    if let Ok(server) = read(&path, file) {
                        // A server may leave several files with one address, and counts as one
                        // server.
                        search
                            .found
                            .entry(server.server.to_string())
                            .or_insert((path, server));
                    }
                }
                Ok(None) => search.passed_by += 1,
                // The file was removed since the directory was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    search.unreadable = Some(ClientError::UnreadableFile { path, source })
                }
            }
        }
        Ok(search)
    }
}

/// Returns the server of this file, which may belong to any user, since the caller has named it.
pub(crate) fn read_named_file(path: &Path) -> Result<RendezvousEntry, ClientError> {
    let unreadable = |source| ClientError::UnreadableFile {
        path: path.to_owned(),
        source,
    };
    read(path, regular(path, OFlags::empty()).map_err(unreadable)?)
}

/// Searches depth first, as other tools do. Symbolic links are not followed, so the search ends.
fn walk(
    entries: ReadDir,
    selector: &FileSelector,
    depth: usize,
    left: &mut usize,
    found: &mut Vec<PathBuf>,
) {
    for entry in entries.flatten() {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => {
                // Directories of other users are often closed to the caller; its own servers are
                // not in them.
                if let Ok(entries) = fs::read_dir(entry.path()) {
                    walk(entries, selector, depth - 1, left, found);
                }
            }
            Ok(kind)
                if kind.is_file()
                    && entry
                        .file_name()
                        .to_str()
                        .is_some_and(|name| selector.covers(name)) =>
            {
                found.push(entry.path())
            }
            _ => {}
        }
    }
}

/// Opens a file that was found by its name; `None` if it belongs to none of these users. In a directory
/// that all users can write to, another user must not choose the server that a tool trusts.
fn trusted(path: &Path, users: &[u32]) -> io::Result<Option<File>> {
    let is_ours = |meta: &Metadata| users.contains(&meta.uid());
    match regular(path, OFlags::NOFOLLOW) {
        Ok(file) => Ok(is_ours(&file.metadata()?).then_some(file)),
        // Files of other users need not be readable.
        Err(error) => {
            if is_ours(&fs::symlink_metadata(path)?) {
                Err(error)
            } else {
                Ok(None)
            }
        }
    }
}

/// Opens a regular file, and no other kind: the open of a pipe would wait for its writer.
fn regular(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = i32::try_from((flags | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

/// Reads a file. It is read again while its first line is incomplete.
fn read(path: &Path, mut file: File) -> Result<RendezvousEntry, ClientError> {
    let unreadable = |source| ClientError::UnreadableFile {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    for _ in 0..RETRIES {
        let left = MAX_FILE.saturating_sub(bytes.len() as u64);
        file.by_ref()
            .take(left)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.contains(&b'\n') {
            break;
        }
        thread::sleep(RETRY);
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    let line = lines.next().unwrap_or_default();
    let server = line.parse().map_err(|_| ClientError::BadFile {
        path: path.to_owned(),
        line: line.chars().take(80).collect(),
    })?;
    let release = lines.next().and_then(|line| line.parse().ok());
    Ok(RendezvousEntry {
        server,
        release,
        rest: lines.map(str::to_owned).collect(),
    })
}
