//! A server of the C library (`tests/c/host.c`) with one job, whose procs do nothing: a test may
//! act as any of them.
use crate::{c_program, in_process::soon};
use peal_client::{Environment, Places};
use std::{collections::HashMap, ffi::OsString, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

/// Script that prints its environment, and ends at the end of its standard input.
const IDLE: &str = "env | grep ^PMIX_; echo ready; exec cat";

/// Running server. It is killed when it is dropped.
pub struct CServer {
    child: Child,
    stderr_lines: Lines<BufReader<ChildStderr>>,
    variables: HashMap<String, String>,
    directory: TempDir,
}

impl CServer {
    /// Starts the server, with a job of one proc, for tests with `#[needs(libpmix)]`.
    pub async fn start() -> CServer {
        let program = c_program("host");
        let directory = TempDir::new().unwrap();
        let mut command = Command::new(program);
        command
            .arg("--tools")
            .arg(directory.path())
            .args(["1", "/bin/sh", "-c", IDLE]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut variables = HashMap::new();
        while let Some(line) = soon("the C server starts", told.next_line()).await.unwrap() {
            match line.split_once('=') {
                Some((name, value)) => drop(variables.insert(name.to_owned(), value.to_owned())),
                None => break,
            }
        }
        let said = BufReader::new(child.stderr.take().unwrap()).lines();
        CServer {
            child,
            stderr_lines: said,
            variables,
            directory,
        }
    }

    /// Returns a variable of its proc's environment.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(OsString::from)
    }

    /// Returns the PMIx variables of its proc's environment.
    pub fn environment(&self) -> Environment {
        Environment::from(|name| self.variable(name)).unwrap()
    }

    /// Returns the directories of its rendezvous files.
    pub fn places(&self) -> Places {
        Places {
            host: self.variables["PMIX_HOSTNAME"].clone(),
            directory: self.directory.path().to_owned(),
        }
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it has not been waited for")
    }

    /// Waits until the host environment prints this line.
    pub async fn says(&mut self, wanted: &str) {
        let said = async {
            while let Some(line) = self.stderr_lines.next_line().await.unwrap() {
                if line == format!("host: {wanted}") {
                    return;
                }
            }
            panic!("the host environment ended without printing: {wanted}");
        };
        soon(wanted, said).await;
    }

    /// Kills the server by SIGKILL.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }
}
