//! Compilation of the C programs: those in `tests/c`, which are linked with the real `libpmix`,
//! into `target/c`, those of the bench and the labs into directories of their own, and some with
//! AddressSanitizer into `target/c/sanitized`.
use crate::command::{run, run_quietly};
use anyhow::{Context, Result};
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// Message for parts that are left out because they need the C programs.
pub const NOT_AVAILABLE: &str = "not available: install libpmix-dev";

/// Name of the program that the demo shows.
pub const HELLO: &str = "hello";

/// Programs that are also compiled with AddressSanitizer.
const SANITIZED: [&str; 9] = [
    "cached", "contents", "cycle", "group", "job", "misuse", "publish", "random", "unpaced",
];

/// Compiles sources that are newer than their program, and returns the directory of the programs;
/// `None` without `libpmix`.
pub fn build(root: &Path) -> Result<Option<PathBuf>> {
    let Some(flags) = flags() else {
        return Ok(None);
    };
    let programs = root.join("target/c");
    compile(&root.join("tests/c"), &programs, &flags, |_| true)?;
    compile(
        &root.join("tests/c/bench"),
        &programs.join("bench"),
        &flags,
        |_| true,
    )?;
    compile(
        &root.join("tests/labs/c"),
        &programs.join("labs"),
        &flags,
        |_| true,
    )?;
    if has_sanitizer() {
        compile(
            &root.join("tests/c"),
            &programs.join("sanitized"),
            &format!("-fsanitize=address {flags}"),
            |name| SANITIZED.iter().any(|sanitized| name == *sanitized),
        )?;
    }
    Ok(Some(programs))
}

/// Compiles [`HELLO`] alone. Returns false without `libpmix`.
pub fn build_hello(root: &Path) -> Result<bool> {
    let Some(flags) = flags() else {
        return Ok(false);
    };
    compile(
        &root.join("tests/c"),
        &root.join("target/c"),
        &flags,
        |name| name == HELLO,
    )?;
    Ok(true)
}

/// Returns true if the compiler has AddressSanitizer's library. It prints the path of a library
/// that it has, and the bare name of any other.
fn has_sanitizer() -> bool {
    let path = run_quietly(Command::new("cc").arg("-print-file-name=libasan.so"));
    path.is_ok_and(|path| Path::new(path.trim()).is_absolute())
}

/// Source that becomes a library for `LD_PRELOAD` rather than a program.
const PRELOADED: &str = "nodelay";

fn compile(
    from: &Path,
    programs: &Path,
    flags: &str,
    is_wanted: impl Fn(&OsStr) -> bool,
) -> Result<()> {
    fs::create_dir_all(programs).with_context(|| format!("creating {}", programs.display()))?;
    let files = files(from)?;
    let (sources, rest): (Vec<_>, Vec<_>) = files
        .iter()
        .partition(|file| file.extension() == Some(OsStr::new("c")));
    let headers = rest
        .into_iter()
        .filter(|file| file.extension() == Some(OsStr::new("h")));
    let newest_header = headers.map(|header| changed(header)).max().flatten();
    for source in sources {
        let name = source.file_stem().unwrap_or_default();
        if !is_wanted(name) {
            continue;
        }
        let is_preloaded = name == PRELOADED;
        let program = programs
            .join(name)
            .with_extension(if is_preloaded { "so" } else { "" });
        // Which headers a source includes is not known here, so that each of them counts.
        if changed(&program) > changed(source).max(newest_header) {
            continue;
        }
        println!("compiling {}", source.display());
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-g", "-Wall", "-Wextra", "-pthread", "-o"])
            .arg(&program)
            .arg(source);
        if is_preloaded {
            cc.args(["-shared", "-fPIC", "-ldl"]);
        }
        run(cc.args(flags.split_whitespace()))?;
    }
    Ok(())
}

/// Returns the compiler flags for `libpmix`, which is installed if needed and possible.
fn flags() -> Option<String> {
    let ask = || {
        run_quietly(Command::new("cc").arg("--version")).ok()?;
        run_quietly(Command::new("pkg-config").args(["--cflags", "--libs", "pmix"])).ok()
    };
    ask().or_else(|| {
        if peal_build::apt_is_available() {
            peal_build::apt_install(
                &["libpmix-dev", "gcc", "libc6-dev", "pkg-config"],
                &mut |words| println!("{words}"),
            )
            .ok()?;
        }
        ask()
    })
}

/// Returns the files of a directory, sorted by name; none if it does not exist.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let entries =
        fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.with_context(|| format!("reading {}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    Ok(files)
}

/// Returns the time of a file's last change; `None`, which is before all times, if it does not
/// exist.
pub fn changed(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}
