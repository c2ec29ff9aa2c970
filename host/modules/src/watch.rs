//! Watch for changes of the files of a configuration and of its modules. A change is reported when
//! the files have not changed again for a while.
use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher, event::AccessKind,
    event::AccessMode,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{sync::mpsc, time};

/// Maximum number of quiet periods to wait while files keep changing.
const MAX_QUIET_PERIODS: u32 = 20;

/// Watched directories. Directories show replaced files, which is how editors and package managers
/// write.
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    directories: BTreeSet<PathBuf>,
    changed: mpsc::Receiver<()>,
    settle: Duration,
    /// The deadline for reporting a change, while one is pending.
    until: Option<time::Instant>,
}

impl Watch {
    /// Creates a watch without files, with a quiet period of `settle`. If the system does not
    /// support watches, a warning is logged and no change is ever reported.
    pub fn new(settle: Duration) -> Watch {
        // One queued notice suffices, since a reader checks all files.
        let (tell, changed) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Lost events may have been of any kind.
            if event.as_ref().map_or(true, is_change) {
                // A full channel has a notice already.
                let _ = tell.try_send(());
            }
        });
        let watcher = watcher.inspect_err(
            |error| tracing::warn!(%error, "file watch not started, use `peal reload`"),
        );
        Watch {
            watcher: watcher.ok(),
            directories: BTreeSet::new(),
            changed,
            settle,
            until: None,
        }
    }

    /// Watches exactly these files and the content of these directories.
    pub fn follow(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let directories: BTreeSet<PathBuf> = files
            .into_iter()
            .filter_map(|file| directory(&file))
            .collect();
        for gone in self.directories.difference(&directories) {
            // A removed directory is not watched any more, so an error is expected.
            let _ = watcher.unwatch(gone);
        }
        // Directories are added again even if they are watched: they may have been recreated.
        for directory in &directories {
            if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                tracing::warn!(directory = %directory.display(), %error, "directory not watched, use `peal reload`");
            }
        }
        self.directories = directories;
    }

    /// Waits for a change and the quiet period after it. Cancel safe.
    pub async fn changed(&mut self) {
        if self.until.is_none() {
            let Some(()) = self.changed.recv().await else {
                return std::future::pending().await;
            };
        }
        let until = *self
            .until
            // Kept in `self` because the caller may drop this future at any time. A file that
            // changes all the time would otherwise delay the report for ever.
            .get_or_insert_with(|| time::Instant::now() + self.settle * MAX_QUIET_PERIODS);
        while time::Instant::now() < until {
            if time::timeout(self.settle, self.changed.recv())
                .await
                .is_err()
            {
                break;
            }
        }
        self.until = None;
    }
}

/// Returns true for changes. Reading a file is not one, or the server would react to its own reads.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        // Reading the files makes such events itself: reports would never end.
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// Returns the directory to watch for a file; a directory is watched itself.
fn directory(file: &Path) -> Option<PathBuf> {
    if file.is_dir() {
        return Some(file.to_owned());
    }
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    parent.is_dir().then(|| parent.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn told(watch: &mut Watch) {
        time::timeout(PATIENCE, watch.changed()).await.unwrap();
    }

    #[tokio::test]
    async fn writes_renames_and_removals_are_reported_and_reads_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("peal.toml");
        let drop_ins = dir.path().join("modules.d");
        fs::write(&file, "one").unwrap();
        fs::create_dir(&drop_ins).unwrap();
        let mut watch = Watch::new(Duration::from_millis(200));
        watch.follow([file.clone(), drop_ins.clone()]);
        fs::write(&file, "two").unwrap();
        told(&mut watch).await;
        fs::write(drop_ins.join(".new"), "x").unwrap();
        told(&mut watch).await;
        fs::rename(drop_ins.join(".new"), drop_ins.join("new.toml")).unwrap();
        told(&mut watch).await;
        fs::remove_file(drop_ins.join("new.toml")).unwrap();
        told(&mut watch).await;
        fs::write(&file, "three").unwrap();
        let given_up = time::timeout(Duration::from_millis(1), watch.changed()).await;
        assert!(given_up.is_err(), "it has not been left alone yet");
        told(&mut watch).await;
    }

    #[test]
    fn reading_is_no_change() {
        for (kind, changes) in [
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), false),
            (
                EventKind::Access(AccessKind::Close(AccessMode::Read)),
                false,
            ),
            (
                EventKind::Access(AccessKind::Close(AccessMode::Write)),
                true,
            ),
            (EventKind::Other, true),
        ] {
            assert_eq!(is_change(&Event::new(kind)), changes, "{kind:?}");
        }
    }
}
