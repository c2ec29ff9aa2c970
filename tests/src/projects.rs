//! Projects of module authors: created, built and tested by `peal module`, in a directory outside
//! of the repository.
use crate::{Done, peal, root, run};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Time limit of compiling a component that contains an interpreter, on a busy machine.
pub const COMPILING: Duration = Duration::from_secs(300);

/// Returns the source file of a project in this language.
pub fn source(language: &str) -> &'static str {
    match language {
        "rust" => "src/lib.rs",
        "c" => "module.c",
        "cpp" => "module.cpp",
        "go" => "module.go",
        "python" => "module.py",
        "ts" => "module.ts",
        _ => "module.js",
    }
}

/// Returns `peal module` in that directory, with the tools that the guests are built with.
pub fn module(dir: &Path, args: &[&str]) -> Command {
    let mut command = peal(["module"]);
    command
        .args(args)
        .current_dir(dir)
        .env("PEAL_TOOLS", root().join("target/tools"));
    command
}

/// Project of a module author.
pub struct Project {
    /// Directory of the project.
    pub dir: PathBuf,
    name: String,
}

impl Project {
    /// Creates a project with these roles, without access to a network or to build tools.
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
            "the next step should be printed: {}",
            done.stdout
        );
        Project {
            dir: dir.join(name),
            name: name.to_owned(),
        }
    }

    /// Returns `peal module` in the project.
    pub fn module(&self, args: &[&str]) -> Command {
        module(&self.dir, args)
    }

    /// Builds the project. Third-party crates come from the directory in which the guests are
    /// built.
    pub fn build(&self) -> Done {
        let target = self.dir.join("target");
        if self.dir.join("Cargo.toml").exists() && !target.exists() {
            std::os::unix::fs::symlink(root().join("target/guests-build"), &target).unwrap();
        }
        // This may take longer than other commands: it compiles, possibly a whole interpreter.
        let done = self.module(&["build"]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Done {
            status: done.status.code(),
            stdout: text(done.stdout),
            stderr: text(done.stderr),
        }
    }

    /// Returns the component that was built.
    pub fn component(&self) -> PathBuf {
        self.dir.join(format!("{}.wasm", self.name))
    }
}
