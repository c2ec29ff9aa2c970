//! Rules by which a helper decides whether it carries out a call. A server that was taken over must
//! not gain more than what its clients could do anyway.
use crate::message::{HelperCall, HelperRefusal};
use peal_model::UserIdentity;
use peal_system::credentials;
use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Maximum number of users that a helper remembers. A node has far fewer.
const MAX_USERS: usize = 1 << 16;

/// Rules that a helper has from the start. Its server cannot change them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HelperRules {
    /// Directories below which files are removed; none means everywhere.
    pub cleanup_roots: Option<Vec<PathBuf>>,
    /// User that the server runs as.
    pub server_uid: u32,
}

/// Rules, and the users that the helper has seen.
#[derive(Debug)]
pub(crate) struct Authority {
    rules: HelperRules,
    seen: Mutex<BTreeSet<u32>>,
}

impl Authority {
    pub(crate) fn new(rules: HelperRules) -> Authority {
        Authority {
            rules,
            seen: Mutex::default(),
        }
    }

    /// Remembers the user of a process that holds a connection.
    pub(crate) fn saw(&self, pid: u32) {
        let Some(uid) = credentials::user(pid) else {
            return;
        };
        let mut seen = self.seen();
        if seen.len() < MAX_USERS {
            seen.insert(uid);
        }
    }

    /// Checks whether a call may be carried out.
    ///
    /// # Errors
    ///
    /// Returns the reason of the refusal.
    pub(crate) fn check(&self, call: &HelperCall) -> Result<(), HelperRefusal> {
        match call {
            // The answer is a number of a process, which anybody on the node may know.
            HelperCall::FindHolder(_) => Ok(()),
            HelperCall::Remove(order) => {
                let paths = || order.cleanup.files.iter().chain(&order.cleanup.directories);
                paths().try_for_each(|path| self.check_removal(path))?;
                self.check_user(order.identity)
            }
            HelperCall::OpenFile(request) => {
                // `..` is harmless here: the kernel checks each directory for the user.
                if !request.path.is_absolute() {
                    return Err(HelperRefusal::Path(request.path.clone()));
                }
                self.check_user(request.identity)
            }
            // Their file was opened as the user that was checked then.
            HelperCall::ReadFile(_) | HelperCall::CloseFile(_) => Ok(()),
            HelperCall::Control(order) => {
                let uid = order.owner.uid;
                for process in order.targets.iter().flat_map(|target| &target.processes) {
                    let pid = process.id.pid;
                    // A process that has ended is found out when the action reaches it.
                    if process.is_there() && credentials::user(pid) != Some(uid) {
                        return Err(HelperRefusal::NotTheirs { pid, uid });
                    }
                }
                self.check_user(order.owner)
            }
        }
    }

    fn check_user(&self, UserIdentity { uid, .. }: UserIdentity) -> Result<(), HelperRefusal> {
        if uid == self.rules.server_uid {
            return Ok(());
        }
        if uid == 0 {
            return Err(HelperRefusal::Root);
        }
        // A server of root could act as anybody without a helper.
        if self.rules.server_uid == 0 || self.seen().contains(&uid) {
            return Ok(());
        }
        Err(HelperRefusal::UnknownUser(uid))
    }

    fn check_removal(&self, path: &Path) -> Result<(), HelperRefusal> {
        if !is_plain(path) {
            return Err(HelperRefusal::Path(path.to_owned()));
        }
        match &self.rules.cleanup_roots {
            Some(roots) if !is_below(path, roots) => Err(HelperRefusal::Outside(path.to_owned())),
            _ => Ok(()),
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a path is absolute, has no `.` or `..`, and is not the root.
pub fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    let below = parts.next() == Some(Component::RootDir);
    let mut count = 0;
    let mut plain = true;
    for part in parts {
        count += 1;
        plain &= matches!(part, Component::Normal(_));
    }
    below && plain && count > 0
}

/// Returns true if a plain path is below one of these directories, and none of them itself: the
/// configuration names them for all jobs.
pub fn is_below(path: &Path, roots: &[PathBuf]) -> bool {
    let below = |root: &PathBuf| path.starts_with(root) && path != root;
    roots.iter().any(below)
}
