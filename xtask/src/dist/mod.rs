//! `cargo xtask dist`: a release, as a directory, an archive, packages for Debian and a wheel for Python.
mod debian;
mod modules;
mod reproducible;
mod wheel;

pub use reproducible::ReproducibleBuild;

use crate::{
    command::{cargo, remove_directory, run, run_quietly, step},
    dist::reproducible::link_tools,
    libpmix, packages,
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

/// Options of cargo with which `cargo-auditable` asks for the crates of the program.
const CARGO_OPTIONS: &str = r#"{"offline":false,"locked":true,"frozen":false,"config":[]}"#;

/// Bills of materials: directory of the crate, and name of the file without `.json`.
const BILLS: [(&str, &str); 2] = [("host/cli", "peal.cdx"), ("host/libpmix", "libpmix.cdx")];

/// Crate that each bill must list: a bill without it is not that of the program.
const KNOWN_CRATE: &str = "tokio";

/// Files of the repository, and their places.
const FILES: [(&str, &str); 12] = [
    ("packaging/peal.service", "lib/systemd/system/peal.service"),
    ("packaging/peal.sysusers", "lib/sysusers.d/peal.conf"),
    ("packaging/peal.tmpfiles", "lib/tmpfiles.d/peal.conf"),
    ("packaging/peal.toml", "share/doc/peal/peal.toml"),
    (
        "packaging/prometheus/peal.rules.yml",
        "share/peal/monitoring/peal.rules.yml",
    ),
    (
        "packaging/grafana/peal.json",
        "share/peal/monitoring/peal.grafana.json",
    ),
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

/// Directory in `target` of the results.
const DIST: &str = "target/dist";

/// Programs that are needed after an hour of building, and their packages.
const PACKAGERS: [(&str, &str); 1] = [("dh", "debhelper")];

/// Program that signs, and its package.
const SIGNER: (&str, &str) = ("minisign", "minisign");

/// File beside the results with the commit of which they were built.
const COMMIT: &str = "commit";

/// Directory in `target` of the second build.
const AGAIN: &str = "target/dist-again";

/// Arguments of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Dist {
    /// Sign all packages and archives with the secret key in FILE, by the program minisign
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Build all of it again from a clone in another directory, and compare (takes as long again)
    #[arg(long)]
    twice: bool,
}

impl Dist {
    /// Builds the release in `target/dist`: a directory with sums of all files, its archive, packages for
    /// Debian, and a wheel for Python.
    ///
    /// # Errors
    ///
    /// Fails if the repository has changes that are in no commit: another build could not have the same sources.
    /// Fails before it builds anything if a program is missing that packs or signs.
    pub fn run(&self, root: &Path) -> Result<()> {
        let changes = git(root, &["status", "--porcelain"])?;
        ensure!(
            changes.is_empty(),
            "the repository has changes that are in no commit:\n{changes}"
        );
        let signer = self.key.is_some().then_some(SIGNER);
        PACKAGERS.into_iter().chain(signer).try_for_each(need)?;
        let head = head(root)?;
        let results = build(root)?;
        fs::write(root.join(DIST).join(COMMIT), head).context("writing the commit")?;
        if self.twice {
            step("second build", || build_again(root, &results))?;
        }
        match &self.key {
            Some(key) => step("signatures", || sign(&results, key))?,
            None => println!("not signed: --key names no key (`minisign -G` makes one)"),
        }
        for file in &results {
            let sum = run_quietly(Command::new("sha256sum").arg(file))?;
            print!("{sum}");
        }
        Ok(())
    }
}

/// Fails without a program.
fn need((program, package): (&str, &str)) -> Result<()> {
    ensure!(
        peal_build::on_path(program).is_some(),
        "needs {program}: `apt-get install {package}`"
    );
    Ok(())
}

/// Returns true if the release of the last commit is there.
pub fn is_here(root: &Path) -> bool {
    let built = fs::read_to_string(root.join(DIST).join(COMMIT)).ok();
    built.is_some_and(|built| head(root).is_ok_and(|head| head == built))
}

fn head(root: &Path) -> Result<String> {
    git(root, &["rev-parse", "HEAD"])
}

/// Builds all. Returns the packages and archives.
fn build(root: &Path) -> Result<Vec<PathBuf>> {
    let dist = root.join(DIST);
    remove_directory(&dist)?;
    let path = step("tools", || tools(root))?;
    let release = ReproducibleBuild::new(root)?;
    let peal = step("program", || program(&path, &release))?;
    let version = run_quietly(Command::new(&peal).arg("--version"))?;
    let version = version
        .split_whitespace()
        .last()
        .context("peal has no version")?;
    let name = format!("peal-{version}-{}-linux", env::consts::ARCH);
    let place = dist.join(&name);
    copy(&peal, &place.join("bin/peal"))?;
    step("library", || {
        libpmix::build_shipped(&release, &place.join("lib/peal"))
    })?;
    for (file, target) in FILES {
        copy(&root.join(file), &place.join(target))?;
    }
    for (shell, target) in COMPLETIONS {
        let script = run_quietly(Command::new(&peal).args(["completions", shell]))?;
        write(&place.join(target), &script)?;
    }
    run_quietly(
        Command::new(&peal)
            .arg("man-pages")
            .arg(place.join("share/man/man1")),
    )?;
    step("modules", || {
        modules::build(&release, &place.join("share/peal/modules"))
    })?;
    step("packages of the SDKs", || packages::build(root))?;
    for package in packages::files(root)? {
        let name = package.file_name().unwrap_or_default();
        copy(&package, &place.join("share/peal/sdk").join(name))?;
    }
    let time = release.time;
    release.end()?;
    step("bills of materials", || {
        bills(root, &path, &dist, &place, time)
    })?;
    let mut results = step("packages for Debian", || {
        debian::build(root, &dist, &place, version, time)
    })?;
    results.push(step("wheel", || {
        wheel::build(root, &dist, &place, version, time)
    })?);
    results.push(step("archive", || pack(&dist, &place, &name))?);
    Ok(results)
}

/// Builds all again from a clone elsewhere, and compares.
///
/// # Errors
///
/// Names the results that differ.
fn build_again(root: &Path, results: &[PathBuf]) -> Result<()> {
    let again = root.join(AGAIN);
    remove_directory(&again)?;
    clone(root, &again)?;
    link_tools(root, &again)?;
    let mut dist = cargo(&again);
    // Variables of this cargo would lead it to the first sources.
    dist.env_remove("CARGO_MANIFEST_DIR")
        .env_remove("CARGO_TARGET_DIR");
    run(dist.args(["xtask", "dist"]))?;
    let mut differing = Vec::new();
    for result in results {
        let name = result.file_name().unwrap_or_default();
        let second = fs::read(again.join(DIST).join(name))
            .with_context(|| format!("reading the second {}", name.display()))?;
        if second != fs::read(result)? {
            differing.push(name.to_string_lossy().into_owned());
        }
    }
    ensure!(
        differing.is_empty(),
        "the second build in {} made other bytes: {}",
        again.display(),
        differing.join(", ")
    );
    println!("the second build made the same bytes");
    remove_directory(&again)
}

/// Signs each result in a file beside it, whose name ends in `.minisig`.
fn sign(results: &[PathBuf], key: &Path) -> Result<()> {
    run(Command::new("minisign")
        .arg("-S")
        .arg("-s")
        .arg(key)
        .arg("-m")
        .args(results))
}

/// Clones the repository into a directory that is not there, or is empty.
fn clone(root: &Path, into: &Path) -> Result<()> {
    run(Command::new("git")
        .args(["clone", "--quiet"])
        .args([root, into]))
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    run_quietly(Command::new("git").current_dir(root).args(args))
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
fn program(path: &OsStr, build: &ReproducibleBuild) -> Result<PathBuf> {
    let mut command = build.cargo();
    // As `cargo auditable` calls itself, but by its name: the path of such a program becomes a part of the
    // names of all symbols.
    command
        .env("PATH", path)
        .env("RUSTC_WORKSPACE_WRAPPER", "cargo-auditable")
        .env("CARGO_AUDITABLE_ORIG_ARGS", CARGO_OPTIONS);
    run(command.args([
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "peal",
    ]))?;
    Ok(build.target.join("dist/peal"))
}

/// Writes the bills of materials. The tool writes into the sources, so it gets a copy of them.
fn bills(root: &Path, path: &OsStr, dist: &Path, place: &Path, time: u64) -> Result<()> {
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
        // Else each bill has a number and a time of its own.
        cyclonedx.env("SOURCE_DATE_EPOCH", time.to_string());
        cyclonedx.arg("--manifest-path");
        cyclonedx.arg(sources.join(directory).join("Cargo.toml"));
        cyclonedx.args(["--format", "json", "--spec-version", "1.5"]);
        cyclonedx.args(["--no-build-deps", "--override-filename", name]);
        run(&mut cyclonedx)?;
        let file = Path::new(directory).join(format!("{name}.json"));
        let bill = fs::read_to_string(sources.join(&file))
            .with_context(|| format!("reading {}", file.display()))?;
        check(&bill).with_context(|| file.display().to_string())?;
        // It names crates of the workspace by their directories.
        let bill = bill.replace(
            &format!("path+file://{}", sources.display()),
            "path+file:///peal",
        );
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
fn pack(dist: &Path, place: &Path, name: &str) -> Result<PathBuf> {
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
            "--mode=u=rwX,go=rX",
        ])
        .args(["--use-compress-program", "gzip -n", "-cf", &archive, name]))?;
    Ok(dist.join(archive))
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
