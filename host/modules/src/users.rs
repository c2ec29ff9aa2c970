//! What users install for all of their jobs: below a directory of root's, each has one of their own. Its files become modules of
//! that user, who can neither take more than tenants may have nor name what is elsewhere.
use crate::{
    component::{self, Home, ReadError, contents},
    signature::{Signature, SignatureError, signature_place},
    version::DesiredModule,
};
use peal_config::{Config, Limits, ModuleEntry, Problem, Problems, recalled};
use peal_sandbox::Capability;
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2,
        statat,
    },
    io::Errno,
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// How many users are looked at.
const MAX_USERS: usize = 10_000;
/// How many files of a user.
const MAX_FILES: usize = 256;
/// How many problems of a user are told.
const MAX_PROBLEMS: usize = 100;
/// How long one of these may be, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Write permission for the group and for all others.
const OTHERS_WRITE: u32 = 0o022;

/// What users installed, or what is wrong with that.
pub(crate) type Installed = BTreeMap<u32, Result<Vec<DesiredModule>, Problems>>;

/// The directory of a user.
pub(crate) struct UserDirectory {
    uid: u32,
    path: PathBuf,
    fd: OwnedFd,
}

/// A directory of a user that cannot be opened.
struct UnreadableDirectory {
    uid: u32,
    path: PathBuf,
    error: io::Error,
}

/// Reads what users installed below a directory; an error if that itself cannot be read now.
pub(crate) fn installed(below: &Path, config: &Config) -> io::Result<Installed> {
    let mut installed = Installed::new();
    each_directory(below, |directory| {
        let (uid, wanted) = match directory {
            Ok(directory) => (directory.uid, directory.wanted(config)),
            Err(UnreadableDirectory { uid, path, error }) => (uid, Err(wrong(&path, &error))),
        };
        let twice = || {
            Problems(vec![Problem::of_file(format!(
                "user {uid} has two directories"
            ))])
        };
        let wanted = if installed.contains_key(&uid) {
            Err(twice())
        } else {
            wanted
        };
        installed.insert(uid, wanted);
    })?;
    Ok(installed)
}

/// The problem of a file or directory of a user.
fn wrong(path: &Path, error: &io::Error) -> Problems {
    Problems(vec![Problem::of_file(format!(
        "{}: {error}",
        path.display()
    ))])
}

/// What of it changes when users install something.
pub fn watched(below: Option<&Path>) -> Vec<PathBuf> {
    let mut watched: Vec<PathBuf> = below.map(Path::to_owned).into_iter().collect();
    if let Some(below) = below {
        // What cannot be looked at now is not watched; what is read says so.
        let _ = each_directory(below, |directory| {
            watched.extend(directory.map(|directory| directory.path))
        });
    }
    watched
}

/// Looks at the directories of users, one after the other: those that nobody else can write to. Links are not followed, nor what is
/// mounted there. One that cannot be opened concerns its user alone.
fn each_directory(
    below: &Path,
    mut look: impl FnMut(Result<UserDirectory, UnreadableDirectory>),
) -> io::Result<()> {
    let parent = openat(CWD, below, OPEN | OFlags::DIRECTORY, Mode::empty())?;
    let (me, stat) = (rustix::process::geteuid().as_raw(), fstat(&parent)?);
    if !is_safe(&stat, &[0, me]) {
        let why = format!(
            "{} must belong to root or the server's user and be writable by its owner alone",
            below.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    for name in names(&parent, MAX_USERS)? {
        let path = below.join(&name);
        let fd = match open(&parent, &name, OFlags::DIRECTORY) {
            Ok(fd) => fd,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT | Errno::XDEV) => continue,
            Err(error) => {
                // Who has gone meanwhile has installed nothing.
                let Ok(stat) = statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                tracing::warn!(directory = %path.display(), %error, "the directory of a user cannot be read");
                look(Err(UnreadableDirectory {
                    uid: stat.st_uid,
                    path,
                    error: error.into(),
                }));
                continue;
            }
        };
        let stat = fstat(&fd)?;
        if stat.st_uid == 0 && me == 0 {
            tracing::warn!(directory = %path.display(), "root's modules belong into the configuration");
        } else if is_safe(&stat, &[stat.st_uid]) {
            look(Ok(UserDirectory {
                uid: stat.st_uid,
                path,
                fd,
            }));
        } else {
            tracing::warn!(directory = %path.display(), "others than its owner can write there: it is not looked at");
        }
    }
    Ok(())
}

impl UserDirectory {
    /// Whose it is.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Its modules with their components, or everything that is wrong with them.
    fn wanted(&self, config: &Config) -> Result<Vec<DesiredModule>, Problems> {
        let capabilities = Capability::ALL.map(Capability::name);
        let (mut modules, mut problems) = (Vec::new(), Vec::new());
        let mut files = names(&self.fd, MAX_FILES).map_err(|error| wrong(&self.path, &error))?;
        files.retain(|name| {
            name.extension()
                .is_some_and(|extension| extension == "toml")
        });
        files.sort();
        for name in files {
            let path = self.path.join(&name);
            let text = self.text(&name).map_err(|error| wrong(&path, &error))?;
            match recalled(&text, &path, &self.path, &capabilities) {
                Ok(entries) => modules.extend(entries),
                Err(more) => problems.extend(more.0),
            }
            // Before any component is read.
            let most = config.tenant.max_modules;
            if modules.len() > most || problems.len() > MAX_PROBLEMS {
                let why = format!(
                    "user {} has {most} modules, as many as there may be (tenant.max_modules)",
                    self.uid
                );
                problems.truncate(MAX_PROBLEMS);
                problems.extend((modules.len() > most).then(|| Problem::of_file(why)));
                return Err(Problems(problems));
            }
        }
        problems.extend(modules.iter().flat_map(|entry| beyond(entry, config)));
        for (at, entry) in modules.iter().enumerate() {
            if modules
                .iter()
                .take(at)
                .any(|other| other.settings.name == entry.settings.name)
            {
                problems.push(entry.problem(
                    "module.name",
                    format!("there are two modules {:?}", entry.settings.name),
                ));
            }
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        component::fitting(&modules, config, Home::User(self))
    }

    /// A component that lies in it and has at most so many bytes, which is known before it is read.
    pub(crate) fn component(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        let io = |source| ReadError::Io {
            path: path.to_owned(),
            source,
        };
        let outside = || {
            io(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "a component of a user lies beside its .toml",
            ))
        };
        let name = path.strip_prefix(&self.path).map_err(|_| outside())?;
        if name.components().count() != 1 {
            return Err(outside());
        }
        let file = self.file(name).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        if size > limit {
            return Err(ReadError::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            });
        }
        // Its user may be writing it.
        let bytes = contents(path, file)?;
        let size = bytes.len() as u64;
        if size > limit {
            Err(ReadError::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            })
        } else {
            Ok(bytes)
        }
    }

    /// The signature of a component that lies in it.
    pub(crate) fn signature(&self, component: &Path) -> Result<Signature, SignatureError> {
        let path = signature_place(component);
        let name = path.file_name().map(Path::new).unwrap_or(&path);
        Signature::read(&path, self.file(name))
    }

    fn text(&self, name: &Path) -> io::Result<String> {
        let mut text = String::new();
        let read = self
            .file(name)?
            .take(MAX_FILE + 1)
            .read_to_string(&mut text)? as u64;
        if read > MAX_FILE {
            return Err(io::Error::other(format!(
                "it has more than {MAX_FILE} bytes"
            )));
        }
        Ok(text)
    }

    /// A file in it that belongs to its user, and that nobody else but root can have written.
    fn file(&self, name: &Path) -> io::Result<File> {
        let fd = open(&self.fd, name, OFlags::NONBLOCK)?;
        let stat = fstat(&fd)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        if !is_safe(&stat, &[self.uid]) {
            let why = format!(
                "it must belong to user {} and be writable by them alone",
                self.uid
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(File::from(fd))
    }
}

/// What of a module is not a user's to say, or more than they may have.
fn beyond(entry: &ModuleEntry, config: &Config) -> Vec<Problem> {
    let (asked, most) = (&entry.settings.limits, &config.job_supplied);
    let usual = Limits::default();
    let not_theirs = [
        "module.scope",
        "module.mode",
        "module.sinks",
        "module.files",
        "module.isolation",
    ];
    let not_theirs = not_theirs
        .into_iter()
        .filter(|key| entry.given(key).is_some());
    let not_theirs = not_theirs
        .map(|key| entry.problem(key, format!("{key} is for the site to say: leave it out")));
    let more = |key: &'static str, is_more: bool, most: String| {
        let is_asked = is_more && entry.given(key).is_some();
        is_asked.then(|| {
            entry.problem(
                key,
                format!("{key} is more than a user's module may have, which is {most}"),
            )
        })
    };
    let limits = [
        more(
            "module.limits.memory_bytes",
            asked.memory_bytes > most.memory_bytes,
            most.memory_bytes.to_string(),
        ),
        more(
            "module.limits.total_memory_bytes",
            asked.total_memory_bytes > config.tenant.max_memory_bytes,
            config.tenant.max_memory_bytes.to_string(),
        ),
        more(
            "module.limits.call_time_ms",
            asked.call_time > most.call_time,
            most.call_time.as_millis().to_string(),
        ),
        more(
            "module.limits.host_call_time_ms",
            asked.host_call_time > most.host_call_time,
            most.host_call_time.as_millis().to_string(),
        ),
        more(
            "module.limits.output_bytes",
            asked.output_bytes > most.output_bytes,
            most.output_bytes.to_string(),
        ),
        more(
            "module.limits.raised_events",
            asked.raised_events > most.raised_events,
            most.raised_events.to_string(),
        ),
        more(
            "module.limits.host_calls",
            asked.host_calls > most.host_calls,
            most.host_calls.to_string(),
        ),
        more(
            "module.limits.log_lines_per_second",
            asked.log_lines_per_second > most.log_lines_per_second,
            most.log_lines_per_second.to_string(),
        ),
        more(
            "module.limits.failure_window_ms",
            asked.failure_window < usual.failure_window,
            "no less than usual".to_owned(),
        ),
        more(
            "module.limits.idle_instances",
            asked.idle_instances > usual.idle_instances,
            usual.idle_instances.to_string(),
        ),
        more(
            "module.limits.failures",
            asked.failures > usual.failures || asked.failures == 0,
            usual.failures.to_string(),
        ),
    ];
    not_theirs.chain(limits.into_iter().flatten()).collect()
}

/// How everything is opened.
const OPEN: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens what lies in a directory and nowhere else.
fn open(at: impl AsFd, name: impl AsRef<Path>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(at, name.as_ref(), OPEN | flags, Mode::empty(), within)
}

/// Whether it belongs to one of these, and only its owner can write it.
fn is_safe(stat: &Stat, owners: &[u32]) -> bool {
    owners.contains(&stat.st_uid) && stat.st_mode & OTHERS_WRITE == 0
}

/// The names in a directory, but hidden ones and such as nobody can read; an error if there are too many.
fn names(directory: &OwnedFd, most: usize) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || name.contains(char::is_control) {
            continue;
        }
        if names.len() == most {
            return Err(io::Error::other(format!(
                "there are more than {most} files"
            )));
        }
        names.push(PathBuf::from(name));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_needs::needs;
    use rustix::{process::Uid, thread::set_thread_res_uid};
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
    };

    #[needs(root)]
    #[test]
    fn directory_that_cannot_be_read_concerns_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let server = 65_531;
        for (name, owner, mode) in [("a", 65_532, 0o700), ("b", 65_533, 0o755)] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
        }
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let below = dir.path().to_owned();
        // Root can read everything. Only this thread becomes somebody else.
        let reading = std::thread::spawn(move || {
            let uid = Uid::from_raw(server);
            set_thread_res_uid(uid, uid, uid).unwrap();
            let found = installed(&below, &Config::default());
            (found, watched(Some(&below)))
        });
        let (found, watched) = reading.join().unwrap();
        let found = found.unwrap();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [65_532, 65_533]);
        let told = found[&65_532].as_ref().unwrap_err().to_string();
        assert!(told.contains("Permission denied"), "{told}");
        assert!(found[&65_533].as_ref().unwrap().is_empty());
        assert_eq!(watched, [dir.path().to_owned(), dir.path().join("b")]);
    }
}
