//! The releases of `libpmix` with which C programs are run: the one that they were linked with, and that of Open MPI 5.
use crate::peers;
use std::{path::PathBuf, process::Command};

/// A release that is here.
#[derive(Clone, Debug)]
pub struct Release {
    /// What it is called in messages.
    pub name: &'static str,
    libraries: Option<PathBuf>,
}

impl Release {
    /// Those that are here; a test that has one only says so.
    pub fn all() -> Vec<Release> {
        let peers = peers();
        let libraries = peers.join("ompi5/lib/openmpi");
        let mut all = vec![Release { name: "the system's", libraries: None }];
        if libraries.join("libpmix.so.2").exists() {
            all.push(Release { name: "that of Open MPI 5", libraries: Some(libraries) });
        } else {
            println!("skipped in part: there is no libpmix 5 in {}", libraries.display());
        }
        all
    }

    /// The variable, with its value, by which programs are run with it; none for the system's.
    pub fn variable(&self) -> Option<String> {
        self.libraries.as_ref().map(|libraries| format!("LD_LIBRARY_PATH={}", libraries.display()))
    }

    /// Has a program run with it.
    pub fn of<'a>(&self, program: &'a mut Command) -> &'a mut Command {
        program.envs(self.libraries.as_ref().map(|libraries| ("LD_LIBRARY_PATH", libraries)))
    }
}
