//! A user whose tools all send a long message at once, and mean no harm.
use super::{own_user, session::Session, tool};
use anyhow::{Context, Result, ensure};
use peal_model::{Commit, Key, Kval, Request, Scope, Status, Value, code};
use peal_wire::Tag;
use std::{net::SocketAddr, thread};

/// Puts values of so many bytes as so many tools at once; prints how many the server took.
pub fn send(server: SocketAddr, tools: u32, bytes: usize) -> Result<()> {
    let user = own_user();
    let sessions = (0..tools).map(|number| {
        let name = format!("long-{number}-of-{}", user.uid);
        Session::open(server, &tool(user, &name))?.context("the server refuses")
    });
    let sessions = sessions.collect::<Result<Vec<_>>>()?;
    let kvals = vec![Kval { key: Key::new("long")?, value: Value::string(&"x".repeat(bytes)) }];
    let commit = &Request::Commit(vec![Commit { scope: Scope::Global, kvals }]);
    let answers = thread::scope(|scope| {
        let threads: Vec<_> = sessions.into_iter().map(|session| scope.spawn(move || put(session, commit))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>>>()
    })?;
    ensure!(answers.iter().all(|status| *status == code::PMIX_SUCCESS), "{answers:?}");
    println!("{}", answers.len());
    Ok(())
}

fn put(mut session: Session, commit: &Request) -> Result<Status> {
    session.ask(Tag::FIRST_REQUEST, commit)
}
