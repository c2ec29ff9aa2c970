//! Events about procs of other users, to fill the records of their jobs, or the store that all
//! users share.
use super::{connection::AdmittedConnection, own_tool};
use anyhow::{Result, ensure};
use peal_model::{
    CommandCode, DataArray, Info, Key, Nspace, Proc, Range, Rank, Request, Status, Value, key,
};
use std::net::SocketAddr;

/// Code of these events.
pub const ABOUT: Status = Status(-4243);

/// Number of events without an answer at a time.
const OPEN: usize = 500;

/// Raises events of this size in bytes about rank 0 of each of these jobs. Prints a line after the
/// first event, so that the test knows that the attack has begun.
pub fn raise(server: SocketAddr, jobs: &str, count: usize, bytes: usize) -> Result<()> {
    let procs = jobs
        .split(',')
        .map(|job| Proc::new(Nspace::new(job).unwrap(), Rank(0)));
    let infos = vec![
        Info::new(
            key::PMIX_EVENT_AFFECTED_PROCS,
            Value::DataArray(DataArray::procs(procs)),
        ),
        Info::new(Key::new("attack.text")?, Value::string(&"x".repeat(bytes))),
    ];
    let notify = Request::Notify {
        code: ABOUT,
        range: Range::Session,
        infos,
    };
    let mut raiser = AdmittedConnection::connect(server, &own_tool("raiser"))?;
    let first = OPEN.min(count);
    raiser.send(&notify, first)?;
    let mut sent = first;
    for number in 0..count {
        let status = raiser.reply(CommandCode::Notify)?.status();
        ensure!(status.is_success(), "an event is refused: {status}");
        if number == 0 {
            println!("ready");
        }
        if sent < count {
            raiser.send(&notify, 1)?;
            sent += 1;
        }
    }
    println!("{count}");
    Ok(())
}
