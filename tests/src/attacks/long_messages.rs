//! Tools of one user that all send a long message at once, without being an attack.
use super::{connection::AdmittedConnection, own_tool};
use anyhow::{Result, ensure};
use peal_model::{Commit, Key, Kval, Request, Scope, Status, Value, code};
use std::{net::SocketAddr, thread};

/// Puts values of this size in bytes from this number of tools at once. Prints the number of values
/// that the server accepted.
pub fn send(server: SocketAddr, tools: u32, bytes: usize) -> Result<()> {
    let tools = (0..tools)
        .map(|number| AdmittedConnection::connect(server, &own_tool(&format!("long-{number}"))));
    let tools = tools.collect::<Result<Vec<_>>>()?;
    let kvals = vec![Kval {
        key: Key::new("long")?,
        value: Value::string(&"x".repeat(bytes)),
    }];
    let commit = &Request::Commit(vec![Commit {
        scope: Scope::Global,
        kvals,
    }]);
    let answers = thread::scope(|scope| {
        let threads: Vec<_> = tools
            .into_iter()
            .map(|tool| scope.spawn(move || put(tool, commit)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Result<Vec<_>>>()
    })?;
    ensure!(
        answers.iter().all(|status| *status == code::PMIX_SUCCESS),
        "{answers:?}"
    );
    println!("{}", answers.len());
    Ok(())
}

fn put(mut tool: AdmittedConnection, commit: &Request) -> Result<Status> {
    tool.ask(commit)
}
