//! Files and directories that procs have registered for removal after their end
//! (`PMIX_REGISTER_CLEANUP` and the related attributes).
mod conflict;

use peal_core::job_control::Cleanup;
use peal_helper::{
    PrivilegedHelper, RemovalBounds, RemovalExtent, RemovalOrder, is_below, is_plain,
};
use peal_model::{Nspace, Proc, Rank, Status, UserIdentity, code, rank};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Limits of registrations for cleanup, and bounds of the removal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleanupSettings {
    /// Maximum number of paths and ignored names that one user's procs of one job may register.
    pub max_paths: usize,
    /// Maximum number of files and directories that the removal of one registration examines.
    pub max_entries: u64,
    /// Maximum depth of nested directories that the removal enters.
    pub max_depth: usize,
    /// Directories below which paths can be removed. None means any path that the requester may
    /// remove.
    pub within: Option<Vec<PathBuf>>,
}

impl Default for CleanupSettings {
    fn default() -> Self {
        CleanupSettings {
            max_paths: 4096,
            max_entries: 1_000_000,
            max_depth: 64,
            within: None,
        }
    }
}

/// Registration for cleanup, and the user on whose behalf it is carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Registered {
    /// Job of the proc that registered it.
    by: Nspace,
    identity: UserIdentity,
    /// Those of the procs it waits for that have not ended.
    waits: BTreeSet<Proc>,
    cleanup: Cleanup,
}

/// Returns the user whose turns the removal of registered files takes; none if there are none. They
/// are of one job, so they have one user.
pub(crate) fn charged_user(due: &[Registered]) -> Option<u32> {
    due.first().map(|first| first.identity.uid)
}

/// All registrations for cleanup.
#[derive(Debug, Default)]
pub(crate) struct Cleanups {
    settings: CleanupSettings,
    helper: PrivilegedHelper,
    known: Mutex<CleanupDirectory>,
    /// Removals that have begun and not ended.
    removals: Arc<()>,
}

/// Registrations for cleanup that another process of the server continues.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct HandedCleanups(CleanupDirectory);

/// Removal that has begun, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenRemoval(#[expect(dead_code, reason = "it is counted")] Arc<()>);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct CleanupDirectory {
    /// Existing jobs, each with the ranks that have ended.
    jobs: BTreeMap<Nspace, BTreeSet<Rank>>,
    registered: Vec<Registered>,
}

impl Cleanups {
    pub(crate) fn new(settings: CleanupSettings, helper: PrivilegedHelper) -> Cleanups {
        Cleanups {
            settings,
            helper,
            known: Mutex::default(),
            removals: Arc::default(),
        }
    }

    /// Returns the registrations for another process.
    ///
    /// # Errors
    ///
    /// Returns a kind of work that no other process can continue.
    pub(crate) fn handed(&self) -> Result<HandedCleanups, &'static str> {
        if let Some(unfinished) = self.unfinished() {
            return Err(unfinished);
        }
        Ok(HandedCleanups(self.known().clone()))
    }

    /// Returns a kind of work that no other process can continue, if there is any.
    pub(crate) fn unfinished(&self) -> Option<&'static str> {
        (Arc::strong_count(&self.removals) > 1).then_some("removals of files")
    }

    /// Adds the registrations of another process, after its jobs. Those that this process may not carry out are
    /// left out.
    pub(crate) fn restore(&self, HandedCleanups(handed): HandedCleanups) {
        let mut registered = handed.registered;
        registered.retain(|registered| {
            let by = Proc::new(registered.by.clone(), rank::PMIX_RANK_WILDCARD);
            self.check(&by, &registered.cleanup).is_ok()
        });
        let mut known = self.known();
        known.jobs.extend(handed.jobs);
        known.registered.extend(registered);
    }

    /// Notes a removal, until the result is dropped.
    pub(crate) fn begin_removal(&self) -> OpenRemoval {
        OpenRemoval(self.removals.clone())
    }

    /// Adds a job.
    pub(crate) fn open(&self, job: Nspace) {
        self.known().jobs.insert(job, BTreeSet::new());
    }

    /// Removes a job that has ended. Returns the registrations that are due by it.
    pub(crate) fn close(&self, job: &Nspace) -> Vec<Registered> {
        let mut known = self.known();
        known.jobs.remove(job);
        // Procs whose ends were not reported one by one have ended with the job.
        known.due(|proc| proc.nspace == *job)
    }

    /// Marks a proc as running. It may have run and ended before.
    pub(crate) fn runs(&self, proc: &Proc) {
        if let Some(ended) = self.known().jobs.get_mut(&proc.nspace) {
            ended.remove(&proc.rank);
        }
    }

    /// Marks a proc as ended. Returns the registrations that are due by it.
    pub(crate) fn ended(&self, proc: &Proc) -> Vec<Registered> {
        let mut known = self.known();
        if let Some(ended) = known.jobs.get_mut(&proc.nspace) {
            ended.insert(proc.rank);
        }
        known.due(|ended| ended == proc)
    }

    /// Adds a registration. Returns those that are due at once, because all procs they wait for
    /// have ended.
    ///
    /// # Errors
    /// `PMIX_ERR_BAD_PARAM` or `PMIX_ERR_NO_PERMISSIONS` for a path that cannot be removed,
    /// `PMIX_ERR_NOT_FOUND` for an unknown job, `PMIX_ERR_OUT_OF_RESOURCE` beyond the limit of
    /// paths, and `PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES`.
    pub(crate) fn register(
        &self,
        by: &Proc,
        identity: UserIdentity,
        cleanup: Cleanup,
    ) -> Result<Vec<Registered>, Status> {
        self.check(by, &cleanup)?;
        let mut known = self.known();
        if let Some(ended) = known.jobs.get_mut(&by.nspace) {
            // A proc that sends requests runs, even if its connection had been lost before.
            ended.remove(&by.rank);
        }
        let mut waits = BTreeSet::new();
        for proc in &cleanup.procs {
            let ended = known
                .jobs
                .get(&proc.nspace)
                .ok_or(code::PMIX_ERR_NOT_FOUND)?;
            if !ended.contains(&proc.rank) {
                waits.insert(proc.clone());
            }
        }
        // Registrations of other jobs and users neither conflict nor share the limit.
        let same =
            |other: &&Registered| other.by == by.nspace && other.identity.uid == identity.uid;
        let others = || {
            known
                .registered
                .iter()
                .filter(same)
                .map(|other| &other.cleanup)
        };
        let paths = others()
            .chain([&cleanup])
            .map(paths_of)
            .fold(0, usize::saturating_add);
        if paths > self.settings.max_paths {
            let max = self.settings.max_paths;
            tracing::warn!(%by, paths, max, "cleanup registration refused: too many paths, see run.max_cleanup_paths");
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        if let Some(why) = others()
            .chain([&cleanup])
            .find_map(|other| conflict::between(other, &cleanup))
        {
            tracing::warn!(%by, %why, "cleanup registration refused: conflicting directives");
            return Err(code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        }
        known.registered.push(Registered {
            by: by.nspace.clone(),
            identity,
            waits,
            cleanup,
        });
        Ok(known.due(|_| false))
    }

    /// Checks that all paths are absolute and plain, and below one of the permitted directories.
    fn check(&self, by: &Proc, cleanup: &Cleanup) -> Result<(), Status> {
        let paths = || cleanup.files.iter().chain(&cleanup.directories);
        // Paths are compared by name below, so `..` could lead out of a permitted directory.
        if let Some(path) = paths().find(|path| !is_plain(path)) {
            tracing::warn!(%by, ?path, "cleanup path rejected: it should be absolute, without `.` and `..`");
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        let Some(within) = &self.settings.within else {
            return Ok(());
        };
        match paths().find(|path| !is_below(path, within)) {
            Some(path) => {
                tracing::warn!(%by, ?path, ?within, "cleanup path refused by the confinement: see confinement.cleanup_roots");
                Err(code::PMIX_ERR_NO_PERMISSIONS)
            }
            None => Ok(()),
        }
    }

    /// Removes the files of these registrations, each with the rights of the user of the
    /// registration. Blocks.
    pub(crate) fn remove(&self, due: Vec<Registered>) {
        let bounds = RemovalBounds {
            entries: self.settings.max_entries,
            depth: self.settings.max_depth,
        };
        for Registered {
            by,
            identity,
            cleanup,
            ..
        } in due
        {
            let order = RemovalOrder {
                identity,
                cleanup,
                bounds,
            };
            match self.helper.remove(order) {
                Ok(RemovalExtent::Nothing) => {}
                Ok(RemovalExtent::Beyond) => {
                    tracing::warn!(job = %by, ?bounds, "cleanup incomplete: bounds exceeded");
                }
                Err(error) => {
                    tracing::warn!(job = %by, ?identity, %error, "cleanup skipped");
                }
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, CleanupDirectory> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CleanupDirectory {
    /// Takes out the registrations that wait for no other proc, once these have ended.
    fn due(&mut self, ended: impl Fn(&Proc) -> bool) -> Vec<Registered> {
        self.registered
            .iter_mut()
            .for_each(|registered| registered.waits.retain(|proc| !ended(proc)));
        self.registered
            .extract_if(.., |registered| registered.waits.is_empty())
            .collect()
    }
}

/// Returns the number of paths and names that count against the limit.
fn paths_of(cleanup: &Cleanup) -> usize {
    cleanup
        .files
        .len()
        .saturating_add(cleanup.directories.len())
        .saturating_add(cleanup.ignored.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::job_control::{Depth, Subdirectories, TopDirectory};

    fn proc(job: &str, rank: u32) -> Proc {
        Proc::new(Nspace::new(job).unwrap(), Rank(rank))
    }

    fn of(procs: Vec<Proc>, files: &[&str]) -> Cleanup {
        Cleanup {
            procs,
            files: files.iter().map(PathBuf::from).collect(),
            directories: BTreeSet::new(),
            depth: Depth::Flat,
            subdirectories: Subdirectories::All,
            top: TopDirectory::Remove,
            ignored: BTreeSet::new(),
        }
    }

    const ME: UserIdentity = UserIdentity { uid: 7, gid: 8 };

    fn two_jobs(settings: CleanupSettings) -> Cleanups {
        let cleanups = Cleanups::new(settings, PrivilegedHelper::default());
        ["a", "b"]
            .into_iter()
            .for_each(|job| cleanups.open(Nspace::new(job).unwrap()));
        cleanups
    }

    #[test]
    fn cleanup_is_due_at_end_of_last_proc_of_any_job() {
        let cleanups = two_jobs(CleanupSettings::default());
        let wanted = of(vec![proc("a", 0), proc("a", 1), proc("b", 0)], &["/tmp/x"]);
        assert_eq!(
            cleanups.register(&proc("a", 0), ME, wanted.clone()),
            Ok(vec![])
        );
        assert_eq!(cleanups.ended(&proc("a", 1)), []);
        assert_eq!(cleanups.close(&Nspace::new("b").unwrap()), []);
        // A proc that ended before the registration counts as ended, unless it runs again.
        let late = cleanups
            .register(&proc("a", 0), ME, of(vec![proc("a", 1)], &["/tmp/y"]))
            .unwrap();
        assert_eq!(late.len(), 1);
        cleanups.runs(&proc("a", 1));
        assert_eq!(
            cleanups.register(&proc("a", 0), ME, of(vec![proc("a", 1)], &["/tmp/y"])),
            Ok(vec![])
        );
        let due = cleanups.ended(&proc("a", 0));
        assert_eq!(
            due.iter().map(|due| &due.cleanup).collect::<Vec<_>>(),
            [&wanted]
        );
        assert_eq!(cleanups.close(&Nspace::new("a").unwrap()).len(), 1);
        assert_eq!(
            cleanups.register(&proc("a", 0), ME, wanted),
            Err(code::PMIX_ERR_NOT_FOUND),
            "its job is gone"
        );
    }

    #[test]
    fn excessive_outside_or_relative_paths_are_refused() {
        let within = Some(vec![PathBuf::from("/tmp")]);
        let cleanups = two_jobs(CleanupSettings {
            max_paths: 2,
            within,
            ..CleanupSettings::default()
        });
        let register = |job, files: &[&str]| {
            cleanups.register(&proc(job, 0), ME, of(vec![proc(job, 0)], files))
        };
        for path in ["tmp/x", "/tmp/../etc/passwd", "/", ""] {
            assert_eq!(
                register("a", &[path]),
                Err(code::PMIX_ERR_BAD_PARAM),
                "{path:?}"
            );
        }
        for path in ["/etc/passwd", "/tmp", "/tmpfile"] {
            assert_eq!(
                register("a", &[path]),
                Err(code::PMIX_ERR_NO_PERMISSIONS),
                "{path:?}"
            );
        }
        assert_eq!(register("a", &["/tmp/1", "/tmp/2"]), Ok(vec![]));
        assert_eq!(
            register("a", &["/tmp/3"]),
            Err(code::PMIX_ERR_OUT_OF_RESOURCE)
        );
        assert_eq!(
            register("b", &["/tmp/1", "/tmp/2"]),
            Ok(vec![]),
            "each job has its own"
        );
    }

    #[test]
    fn registration_contradicting_earlier_one_is_refused() {
        let cleanups = two_jobs(CleanupSettings::default());
        let mut dirs = of(vec![proc("a", 0)], &[]);
        dirs.directories.insert(PathBuf::from("/tmp/x"));
        assert_eq!(
            cleanups.register(&proc("a", 0), ME, dirs.clone()),
            Ok(vec![])
        );
        assert_eq!(
            cleanups.register(&proc("a", 0), ME, dirs),
            Ok(vec![]),
            "the same registration twice is no conflict"
        );
        let file = of(vec![proc("a", 0)], &["/tmp/x"]);
        let conflicting = Err(code::PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES);
        assert_eq!(
            cleanups.register(&proc("a", 1), ME, file.clone()),
            conflicting
        );
        let other = UserIdentity { uid: 9, ..ME };
        assert_eq!(
            cleanups.register(&proc("a", 1), other, file),
            Ok(vec![]),
            "registrations of other users do not conflict"
        );
    }
}
