//! `cargo xtask dist`: what a packager takes, in one directory and one archive.
use crate::{
    command::{cargo, remove_directory, run, run_quietly, step, target_dir},
    guests, libpmix, packages,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Tools that cargo installs: one writes the bill of materials, one puts the list of crates into the
/// program. Releases of March and May 2026.
const TOOLS: [&str; 2] = ["cargo-cyclonedx@0.5.9", "cargo-auditable@0.7.5"];

/// Bills of materials: directory of the crate, and name of the file without `.json`.
const BILLS: [(&str, &str); 2] = [("host/cli", "peal.cdx"), ("host/libpmix", "libpmix.cdx")];

/// Crate that each bill must list: a bill without it is not that of the program.
const KNOWN_CRATE: &str = "tokio";

/// Files of the repository, and their places.
const FILES: [(&str, &str); 8] = [
    ("packaging/peal.service", "lib/systemd/system/peal.service"),
    ("packaging/peal.sysusers", "lib/sysusers.d/peal.conf"),
    ("README.md", "share/doc/peal/README.md"),
    ("CHANGELOG.md", "share/doc/peal/CHANGELOG.md"),
    ("SECURITY.md", "share/doc/peal/SECURITY.md"),
    ("THREATS.md", "share/doc/peal/THREATS.md"),
    ("LICENSE", "share/doc/peal/LICENSE"),
    (
        "docs/src/reference/peal.example.toml",
        "share/doc/peal/peal.example.toml",
    ),
];

/// Completions: the shell and the place of its file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/peal"),
    ("zsh", "share/zsh/site-functions/_peal"),
    ("fish", "share/fish/vendor_completions.d/peal.fish"),
];

/// Builds the release in `target/dist`, with sums of all files, and packs it.
///
/// # Errors
///
/// Fails if the repository has changes that are in no commit: nobody could build the same.
pub fn build(root: &Path) -> Result<()> {
    let changes = run_quietly(
        Command::new("git")
            .current_dir(root)
            .args(["status", "--porcelain"]),
    )?;
    ensure!(
        changes.is_empty(),
        "the repository has changes that are in no commit:\n{changes}"
    );
    let path = step("tools", || tools(root))?;
    let peal = step("program", || program(root, &path))?;
    let components = step("modules", || guests::build(root))?;
    let dist = root.join("target/dist");
    remove_directory(&dist)?;
    let version = run_quietly(Command::new(&peal).arg("--version"))?;
    let version = version
        .split_whitespace()
        .last()
        .context("peal has no version")?;
    let name = format!("peal-{version}-{}-linux", env::consts::ARCH);
    let place = dist.join(&name);
    copy(&peal, &place.join("bin/peal"))?;
    step("library", || {
        libpmix::build_shipped(root, &place.join("lib/peal"))
    })?;
    for (file, target) in FILES {
        copy(&root.join(file), &place.join(target))?;
    }
    for (shell, target) in COMPLETIONS {
        let script = run_quietly(Command::new(&peal).args(["completions", shell]))?;
        write(&place.join(target), &script)?;
    }
    for guest in guests::shipped(root)? {
        let name = format!("{}.wasm", guest.manifest.name);
        copy(
            &components.join(&name),
            &place.join("share/peal/modules").join(&name),
        )?;
    }
    step("packages of the SDKs", || packages::build(root))?;
    for package in packages::files(root)? {
        let name = package.file_name().unwrap_or_default();
        copy(&package, &place.join("share/peal/sdk").join(name))?;
    }
    step("bills of materials", || bills(root, &path, &dist, &place))?;
    pack(&dist, &place, &name)
}

/// Installs the tools unless they are there. Returns a search path with them.
fn tools(root: &Path) -> Result<OsString> {
    let tools = root.join("target/tools/dist");
    // Cargo does nothing about versions that are installed.
    run(cargo(root)
        .args(["install", "--quiet", "--locked", "--root"])
        .arg(&tools)
        .args(TOOLS))?;
    let usual = env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(tools.join("bin")).chain(env::split_paths(&usual));
    env::join_paths(all).context("a directory of PATH has a colon in its name")
}

/// Builds `peal` with the list of its crates in it, which `cargo audit bin` reads.
fn program(root: &Path, path: &OsStr) -> Result<PathBuf> {
    run(cargo(root).env("PATH", path).args([
        "auditable",
        "build",
        "--release",
        "--locked",
        "--package",
        "peal",
    ]))?;
    Ok(target_dir(root).join("release/peal"))
}

/// Writes the bills of materials. The tool writes into the sources, so it gets a copy of them.
fn bills(root: &Path, path: &OsStr, dist: &Path, place: &Path) -> Result<()> {
    let sources = dist.join("sources");
    let archive = dist.join("sources.tar");
    fs::create_dir_all(&sources)?;
    run(Command::new("git")
        .current_dir(root)
        .args(["archive", "--output"])
        .arg(&archive)
        .arg("HEAD"))?;
    run(Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg(&sources))?;
    for (directory, name) in BILLS {
        let mut cyclonedx = cargo(&sources);
        cyclonedx.env("PATH", path).args(["cyclonedx", "--quiet"]);
        cyclonedx.arg("--manifest-path");
        cyclonedx.arg(sources.join(directory).join("Cargo.toml"));
        cyclonedx.args(["--format", "json", "--spec-version", "1.5"]);
        cyclonedx.args(["--no-build-deps", "--override-filename", name]);
        run(&mut cyclonedx)?;
        let file = Path::new(directory).join(format!("{name}.json"));
        let bill = fs::read_to_string(sources.join(&file))
            .with_context(|| format!("reading {}", file.display()))?;
        check(&bill).with_context(|| file.display().to_string())?;
        write(
            &place.join("share/doc/peal").join(format!("{name}.json")),
            &bill,
        )?;
    }
    fs::remove_dir_all(&sources)?;
    Ok(fs::remove_file(&archive)?)
}

/// Checks that a bill is one of CycloneDX, and lists crates with their versions.
fn check(bill: &str) -> Result<()> {
    let bill: Value = serde_json::from_str(bill)?;
    ensure!(
        bill.get("bomFormat").and_then(Value::as_str) == Some("CycloneDX"),
        "this is no bill of CycloneDX"
    );
    let crates = bill.get("components").and_then(Value::as_array);
    let mut crates = crates.context("it lists nothing")?.iter();
    let is_known = |item: &Value| {
        let text = |key| item.get(key).and_then(Value::as_str);
        text("name") == Some(KNOWN_CRATE) && text("version").is_some()
    };
    ensure!(crates.any(is_known), "it does not list {KNOWN_CRATE}");
    Ok(())
}

/// Writes the sums of all files, and packs the directory. The archive depends on its contents alone.
fn pack(dist: &Path, place: &Path, name: &str) -> Result<()> {
    let sums = "find . -type f ! -name SHA256SUMS -printf '%P\\0' | sort -z | xargs -0 sha256sum > SHA256SUMS";
    run(Command::new("sh").current_dir(place).args(["-ec", sums]))?;
    let archive = format!("{name}.tar.gz");
    run(Command::new("tar")
        .current_dir(dist)
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ])
        .args(["--use-compress-program", "gzip -n", "-cf", &archive, name]))?;
    let sum = run_quietly(Command::new("sha256sum").current_dir(dist).arg(&archive))?;
    fs::write(dist.join(format!("{archive}.sha256")), &sum)?;
    println!("{}: {}", dist.join(archive).display(), sum.trim_end());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}

fn write(to: &Path, text: &str) -> Result<()> {
    make_parent(to)?;
    fs::write(to, text).with_context(|| format!("writing {}", to.display()))
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().context("a file has a directory")?;
    fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn bill_without_crates_is_refused() {
        let bill = |components: &str| {
            format!("{{\"bomFormat\": \"CycloneDX\", \"components\": {components}}}")
        };
        let refused = |text: &str| check(text).unwrap_err().to_string();
        assert_eq!(refused("{}"), "this is no bill of CycloneDX");
        assert_eq!(refused(&bill("[]")), "it does not list tokio");
        let unversioned = bill("[{\"name\": \"tokio\"}]");
        assert_eq!(refused(&unversioned), "it does not list tokio");
        check(&bill("[{\"name\": \"tokio\", \"version\": \"1.0.0\"}]")).unwrap();
    }
}
