//! Helpers that the end-to-end tests share: paths, and runs of commands with a time limit.
pub mod attacks;
pub mod c_server;
pub mod cable;
pub mod compared_programs;
pub mod comparison;
pub mod completion;
pub mod daemon;
pub mod fake_launcher;
pub mod fake_server;
pub mod flooded_server;
pub mod group_jobs;
pub mod in_process;
pub mod isolation;
pub mod labs;
pub mod languages;
pub mod launchers;
pub mod libpmix;
pub mod memory_state;
pub mod mpi;
pub mod nats_site;
pub mod otlp_receiver;
pub mod processes;
pub mod projects;
pub mod raw_client;
pub mod rng;
pub mod server_loss;
pub mod service_unit;
pub mod shell;
pub mod shell_job;
pub mod spawn;
pub mod text_form;
pub mod virtual_machine;

use std::{
    ffi::OsStr,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Time limit of a command. None should take a tenth of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats a check until it holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < PATIENCE,
            "this did not happen within {PATIENCE:?}: {what}"
        );
        thread::yield_now();
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lie in the repository")
        .to_owned()
}

/// Returns the path of a program that this workspace builds.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test.ancestors().nth(2).expect("tests lie in target/*/deps");
    let program = target.join(name);
    assert!(
        program.exists(),
        "{} is not built: run `cargo xtask prepare`",
        program.display()
    );
    program
}

/// Returns the directory of the components that ship with Peal.
pub fn guests() -> PathBuf {
    std::env::var_os("PEAL_GUESTS").map_or_else(|| root().join("target/guests"), PathBuf::from)
}

/// Returns the path of a component that ships with Peal. Components in other languages than Rust
/// exist only if the tools of the language are present: `#[needs(c_tools)]`.
#[track_caller]
pub fn guest(name: &str) -> PathBuf {
    provided(guests().join(name).with_extension("wasm"))
}

/// Returns the directory of third-party programs that Peal is tested with.
pub fn test_servers() -> PathBuf {
    std::env::var_os("PEAL_TEST_SERVERS")
        .map_or_else(|| root().join("target/tools/peers"), PathBuf::from)
}

/// Returns the directory of the C programs.
pub fn c_programs() -> PathBuf {
    std::env::var_os("PEAL_C_PROGRAMS").map_or_else(|| root().join("target/c"), PathBuf::from)
}

/// Returns the path of a C program linked with `libpmix`, for tests with `#[needs(libpmix)]`.
#[track_caller]
pub fn c_program(name: &str) -> PathBuf {
    provided(c_programs().join(name))
}

/// Returns the path of a headless browser, for tests with `#[needs(browser)]`.
#[track_caller]
pub fn browser() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium-headless-shell", "chromium"];
    let mut found = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    found
        .find(|path| path.exists())
        .expect("no browser found; mark the test with `#[needs(browser)]`")
}

/// Returns the path of a file that `cargo xtask prepare` provides if possible. Fails if it does not
/// exist.
#[track_caller]
pub fn provided(path: PathBuf) -> PathBuf {
    let file = path.display();
    assert!(
        path.exists(),
        "{file} is missing: run `cargo xtask prepare`, or mark the test with its needs (`peal-needs`)"
    );
    path
}

/// Result of a command.
#[derive(Debug)]
pub struct Done {
    /// Exit status; `None` if a signal ended the command.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Done {
    /// Checks the exit status. Shows both outputs if it is another.
    #[track_caller]
    pub fn expect_status(self, wanted: i32) -> Done {
        assert_eq!(
            self.status,
            Some(wanted),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Returns the lines on standard output, sorted by their rank (`rank N: ...`). The lines of one
    /// rank keep their order.
    pub fn by_rank(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.stdout.lines().map(str::to_owned).collect();
        let rank = |line: &String| -> u32 {
            line.strip_prefix("rank ")
                .and_then(|rest| rest.split(':').next()?.parse().ok())
                .unwrap_or(u32::MAX)
        };
        lines.sort_by_key(rank);
        lines
    }
}

/// Returns the command `peal` with these arguments, in an environment without PMIx.
pub fn peal<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(program("peal"));
    command.args(args).current_dir(root()).stdin(Stdio::null());
    // Compiled code of tests is kept beside the tests.
    command
        .env("XDG_CACHE_HOME", root().join("target/test-cache"))
        .env_remove("PEAL_LOG");
    // Only configurations that a test names apply.
    command.env("PEAL_CONFIG", "");
    command
}

/// Returns a command that runs another one on a terminal, which the program `script` makes. What is written to its
/// standard input is typed there.
pub fn on_terminal(of: &Command) -> Command {
    let words: Vec<String> = std::iter::once(of.get_program())
        .chain(of.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &words.join(" "), "/dev/null"]);
    daemon::take_surroundings(&mut script, of);
    script
}

/// Runs a command to its end. A command that exceeds the time limit is killed and fails the test.
#[track_caller]
pub fn run(command: &mut Command) -> Done {
    run_within(PATIENCE, command)
}

/// Runs a command to its end with this time limit.
#[track_caller]
pub fn run_within(limit: Duration, command: &mut Command) -> Done {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    finish_within(limit, child).unwrap_or_else(|| panic!("{command:?} hangs"))
}

/// Waits for a command that was started with its output piped.
#[track_caller]
pub fn finish(child: Child) -> Done {
    let pid = child.id();
    finish_within(PATIENCE, child).unwrap_or_else(|| panic!("process {pid} hangs"))
}

/// Returns nothing for a process that exceeds the time limit, which it kills.
#[track_caller]
fn finish_within(limit: Duration, mut child: Child) -> Option<Done> {
    let pid = child.id();
    let out = drain(child.stdout.take());
    let err = drain(child.stderr.take());
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait()));
    let Ok(status) = told.recv_timeout(limit) else {
        let _ = Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status();
        return None;
    };
    let read = |from: mpsc::Receiver<String>| {
        from.recv_timeout(PATIENCE)
            .expect("another process holds the output open")
    };
    Some(Done {
        status: status.unwrap().code(),
        stdout: read(out),
        stderr: read(err),
    })
}

/// Reads a stream to its end on a thread of its own.
pub(crate) fn drain(from: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).unwrap();
        }
        tell.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    told
}
