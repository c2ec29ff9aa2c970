//! A shell that runs the commands of documents and examples. It has `peal`, the components that
//! ship with it, and a PMIx program. It has no server, configuration or home directory of others.
use crate::{c_programs, guests, program, root};
use std::{env, fs, os::unix::fs::symlink, path::PathBuf, process::Command};
use tempfile::TempDir;

/// Beginning of every script. `wait_for_server` returns when a server of the script answers.
const BEGINNING: &str = "\
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
wait_for_server() {
    for attempt in $(seq 300); do
        if peal status >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo 'no server answers' >&2
    return 1
}
";

/// Directory for a shell. Its commands begin in `work`, which holds each component of `cargo xtask
/// guests` and the program `app`.
pub struct Shell {
    dir: TempDir,
}

impl Default for Shell {
    fn default() -> Self {
        Shell::new()
    }
}

impl Shell {
    /// Creates a shell with a new directory.
    pub fn new() -> Shell {
        let shell = Shell {
            dir: tempfile::tempdir().unwrap(),
        };
        for name in ["home", "work", "tmp"] {
            fs::create_dir(shell.path(name)).unwrap();
        }
        for component in fs::read_dir(guests()).unwrap() {
            let component = component.unwrap();
            let link = shell.path("work").join(component.file_name());
            symlink(component.path(), link).unwrap();
        }
        symlink(program("peal-example"), shell.path("work/app")).unwrap();
        shell
    }

    /// Returns the path of a file in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the command that runs this script. It stops at the first failure, and leaves no
    /// process running.
    pub fn script(&self, commands: &str) -> Command {
        let script = format!("{BEGINNING}{commands}");
        let peal = program("peal");
        let mut path = vec![peal.parent().unwrap().to_owned()];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap()));
        let own_home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
        let of_home = |variable: &str, name: &str| {
            env::var_os(variable).map_or_else(|| own_home.join(name), PathBuf::from)
        };

        let mut bash = Command::new("bash");
        bash.args(["-c", &script])
            .current_dir(self.path("work"))
            .env("PATH", env::join_paths(path).unwrap())
            // The Rust tools are in the home directory of the user that runs the tests.
            .env("CARGO_HOME", of_home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", of_home("RUSTUP_HOME", ".rustup"))
            .env("GUESTS_BUILD", root().join("target/guests-build"))
            .env("LIBPMIX", root().join("target/libpmix"))
            .env("C_PROGRAMS", c_programs())
            .env("HOME", self.path("home"))
            .env("XDG_CONFIG_HOME", self.path("home/.config"))
            .env("XDG_RUNTIME_DIR", self.path("tmp"))
            .env("XDG_CACHE_HOME", root().join("target/test-cache"))
            .env("PEAL_TOOLS", root().join("target/tools"))
            .env("PEAL_CONFIG", "")
            .env("PEAL_ADMIN_SOCKET", self.path("admin.sock"));
        for variable in ["TMPDIR", "PMIX_SYSTEM_TMPDIR", "PMIX_SERVER_TMPDIR"] {
            bash.env(variable, self.path("tmp"));
        }
        bash
    }
}
