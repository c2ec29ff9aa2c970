//! More log requests to one channel than it writes, beside a victim that logs to another channel.
use super::{connection::AdmittedConnection, own_tool, print_times};
use crate::raw_client::hello;
use anyhow::Result;
use peal_core::log::queue::LIMIT;
use peal_model::{CommandCode, Info, Infos, Key, Nspace, Proc, Rank, Reply, Request, Value};
use peal_wire::Hello;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

fn log(channel: &str) -> Result<Request> {
    let data = vec![Info::new(Key::new(channel)?, Value::string("a line"))];
    Ok(Request::Log {
        timestamp: 0,
        data,
        directives: Vec::new(),
    })
}

fn proc(job: &str) -> Hello {
    hello(Proc::new(Nspace::new(job).unwrap(), Rank(0)))
}

/// Keeps this number of requests open on each of this number of connections until it is killed.
/// Prints the answer to the first refused request.
pub fn flood(server: SocketAddr, channel: &str, connections: usize, open: usize) -> Result<()> {
    let request = log(channel)?;
    let attack = |at: usize| -> Result<()> {
        let mut attacker = AdmittedConnection::connect(server, &own_tool(&format!("flood-{at}")))?;
        attacker.send(&request, open)?;
        let mut is_told = false;
        loop {
            let reply = attacker.reply(CommandCode::Log)?;
            let status = reply.status();
            if !status.is_success() && !is_told {
                let infos = if let Reply::Infos { infos, .. } = &reply {
                    infos.as_slice()
                } else {
                    &[]
                };
                let limit = infos
                    .value_of(LIMIT)
                    .and_then(|value| value.as_str().map(str::to_owned));
                println!("{status} {}", limit.unwrap_or_default());
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

/// Logs this number of times as rank 0 of a job, one after the other. Prints the times taken and
/// the number of each status.
pub fn victim(server: SocketAddr, job: &str, channel: &str, count: usize) -> Result<()> {
    let request = log(channel)?;
    let mut victim = AdmittedConnection::connect(server, &proc(job))?;
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
