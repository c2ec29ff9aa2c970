//! Registrations that contradict each other (`PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES`).
use peal_core::job_control::{Cleanup, Depth};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Contradiction about one path between two registrations, or within one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum Conflict {
    /// The path is registered as a file and as a directory.
    #[error("{0:?} is registered as a file and as a directory; register it once")]
    Kind(PathBuf),
    /// The directory is registered with different options.
    #[error(
        "{0:?} is registered with different options; use the same depth, directories and ignored names"
    )]
    Ways(PathBuf),
    /// The path is registered for removal, and its name is ignored there.
    #[error("{0:?} is registered for removal and its name is ignored there; leave out one of them")]
    Ignored(PathBuf),
}

/// Returns the first contradiction between two registrations.
pub(crate) fn between(one: &Cleanup, other: &Cleanup) -> Option<Conflict> {
    let kind = |(files, directories): (&Cleanup, &Cleanup)| {
        files
            .files
            .intersection(&directories.directories)
            .next()
            .cloned()
            .map(Conflict::Kind)
    };
    // The relations have a direction, so both orders are compared. Callers also compare a
    // registration with itself.
    let both = [(one, other), (other, one)];
    let ways = || {
        let shared = one.directories.intersection(&other.directories).next()?;
        (way(one) != way(other)).then(|| Conflict::Ways(shared.clone()))
    };
    let ignored = |(gone, left): (&Cleanup, &Cleanup)| {
        let mut paths = gone.files.iter().chain(&gone.directories);
        paths
            .find(|path| ignores(left, path))
            .cloned()
            .map(Conflict::Ignored)
    };
    both.into_iter()
        .find_map(kind)
        .or_else(ways)
        .or_else(|| both.into_iter().find_map(ignored))
}

/// Returns the options by which directories are emptied, for comparison.
fn way(cleanup: &Cleanup) -> impl PartialEq + '_ {
    (
        cleanup.depth,
        cleanup.subdirectories,
        cleanup.top,
        &cleanup.ignored,
    )
}

/// Returns true if the removal of this registration would reach the path but ignores its name.
fn ignores(cleanup: &Cleanup, path: &Path) -> bool {
    let named = path
        .file_name()
        .is_some_and(|name| cleanup.ignored.contains(name));
    let mut above = path.ancestors().skip(1);
    let is_reached = |dir: &Path| cleanup.directories.contains(dir);
    named
        && match cleanup.depth {
            Depth::Flat => above.next().is_some_and(is_reached),
            Depth::Recursive => above.any(is_reached),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::job_control::{Subdirectories, TopDirectory};
    use std::{collections::BTreeSet, ffi::OsString};

    fn cleanup(files: &[&str], directories: &[&str], ignored: &[&str]) -> Cleanup {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Cleanup {
            procs: Vec::new(),
            files: paths(files),
            directories: paths(directories),
            depth: Depth::Flat,
            subdirectories: Subdirectories::All,
            top: TopDirectory::Remove,
            ignored: ignored.iter().map(OsString::from).collect::<BTreeSet<_>>(),
        }
    }

    #[test]
    fn a_path_is_one_thing_emptied_in_one_way_and_removed_or_not() {
        let plain = cleanup(&[], &["/t/d"], &[]);
        let file = cleanup(&["/t/d/"], &[], &[]);
        assert_eq!(between(&plain, &file), Some(Conflict::Kind("/t/d/".into())));
        assert_eq!(between(&file, &plain), Some(Conflict::Kind("/t/d/".into())));
        assert_eq!(between(&plain, &plain), None);
        for other in [
            Cleanup {
                depth: Depth::Recursive,
                ..plain.clone()
            },
            Cleanup {
                subdirectories: Subdirectories::OnlyEmpty,
                ..plain.clone()
            },
            Cleanup {
                top: TopDirectory::Leave,
                ..plain.clone()
            },
            cleanup(&[], &["/t/d"], &["x"]),
        ] {
            assert_eq!(between(&plain, &other), Some(Conflict::Ways("/t/d".into())));
            assert_eq!(
                between(
                    &Cleanup {
                        directories: [PathBuf::from("/t/e")].into(),
                        ..other
                    },
                    &plain
                ),
                None
            );
        }
        let keeps = cleanup(&[], &["/t/d"], &["x"]);
        let deep = Cleanup {
            depth: Depth::Recursive,
            ..keeps.clone()
        };
        assert_eq!(
            between(&keeps, &cleanup(&["/t/d/x"], &[], &[])),
            Some(Conflict::Ignored("/t/d/x".into()))
        );
        assert_eq!(
            between(&keeps, &cleanup(&["/t/d/y", "/t/x", "/t/d/s/x"], &[], &[])),
            None
        );
        assert_eq!(
            between(&cleanup(&[], &["/t/d/s/x"], &[]), &deep),
            Some(Conflict::Ignored("/t/d/s/x".into()))
        );
    }
}
