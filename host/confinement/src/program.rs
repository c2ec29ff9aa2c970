//! Files that the running program consists of.
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Path of the running program, even if its file was replaced by another release.
const PROGRAM: &str = "/proc/self/exe";

/// Running program, which a process starts again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnProgram {
    /// Program, its loader, and the directories of its libraries. An upgrade of the system replaces
    /// libraries, so a rule for their files would not last.
    pub execute: BTreeSet<PathBuf>,
}

impl OwnProgram {
    /// Finds the files that the program has loaded.
    pub fn find() -> io::Result<OwnProgram> {
        let program = fs::read_link(PROGRAM)?;
        let maps = fs::read_to_string("/proc/self/maps")?;
        // Only the last column has slashes.
        let mapped = maps
            .lines()
            .filter_map(|line| line.find('/').and_then(|start| line.get(start..)))
            .map(present)
            .filter(|path| *path != present(&program.to_string_lossy()));
        let mut execute: BTreeSet<PathBuf> = mapped
            .filter_map(|path| path.parent().map(Path::to_owned))
            .collect();
        execute.insert(PROGRAM.into());
        Ok(OwnProgram { execute })
    }
}

/// Returns a path without the mark of a file that was removed or replaced.
fn present(path: &str) -> PathBuf {
    path.strip_suffix(" (deleted)").unwrap_or(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_consists_of_itself_and_library_directories() {
        let found = OwnProgram::find().unwrap();
        let own = std::env::current_exe().unwrap();
        assert!(found.execute.contains(Path::new(PROGRAM)));
        assert!(
            !found.execute.contains(own.parent().unwrap()),
            "other programs beside this one: {found:?}"
        );
        let has_loader = |dir: &PathBuf| {
            let files = fs::read_dir(dir).into_iter().flatten().flatten();
            files
                .filter_map(|file| file.file_name().into_string().ok())
                .any(|name| name.starts_with("ld-"))
        };
        assert!(found.execute.iter().any(has_loader), "{found:?}");
    }
}
