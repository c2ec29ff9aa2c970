//! Rust: finds a toolchain for wasm32-unknown-unknown, installs one if allowed, and runs cargo.
use crate::{BuildError, BuildTools, ProgressCallback, Project, apt, command, encode};
use std::{
    env,
    ffi::OsString,
    path::Path,
    process::{Command, Stdio},
};

/// Target of guests: no operating system, so that a component can use only what it imports.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Debian's Rust for the web. It has the source of the standard library instead of a build for
/// [`TARGET`].
const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19"];
const DEBIAN_FILES: [&str; 4] = [
    "/usr/bin/rustc",
    "/usr/bin/cargo",
    "/usr/lib/rustlib/src/rust/library/std",
    "/usr/bin/wasm-ld-19",
];

/// A toolchain that compiles guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The active toolchain, with the standard library for guests.
    Active,
    /// Debian's toolchain, which compiles the standard library with the guests.
    Debian,
}

impl Toolchain {
    /// Returns a cargo command in `dir` that lacks only the subcommand.
    pub fn cargo(self, dir: &Path) -> Command {
        let mut command =
            Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
        command.current_dir(dir);
        if self == Toolchain::Debian {
            command = Command::new("/usr/bin/cargo");
            command
                .current_dir(dir)
                .env("RUSTC", "/usr/bin/rustc")
                // `-Zbuild-std` is for nightly toolchains; this variable lets a stable one accept
                // it.
                .env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "wasm-ld-19");
        }
        // Flags from the environment would replace those of guests/.cargo/config.toml. A wrapper is one
        // for the workspace from which this program was started, and may be of another compiler.
        command
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTC_WORKSPACE_WRAPPER");
        command
    }

    /// Returns the arguments of `cargo build` besides the target.
    pub fn build_args(self) -> &'static [&'static str] {
        match self {
            Toolchain::Active => &[],
            Toolchain::Debian => &["-Zbuild-std=std,panic_abort"],
        }
    }
}

/// Properties of this machine. A failed attempt counts as unavailable.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// The active toolchain has the standard library for guests.
    active_has_std: bool,
    /// rustup may be able to install it.
    rustup: bool,
    /// Debian's packages are installed.
    debian: bool,
    /// Debian's packages may be installed.
    apt: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum BuildStep {
    Use(Toolchain),
    AddTarget,
    InstallDebian,
    GiveUp,
}

fn next(facts: Facts) -> BuildStep {
    match facts {
        Facts {
            active_has_std: true,
            ..
        } => BuildStep::Use(Toolchain::Active),
        Facts { rustup: true, .. } => BuildStep::AddTarget,
        Facts { debian: true, .. } => BuildStep::Use(Toolchain::Debian),
        Facts { apt: true, .. } => BuildStep::InstallDebian,
        _ => BuildStep::GiveUp,
    }
}

/// Builds a component from the crate of a project.
pub(crate) fn build(
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let toolchain = find(tools, progress)?;
    progress("compiling with cargo (the first time up to two minutes)");
    let mut cargo = toolchain.cargo(&project.dir);
    cargo
        .args(["build", "--release", "--target", TARGET])
        .args(toolchain.build_args())
        // The lines of the sources are separated from the component after the build.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_RELEASE_STRIP", "none");
    command::run(cargo.arg("--target-dir").arg(project.target()))?;
    // Cargo writes underscores for the dashes of a package into the name of the file.
    let module = format!("{}.wasm", project.manifest.name.replace('-', "_"));
    encode::encode(&project.target().join(TARGET).join("release").join(module))
}

/// Finds a toolchain for guests; installs one if allowed.
pub fn find(tools: &BuildTools, progress: ProgressCallback<'_>) -> Result<Toolchain, BuildError> {
    let mut facts = Facts {
        active_has_std: active_has_std(),
        rustup: tools.may_install() && has_rustup(),
        debian: has_debian(),
        apt: tools.may_install() && apt::is_available(),
    };
    loop {
        match next(facts) {
            BuildStep::Use(toolchain) => return Ok(toolchain),
            BuildStep::AddTarget => {
                // Each step is tried once, so the loop ends.
                facts.rustup = false;
                facts.active_has_std = add_target() && active_has_std();
            }
            BuildStep::InstallDebian => {
                facts.apt = false;
                if let Err(error) = apt::install(&DEBIAN_PACKAGES, progress) {
                    progress(&error.to_string());
                }
                facts.debian = has_debian();
            }
            BuildStep::GiveUp => {
                return Err(BuildError::Missing {
                    tool: format!("a Rust toolchain for {TARGET}"),
                    install: format!(
                        "`rustup target add {TARGET}`, or on Debian `apt-get install {}` (`peal module build --install` does either)",
                        DEBIAN_PACKAGES.join(" ")
                    ),
                });
            }
        }
    }
}

/// Returns true if the standard library exists: rustc prints the directory even if it is missing.
fn active_has_std() -> bool {
    // Cargo reads this variable, too: the check has to ask the compiler that it will use.
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let libdir = command::run_quietly(Command::new(rustc).args([
        "--print",
        "target-libdir",
        "--target",
        TARGET,
    ]));
    libdir.is_ok_and(|dir| Path::new(dir.trim()).is_dir())
}

fn has_rustup() -> bool {
    command::run_quietly(Command::new("rustup").arg("--version")).is_ok()
}

/// Adds the target with rustup. Fails fast without a network, since Debian's packages are the
/// fallback.
fn add_target() -> bool {
    let mut rustup = Command::new("rustup");
    rustup
        .args(["target", "add", TARGET])
        // Without a network the next way is tried at once.
        .env("RUSTUP_MAX_RETRIES", "0");
    rustup
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn has_debian() -> bool {
    DEBIAN_FILES.iter().all(|file| Path::new(file).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Facts = Facts {
        active_has_std: false,
        rustup: false,
        debian: false,
        apt: false,
    };
    const EVERYTHING: Facts = Facts {
        active_has_std: true,
        rustup: true,
        debian: true,
        apt: true,
    };

    #[test]
    fn installed_standard_library_is_used_before_any_download() {
        assert_eq!(next(EVERYTHING), BuildStep::Use(Toolchain::Active));
        assert_eq!(
            next(Facts {
                active_has_std: true,
                ..NOTHING
            }),
            BuildStep::Use(Toolchain::Active)
        );
    }

    #[test]
    fn rustup_is_used_before_debian() {
        assert_eq!(
            next(Facts {
                active_has_std: false,
                ..EVERYTHING
            }),
            BuildStep::AddTarget
        );
        assert_eq!(
            next(Facts {
                rustup: true,
                ..NOTHING
            }),
            BuildStep::AddTarget
        );
    }

    #[test]
    fn debian_is_used_when_it_is_there_and_installed_when_it_may_be() {
        assert_eq!(
            next(Facts {
                debian: true,
                apt: true,
                ..NOTHING
            }),
            BuildStep::Use(Toolchain::Debian)
        );
        assert_eq!(
            next(Facts {
                apt: true,
                ..NOTHING
            }),
            BuildStep::InstallDebian
        );
    }

    #[test]
    fn with_nothing_to_try_it_gives_up() {
        assert_eq!(next(NOTHING), BuildStep::GiveUp);
    }
}
