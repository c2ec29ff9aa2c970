//! More requests than the policies of the site decide about, beside a victim with few requests.
use super::{connection::AdmittedConnection, own_tool, print_times};
use anyhow::Result;
use peal_model::{CommandCode, Range, Request, Status};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// Returns a request that raises an event. A policy decides about it.
fn event() -> Request {
    Request::Notify {
        code: Status(-4242),
        range: Range::Session,
        infos: Vec::new(),
    }
}

/// Keeps this number of requests open on each of this number of connections until it is killed.
/// Each connection prints the status of the first request that is refused.
pub fn flood(server: SocketAddr, connections: usize, open: usize) -> Result<()> {
    let request = event();
    let attack = |at: usize| -> Result<()> {
        let mut attacker = AdmittedConnection::connect(server, &own_tool(&format!("flood-{at}")))?;
        attacker.send(&request, open)?;
        let mut is_told = false;
        loop {
            let status = attacker.reply(CommandCode::Notify)?.status();
            if !status.is_success() && !is_told {
                println!("{status}");
                is_told = true;
            }
            attacker.send(&request, 1)?;
        }
    };
    thread::scope(|scope| {
        let attacks: Vec<_> = (0..connections)
            .map(|at| scope.spawn(move || attack(at)))
            .collect();
        attacks
            .into_iter()
            .try_for_each(|attack| attack.join().expect("no attacker panics"))
    })
}

/// Raises this number of events, one after the other. Prints the times taken and the number of each
/// status.
pub fn victim(server: SocketAddr, count: usize) -> Result<()> {
    let request = event();
    let mut victim = AdmittedConnection::connect(server, &own_tool("deciding"))?;
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        let status = victim.ask(&request)?;
        times.push(begin.elapsed());
        *statuses.entry(status.to_string()).or_default() += 1;
    }
    print_times(times)?;
    statuses
        .iter()
        .for_each(|(status, count)| println!("{status} {count}"));
    Ok(())
}
