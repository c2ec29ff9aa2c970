//! Projects of module authors: made, built and tried by `peal module`, in a directory where nothing of the repository is.
use crate::{Done, peal, root, run};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The time that compiling a component may take, with an interpreter in it and on a busy machine.
pub const COMPILING: Duration = Duration::from_secs(300);

/// The file in which an author of a language writes.
pub fn source(language: &str) -> &'static str {
    match language {
        "rust" => "src/lib.rs",
        "c" => "module.c",
        "python" => "module.py",
        _ => "module.js",
    }
}

/// `peal module` in that directory, with the tools that the guests are built with.
pub fn module(dir: &Path, args: &[&str]) -> Command {
    let mut command = peal(["module"]);
    command
        .args(args)
        .current_dir(dir)
        .env("PEAL_TOOLS", root().join("target/tools"));
    command
}

/// A project.
pub struct Project {
    /// Where it is.
    pub dir: PathBuf,
    name: String,
}

impl Project {
    /// A new project with these roles, made where no network could be reached and no tool found.
    pub fn new(dir: &Path, language: &str, name: &str, roles: &[&str]) -> Project {
        let mut command = module(dir, &["new", "--lang", language, name]);
        for role in roles {
            command.args(["--role", role]);
        }
        let done = run(command
            .env("PATH", "")
            .env("HOME", "")
            .env("https_proxy", "http://127.0.0.1:1"))
        .expect_status(0);
        assert!(
            done.stdout.contains("peal module build"),
            "it says what comes next: {}",
            done.stdout
        );
        Project {
            dir: dir.join(name),
            name: name.to_owned(),
        }
    }

    /// `peal module` in it.
    pub fn module(&self, args: &[&str]) -> Command {
        module(&self.dir, args)
    }

    /// Builds it. What Rust compiles of others' crates it takes from where the guests are built.
    pub fn build(&self) -> Done {
        let target = self.dir.join("target");
        if self.dir.join("Cargo.toml").exists() && !target.exists() {
            std::os::unix::fs::symlink(root().join("target/guests-build"), &target).unwrap();
        }
        // Longer than other commands have: compiling, and a whole interpreter.
        let done = self.module(&["build"]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Done {
            status: done.status.code(),
            stdout: text(done.stdout),
            stderr: text(done.stderr),
        }
    }

    /// The component that was built.
    pub fn component(&self) -> PathBuf {
        self.dir.join(format!("{}.wasm", self.name))
    }
}
