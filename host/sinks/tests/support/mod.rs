//! Support for tests of sinks: paths of the test servers, certificates, waiting for what is to
//! come, processes that end with a test.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod rsyslog;
pub mod smtp;
pub mod web;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde::de::DeserializeOwned;
use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Maximum time to wait for an expected result.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until there is what is wanted.
pub fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "in {PATIENCE:?} this did not happen: {what}"
        );
        thread::yield_now();
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// The directory of the project, from whichever crate these tests belong to.
pub fn root() -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above
        .find(|dir| dir.join("Cargo.lock").exists() && dir.join("host").is_dir())
        .unwrap()
        .to_owned()
}

/// Returns the path of a file of the servers that sinks are tested against.
pub fn test_server_file(file: &str) -> PathBuf {
    let root = root();
    let test_servers = env::var_os("PEAL_TEST_SERVERS")
        .map_or_else(|| root.join("target/tools/peers"), PathBuf::from);
    let file = test_servers.join(file);
    assert!(
        file.exists(),
        "{} is not there: `cargo xtask test-servers` gets what sinks are tested against",
        file.display()
    );
    file
}

/// A port without a listener a moment ago. It is below those that the system gives to connections,
/// so that none of other tests takes it, and test processes begin at different ones.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(97).wrapping_add(tried) % COUNT;
        let port = u16::try_from(FIRST + place).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A process that ends with its test.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let name = command.get_program().to_owned();
        Process(
            command
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}", name.display())),
        )
    }

    /// Starts a server that prints its port once it listens there.
    pub fn start_listening(command: &mut Command, port: u16) -> Process {
        let name = command.get_program().to_owned();
        let mut running = Process::start(command.stdout(Stdio::piped()));
        let mut said = String::new();
        BufReader::new(running.0.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        assert_eq!(
            said.trim(),
            port.to_string(),
            "{} did not begin to listen",
            name.display()
        );
        running
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns what the JSON files of a directory hold, in the order of their names.
pub fn read_json<T: DeserializeOwned>(dir: &Path) -> Vec<T> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files.sort();
    files
        .iter()
        .map(|file| serde_json::from_slice(&fs::read(file).unwrap()).unwrap())
        .collect()
}

/// An authority, and what it has signed, as files.
pub struct Certificates {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// Has signed a certificate for 127.0.0.1, `server`, and one for client.test, `client`.
    pub fn new() -> Certificates {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "an authority for tests");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        let all = Certificates { dir, issuer };
        all.sign("server", "127.0.0.1");
        all.sign("client", "client.test");
        all
    }

    fn sign(&self, file: &str, name: &str) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file(&format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(self.file(&format!("{file}.key")), key.serialize_pem()).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
