//! `cargo xtask packages`: the SDKs as packages that could be published as they are, in
//! `target/packages`. The tests install each and build a module with it.
use crate::{
    command::{remove_directory, run, run_quietly, step},
    guests,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Front end that builds packages for Python, of September 2025.
const PYTHON_BUILD: &str = "build==1.3.0";

/// Time of all files in packages for Python, in seconds since the epoch: the first that ZIP can hold.
const FILE_TIME: &str = "315532800";

/// Directories that tools leave in those of the SDKs.
const LEFTOVERS: [&str; 3] = ["__pycache__", "target", "node_modules"];

/// Archives for languages without a registry of their own: name, and the SDKs in it. One SDK is the
/// archive itself, several are directories in it.
const ARCHIVES: [(&str, &[&str]); 2] = [("peal-sdk-go", &["go"]), ("peal-sdk-c", &["c", "cpp"])];

/// Returns the directory of the packages.
pub fn directory(root: &Path) -> PathBuf {
    root.join("target/packages")
}

/// Returns the packages, built or not.
pub fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let version = version(root)?;
    let names = [
        format!("peal-sdk-{version}.crate"),
        format!("peal-sdk-{version}.tgz"),
        format!("peal_sdk-{version}.tar.gz"),
        format!("peal_sdk-{version}-py3-none-any.whl"),
    ];
    let archives = ARCHIVES.map(|(name, _)| format!("{name}-{version}.tar.gz"));
    let names = names.into_iter().chain(archives);
    Ok(names.map(|name| directory(root).join(name)).collect())
}

/// Builds the packages, unless no SDK has changed since they were built.
pub fn build(root: &Path) -> Result<()> {
    let place = directory(root);
    let stamp = place.join("stamp");
    let files = files(root)?;
    let now = guests::fingerprint(&[root.join("sdk")])?;
    if fs::read_to_string(&stamp).is_ok_and(|then| then == now)
        && files.iter().all(|file| file.exists())
    {
        return Ok(());
    }
    remove_directory(&place)?;
    fs::create_dir_all(&place).with_context(|| format!("creating {}", place.display()))?;
    let stage = place.join("stage");
    // Tools that pack a directory leave out links, which the contract and the license are.
    copy(&root.join("sdk"), &stage)?;
    let version = version(root)?;
    step("package for Rust", || rust(root, &place, &version))?;
    step("package for npm", || npm(&stage.join("js"), &place))?;
    step("packages for Python", || python(root, &stage, &place))?;
    for (name, sdks) in ARCHIVES {
        archive(&stage, &place, &format!("{name}-{version}"), sdks)?;
    }
    remove_directory(&stage)?;
    for file in &files {
        ensure!(
            file.exists(),
            "{} should have been built: the SDKs in sdk/ should have the version {version}",
            file.display()
        );
        println!("{}", file.display());
    }
    fs::write(&stamp, now).with_context(|| format!("writing {}", stamp.display()))
}

/// Returns the version of the SDKs.
fn version(root: &Path) -> Result<String> {
    let file = root.join("sdk/rust/Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let manifest: toml::Table = text.parse().context("sdk/rust/Cargo.toml")?;
    let version = manifest.get("package").and_then(|of| of.get("version"));
    let version = version.and_then(toml::Value::as_str);
    version
        .map(str::to_owned)
        .context("sdk/rust/Cargo.toml has no version")
}

/// Packs the crate and builds what was packed. `cargo publish` checks before it does the same and
/// uploads.
fn rust(root: &Path, place: &Path, version: &str) -> Result<()> {
    for command in [&["publish", "--dry-run", "--no-verify"][..], &["package"]] {
        run(guests::cargo_on_host(root)
            .args(command)
            // Changes in no commit are allowed here; nothing is published.
            .args(["--quiet", "--allow-dirty", "--package", "peal-sdk"]))?;
    }
    let name = format!("peal-sdk-{version}.crate");
    let built = guests::target_dir(root).join("package").join(&name);
    fs::copy(&built, place.join(&name)).with_context(|| format!("copying {}", built.display()))?;
    Ok(())
}

fn npm(stage: &Path, place: &Path) -> Result<()> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"])
        .arg(place)
        .current_dir(stage);
    run_quietly(&mut npm).map(drop)
}

/// Returns a Python that can build packages, which is installed unless it is there.
pub fn python_with_build(root: &Path) -> Result<PathBuf> {
    let environment = root.join("target/tools/packages");
    let python = environment.join("bin/python3");
    let is_there = || run_quietly(Command::new(&python).args(["-m", "build", "--version"])).is_ok();
    if !is_there() {
        println!("installing {PYTHON_BUILD} into {}", environment.display());
        let mut venv = Command::new("python3");
        run_quietly(venv.args(["-m", "venv", "--clear"]).arg(&environment))?;
        let pip = ["-m", "pip", "install", "--quiet", PYTHON_BUILD];
        run_quietly(Command::new(&python).args(pip))?;
    }
    Ok(python)
}

/// Builds an archive of the sources, and the wheel from that archive.
fn python(root: &Path, stage: &Path, place: &Path) -> Result<()> {
    let mut build = Command::new(python_with_build(root)?);
    build
        .args(["-m", "build", "--outdir"])
        .arg(place)
        .arg(stage.join("python"))
        .env("SOURCE_DATE_EPOCH", FILE_TIME);
    run_quietly(&mut build).map(drop)
}

/// Packs SDKs into an archive that depends on their contents alone.
fn archive(stage: &Path, place: &Path, name: &str, sdks: &[&str]) -> Result<()> {
    let dir = stage.join(name);
    match sdks {
        [only] => copy(&stage.join(only), &dir)?,
        several => {
            for sdk in several {
                copy(&stage.join(sdk), &dir.join(sdk))?;
            }
        }
    }
    run(Command::new("tar")
        .current_dir(stage)
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mode=u=rwX,go=rX",
            "--use-compress-program",
            "gzip -n",
            "-cf",
        ])
        .arg(place.join(format!("{name}.tar.gz")))
        .arg(name))
}

/// Copies a directory with the files that links in it lead to.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    let entries = fs::read_dir(from).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    for entry in entries.with_context(|| format!("reading {}", from.display()))? {
        let (path, name) = (entry.path(), entry.file_name());
        if LEFTOVERS.iter().any(|leftover| name == *leftover) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            fs::copy(&path, to.join(name))
                .with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}
