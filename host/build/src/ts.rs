//! TypeScript: `tsc` checks the types of a project, `amaro` replaces them by blanks, and the rest is
//! packed as JavaScript (js.rs). Lines and columns stay those of the author's files.
use crate::{
    BuildError, BuildTools, ProgressCallback, Project,
    command::{run, run_captured},
    error::of_file,
    js::{self, Packing},
    tools::{self, entries},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The tested releases of the tools, and their hashes.
const PACKAGE: &str = include_str!("../tools/typescript/package.json");
const LOCK: &str = include_str!("../tools/typescript/package-lock.json");

/// Removes the types from files: arguments are the directory of the tool, then pairs of a source and
/// a file to write.
const STRIP: &str = include_str!("../tools/typescript/strip.cjs");

/// Directories of a project that have no sources of its author.
const NOT_SOURCES: [&str; 3] = ["sdk", "target", "node_modules"];

/// Tools of the language.
struct Toolchain {
    /// Directory of the packages.
    modules: PathBuf,
}

impl Toolchain {
    fn compiler(&self) -> PathBuf {
        self.modules.join(".bin/tsc")
    }

    fn is_complete(&self) -> bool {
        // The last file that is unpacked is unknown, so both tools are looked for.
        tools::is_program(&self.compiler()) && self.modules.join("amaro/dist/index.js").exists()
    }
}

/// Builds a component from `module.ts`.
pub(crate) fn build(
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let toolchain = find(tools, progress)?;
    // The compiler would report each import of a missing SDK.
    project.contract()?;
    check(project, &toolchain, progress)?;
    let root = project.target().join("js");
    if root.exists() {
        // A file that the author has removed must not be found by an import.
        fs::remove_dir_all(&root).map_err(of_file(&root))?;
    }
    // Below the new root the project and its SDK are where they are below their own, so that its
    // imports are found.
    let own_root = project.root();
    let moved = |path: &Path| root.join(path.strip_prefix(&own_root).unwrap_or(Path::new("")));
    let sdk = project.library("js");
    copy(&sdk, &moved(&sdk))?;
    let place = moved(&project.dir);
    let mut sources = Vec::new();
    collect(&project.dir, &mut sources)?;
    strip(project, &toolchain, &sources, &place)?;
    let root = root.canonicalize().map_err(of_file(&root))?;
    let packing = Packing {
        source: "module.ts",
        module: place
            .join("module.ts")
            .canonicalize()
            .map_err(of_file(&place.join("module.ts")))?,
        entry: root.join("entry.js"),
        root,
    };
    js::pack(project, &packing, tools, progress)
}

/// Checks the types of all files, by the settings of the project.
fn check(
    project: &Project,
    toolchain: &Toolchain,
    progress: ProgressCallback<'_>,
) -> Result<(), BuildError> {
    progress("checking types");
    let mut command = Command::new(toolchain.compiler());
    command
        .args(["--noEmit", "--pretty", "false", "--project", "."])
        .current_dir(&project.dir);
    run_on_sources(project, &mut command)
}

/// Runs a command whose failure is one of the author's sources.
fn run_on_sources(project: &Project, command: &mut Command) -> Result<(), BuildError> {
    run_captured(command)?.map_err(|output| BuildError::Source {
        file: project.dir.join("module.ts"),
        output: output.trim_end().to_owned(),
    })
}

/// Writes each source without types to its place in another directory. The names stay, so that
/// imports and backtraces name the author's files.
fn strip(
    project: &Project,
    toolchain: &Toolchain,
    sources: &[PathBuf],
    into: &Path,
) -> Result<(), BuildError> {
    let mut command = Command::new("node");
    command
        .args(["-e", STRIP])
        .arg(toolchain.modules.join("amaro"));
    for source in sources {
        let to = into.join(source.strip_prefix(&project.dir).unwrap_or(source));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(of_file(parent))?;
        }
        command.arg(source).arg(to);
    }
    run_on_sources(project, &mut command)
}

/// Collects the sources of a project in TypeScript and JavaScript.
fn collect(dir: &Path, sources: &mut Vec<PathBuf>) -> Result<(), BuildError> {
    for path in entries(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            if !NOT_SOURCES.contains(&name.as_ref()) {
                collect(&path, sources)?;
            }
        } else if (name.ends_with(".ts") && !name.ends_with(".d.ts")) || name.ends_with(".js") {
            sources.push(path);
        }
    }
    Ok(())
}

/// Copies the files of a directory, without the directories in it.
fn copy(from: &Path, to: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(to).map_err(of_file(to))?;
    for path in entries(from)?.into_iter().filter(|path| path.is_file()) {
        let file = to.join(path.file_name().unwrap_or_default());
        fs::copy(&path, &file).map_err(of_file(&path))?;
    }
    Ok(())
}

/// Finds the tools; installs them if allowed.
fn find(tools: &BuildTools, progress: ProgressCallback<'_>) -> Result<Toolchain, BuildError> {
    let prefix = tools.dir.join("ts");
    let toolchain = Toolchain {
        modules: prefix.join("node_modules"),
    };
    if toolchain.is_complete() {
        return Ok(toolchain);
    }
    if !tools.may_install() {
        return Err(missing());
    }
    progress(&format!(
        "installing typescript, amaro and prettier into {} (once, 50 MB)",
        prefix.display()
    ));
    fs::create_dir_all(&prefix).map_err(of_file(&prefix))?;
    for (name, text) in [("package.json", PACKAGE), ("package-lock.json", LOCK)] {
        let file = prefix.join(name);
        fs::write(&file, text).map_err(of_file(&file))?;
    }
    // Unlike `install`, this checks the hashes of the lock file and changes nothing in it.
    let mut npm = Command::new("npm");
    npm.args([
        "ci",
        "--no-fund",
        "--no-audit",
        "--loglevel",
        "error",
        "--prefix",
    ]);
    run(npm.arg(&prefix))?;
    if toolchain.is_complete() {
        Ok(toolchain)
    } else {
        Err(missing())
    }
}

fn missing() -> BuildError {
    BuildError::Missing {
        tool: "the TypeScript compiler".to_owned(),
        install: "run `peal module build --install` (needs npm)".to_owned(),
    }
}
