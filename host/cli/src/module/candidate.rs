//! Component for `peal module test` and `bench`, and the location of its cases.
use anyhow::{Context, Result, bail};
use peal_build::{MANIFEST, Project};
use peal_config::Sandbox;
use peal_sandbox::{BacktracePlaces, Engine};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Directories that may hold a component, in a directory that is not a project of `peal module
/// new`.
const PLACES: [&str; 2] = ["", "target"];

/// Directory of the cases beside a component.
const TESTS: &str = "tests";

/// Component under test, and an engine for it.
pub struct TestedComponent {
    /// Bytes of the component.
    pub bytes: Vec<u8>,
    /// The engine.
    pub engine: Engine,
}

impl TestedComponent {
    /// Prepares the component of a project. If its last build kept debug information, traps name files and lines.
    pub fn new(project: &Path, name: &str, component: &[u8]) -> Result<TestedComponent> {
        let (bytes, places) = match peal_build::with_debug_info(project, name, component) {
            Some(bytes) => (bytes, BacktracePlaces::Lines),
            // Servers share the code of an engine without lines.
            None => (component.to_owned(), BacktracePlaces::Functions),
        };
        let engine = peal_modules::engine_with(&Sandbox::default(), places)?;
        Ok(TestedComponent { bytes, engine })
    }
}

/// Component and its file.
pub struct Tried {
    /// Path of the file.
    pub file: PathBuf,
    /// Bytes of the component.
    pub bytes: Vec<u8>,
    /// Directory of the component, which has that of the cases.
    project: PathBuf,
}

impl Tried {
    /// Reads the component of this file, or of the project in this directory.
    pub fn find(at: &Path) -> Result<Tried> {
        let file = if at.is_dir() {
            of_project(at)?
        } else {
            at.to_owned()
        };
        // Cases lie in `tests` beside the component, whether it belongs to a project or not.
        let project = if at.is_dir() {
            at
        } else {
            at.parent().unwrap_or(Path::new(""))
        };
        let bytes = peal_modules::read(&file)?;
        Ok(Tried {
            file,
            bytes,
            project: project.to_owned(),
        })
    }

    /// Returns the component as it is tested: with the debug information of its build, if there is any.
    pub fn with_lines(&self) -> Result<TestedComponent> {
        TestedComponent::new(&self.project, &self.name(), &self.bytes)
    }

    /// Returns the default name of the module.
    pub fn name(&self) -> String {
        self.file
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Returns the message about the compilation.
    pub fn compiling(&self) -> String {
        let size = self.bytes.len().div_ceil(1_000_000);
        format!(
            "{}: its {size} MB are compiled once (an interpreter of Python takes some 15 s), then it is called",
            self.file.display()
        )
    }

    /// Returns the case files beside the component.
    pub fn cases(&self) -> Result<Vec<PathBuf>> {
        let found = case_files(&self.project)?;
        if found.is_empty() {
            bail!(
                "there are no cases: name a file, or put some into {}/*.toml",
                self.project.join(TESTS).display()
            );
        }
        Ok(found)
    }
}

/// Returns the case files of a project; none if it has no directory of them.
pub fn case_files(project: &Path) -> Result<Vec<PathBuf>> {
    with_extension(&project.join(TESTS), "toml")
}

fn of_project(dir: &Path) -> Result<PathBuf> {
    if dir.join(MANIFEST).exists() {
        // `target` may hold other components: build tools leave intermediate ones there.
        let file = dir.join(format!("{}.wasm", Project::open(dir)?.manifest.name));
        if !file.exists() {
            bail!(
                "{} does not exist; run `peal module build {}`",
                file.display(),
                dir.display()
            );
        }
        return Ok(file);
    }
    let mut found = Vec::new();
    for place in PLACES {
        found.append(&mut with_extension(&dir.join(place), "wasm")?);
    }
    match found.as_slice() {
        [file] => Ok(file.clone()),
        [] => bail!(
            "{} holds no component (*.wasm): build it first, or name its file",
            dir.display()
        ),
        [first, second, ..] => {
            bail!(
                "{} holds {} and {}: name the one that is meant",
                dir.display(),
                first.display(),
                second.display()
            )
        }
    }
}

/// Returns the files of a directory with this extension, sorted by name; none if the directory does
/// not exist.
fn with_extension(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    // The parent of a bare file name is empty, and no directory has that name.
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let paths: std::io::Result<Vec<PathBuf>> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect();
    let mut found = paths.with_context(|| dir.display().to_string())?;
    found.retain(|path| path.extension().is_some_and(|of| of == extension));
    found.sort();
    Ok(found)
}
