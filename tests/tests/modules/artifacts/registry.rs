//! Debian's registry with TLS on the loopback interface, with and without passwords.
#[path = "../../../../host/sinks/tests/support/mod.rs"]
mod peers;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use peers::{Certificates, Process, free_port, test_server_file, until};
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// User of a registry with passwords.
pub const USER: &str = "ada";
/// Password of that user.
pub const PASSWORD: &str = "secret";
/// Hash of that password (bcrypt), as `htpasswd -B` writes it.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

/// Certificate authority and the certificate of a registry, as files.
pub struct Authority(Certificates);

impl Authority {
    pub fn new() -> Authority {
        Authority(Certificates::new())
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.file(name)
    }
}

/// Registry that runs.
pub struct Registry {
    authority: Authority,
    port: u16,
    process: Option<Process>,
}

impl Registry {
    /// Starts a registry that everyone may use.
    pub fn start() -> Registry {
        Registry::configured("")
    }

    /// Starts a registry for one user.
    pub fn with_password() -> Registry {
        Registry::configured("auth:\n  htpasswd: {realm: peal, path: users}\n")
    }

    fn configured(auth: &str) -> Registry {
        let authority = Authority::new();
        let port = free_port();
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: blobs}}\nhttp:\n  addr: 127.0.0.1:{port}\n  \
             tls: {{certificate: server.pem, key: server.key}}\n{auth}"
        );
        fs::write(authority.file("config.yml"), config).unwrap();
        fs::write(authority.file("users"), format!("{USER}:{HASH}\n")).unwrap();
        let mut registry = Registry {
            authority,
            port,
            process: None,
        };
        registry.restart();
        registry
    }

    /// Starts the registry again, with what it has stored.
    pub fn restart(&mut self) {
        let mut command = Command::new(test_server_file("registry/usr/bin/docker-registry"));
        command
            .args(["serve", "config.yml"])
            .current_dir(self.authority.file("."))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(Process::start(&mut command));
        until("the registry listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Ends the registry. What it has stored stays.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Returns the file of the authority.
    pub fn ca(&self) -> PathBuf {
        self.authority.file("ca.pem")
    }

    /// Returns the setting of the authority, for `--set`.
    pub fn ca_setting(&self) -> String {
        format!("registry.ca={}", self.ca().display())
    }

    /// Returns the name of an artefact in it.
    pub fn name(&self, path: &str) -> String {
        format!("oci://127.0.0.1:{}/{path}", self.port)
    }

    /// Returns a blob as the registry stores it.
    pub fn blob(&self, digest: &str) -> Vec<u8> {
        let below = format!(
            "blobs/docker/registry/v2/blobs/sha256/{}/{digest}/data",
            &digest[..2]
        );
        fs::read(self.authority.file(&below)).unwrap()
    }

    /// Returns the names of what it has stored, one directory deep in each.
    pub fn repositories(&self) -> Vec<String> {
        let below = |path: &Path| {
            let found = fs::read_dir(path).into_iter().flatten();
            let mut found: Vec<String> = found
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            found.sort();
            found
        };
        let all = self.authority.file("blobs/docker/registry/v2/repositories");
        let of = |first: String| {
            let second = below(&all.join(&first)).into_iter();
            second.map(move |second| format!("{first}/{second}"))
        };
        below(&all).into_iter().flat_map(of).collect()
    }

    /// Writes a file of credentials as `docker login` does it.
    pub fn write_credentials(&self, path: &Path, user: &str, password: &str) {
        let auth = BASE64_STANDARD.encode(format!("{user}:{password}"));
        let registry = format!("127.0.0.1:{}", self.port);
        fs::write(
            path,
            format!("{{\"auths\":{{{registry:?}:{{\"auth\":{auth:?}}}}}}}"),
        )
        .unwrap();
    }
}
