//! Parts of a lab: its nodes, libraries, and files of the machine that appear on nodes.
use crate::{LabLibraries, ServerLibrary};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Maximum number of nodes of a lab, beside the one with the launcher.
pub const MAX_NODES: u32 = 250;

/// Directories that each node has for itself.
const OWN_DIRECTORIES: [&str; 6] = ["/etc", "/usr", "/var", "/tmp", "/run", "/dev"];

/// Name that the linker uses, and Slurm's plugin, which loads this file.
const LINK: &str = "libpmix.so";

/// Directory of the server library on nodes, for launchers that load it by name.
pub(crate) const SERVER_DIRECTORY: &str = "/run/server";

/// File or directory of the machine that appears on nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeMount {
    /// Name of the node, such as `n1`; `None` for all nodes.
    pub node: Option<String>,
    /// Path on the machine.
    pub source: PathBuf,
    /// Path on the node, below a directory that each node has for itself: `/etc`, `/usr`, `/var`, `/tmp`, `/run` or
    /// `/dev`. It need not exist.
    pub target: PathBuf,
}

/// Description of a lab.
#[derive(Clone, Debug)]
pub struct LabSetup {
    pub(crate) nodes: u32,
    pub(crate) libraries: LabLibraries,
    pub(crate) mounts: Vec<NodeMount>,
    pub(crate) packages: Option<PathBuf>,
}

impl LabSetup {
    /// Creates the description of a lab with this number of nodes, `n1` and so on, and the node of the launcher. The
    /// installed library is used on both sides.
    pub fn new(nodes: u32) -> LabSetup {
        LabSetup {
            nodes,
            libraries: LabLibraries::STOCK,
            mounts: Vec::new(),
            packages: None,
        }
    }

    /// Returns the names of the nodes, without that of the launcher.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.nodes).map(|number| format!("n{number}"))
    }

    /// Sets the libraries.
    pub fn with_libraries(mut self, libraries: LabLibraries) -> LabSetup {
        self.libraries = libraries;
        self
    }

    /// Makes a path of the machine visible on all nodes under the same name. Only paths in `/tmp` and the other
    /// directories that each node has for itself need it.
    pub fn share(self, path: impl Into<PathBuf>) -> LabSetup {
        let path = path.into();
        let is_visible = self
            .mounts
            .iter()
            .any(|mount| mount.node.is_none() && path.starts_with(&mount.target));
        if is_visible || !is_own(&path) {
            return self;
        }
        self.mount(NodeMount {
            node: None,
            target: path.clone(),
            source: path,
        })
    }

    /// Adds a file or directory to nodes.
    pub fn mount(mut self, mount: NodeMount) -> LabSetup {
        self.mounts.push(mount);
        self
    }

    /// Lays the directory `usr` of unpacked packages over `/usr` of the nodes.
    pub fn with_packages(mut self, packages: impl Into<PathBuf>) -> LabSetup {
        self.packages = Some(packages.into());
        self
    }

    /// Adds the server library where Slurm's plugin and `mpirun` look for it.
    pub(crate) fn with_server_library(self) -> Result<LabSetup> {
        let ServerLibrary::File(library) = self.libraries.server.clone() else {
            return Ok(self);
        };
        ensure!(
            library.is_file(),
            "{} is no library: name a file",
            library.display()
        );
        let targets = [
            directory_of_libpmix()?.join(LINK),
            Path::new(SERVER_DIRECTORY).join("libpmix.so.2"),
        ];
        Ok(targets.into_iter().fold(self, |setup, target| {
            setup.mount(NodeMount {
                node: None,
                source: library.clone(),
                target,
            })
        }))
    }

    /// Returns the mounts of a node, as `scripts/node.sh` reads them.
    pub(crate) fn mounts_of(&self, node: &str) -> Result<String> {
        let mut text = String::new();
        for mount in &self.mounts {
            if mount.node.as_deref().is_some_and(|only| only != node) {
                continue;
            }
            let source = mount
                .source
                .canonicalize()
                .with_context(|| format!("looking for {}", mount.source.display()))?;
            ensure!(
                is_own(&mount.target),
                "{} is shared by all nodes; a mount must lie in one of {}",
                mount.target.display(),
                OWN_DIRECTORIES.join(", ")
            );
            let line = format!("{}\t{}\n", source.display(), mount.target.display());
            ensure!(
                line.matches(['\t', '\n']).count() == 2,
                "{line:?} has a path with a tab or line break"
            );
            text += &line;
        }
        Ok(text)
    }
}

/// Returns true if each node has this path for itself.
fn is_own(path: &Path) -> bool {
    OWN_DIRECTORIES
        .iter()
        .any(|own| path.starts_with(own) && path != Path::new(own))
}

/// Returns the directory from which Slurm's plugin loads the library. The path is fixed in the plugin.
fn directory_of_libpmix() -> Result<PathBuf> {
    let directory = PathBuf::from(format!(
        "/usr/lib/{}-linux-gnu/pmix2/lib",
        std::env::consts::ARCH
    ));
    ensure!(
        directory.exists(),
        "{} is missing: install libpmix-dev",
        directory.display()
    );
    Ok(directory)
}
