//! A project: a directory with a manifest, sources, an SDK and the contract.
use crate::{
    BuildError, BuildTools, Language, MANIFEST, Manifest, ProgressCallback, c, debug_info, declare,
    error::of_file, go, js, python, rust, ts,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Directory for intermediate files in that of a project.
pub(crate) const TARGET: &str = "target";

/// A project.
#[derive(Clone, Debug)]
pub struct Project {
    /// The directory.
    pub dir: PathBuf,
    /// The manifest.
    pub manifest: Manifest,
    target: PathBuf,
}

impl Project {
    /// Opens the project in a directory.
    pub fn open(dir: &Path) -> Result<Project, BuildError> {
        let file = dir.join(MANIFEST);
        if !file.is_file() {
            return Err(BuildError::NoProject {
                dir: dir.to_owned(),
            });
        }
        // Some tools run in another directory, so all paths from here on are absolute.
        let dir = dir.canonicalize().map_err(of_file(dir))?;
        let text = fs::read_to_string(&file).map_err(of_file(&file))?;
        let manifest =
            Manifest::parse(&text).map_err(|reason| BuildError::Manifest { file, reason })?;
        let target = dir.join(TARGET);
        Ok(Project {
            dir,
            manifest,
            target,
        })
    }

    /// Moves intermediate files to another directory.
    #[must_use]
    pub fn with_target(self, target: PathBuf) -> Project {
        Project { target, ..self }
    }

    /// Builds the component and returns its bytes.
    pub fn build(
        &self,
        tools: &BuildTools,
        progress: ProgressCallback<'_>,
    ) -> Result<Vec<u8>, BuildError> {
        fs::create_dir_all(&self.target).map_err(of_file(&self.target))?;
        let mut component = match self.manifest.language {
            Language::Rust => rust::build(self, tools, progress),
            Language::C => c::build(&c::C, self, tools, progress),
            Language::Cpp => c::build(&c::CPP, self, tools, progress),
            Language::Go => go::build(self, tools, progress),
            Language::Python => python::build(self, tools, progress),
            Language::Js => js::build(self, tools, progress),
            Language::Ts => ts::build(self, tools, progress),
        }?;
        declare(&mut component, &self.manifest)?;
        debug_info::separate(&self.manifest.name, component, &self.target)
    }

    /// Returns the directory for intermediate files.
    pub(crate) fn target(&self) -> PathBuf {
        self.target.clone()
    }

    /// Returns the directory of the SDKs, or of an installed package.
    fn sdk(&self) -> PathBuf {
        let sdk = self.dir.join(&self.manifest.sdk);
        sdk.canonicalize().unwrap_or(sdk)
    }

    /// Returns the directory of an SDK: below that of the SDKs, or an installed package of it.
    pub(crate) fn library(&self, name: &str) -> PathBuf {
        let sdk = self.sdk();
        let below = sdk.join(name);
        if below.is_dir() { below } else { sdk }
    }

    /// Returns the innermost directory that contains the project and its SDK.
    pub(crate) fn root(&self) -> PathBuf {
        let sdk = self.sdk();
        let both = self.dir.components().zip(sdk.components());
        both.take_while(|(own, other)| own == other)
            .map(|(own, _)| own)
            .collect()
    }

    /// Returns the directory of the contract, which each SDK has.
    ///
    /// # Errors
    /// There is no SDK.
    pub(crate) fn contract(&self) -> Result<PathBuf, BuildError> {
        let language = self.manifest.language;
        let name = language.sdks().first().copied().unwrap_or_default();
        let library = self.library(name);
        let contract = match language {
            // The directory of the library has the packages of others, too, where pip installs it.
            Language::Python => library.join("peal/wit"),
            _ => library.join("wit"),
        };
        if contract.is_dir() {
            return Ok(contract);
        }
        Err(BuildError::NoSdk { language, contract })
    }
}
