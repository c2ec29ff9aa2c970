//! Watches the files of a configuration and of its modules, and tells when they have changed and been left alone since.
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

/// However busy somebody is with the files, after so many times the time that they must be left alone they are read.
const AT_MOST: u32 = 20;

/// The directories that are watched: what takes a file's place, as editors and package managers do it, is seen there.
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    directories: BTreeSet<PathBuf>,
    changed: mpsc::Receiver<()>,
    settle: Duration,
    /// While something has changed and has not been told.
    until: Option<time::Instant>,
}

impl Watch {
    /// Watches nothing yet; files must be left alone for so long. Where the system has no means of watching it says so and never
    /// tells anything.
    pub fn new(settle: Duration) -> Watch {
        // One that is not yet read tells of all.
        let (tell, changed) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Events that got lost may have been of any kind.
            if event.as_ref().map_or(true, is_change) {
                let _ = tell.try_send(());
            }
        });
        let watcher = watcher.inspect_err(
            |error| tracing::warn!(%error, "files are not watched: use `peal reload`"),
        );
        Watch {
            watcher: watcher.ok(),
            directories: BTreeSet::new(),
            changed,
            settle,
            until: None,
        }
    }

    /// Watches for changes of these files, and of what is in these directories, and of nothing else.
    pub fn follow(&mut self, files: impl IntoIterator<Item = PathBuf>) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let directories: BTreeSet<PathBuf> = files
            .into_iter()
            .filter_map(|file| directory(&file))
            .collect();
        for gone in self.directories.difference(&directories) {
            // One that was removed is watched no more.
            let _ = watcher.unwatch(gone);
        }
        // Also those that are watched already: they may have been made anew.
        for directory in &directories {
            if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                tracing::warn!(directory = %directory.display(), %error, "a directory is not watched: use `peal reload`");
            }
        }
        self.directories = directories;
    }

    /// Waits for a change, and until nothing has changed for a while. Who gives up waiting misses nothing.
    pub async fn changed(&mut self) {
        if self.until.is_none() {
            let Some(()) = self.changed.recv().await else {
                return std::future::pending().await;
            };
        }
        let until = *self
            .until
            .get_or_insert_with(|| time::Instant::now() + self.settle * AT_MOST);
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

/// Reading is none, or we would be told of ourselves.
fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// Where a file is seen; a directory is watched itself.
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
        let (file, drop_ins) = (dir.path().join("peal.toml"), dir.path().join("modules.d"));
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
