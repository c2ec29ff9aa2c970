//! A real mail server: Python's aiosmtpd, run by `tests/peers/smtp.py`.
use super::{Certificates, Process, free_port, read_json, root, test_server_file};
use serde::Deserialize;
use std::{path::PathBuf, process::Command};

/// A mail as the server got it, parsed by Python.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Received {
    pub from: String,
    pub to: Vec<String>,
    pub tls: bool,
    pub user: Option<String>,
    pub headers: Vec<(String, String)>,
    pub subject: String,
    pub text: String,
    pub raw: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        let found: Vec<&str> = self
            .headers
            .iter()
            .filter(|header| header.0.eq_ignore_ascii_case(name))
            .map(|header| &*header.1)
            .collect();
        assert_eq!(found.len(), 1, "{name}: {:?}", self.headers);
        found[0]
    }
}

/// Encryption that a server offers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Offers {
    Nothing,
    StartTls,
    Tls,
}

/// Address and log of an SMTP server, which may be stopped and started.
pub struct MailServer {
    pub port: u16,
    offers: Offers,
    password: Option<(String, String)>,
    dir: tempfile::TempDir,
    certificates: Option<(PathBuf, PathBuf)>,
    running: Option<Process>,
}

impl MailServer {
    /// One that does not run yet.
    pub fn new(
        offers: Offers,
        certificates: Option<&Certificates>,
        user: Option<(&str, &str)>,
    ) -> MailServer {
        MailServer {
            port: free_port(),
            offers,
            password: user.map(|(user, password)| (user.to_owned(), password.to_owned())),
            dir: tempfile::tempdir().unwrap(),
            certificates: certificates.map(|all| (all.file("server.pem"), all.file("server.key"))),
            running: None,
        }
    }

    /// One without TLS.
    pub fn plain() -> MailServer {
        MailServer::new(Offers::Nothing, None, None)
    }

    pub fn start(&mut self) {
        let mut command = Command::new(test_server_file("smtp/bin/python3"));
        command.arg(root().join("host/sinks/tests/peers/smtp.py"));
        command
            .arg("--out")
            .arg(self.dir.path())
            .args(["--port", &self.port.to_string()]);
        let tls = match self.offers {
            Offers::Nothing => "none",
            Offers::StartTls => "starttls",
            Offers::Tls => "wrapped",
        };
        command.args(["--tls", tls]);
        if let Some((certificate, key)) = &self.certificates {
            command
                .arg("--certificate")
                .arg(certificate)
                .arg("--key")
                .arg(key);
        }
        if let Some((user, password)) = &self.password {
            command.args(["--user", user, "--password", password]);
        }
        let running = Process::start_listening(&mut command, self.port);
        self.running = Some(running);
    }

    pub fn started(mut self) -> MailServer {
        self.start();
        self
    }

    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Returns the mails received so far, in order.
    pub fn received(&self) -> Vec<Received> {
        read_json(self.dir.path())
    }

    pub fn subjects(&self) -> Vec<String> {
        self.received()
            .into_iter()
            .map(|mail| mail.subject)
            .collect()
    }
}
