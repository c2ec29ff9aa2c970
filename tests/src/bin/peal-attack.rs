//! Attacks a server as an unprivileged user would: `tests/tests/security/attacks` runs this beside a victim.
//!
//! `peal-attack port-reuse SERVER VICTIM TRIES` claims to be user VICTIM; the answer of the kernel is to come from that user's next
//! connection. `peal-attack connect SERVER TRIES` is the victim: it connects as the user that it runs as. `peal-attack raise SERVER NAME`
//! does as its own user what the first one tries as another. `peal-attack borrow-group SERVER PROGRAM GROUP` claims to be in a group by
//! a program with its rights. SERVER is an address and a port.
//!
//! `peal-attack silent-sockets SERVER COUNT` opens sockets and says nothing; `peal-attack partial-frames SERVER CONNECTIONS BYTES` sends
//! all of a message but its last byte; `peal-attack many-tools SERVER COUNT` attaches tools; `peal-attack parked-values SERVER JOB RANKS`
//! puts values until the server refuses. All of them stay. `peal-attack long-messages SERVER TOOLS BYTES` has tools put long values at once,
//! as a user may.
//!
//! `peal-attack raise-about SERVER JOBS COUNT BYTES` raises events about others' procs. `peal-attack log-flood SERVER CHANNEL CONNECTIONS
//! OPEN` logs more than a channel writes, and `peal-attack log SERVER JOB CHANNEL COUNT` is its victim.
//!
//! `peal-attack install-components DIRECTORY BASE COUNT` installs modules that take long to compile and do what the component BASE does.
//!
//! On the audit trail: `junk SERVER COUNT` and `knock SERVER COUNT SECRETS BYTES` connect and are refused, `claim SERVER JOB` once as a proc
//! of another's job; `name-secrets SERVER JOB` and `large-secrets SERVER COUNT` raise events with secrets; `decide SERVER COUNT` measures
//! decisions as the victim, `tell-secret SERVER SECRET` has one of its own.
use anyhow::{Context, Result, bail};
use peal_tests::attacks::{
    borrowed_groups, connecting, job_records, large_components, log_flood, long_messages,
    many_tools, parked_values, partial_frames, port_reuse, silent_sockets, trail,
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
        ["raise", server, name] => port_reuse::raise(server.parse().context("SERVER")?, name),
        ["borrow-group", server, program, group] => borrowed_groups::attack(
            server.parse().context("SERVER")?,
            program,
            group.parse().context("GROUP")?,
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
        ["junk", server, count] => trail::junk(
            server.parse().context("SERVER")?,
            count.parse().context("COUNT")?,
        ),
        ["knock", server, count, secrets, bytes] => trail::knock(
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
        ["tell-secret", server, secret] => {
            trail::tell_secret(server.parse().context("SERVER")?, secret)
        }
        _ => bail!("unknown attack {args:?}"),
    }
}
