//! Builds of the components that ship with Peal, into `target/guests/<name>.wasm`. Those in Rust
//! are `guests/<kind>/<name>` with the crate `peal-<name>`, and are built at once. Those in other
//! languages are built one by one, each with its language's tools.
use crate::command::{self, cargo};
use anyhow::{Context, Result, anyhow, ensure};
use peal_build::{
    BuildTools, Install, Language, MANIFEST, Manifest, Project, declare, encode,
    rust::{self, TARGET},
};
use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

/// Returns cargo's target directory for the guests, which are a workspace of their own.
pub fn target_dir(root: &Path) -> PathBuf {
    root.join("target/guests-build")
}

/// Returns the build tools of other languages. They are installed below `target`, so that the
/// user's own are never changed.
pub fn tools(root: &Path) -> BuildTools {
    BuildTools {
        dir: root.join("target/tools"),
        install: Install::Allowed,
    }
}

/// Builds all guests, and returns the directory of the components. Unchanged ones are not written.
/// Languages without tools are left out, with a message.
pub fn build(root: &Path) -> Result<PathBuf> {
    let others = guests(&root.join("guests"), MANIFEST)?;
    build_with(root, &others)
}

/// Builds the guests that ship, and all in Rust. Returns the directory of the components.
pub fn build_shipped(root: &Path) -> Result<PathBuf> {
    let shipped = shipped(root)?.into_iter().map(|guest| guest.dir);
    build_with(root, &shipped.collect::<Vec<_>>())
}

/// Builds the guests with these names.
pub fn build_named(root: &Path, names: &[String]) -> Result<()> {
    let dir = root.join("guests");
    let mut known = guests(&dir, "Cargo.toml")?;
    known.extend(guests(&dir, MANIFEST)?);
    known.sort_by_key(|guest| name(guest));
    known.dedup();
    let mut chosen = Vec::new();
    for wanted in names {
        let found = known.iter().find(|guest| name(guest) == *wanted);
        chosen.push(found.cloned().with_context(|| {
            let known = known.iter().map(|guest| name(guest)).collect::<Vec<_>>();
            format!(
                "no directory guests/*/{wanted} with sources; there are {}",
                known.join(", ")
            )
        })?);
    }
    let (in_rust, others): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .partition(|guest| guest.join("Cargo.toml").exists());
    if !in_rust.is_empty() {
        compile_rust(root, &in_rust, GuestCrates::Named)?;
    }
    let components = components(root)?;
    others
        .iter()
        .try_for_each(|guest| build_other(root, guest, &components))
}

/// Builds all guests in Rust, and those of these directories that are in other languages.
fn build_with(root: &Path, others: &[PathBuf]) -> Result<PathBuf> {
    let components = build_rust(root)?;
    for dir in others {
        if !dir.join("Cargo.toml").exists() {
            build_other(root, dir, &components)?;
        }
    }
    Ok(components)
}

/// Returns the manifest of a guest; `None` for one without.
fn manifest(dir: &Path) -> Result<Option<Manifest>> {
    let file = dir.join(MANIFEST);
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let manifest =
        Manifest::parse(&text).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let is_rust = dir.join("Cargo.toml").exists();
    ensure!(
        is_rust == (manifest.language == Language::Rust) && manifest.name == name(dir),
        "{} should have the name of its directory and the language of its sources",
        file.display()
    );
    Ok(Some(manifest))
}

/// Guest that ships: its manifest says what it is for.
pub struct ShippedGuest {
    /// Directory of the sources.
    pub dir: PathBuf,
    /// Manifest.
    pub manifest: Manifest,
}

/// Returns the guests that ship, sorted by name.
pub fn shipped(root: &Path) -> Result<Vec<ShippedGuest>> {
    let mut found = Vec::new();
    for dir in guests(&root.join("guests"), MANIFEST)? {
        match manifest(&dir)? {
            Some(manifest) if !manifest.description.is_empty() => {
                found.push(ShippedGuest { dir, manifest });
            }
            _ => {}
        }
    }
    found.sort_by(|one, other| one.manifest.name.cmp(&other.manifest.name));
    Ok(found)
}

/// Builds the guests in Rust alone, and returns the directory of the components.
pub fn build_rust(root: &Path) -> Result<PathBuf> {
    let all = guests(&root.join("guests"), "Cargo.toml")?;
    compile_rust(root, &all, GuestCrates::Workspace)?;
    components(root)
}

/// Returns the directory of the components, which it creates.
fn components(root: &Path) -> Result<PathBuf> {
    let components = root.join("target/guests");
    fs::create_dir_all(&components)
        .with_context(|| format!("creating {}", components.display()))?;
    Ok(components)
}

/// Crates that cargo compiles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GuestCrates {
    /// All of the workspace.
    Workspace,
    /// Those of the guests.
    Named,
}

/// Builds these guests in Rust.
fn compile_rust(root: &Path, chosen: &[PathBuf], crates: GuestCrates) -> Result<()> {
    let components = components(root)?;
    let toolchain = rust::find(&tools(root), &mut |words| println!("{words}"))?;
    let built = target_dir(root).join(TARGET).join("release");
    let mut cargo = toolchain.cargo(&root.join("guests"));
    cargo.args(["build", "--release", "--target", TARGET]);
    match crates {
        GuestCrates::Workspace => {
            cargo.arg("--workspace");
        }
        GuestCrates::Named => chosen.iter().for_each(|guest| {
            cargo.args(["--package", &format!("peal-{}", name(guest))]);
        }),
    }
    // A component must not depend on the directory in which it was built. Cargo adds these flags to those of
    // guests/.cargo/config.toml.
    let remap = format!("--remap-path-prefix={}=/peal", root.display());
    cargo
        .arg("--config")
        .arg(format!("target.{TARGET}.rustflags=[{remap:?}]"));
    if built.exists() {
        println!("building the guests");
        cargo.arg("--quiet");
    } else {
        println!("building the guests (first time: up to a minute on two cores)");
    }
    command::run(
        cargo
            .args(toolchain.build_args())
            .env("CARGO_TARGET_DIR", target_dir(root)),
    )?;
    for dir in chosen {
        let name = name(dir);
        let module = built.join(format!("peal_{}.wasm", name.replace('-', "_")));
        let mut component = encode(&module)?;
        if let Some(manifest) = manifest(dir)? {
            declare(&mut component, &manifest)?;
        }
        write_if_changed(&components.join(format!("{name}.wasm")), &component)?;
    }
    Ok(())
}

/// Builds a guest in another language. If its tools are missing, prints a message and removes the
/// component, so that no test runs an old one.
fn build_other(root: &Path, dir: &Path, components: &Path) -> Result<()> {
    let work = root.join("target/guests-other").join(name(dir));
    let project = Project::open(dir)?.with_target(work.clone());
    let component = components.join(format!("{}.wasm", project.manifest.name));
    let built = work.join("built.wasm");
    let stamp = work.join("stamp");
    let sdks = project.manifest.language.sdks();
    let sdks = sdks.iter().map(|sdk| root.join("sdk").join(sdk));
    let sources: Vec<PathBuf> = [dir.to_owned()].into_iter().chain(sdks).collect();
    let now = fingerprint(&sources)?;
    if fs::read_to_string(&stamp).is_ok_and(|then| then == now)
        && let Ok(bytes) = fs::read(&built)
    {
        return write_if_changed(&component, &bytes);
    }
    println!(
        "building {}, in {}",
        project.manifest.name, project.manifest.language
    );
    match project.build(&tools(root), &mut |words| println!("{words}")) {
        Ok(bytes) => {
            fs::write(&built, &bytes).with_context(|| format!("writing {}", built.display()))?;
            // Last, so that an interrupted build is done again.
            fs::write(&stamp, now).with_context(|| format!("writing {}", stamp.display()))?;
            write_if_changed(&component, &bytes)
        }
        Err(error) if tools_are_missing(&error) => {
            println!("left out: {error}");
            if component.exists() {
                fs::remove_file(&component)
                    .with_context(|| format!("removing {}", component.display()))?;
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("building {}", dir.display())),
    }
}

/// Returns true if the build tools are missing, which is not an error of the sources: an
/// installation failed, or is impossible.
fn tools_are_missing(error: &peal_build::BuildError) -> bool {
    use peal_build::BuildError as Error;
    match error {
        Error::Missing { .. } | Error::Unstarted { .. } => true,
        Error::Failed { command, .. } => ["pip ", "npm ", "apt-get ", "python3 -m venv"]
            .iter()
            .any(|installs| command.starts_with(installs)),
        _ => false,
    }
}

/// Returns a hash of the files below some directories.
pub fn fingerprint(dirs: &[PathBuf]) -> Result<String> {
    let mut hash = DefaultHasher::new();
    // The code that builds the component counts too.
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    include_str!("../../host/build/src/python.rs").hash(&mut hash);
    include_str!("../../host/build/src/js.rs").hash(&mut hash);
    include_str!("../../host/build/src/c.rs").hash(&mut hash);
    include_str!("../../host/build/src/ts.rs").hash(&mut hash);
    include_str!("../../host/build/src/go.rs").hash(&mut hash);
    for dir in dirs {
        fingerprint_dir(dir, &mut hash)?;
    }
    Ok(format!("{:016x}", hash.finish()))
}

fn fingerprint_dir(dir: &Path, hash: &mut DefaultHasher) -> Result<()> {
    let entries = fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths: Vec<PathBuf> = entries
        .with_context(|| format!("reading {}", dir.display()))?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        if path
            .file_name()
            .is_some_and(|name| name == "__pycache__" || name == "target")
        {
            continue;
        }
        // The path above the file name does not count, so that a copy of the sources may share the
        // results.
        path.file_name().hash(hash);
        if path.is_dir() {
            fingerprint_dir(&path, hash)?;
        } else {
            fs::read(&path)
                .with_context(|| format!("reading {}", path.display()))?
                .hash(hash);
        }
    }
    Ok(())
}

/// Returns the guests that have this file: directories two levels down.
fn guests(guests: &Path, file: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for kind in directories(guests)? {
        found.extend(
            directories(&kind)?
                .into_iter()
                .filter(|guest| guest.join(file).exists()),
        );
    }
    found.sort();
    Ok(found)
}

fn name(dir: &Path) -> String {
    dir.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn directories(parent: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(parent).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.with_context(|| format!("reading {}", parent.display()))?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect())
}

fn write_if_changed(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))?;
    println!("wrote {} ({} bytes)", file.display(), bytes.len());
    Ok(())
}

/// Returns a cargo command on the guests' workspace that compiles for this machine.
pub fn cargo_on_host(root: &Path) -> Command {
    let mut command = cargo(&root.join("guests"));
    command.env("CARGO_TARGET_DIR", target_dir(root));
    command
}
