//! `peal serve` as a process, and the commands that use its admin socket.
use crate::{Done, finish, guests, in_process::soon, peal, run};
use peal_client::{Client, Environment};
use peal_server::admin::{
    AdminReply, AdminRequest, ModuleCall, ModuleList, request as admin_request,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::Read,
    os::unix::{
        fs::{PermissionsExt, chown},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Time limit of messages that the server must send.
const PATIENCE: Duration = Duration::from_secs(60);

/// User of supervised servers, which Debian's base has.
pub const SERVER_USER: &str = "daemon";
/// Id of that user, and of its group.
pub const SERVER_UID: u32 = 1;

/// Directory for servers: configuration, sockets, store, and the files for tools.
pub struct Place {
    dir: tempfile::TempDir,
}

/// Replaces a file as a package manager does.
pub fn put(path: &Path, bytes: impl AsRef<[u8]>) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

/// Running server that is ready.
pub struct Daemon {
    child: Option<Child>,
    states: UnixDatagram,
    socket: PathBuf,
}

impl Default for Place {
    fn default() -> Self {
        Place::new()
    }
}

impl Place {
    /// Creates an empty directory. It belongs to the user in `PEAL_SERVER_USER`, if that is set, so that
    /// all tests can run with supervised servers: `PEAL_SERVER_USER=daemon cargo xtask test`.
    pub fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        if let Ok(user) = std::env::var("PEAL_SERVER_USER") {
            run(Command::new("chown").arg(user).arg(dir.path())).expect_status(0);
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Place { dir }
    }

    /// Creates an empty directory of the user of supervised servers. Other users may enter it.
    pub fn of_server_user() -> Place {
        let place = Place::new();
        chown(place.path("."), Some(SERVER_UID), Some(SERVER_UID)).unwrap();
        fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// Writes the configuration of supervised servers, which keep compiled code in the directory.
    pub fn configure_supervised(&self, text: &str) {
        let cache = self.path("code");
        self.configure(&format!(
            "[server]\nuser = {SERVER_USER:?}\n[sandbox]\ncache_dir = {cache:?}\n{text}"
        ));
    }

    /// Returns the path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the admin socket of its servers.
    pub fn socket(&self) -> PathBuf {
        self.path("run/admin.sock")
    }

    /// Replaces the configuration of its servers at once: one that watches the file reads no half of it.
    pub fn configure(&self, text: &str) {
        let new = self.path("peal.toml.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path("peal.toml")).unwrap();
    }

    /// Returns the command `peal serve` with this configuration, not started yet, and the socket
    /// that receives the messages to its service manager.
    pub fn serve(&self, states: &str) -> (Command, UnixDatagram) {
        let manager = self.path(states);
        let states = UnixDatagram::bind(&manager).unwrap();
        states.set_read_timeout(Some(PATIENCE)).unwrap();
        // As that of systemd: the server may run as a user of its own.
        fs::set_permissions(&manager, fs::Permissions::from_mode(0o777)).unwrap();
        let config = self.path("peal.toml");
        if !config.exists() {
            self.configure("");
        }
        let mut command = peal(["serve", "--config"]);
        command.arg(config).arg("--socket").arg(self.socket());
        // The components of the tests may be in a home directory.
        command.env(
            "PEAL_CONFINEMENT_READ_ONLY_PATHS",
            format!("[{:?}]", guests()),
        );
        command
            .env("NOTIFY_SOCKET", manager)
            .env("PMIX_SYSTEM_TMPDIR", self.dir.path());
        command
            .env_remove("PMIX_SERVER_TMPDIR")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        (command, states)
    }

    /// Returns the modules of its server and their states.
    #[track_caller]
    pub fn modules(&self) -> ModuleList {
        let reply = admin_request(&self.socket(), &AdminRequest::Module(ModuleCall::List))
            .unwrap()
            .reply()
            .unwrap();
        let AdminReply::Modules(list) = reply else {
            panic!("{reply:?}")
        };
        list
    }

    /// Starts a server and waits until it is ready.
    #[track_caller]
    pub fn start(&self) -> Daemon {
        self.start_under(|serve| serve)
    }

    /// Starts a server through another program, which must replace itself by the server. Waits
    /// until the server is ready.
    #[track_caller]
    pub fn start_under(&self, wrap: impl FnOnce(Command) -> Command) -> Daemon {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (serve, states) = self.serve(&format!("notify-{number}"));
        let child = wrap(serve).spawn().unwrap();
        let mut daemon = Daemon {
            child: Some(child),
            states,
            socket: self.socket(),
        };
        let told = daemon.state();
        assert!(told.contains("READY=1"), "{told}");
        daemon
    }
}

/// Gives a command the directory and environment of another one.
pub fn take_surroundings(wrapper: &mut Command, command: &Command) {
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
}

/// Runs a command through another one. Its program and arguments follow those of `wrapper`, and it
/// has the same environment and outputs.
pub fn wrapped(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args());
    take_surroundings(&mut wrapper, command);
    wrapper
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    wrapper
}

impl Daemon {
    /// Returns the next message to its service manager.
    #[track_caller]
    pub fn state(&mut self) -> String {
        let mut bytes = [0; 4096];
        match self.states.recv(&mut bytes) {
            Ok(count) => String::from_utf8_lossy(&bytes[..count]).into_owned(),
            Err(error) => {
                let mut child = self.child.take().unwrap();
                child.kill().unwrap();
                panic!("{error}; {:?}", finish(child));
            }
        }
    }

    /// Waits for a line on its standard error with a text, and returns the rest of the line.
    #[track_caller]
    pub fn printed(&mut self, text: &'static str) -> String {
        let child = self.child.as_mut().unwrap();
        let mut output = child.stderr.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            // Without a buffer, so that later lines stay for other readers.
            let mut line = Vec::new();
            let mut byte = [0];
            while output.read_exact(&mut byte).is_ok() {
                if byte != *b"\n" {
                    line.extend(byte);
                    continue;
                }
                let whole = String::from_utf8_lossy(&line).into_owned();
                if let Some((_, rest)) = whole.split_once(text) {
                    let _ = sender.send((rest.to_owned(), output));
                    return;
                }
                line.clear();
            }
        });
        let (rest, output) = receiver.recv_timeout(PATIENCE).expect(text);
        child.stderr = Some(output);
        rest
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns the processes that this process has started.
    pub fn children(&self) -> Vec<u32> {
        let pid = self.pid();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        list.unwrap_or_default()
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }

    /// Returns the process of this supervisor that runs a verb of `peal`.
    pub fn child(&self, verb: &str) -> Option<u32> {
        let runs = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(verb.as_bytes())
        };
        self.children().into_iter().find(runs)
    }

    /// Returns a command that uses this server, not started yet.
    pub fn verb(&self, args: &[&str]) -> Command {
        let mut command = peal(args);
        command.env("PEAL_ADMIN_SOCKET", &self.socket);
        command
    }

    /// Runs a command that uses this server, and returns its output and exit status.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Done {
        run(&mut self.verb(args))
    }

    /// Runs a command that uses this server, and returns its output. The command must succeed.
    #[track_caller]
    pub fn tell(&self, args: &[&str]) -> String {
        self.ask(args).expect_status(0).stdout
    }

    /// Returns the environment of a rank of a job.
    #[track_caller]
    pub fn environment(&self, job: &str, rank: u32) -> Vec<(String, String)> {
        let printed = self.tell(&["job", "environment", job, "--rank", &rank.to_string()]);
        let pairs = printed.lines().map(|line| line.split_once('=').unwrap());
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// Returns a connected client that is this rank of a job.
    pub async fn client(&self, job: &str, rank: u32) -> Client {
        let variables = self.environment(job, rank);
        let found = |name: &str| {
            variables
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.clone().into())
        };
        soon(
            "a client connects",
            Client::connect(&Environment::from(found).unwrap()),
        )
        .await
        .unwrap()
    }

    /// Returns a program that is this rank of a job, not started yet.
    #[track_caller]
    pub fn proc(&self, job: &str, rank: u32, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .envs(self.environment(job, rank))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Waits for the end of the server.
    #[track_caller]
    pub fn ends(mut self) -> Done {
        finish(self.child.take().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
