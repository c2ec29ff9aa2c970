//! C: clang with the C library of WASI, without functions that would import from the host.
use crate::{
    BuildError, BuildTools, ProgressCallback, Project, apt,
    command::{run, run_quietly},
    encode,
    error::of_file,
    world,
};
use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
};
use tempfile::TempDir;

/// Debian's packages.
const DEBIAN_PACKAGES: [&str; 4] = [
    "clang-19",
    "lld-19",
    "wasi-libc",
    "libclang-rt-19-dev-wasm32",
];

/// Possible compilers, beginning with the newest of Debian.
const CANDIDATES: [&str; 7] = [
    "clang-19", "clang-22", "clang-21", "clang-20", "clang-18", "clang", "zig",
];

/// A compiler that passed a test.
pub(crate) struct Compiler(PathBuf);

impl Compiler {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.0);
        if self.0.file_name().is_some_and(|name| name == "zig") {
            command.args(["cc", "-target", "wasm32-wasi"]);
        } else {
            command.arg("--target=wasm32-wasi");
        }
        // A component has no `main`: a reactor exports functions and no `_start`.
        command.arg("-mexec-model=reactor");
        command
    }

    /// Returns true if the compiler builds a module with the C library.
    fn works(&self) -> bool {
        let Ok(scratch) = probe_dir() else {
            return false;
        };
        let source = scratch.path().join("probe.c");
        // A clang without the C library of WASI compiles an empty file as well, so the probe needs
        // `malloc`.
        let text = "#include <stdlib.h>\nvoid *probe(void) { return malloc(1); }\n";
        fs::write(&source, text).is_ok()
            && run_quietly(
                self.command()
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

/// Builds a component from the C files of a project.
pub(crate) fn build(
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let compiler = find(tools, progress)?;
    let wit = world::write(&project.manifest, &project.contract(), &project.target())?;
    let sdk = project.sdk().join("c");
    let core = project.target().join("core.wasm");
    progress("compiling");
    let mut command = compiler.command();
    command.args([
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wl,--strip-debug",
        "-Wl,-z,stack-size=65536",
    ]);
    // File names in messages, such as those of `assert`, are relative to the project.
    command.arg(format!("-fmacro-prefix-map={}/=", project.dir.display()));
    command
        .arg("-I")
        .arg(&sdk)
        .arg("-o")
        .arg(&core)
        .args(sources(&project.dir)?);
    run(command.args(sources(&sdk)?))?;
    encode::encode_with(&core, &wit)
}

/// Returns the C files of a directory, sorted.
fn sources(dir: &std::path::Path) -> Result<Vec<PathBuf>, BuildError> {
    let entries = fs::read_dir(dir)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
        .map_err(of_file(dir))?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    // The order of a directory differs between machines, and with it the linked bytes.
    files.sort();
    Ok(files)
}

/// Finds a compiler; installs one if allowed.
pub(crate) fn find(
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Compiler, BuildError> {
    let any = || {
        // An SDK that the user names precedes the compilers on `PATH`.
        let sdk = env::var_os("WASI_SDK_PATH").map(|sdk| PathBuf::from(sdk).join("bin/clang"));
        let candidates = sdk.into_iter().chain(CANDIDATES.map(PathBuf::from));
        candidates.map(Compiler).find(Compiler::works)
    };
    if let Some(compiler) = any() {
        return Ok(compiler);
    }
    if tools.may_install() && apt::is_available() {
        apt::install(&DEBIAN_PACKAGES, progress)?;
        // Installed packages are tested like a compiler that was found.
        if let Some(compiler) = any() {
            return Ok(compiler);
        }
    }
    Err(BuildError::Missing {
        tool: "clang with wasi-libc".to_owned(),
        install: format!(
            "on Debian `apt-get install {}` (`peal module build --install` does that as root), or put zig on PATH, or a WASI SDK at \
             $WASI_SDK_PATH",
            DEBIAN_PACKAGES.join(" ")
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
