//! A real web service: Python's HTTP server, run by `tests/peers/https.py`.
use super::{Certificates, Process, free_port, read_json, root};
use serde::Deserialize;
use std::{path::PathBuf, process::Command};

/// A request as the service got it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct WebRequest {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The status of the answer.
    pub status: u16,
    /// The port of the client, by which connections are told apart.
    pub from: u16,
    /// The time of a clock that only goes forward.
    pub milliseconds: u64,
}

impl WebRequest {
    /// Returns the value of a header field that the request has once.
    pub fn header(&self, name: &str) -> &str {
        let found: Vec<&str> = self.all(name);
        assert_eq!(found.len(), 1, "{name}: {:?}", self.headers);
        found[0]
    }

    /// Returns all values of a header field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|header| header.0 == name);
        named.map(|header| &*header.1).collect()
    }
}

/// Address and log of a web service, which may be stopped and started.
pub struct WebService {
    pub port: u16,
    dir: tempfile::TempDir,
    certificates: Option<(PathBuf, PathBuf)>,
    running: Option<Process>,
}

impl WebService {
    /// One that does not run yet; without certificates it has no TLS.
    pub fn new(certificates: Option<&Certificates>) -> WebService {
        WebService {
            port: free_port(),
            dir: tempfile::tempdir().unwrap(),
            certificates: certificates.map(|all| (all.file("server.pem"), all.file("server.key"))),
            running: None,
        }
    }

    pub fn start(&mut self) {
        let mut command = Command::new("python3");
        command
            .arg(root().join("host/sinks/tests/peers/https.py"))
            .arg("--out")
            .arg(self.dir.path())
            .args(["--port", &self.port.to_string()]);
        if let Some((certificate, key)) = &self.certificates {
            command
                .arg("--certificate")
                .arg(certificate)
                .arg("--key")
                .arg(key);
        }
        let running = Process::start_listening(&mut command, self.port);
        self.running = Some(running);
    }

    pub fn started(mut self) -> WebService {
        self.start();
        self
    }

    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Returns the requests received so far, in order.
    pub fn received(&self) -> Vec<WebRequest> {
        read_json(self.dir.path())
    }

    /// Returns the bodies of the requests that were answered with success.
    pub fn bodies(&self) -> Vec<String> {
        let taken = self.received().into_iter();
        taken
            .filter(|request| request.status == 200)
            .map(|request| request.body)
            .collect()
    }
}
