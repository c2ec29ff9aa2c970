//! Directories and files of the configuration: permissions of the user that the server runs as, and free
//! space.
use super::Finding;
use crate::supervisor::{ServerAccount, unusable_directories};
use peal_config::Config;
use rustix::{
    fs::{Access, AtFlags, CWD, accessat, statvfs},
    process::geteuid,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Examines the directories of a server with this admin socket.
pub fn examine(config: &Config, socket: &Path) -> Vec<Finding> {
    let mut found = permissions(config, socket);
    found.extend(space(config));
    found
}

fn permissions(config: &Config, socket: &Path) -> Vec<Finding> {
    match ServerAccount::of(config) {
        Err(error) => vec![Finding::failed(
            crate::error_text(&error),
            "server.user names the user that the server runs as.",
        )],
        Ok(Some(account)) => {
            let wrong: Vec<Finding> = unusable_directories(config, &account, socket)
                .iter()
                .map(|error| {
                    Finding::failed(
                        crate::error_text(error),
                        "The server does not start until its user can write there.",
                    )
                })
                .collect();
            if wrong.is_empty() {
                vec![Finding::ok(format!(
                    "the server's user, {}, can write those that are there",
                    account.name
                ))]
            } else {
                wrong
            }
        }
        Ok(None) if geteuid().is_root() => vec![Finding::warning(
            "the server would run as root",
            "It does without: `useradd --system peal` makes the user to which it changes, unless server.user is \"root\".",
        )],
        Ok(None) => own(config, socket),
    }
}

/// Examines the directories of a server that runs as this user.
fn own(config: &Config, socket: &Path) -> Vec<Finding> {
    let parent = |path: &Path| path.parent().map(Path::to_owned);
    let of_file = |path: &Option<PathBuf>| path.as_deref().and_then(parent);
    let directories = [
        ("admin.socket", parent(socket)),
        ("store.path", of_file(&config.store.path)),
        ("audit.path", of_file(&config.audit.path)),
        ("events.spill_dir", config.events.spill_dir.clone()),
        ("tools.session_dir", config.tools.session_dir.clone()),
        ("sandbox.cache_dir", config.sandbox.cache_dir.clone()),
    ];
    let wrong = directories.into_iter().filter_map(|(setting, path)| {
        let path = path?;
        let error = writable(&path).err()?;
        Some(Finding::failed(
            format!(
                "this user cannot write {} ({setting}): {error}",
                path.display()
            ),
            "The server does not start until its user can write there.",
        ))
    });
    let wrong: Vec<Finding> = wrong.collect();
    if wrong.is_empty() {
        vec![Finding::ok("this user can write them")]
    } else {
        wrong
    }
}

/// Checks a directory, or the one in which it would be created.
fn writable(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find(|path| path.exists());
    let access = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(
        CWD,
        there.unwrap_or(&path),
        access,
        AtFlags::EACCESS,
    )?)
}

/// Compares the free space with what files may grow to.
fn space(config: &Config) -> Vec<Finding> {
    let files = [
        (
            "audit.max_bytes",
            &config.audit.path,
            config.audit.max_bytes,
        ),
        (
            "store.max_bytes",
            &config.store.path,
            config.store.max_bytes,
        ),
    ];
    let short = files.into_iter().filter_map(|(setting, path, most)| {
        let path = path.as_deref()?;
        let has = fs::metadata(path).map_or(0, |found| found.len());
        let directory = path.ancestors().skip(1).find(|path| path.exists())?;
        let free = statvfs(directory).ok()?;
        let free = free.f_bavail.saturating_mul(free.f_frsize);
        let grows = most.saturating_sub(has);
        (free < grows).then(|| {
            Finding::warning(
                format!(
                    "{} has {} left, and {} may grow by {}",
                    directory.display(),
                    shown(free),
                    path.display(),
                    shown(grows)
                ),
                format!("Free space, or lower {setting}."),
            )
        })
    });
    short.collect()
}

fn shown(bytes: u64) -> String {
    crate::units::bytes(bytes as f64)
}
