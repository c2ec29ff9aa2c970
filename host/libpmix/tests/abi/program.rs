//! C programs: compiled with the headers of libpmix-dev, and run on the library that cargo built
//! beside this test.
use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// A C program in a directory of its own.
pub struct CProgram {
    dir: TempDir,
}

/// Returns the library that cargo built for this test.
pub fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let built = test.parent().unwrap().join("libpeal_libpmix.so");
    assert!(built.exists(), "{} is missing", built.display());
    built
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

impl CProgram {
    /// Compiles a program. It is linked with Peal's library by the name under which programs load
    /// the C library.
    pub fn compile(source: &str) -> CProgram {
        let dir = tempfile::tempdir().unwrap();
        symlink(library(), dir.path().join("libpmix.so.2")).unwrap();
        let code = dir.path().join("program.c");
        fs::write(&code, source).unwrap();
        let flags = output(Command::new("pkg-config").args(["--cflags", "pmix"]));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-o"])
            .arg(dir.path().join("program"));
        cc.args(flags.split_whitespace()).arg(&code);
        output(cc.arg("-L").arg(dir.path()).arg("-l:libpmix.so.2"));
        CProgram { dir }
    }

    /// Runs the program and returns its standard output.
    pub fn run(&self) -> String {
        self.run_on(self.dir.path())
    }

    /// Runs the program on the C library and returns its standard output.
    pub fn run_on_stock(&self) -> String {
        let dir = output(Command::new("pkg-config").args(["--variable=libdir", "pmix"]));
        self.run_on(Path::new(dir.trim()))
    }

    /// Runs the program on the library in a directory.
    fn run_on(&self, dir: &Path) -> String {
        let mut program = Command::new(self.dir.path().join("program"));
        output(program.env("LD_LIBRARY_PATH", dir))
    }
}
