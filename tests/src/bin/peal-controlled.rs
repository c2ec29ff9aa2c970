//! A job whose first proc controls the others. It prints the effects on their processes, as `/proc`
//! shows them.
//!
//! `peal run -n 3 -- target/debug/peal-controlled pause`; `tests/tests/jobs/process_control.rs` has
//! the expected output of each argument.
use anyhow::{Context, Result, bail};
use peal_client::{Client, ClientError};
use peal_model::{Info, KeyName, Proc, Rank, Scope, Value, code, key};
use peal_tests::until;
use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const PID: KeyName = KeyName("controlled.pid");
const FROM: KeyName = KeyName("controlled.from");

/// Script that starts processes in sessions of their own, which ignore requests to end: a child, an
/// orphan that the child leaves behind, and one whose parent is gone from the beginning. The last
/// one has an empty environment.
const TREE: &str = "trap '' TERM; setsid sh -c 'sleep $0 & wait' \"$0\" & (setsid sleep \"$0\" &); \
                    setsid env -i sh -c 'trap \"\" TERM; sleep $0 & wait' \"$0\" & wait";
/// Number of its processes that sleep.
const SLEEPERS: usize = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let what = std::env::args()
        .nth(1)
        .context("missing argument: the test to run")?;
    match what.as_str() {
        "pause" => pause().await,
        "kill" => end(key::PMIX_JOB_CTRL_KILL).await,
        "terminate" => end(key::PMIX_JOB_CTRL_TERMINATE).await,
        "restart" => restart(true).await,
        "restart-job" => restart(false).await,
        "restart-nothing" => restart_nothing().await,
        other => bail!("unknown test {other:?}"),
    }
}

fn directive(key: KeyName) -> [Info; 1] {
    [Info::new(key, Value::Bool(true))]
}

/// Returns a sleep duration that only the sleepers of this rank of this job use.
fn nap(rank: Rank) -> String {
    format!(
        "{}.{}",
        1_000_000 + std::os::unix::process::parent_id(),
        rank.0
    )
}

/// Returns the number of processes that sleep for that duration.
fn sleepers(rank: Rank) -> usize {
    let wanted = format!("sleep\0{}\0", nap(rank));
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .count()
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(
        stat.rsplit_once(") ")?
            .1
            .split(' ')
            .map(str::to_owned)
            .collect(),
    )
}

/// Returns the CPU time of a process in ticks.
fn cpu(pid: u32) -> u64 {
    stat(pid).map_or(0, |fields| {
        fields[11..13]
            .iter()
            .map(|field| field.parse::<u64>().unwrap())
            .sum()
    })
}

/// Uses as much CPU time as any running process would have used by then.
fn burn() {
    let me = std::process::id();
    let began = Instant::now();
    let before = cpu(me);
    while cpu(me) < before + 30 || began.elapsed() < Duration::from_millis(300) {}
}

async fn tell(client: &Client, key: KeyName, value: Value) -> Result<()> {
    client.put(Scope::Local, key.into(), value);
    Ok(client.commit().await?)
}

/// Pauses and resumes a proc that spins, and a spinning process that it started in another session.
async fn pause() -> Result<()> {
    let client = Client::init().await?;
    let target = Proc::new(client.me().nspace.clone(), Rank(1));
    if client.me().rank == Rank(1) {
        let spinner = Command::new("setsid")
            .args(["sh", "-c", "while :; do :; done"])
            .spawn()?;
        tell(&client, PID, Value::Uint32(spinner.id())).await?;
        tell(&client, FROM, Value::Uint32(std::process::id())).await?;
        client.fence(&[], &[]).await?;
        loop {
            std::hint::black_box(());
        }
    }
    client.fence(&[], &[]).await?;
    if client.me().rank != Rank(0) {
        return Ok(client.finalize().await?);
    }
    let number = |value: Value| {
        value
            .as_u64()
            .map(|number| number as u32)
            .context("no process id")
    };
    let pids = [
        number(client.get(&target, PID, &[]).await?)?,
        number(client.get(&target, FROM, &[]).await?)?,
    ];
    let all_run = || {
        let before = pids.map(cpu);
        until("they run", || {
            pids.map(cpu)
                .iter()
                .zip(before)
                .all(|(now, before)| *now > before + 2)
        });
    };
    all_run();
    for _ in 0..2 {
        client
            .job_control(
                std::slice::from_ref(&target),
                &directive(key::PMIX_JOB_CTRL_PAUSE),
            )
            .await?;
        let stopped = pids.map(|pid| stat(pid).is_some_and(|fields| fields[0] == "T"));
        let before = pids.map(cpu);
        burn();
        println!(
            "paused: stopped by signals {stopped:?}, used {:?}",
            [0, 1].map(|at| cpu(pids[at]) - before[at])
        );
    }
    client
        .job_control(
            std::slice::from_ref(&target),
            &directive(key::PMIX_JOB_CTRL_RESUME),
        )
        .await?;
    all_run();
    println!("resumed: they run");
    client
        .job_control(
            std::slice::from_ref(&target),
            &directive(key::PMIX_JOB_CTRL_PAUSE),
        )
        .await?;
    client
        .job_control(
            std::slice::from_ref(&target),
            &directive(key::PMIX_JOB_CTRL_TERMINATE),
        )
        .await?;
    println!(
        "terminated: {:?} are left",
        pids.map(stat)
            .iter()
            .flatten()
            .filter(|fields| fields[0] != "Z")
            .count()
    );
    Ok(client.finalize().await?)
}

/// Ends rank 1 with its process tree. Rank 2, with a tree of its own, goes on.
async fn end(how: KeyName) -> Result<()> {
    let client = Client::init().await?;
    let me = client.me().clone();
    if me.rank != Rank(0) {
        Command::new("sh")
            .args(["-c", TREE, &nap(me.rank)])
            .stdout(Stdio::null())
            .spawn()?;
        until("the tree is there", || sleepers(me.rank) == SLEEPERS);
    }
    client.fence(&[], &[]).await?;
    if me.rank == Rank(0) {
        client
            .job_control(&[Proc::new(me.nspace.clone(), Rank(1))], &directive(how))
            .await?;
        println!(
            "left of rank 1: {}, of rank 2: {}",
            sleepers(Rank(1)),
            sleepers(Rank(2))
        );
        client
            .job_control(
                &[Proc::new(me.nspace.clone(), Rank(2))],
                &directive(key::PMIX_JOB_CTRL_KILL),
            )
            .await?;
        println!("left of rank 2: {}", sleepers(Rank(2)));
    } else {
        std::future::pending::<()>().await;
    }
    Ok(client.finalize().await?)
}

/// Starts rank 1 again, or all ranks, from a checkpoint.
async fn restart(one: bool) -> Result<()> {
    let client = Client::init().await?;
    let me = client.me().clone();
    let from = std::env::var("PEAL_CHECKPOINT").ok();
    let said = match client
        .get(
            &me,
            key::PMIX_JOB_CTRL_RESTART,
            &[Info::new(key::PMIX_OPTIONAL, Value::Bool(true))],
        )
        .await
    {
        Ok(value) => value.as_str().map(str::to_owned),
        Err(ClientError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    println!(
        "rank {}: starts from {from:?}, was told of {said:?}",
        me.rank
    );
    tell(
        &client,
        FROM,
        Value::string(from.as_deref().unwrap_or("nothing")),
    )
    .await?;
    client.fence(&[], &[]).await?;
    match me.rank {
        _ if from.is_some() => {}
        Rank(0) => {
            let target = Proc::new(me.nspace.clone(), Rank(1));
            let checkpoint = [Info::new(
                key::PMIX_JOB_CTRL_RESTART,
                Value::string("seven"),
            )];
            let done = client
                .job_control(std::slice::from_ref(&target), &checkpoint)
                .await;
            println!(
                "rank 0: restart: {}",
                done.map_or_else(|error| error.to_string(), |_| "done".to_owned())
            );
            // The server may answer before the restart is complete.
            let fresh = [Info::new(key::PMIX_GET_REFRESH_CACHE, Value::Bool(true))];
            while client.get(&target, FROM, &fresh).await.ok() != Some(Value::string("seven")) {}
            println!("rank 0: the new rank 1 goes on from there");
            meet(&client).await?;
        }
        Rank(2) if one => meet(&client).await?,
        _ => std::future::pending().await,
    }
    println!("rank {}: leaves", me.rank);
    Ok(client.finalize().await?)
}

/// Waits for the other procs. Calls a new fence if a proc of the previous one was started again.
async fn meet(client: &Client) -> Result<()> {
    loop {
        match client.fence(&[], &[]).await {
            Err(ClientError::Refused {
                status: code::PMIX_ERR_PROC_RESTART,
                ..
            }) => {}
            met => return Ok(met?),
        }
    }
}

/// Checks the error if the program is gone when rank 1 is to be started again.
async fn restart_nothing() -> Result<()> {
    let client = Client::init().await?;
    let me = client.me().clone();
    client.fence(&[], &[]).await?;
    match me.rank {
        Rank(0) => {}
        Rank(1) => std::future::pending().await,
        _ => return Ok(client.finalize().await?),
    }
    fs::remove_file(
        std::env::args()
            .nth(2)
            .context("missing argument: the path of the program")?,
    )?;
    let checkpoint = [Info::new(key::PMIX_JOB_CTRL_RESTART, Value::string(""))];
    // The failure is reported by this call or later.
    let _ = client
        .job_control(&[Proc::new(me.nspace.clone(), Rank(1))], &checkpoint)
        .await;
    Ok(client.finalize().await?)
}
