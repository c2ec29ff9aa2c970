//! Events at which modules of the attacker exceed their limits.
use super::{connection::AdmittedConnection, own_tool};
use anyhow::Result;
use peal_model::{CommandCode, Range, Request, Status};
use std::net::SocketAddr;

/// Code at which the component `limit-breaker` exceeds a limit.
const BREAK_LIMIT: Status = Status(-3997);

/// Keeps this number of events without an answer until it is killed. Prints a line after the first
/// answer.
pub fn attack(server: SocketAddr, open: usize) -> Result<()> {
    let notify = Request::Notify {
        code: BREAK_LIMIT,
        range: Range::Session,
        infos: Vec::new(),
    };
    let mut attacker = AdmittedConnection::connect(server, &own_tool("bombs"))?;
    attacker.send(&notify, open)?;
    println!("{}", attacker.reply(CommandCode::Notify)?.status());
    loop {
        attacker.send(&notify, 1)?;
        attacker.reply(CommandCode::Notify)?;
    }
}
