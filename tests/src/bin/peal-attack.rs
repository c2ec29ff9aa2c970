//! Attacks a server as an unprivileged user; `tests/tests/security/attacks` runs it beside a
//! victim. SERVER is an address and a port.
//!
//! Identity:
//! - `peal-attack port-reuse SERVER VICTIM TRIES` claims to be user VICTIM. The kernel's answer is
//!   meant to come from that user's next connection.
//! - `peal-attack connect SERVER TRIES` is the victim. It connects as the user that it runs as.
//! - `peal-attack raise SERVER NAME` raises as its own user the event that `port-reuse` raises as
//!   another.
//! - `peal-attack borrow-group SERVER PROGRAM GROUP` claims to be in a group by means of a program
//!   with the group's rights.
//! - `peal-attack forward SERVER` forwards connections to it, as the victim of `claim-rank`.
//! - `peal-attack claim-rank SERVER JOB VICTIM` claims to be rank 0 of JOB, as user VICTIM.
//!
//! Resources (the first four stay until they are killed):
//! - `peal-attack silent-sockets SERVER COUNT` opens sockets and sends nothing.
//! - `peal-attack partial-frames SERVER CONNECTIONS BYTES` sends messages without their last byte.
//! - `peal-attack many-tools SERVER COUNT` attaches tools.
//! - `peal-attack parked-values SERVER JOB RANKS` puts values until the server refuses.
//! - `peal-attack long-messages SERVER TOOLS BYTES` puts long values from several tools at once,
//!   which is allowed.
//! - `peal-attack raise-about SERVER JOBS COUNT BYTES` raises events about procs of other users.
//! - `peal-attack log-flood SERVER CHANNEL CONNECTIONS OPEN` logs more than a channel writes.
//! - `peal-attack log SERVER JOB CHANNEL COUNT` is the victim of `log-flood`.
//! - `peal-attack silent-calls SOCKET COUNT` calls the admin socket and sends nothing.
//! - `peal-attack watchers SOCKET COUNT` watches the activity at the admin socket and reads nothing.
//! - `peal-attack decision-flood SERVER CONNECTIONS OPEN` requests more than policies decide about.
//! - `peal-attack decide-beside SERVER COUNT` is the victim of `decision-flood`.
//! - `peal-attack install-components DIRECTORY BASE COUNT` installs modules that take long to
//!   compile and behave as the component BASE.
//! - `peal-attack hold SERVER JOB KIND COUNT` sends requests of which the server holds something, such as
//!   published values, until it refuses.
//! - `peal-attack query-flood SERVER JOB OPEN` queries more than the server answers at once.
//! - `peal-attack request SERVER JOB KIND` is the victim of both.
//! - `peal-attack receive-about` is a proc that connects late, and receives an event of `raise-about`.
//! - `peal-attack module-bombs SERVER OPEN` raises events at which its modules exceed their limits.
//!
//! Victims of all of these (`cargo xtask bench siege`):
//! - `peal-attack beside-events COUNT` raises events from rank 0 to rank 1 of its environment's job.
//! - `peal-attack beside-calls SOCKET COUNT` calls the admin socket as an administrator.
//! - `peal-attack beside-launches SOCKET UID COUNT` is a launcher. Its procs run `peal-attack proc`.
//!
//! The audit trail:
//! - `peal-attack junk SERVER COUNT` and `long-handshakes SERVER COUNT SECRETS BYTES` connect and are
//!   refused.
//! - `peal-attack claim SERVER JOB` connects once as a proc of another user's job.
//! - `peal-attack name-secrets SERVER JOB` and `large-secrets SERVER COUNT` raise events with
//!   secrets.
//! - `peal-attack decide SERVER COUNT` is the victim, and measures decisions.
//! - `peal-attack raise-numbered SERVER FIRST` raises events until the server is gone, and prints the
//!   numbers of those that were granted.
//! - `peal-attack tell-secret SERVER SECRET` raises an event with a secret of its own.
use anyhow::{Context, Result, bail};
use peal_tests::attacks::{
    admin_calls, beside, borrowed_groups, connecting, decision_flood, forwarded, held_resources,
    job_records, large_components, log_flood, long_messages, many_tools, module_bombs,
    parked_values, partial_frames, port_reuse, silent_sockets, trail, watchers,
};
use std::env;

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["port-reuse", server, victim, tries] => port_reuse::attack(
            server.parse().context("SERVER")?,
            victim.parse().context("VICTIM")?,
            tries.parse().context("TRIES")?,
        ),
        ["connect", server, tries] => connecting::connect_often(
            server.parse().context("SERVER")?,
            tries.parse().context("TRIES")?,
        ),
        ["silent-calls", socket, count] => {
            admin_calls::attack(socket.as_ref(), count.parse().context("COUNT")?)
        }
        ["watchers", socket, count] => {
            watchers::attack(socket.as_ref(), count.parse().context("COUNT")?)
        }
        ["decision-flood", server, connections, open] => decision_flood::flood(
            server.parse().context("SERVER")?,
            connections.parse().context("CONNECTIONS")?,
            open.parse().context("OPEN")?,
        ),
        ["decide-beside", server, count] => decision_flood::victim(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["raise", server, name] => port_reuse::raise(server.parse().context("SERVER")?, name),
        ["borrow-group", server, program, group] => borrowed_groups::attack(
            server.parse().context("SERVER")?,
            program,
            group.parse().context("GROUP")?,
        ),
        ["forward", server] => forwarded::forward(server.parse().context("SERVER")?),
        ["claim-rank", server, job, victim] => forwarded::claim(
            server.parse().context("SERVER")?,
            job,
            victim.parse().context("VICTIM")?,
        ),
        ["silent-sockets", server, count] => silent_sockets::attack(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["partial-frames", server, connections, bytes] => partial_frames::attack(
            server.parse().context("SERVER")?,
            connections.parse().context("CONNECTIONS")?,
            bytes.parse().context("BYTES")?,
        ),
        ["long-messages", server, tools, bytes] => long_messages::send(
            server.parse().context("SERVER")?,
            tools.parse().context("TOOLS")?,
            bytes.parse().context("BYTES")?,
        ),
        ["many-tools", server, count] => many_tools::attack(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["parked-values", server, job, ranks] => parked_values::attack(
            server.parse().context("SERVER")?,
            job,
            ranks.parse().context("RANKS")?,
        ),
        ["raise-about", server, jobs, count, bytes] => job_records::raise(
            server.parse().context("SERVER")?,
            jobs,
            count.parse().context("COUNT")?,
            bytes.parse().context("BYTES")?,
        ),
        ["log-flood", server, channel, connections, open] => log_flood::flood(
            server.parse().context("SERVER")?,
            channel,
            connections.parse().context("CONNECTIONS")?,
            open.parse().context("OPEN")?,
        ),
        ["log", server, job, channel, count] => log_flood::victim(
            server.parse().context("SERVER")?,
            job,
            channel,
            count.parse().context("COUNT")?,
        ),
        ["install-components", directory, base, count] => large_components::install(
            directory.as_ref(),
            base.as_ref(),
            count.parse().context("COUNT")?,
        ),
        ["hold", server, job, kind, count] => held_resources::attack(
            server.parse().context("SERVER")?,
            job,
            kind,
            count.parse().context("COUNT")?,
        ),
        ["query-flood", server, job, open] => held_resources::query_flood(
            server.parse().context("SERVER")?,
            job,
            open.parse().context("OPEN")?,
        ),
        ["request", server, job, kind] => {
            held_resources::victim(server.parse().context("SERVER")?, job, kind)
        }
        ["receive-about"] => beside::receive(job_records::ABOUT),
        ["module-bombs", server, open] => module_bombs::attack(
            server.parse().context("SERVER")?,
            open.parse().context("OPEN")?,
        ),
        ["beside-events", count] => beside::events(count.parse().context("COUNT")?),
        ["beside-calls", socket, count] => {
            beside::calls(socket.as_ref(), count.parse().context("COUNT")?)
        }
        ["beside-launches", socket, uid, count] => beside::launches(
            socket.as_ref(),
            uid.parse().context("UID")?,
            count.parse().context("COUNT")?,
        ),
        ["proc"] => beside::proc(),
        ["junk", server, count] => trail::junk(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["long-handshakes", server, count, secrets, bytes] => trail::long_handshakes(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
            secrets.parse().context("SECRETS")?,
            bytes.parse().context("BYTES")?,
        ),
        ["claim", server, job] => trail::claim(server.parse().context("SERVER")?, job),
        ["name-secrets", server, job] => {
            trail::name_secrets(server.parse().context("SERVER")?, job)
        }
        ["large-secrets", server, count] => trail::large_secrets(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["decide", server, count] => trail::decide(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["raise-numbered", server, first] => trail::raise_numbered(
            server.parse().context("SERVER")?,
            first.parse().context("FIRST")?,
        ),
        ["tell-secret", server, secret] => {
            trail::tell_secret(server.parse().context("SERVER")?, secret)
        }
        _ => bail!("unknown attack {args:?}"),
    }
}
