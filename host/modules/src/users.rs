//! Modules that users install for their jobs. A directory of root has a subdirectory for each user.
//! Its files become modules of that user. They get at most the tenants' limits and cannot name
//! files outside of the directory.
use crate::{
    component::{self, ModuleOrigin},
    user_directory::{OPEN, UserDirectory, is_safe, names, open},
    version::DesiredModule,
};
use peal_config::{Config, Limits, ModuleEntry, Problem, Problems, recalled};
use peal_sandbox::Capability;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// Maximum number of users.
const MAX_USERS: usize = 10_000;
/// Maximum number of files of a user.
const MAX_FILES: usize = 256;
/// Maximum number of problems of a user that are reported.
const MAX_PROBLEMS: usize = 100;
/// Installed modules of each user, or the problems with them.
pub(crate) type Installed = BTreeMap<u32, Result<Vec<DesiredModule>, Problems>>;

/// A directory of a user that could not be opened.
struct UnreadableDirectory {
    uid: u32,
    path: PathBuf,
    error: io::Error,
}

/// Reads the modules installed below a directory. Fails if that directory could not be read.
pub(crate) fn installed(below: &Path, config: &Config) -> io::Result<Installed> {
    let mut installed = Installed::new();
    each_directory(below, |directory| {
        let (uid, modules) = match directory {
            Ok(directory) => (directory.uid, desired(&directory, config)),
            Err(UnreadableDirectory { uid, path, error }) => {
                (uid, Err(file_problem(&path, &error)))
            }
        };
        let twice = || {
            Problems(vec![Problem::of_file(format!(
                "user {uid} has two directories"
            ))])
        };
        // Which of the two came first depends on the file system, so neither is used.
        let modules = if installed.contains_key(&uid) {
            Err(twice())
        } else {
            modules
        };
        installed.insert(uid, modules);
    })?;
    Ok(installed)
}

/// Returns the problem of a user's file or directory.
fn file_problem(path: &Path, error: &io::Error) -> Problems {
    Problems(vec![Problem::of_file(format!(
        "{}: {error}",
        path.display()
    ))])
}

/// Returns the directories that change when users install modules.
pub fn watched(below: Option<&Path>) -> Vec<PathBuf> {
    let mut watched: Vec<PathBuf> = below.map(Path::to_owned).into_iter().collect();
    if let Some(below) = below {
        // Unreadable directories are not watched; reading them reports the error.
        let _ = each_directory(below, |directory| {
            watched.extend(directory.map(|directory| directory.path))
        });
    }
    watched
}

/// Visits the directories of users that only their owners can write to. Links and mount points are
/// not followed. An error of one directory affects its user only.
fn each_directory(
    below: &Path,
    mut look: impl FnMut(Result<UserDirectory, UnreadableDirectory>),
) -> io::Result<()> {
    // All further paths start at this handle: a directory that is renamed or linked meanwhile leads
    // to no other place.
    let parent = openat(CWD, below, OPEN | OFlags::DIRECTORY, Mode::empty())?;
    let me = rustix::process::geteuid().as_raw();
    let stat = fstat(&parent)?;
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
            // Files, links, mounted file systems and what was removed meanwhile are no directories
            // of users.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT | Errno::XDEV) => continue,
            Err(error) => {
                // The directory was removed meanwhile.
                let Ok(stat) = statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) else {
                    continue;
                };
                tracing::warn!(directory = %path.display(), %error, "user module directory not read");
                look(Err(UnreadableDirectory {
                    uid: stat.st_uid,
                    path,
                    error: error.into(),
                }));
                continue;
            }
        };
        // The owner of a directory is the user of its modules, so only the owner may write to it.
        let stat = fstat(&fd)?;
        if stat.st_uid == 0 && me == 0 {
            tracing::warn!(directory = %path.display(), "module directory of root ignored, its modules belong in the configuration");
        } else if is_safe(&stat, &[stat.st_uid]) {
            look(Ok(UserDirectory {
                uid: stat.st_uid,
                path,
                fd,
            }));
        } else {
            tracing::warn!(directory = %path.display(), "user module directory ignored, others than its owner can write to it");
        }
    }
    Ok(())
}

/// Returns the modules with their components, or all problems.
fn desired(directory: &UserDirectory, config: &Config) -> Result<Vec<DesiredModule>, Problems> {
    let capabilities = Capability::ALL.map(Capability::name);
    let mut modules = Vec::new();
    let mut problems = Vec::new();
    let mut files =
        names(&directory.fd, MAX_FILES).map_err(|error| file_problem(&directory.path, &error))?;
    files.retain(|name| {
        name.extension()
            .is_some_and(|extension| extension == "toml")
    });
    // The order of modules must not depend on that of the directory's entries.
    files.sort();
    for name in files {
        let path = directory.path.join(&name);
        let text = directory
            .text(&name)
            .map_err(|error| file_problem(&path, &error))?;
        match recalled(&text, &path, &directory.path, &capabilities) {
            Ok(entries) => modules.extend(entries),
            Err(more) => problems.extend(more.0),
        }
        // Check the limits before components are read.
        let most = config.tenant.max_modules;
        if modules.len() > most || problems.len() > MAX_PROBLEMS {
            let why = format!(
                "user {} would have more than {most} modules (tenant.max_modules)",
                directory.uid
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
    // Components are large, so they are read only if the rest is valid.
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    component::fitting(&modules, config, ModuleOrigin::User(directory))?.complete()
}

/// Returns problems for settings that a user may not set, or that exceed the user's limits.
fn beyond(entry: &ModuleEntry, config: &Config) -> Vec<Problem> {
    let requested = &entry.settings.limits;
    let most = &config.job_supplied;
    let usual = Limits::default();
    let site_settings = [
        "module.scope",
        "module.mode",
        "module.sinks",
        "module.files",
        "module.isolation",
    ];
    let site_settings = site_settings
        .into_iter()
        .filter(|key| entry.origin_of(key).is_some());
    let site_settings = site_settings
        .map(|key| entry.problem(key, format!("{key} is a setting of the site; remove it")));
    let more = |key: &'static str, is_more: bool, most: String| {
        let is_set_by_user = is_more && entry.origin_of(key).is_some();
        is_set_by_user.then(|| {
            entry.problem(
                key,
                format!("{key} is more than a user's module may have, which is {most}"),
            )
        })
    };
    let limits = [
        more(
            "module.limits.memory_bytes",
            requested.memory_bytes > most.memory_bytes,
            most.memory_bytes.to_string(),
        ),
        more(
            "module.limits.total_memory_bytes",
            requested.total_memory_bytes > config.tenant.max_memory_bytes,
            config.tenant.max_memory_bytes.to_string(),
        ),
        more(
            "module.limits.call_time_ms",
            requested.call_time > most.call_time,
            most.call_time.as_millis().to_string(),
        ),
        more(
            "module.limits.host_call_time_ms",
            requested.host_call_time > most.host_call_time,
            most.host_call_time.as_millis().to_string(),
        ),
        more(
            "module.limits.output_bytes",
            requested.output_bytes > most.output_bytes,
            most.output_bytes.to_string(),
        ),
        more(
            "module.limits.raised_events",
            requested.raised_events > most.raised_events,
            most.raised_events.to_string(),
        ),
        more(
            "module.limits.host_calls",
            requested.host_calls > most.host_calls,
            most.host_calls.to_string(),
        ),
        more(
            "module.limits.log_lines_per_second",
            requested.log_lines_per_second > most.log_lines_per_second,
            most.log_lines_per_second.to_string(),
        ),
        more(
            "module.limits.failure_window_ms",
            requested.failure_window < usual.failure_window,
            "no less than usual".to_owned(),
        ),
        more(
            "module.limits.idle_instances",
            requested.idle_instances > usual.idle_instances,
            usual.idle_instances.to_string(),
        ),
        more(
            "module.limits.failures",
            // 0 would mean that the module is never quarantined.
            requested.failures > usual.failures || requested.failures == 0,
            usual.failures.to_string(),
        ),
    ];
    site_settings.chain(limits.into_iter().flatten()).collect()
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
        // Root can read everything. Only this thread switches to another user.
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
