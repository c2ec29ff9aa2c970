//! C and C++: clang with the libraries of WASI, without functions that would import from the host.
use crate::{
    BuildError, BuildTools, ProgressCallback, Project, apt,
    command::{run, run_quietly},
    encode,
    error::of_file,
    tools::entries,
    world,
};
use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};
use tempfile::TempDir;

/// Language of a compiler, with what it needs.
pub(crate) struct Dialect {
    /// Debian's packages.
    debian_packages: &'static [&'static str],
    /// Possible compilers, beginning with the newest of Debian.
    candidates: &'static [&'static str],
    /// Name of the compiler in a WASI SDK.
    in_wasi_sdk: &'static str,
    /// Name of the tools in messages.
    tools: &'static str,
    /// Extension of the sources.
    extension: &'static str,
    flags: &'static [&'static str],
    /// Source that a compiler without the libraries does not build.
    probe: &'static str,
}

/// C.
pub(crate) const C: Dialect = Dialect {
    debian_packages: &[
        "clang-19",
        "lld-19",
        "wasi-libc",
        "libclang-rt-19-dev-wasm32",
    ],
    candidates: &[
        "clang-19", "clang-22", "clang-21", "clang-20", "clang-18", "clang", "zig",
    ],
    in_wasi_sdk: "bin/clang",
    tools: "clang with wasi-libc",
    extension: "c",
    flags: &[],
    // A clang without the C library of WASI compiles an empty file as well, so the probe needs
    // `malloc`.
    probe: "#include <stdlib.h>\nvoid *probe(void) { return malloc(1); }\n",
};

/// C++.
pub(crate) const CPP: Dialect = Dialect {
    debian_packages: &[
        "clang-19",
        "lld-19",
        "wasi-libc",
        "libclang-rt-19-dev-wasm32",
        "libc++-19-dev-wasm32",
    ],
    candidates: &[
        "clang++-19",
        "clang++-22",
        "clang++-21",
        "clang++-20",
        "clang++-18",
        "clang++",
    ],
    in_wasi_sdk: "bin/clang++",
    tools: "clang++ with libc++ for WASI",
    extension: "cpp",
    // A component has no lock to guard static variables with, and nobody to catch what is thrown.
    flags: &[
        "-std=c++23",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-threadsafe-statics",
        // The macros of the library in C leave out the members of other requests.
        "-Wno-missing-field-initializers",
    ],
    // The library has what the SDK uses, and can be linked with.
    probe: "#include <version>\n#ifndef __cpp_lib_expected\n#error\n#endif\nint probe() { return 0; }\n",
};

/// Flags of every compilation. The lines of the sources are separated from the component after the build.
const FLAGS: [&str; 5] = [
    "-O2",
    "-Wall",
    "-Wextra",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
];

/// A compiler that passed a test.
pub(crate) struct Compiler {
    path: PathBuf,
    dialect: &'static Dialect,
}

impl Compiler {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if self.path.file_name().is_some_and(|name| name == "zig") {
            command.args(["cc", "-target", "wasm32-wasi"]);
        } else {
            command.arg("--target=wasm32-wasi");
        }
        command.args(FLAGS).args(self.dialect.flags);
        command
    }

    /// Returns a command that links a component.
    fn link(&self) -> Command {
        let mut command = self.command();
        // A component has no `main`: a reactor exports functions and no `_start`.
        command.arg("-mexec-model=reactor");
        command
    }

    /// Returns true if the compiler builds a module with the libraries.
    fn works(&self) -> bool {
        let Ok(scratch) = probe_dir() else {
            return false;
        };
        let source = scratch
            .path()
            .join("probe")
            .with_extension(self.dialect.extension);
        fs::write(&source, self.dialect.probe).is_ok()
            && run_quietly(
                self.link()
                    .arg("-o")
                    .arg(scratch.path().join("probe.wasm"))
                    .arg(&source),
            )
            .is_ok()
    }
}

/// Creates a directory for the test of a compiler, which no other user could prepare or enter.
fn probe_dir() -> std::io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("peal-build-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
}

/// Builds a component from the files of a project in C or C++.
pub(crate) fn build(
    dialect: &'static Dialect,
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let compiler = find(dialect, tools, progress)?;
    let wit = world::write(&project.manifest, &project.contract()?, &project.target())?;
    let core = project.target().join("core.wasm");
    let mut files = sources(&project.dir, dialect)?;
    progress("compiling");
    let mut command = compiler.link();
    if dialect.extension == C.extension {
        let library = project.library(C.extension);
        command.arg("-I").arg(&library);
        files.extend(sources(&library, dialect)?);
    } else {
        // The library in C is no C++, and a compiler takes the flags of one language only.
        let libraries = [C.extension, dialect.extension].map(|sdk| project.library(sdk));
        for library in &libraries {
            command.arg("-I").arg(library);
        }
        let [c, own] = &libraries;
        files.extend(compiled(
            &find(&C, tools, progress)?,
            project,
            c,
            &libraries,
        )?);
        files.extend(compiled(&compiler, project, own, &libraries)?);
    }
    command.arg("-Wl,-z,stack-size=65536");
    command.arg(names_relative_to(project));
    run(command.arg("-o").arg(&core).args(files))?;
    encode::encode_with(&core, &wit)
}

/// Returns the flag that makes names of files relative to the project, in messages such as those of `assert` and in
/// debug information.
fn names_relative_to(project: &Project) -> String {
    format!("-ffile-prefix-map={}/=", project.dir.display())
}

/// Compiles a library unless that was done since its files changed, and returns the object files.
fn compiled(
    compiler: &Compiler,
    project: &Project,
    library: &Path,
    headers: &[PathBuf],
) -> Result<Vec<PathBuf>, BuildError> {
    let into = project.target().join(compiler.dialect.extension);
    fs::create_dir_all(&into).map_err(of_file(&into))?;
    let files = sources(library, compiler.dialect)?;
    let names = files.iter().filter_map(|file| file.file_stem());
    let objects: Vec<PathBuf> = names
        .map(|name| into.join(name).with_extension("o"))
        .collect();
    let mut changed = None;
    for dir in headers {
        for file in entries(dir)? {
            changed = changed.max(modified(&file));
        }
    }
    if objects.iter().any(|object| modified(object) <= changed) {
        let mut command = compiler.command();
        for dir in headers {
            command.arg("-I").arg(dir);
        }
        // Object files get the names of the sources, in the current directory.
        command
            .current_dir(&into)
            .arg(names_relative_to(project))
            .arg("-c")
            .args(&files);
        run(&mut command)?;
    }
    Ok(objects)
}

/// Returns the time of the last change; none for a file that does not exist.
fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}

/// Returns the sources in a directory, sorted.
fn sources(dir: &Path, dialect: &Dialect) -> Result<Vec<PathBuf>, BuildError> {
    let mut files = entries(dir)?;
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == dialect.extension)
    });
    Ok(files)
}

/// Finds a compiler; installs one if allowed.
fn find(
    dialect: &'static Dialect,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Compiler, BuildError> {
    let any = || {
        // An SDK that the user names precedes the compilers on `PATH`.
        let sdk =
            env::var_os("WASI_SDK_PATH").map(|sdk| PathBuf::from(sdk).join(dialect.in_wasi_sdk));
        let paths = sdk
            .into_iter()
            .chain(dialect.candidates.iter().map(PathBuf::from));
        paths
            .map(|path| Compiler { path, dialect })
            .find(Compiler::works)
    };
    if let Some(compiler) = any() {
        return Ok(compiler);
    }
    if tools.may_install() && apt::is_available() {
        apt::install(dialect.debian_packages, progress)?;
        // Installed packages are tested like a compiler that was found.
        if let Some(compiler) = any() {
            return Ok(compiler);
        }
    }
    let zig = if dialect.candidates.contains(&"zig") {
        "put zig on PATH, or "
    } else {
        ""
    };
    Err(BuildError::Missing {
        tool: dialect.tools.to_owned(),
        install: format!(
            "on Debian `apt-get install {}` (`peal module build --install` does that as root), or {zig}a WASI SDK at $WASI_SDK_PATH",
            dialect.debian_packages.join(" ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_directory_is_new_and_private() {
        let (one, two) = (probe_dir().unwrap(), probe_dir().unwrap());
        assert_ne!(one.path(), two.path());
        let mode = one.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
