//! Results of Peal's client under any PMIx server: either each call once, with one line for its
//! result, or the events about another proc's end.
//!
//! `mpirun -n 2 target/debug/peal-foreign calls`
//!
//! `prterun -n 2 target/debug/peal-foreign hears killed`
use anyhow::{Context, Result, bail};
use peal_client::{
    ClassFilter, Client, ClientError, ConstructOptions, Handler, HandlerOutcome, MonitorRequest,
};
use peal_model::{Event, Info, KeyName, Proc, Query, Range, Rank, Scope, Status, Value, code, key};
use rustix::process::{Signal, getpid, kill_process};
use std::time::Duration;
use tokio::{sync::mpsc, time::timeout};

/// Time limit of a call. A server that answers does so at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time to wait for events about an end, which come at once.
const SILENCE: Duration = Duration::from_secs(5);
/// Time until a missing heartbeat is reported, with a margin.
const MISSED: Duration = Duration::from_secs(8);
const NEWS: Status = Status(-3501);
/// Codes by which a host environment may report the end of a proc.
const ENDS: [Status; 10] = [
    code::PMIX_ERR_PROC_ABORTED,
    code::PMIX_ERR_PROC_ABORTING,
    code::PMIX_ERR_PROC_REQUESTED_ABORT,
    code::PMIX_ERR_LOST_CONNECTION,
    code::PMIX_PROC_TERMINATED,
    code::PMIX_ERR_PROC_TERM_WO_SYNC,
    code::PMIX_EVENT_PROC_TERMINATED,
    code::PMIX_ERR_PROC_ABORTED_BY_SIG,
    code::PMIX_ERR_EXIT_NONZERO_TERM,
    code::PMIX_MONITOR_HEARTBEAT_ALERT,
];
const GREETING: KeyName = KeyName("foreign.greeting");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["calls"] => calls().await,
        ["notifies", range] => notifies(range).await,
        ["hears", end] => hears(end).await,
        _ => bail!(
            "usage: peal-foreign calls | notifies PMIX_RANGE_... | hears killed|exits|aborts|leaves|silent"
        ),
    }
}

/// Prints one line for a call.
fn said<T>(what: &str, outcome: Result<T, ClientError>) {
    match outcome {
        Ok(_) => println!("{what}: ok"),
        Err(ClientError::TimedOut { .. }) => println!("{what}: no answer"),
        Err(error) => println!("{what}: {}", error.status()),
    }
}

async fn calls() -> Result<()> {
    let client = Client::init().await?;
    let client = client.within(PATIENCE);
    let me = client.me().clone();
    let other = Proc::new(me.nspace.clone(), Rank(1 - me.rank.0));
    client.put(Scope::Global, GREETING.into(), Value::string("hello"));
    client.commit().await.context("commit")?;
    let collect = [Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true))];
    client.fence(&[], &collect).await.context("fence")?;
    let group = client
        .group_construct(
            "crew",
            ConstructOptions::of(&[me.clone(), other.clone()]).context_id(),
        )
        .await;
    let destructed = match group {
        Ok(_) => Some(client.group_destruct("crew", &[]).await),
        Err(_) => None,
    };
    if me.rank == Rank(0) {
        println!("server: {:?}", client.server());
        said(
            "PMIx_Get of a peer",
            client.get(&other, GREETING, &[]).await,
        );
        said(
            "PMIx_Get of a job",
            client
                .get(&Proc::all(me.nspace.clone()), key::PMIX_JOB_SIZE, &[])
                .await,
        );
        let at_once = [Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))];
        said(
            "PMIx_Get of a value that no proc put",
            client
                .get(&other, KeyName("foreign.nothing"), &at_once)
                .await,
        );
        let handler =
            Handler::non_blocking(|_| HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN));
        let registered = client.register(&[NEWS], &[], handler.clone()).await;
        if let Ok(id) = registered {
            said("PMIx_Deregister_event_handler", client.deregister(id).await);
        }
        said(
            "PMIx_Register_event_handler",
            client.register(&[NEWS], &[], handler.clone()).await,
        );
        said(
            "PMIx_Register_event_handler for all codes",
            client.register(&[], &[], handler).await,
        );
        said(
            "PMIx_Notify_event, PMIX_RANGE_LOCAL",
            client.notify(NEWS, Range::Local, Vec::new()).await,
        );
        said("PMIx_Group_construct", group);
        if let Some(destructed) = destructed {
            said("PMIx_Group_destruct", destructed);
        }
        let query = |key: KeyName| {
            [Query {
                keys: vec![Some(key.0.into())],
                qualifiers: Vec::new(),
            }]
        };
        said(
            "PMIx_Query_info of namespaces",
            client.query(&query(key::PMIX_QUERY_NAMESPACES)).await,
        );
        said(
            "PMIx_Query_info of log channels",
            client.query(&query(key::PMIX_QUERY_LOG_CHANNELS)).await,
        );
        said(
            "PMIx_Query_info of nonsense",
            client.query(&query(KeyName("foreign.nothing"))).await,
        );
        let line = |key| [Info::new(key, Value::string("peal-foreign was here\n"))];
        said(
            "PMIx_Log to stderr",
            client.log(&line(key::PMIX_LOG_STDERR), &[]).await,
        );
        said(
            "PMIx_Log to the job's record",
            client.log(&line(key::PMIX_LOG_JOB_RECORD), &[]).await,
        );
        let flag = |key| [Info::new(key, Value::Bool(true))];
        let nothing = [Info::new(key::PMIX_JOB_CTRL_SIGNAL, Value::Int(0))];
        said(
            "PMIx_Job_control, signal 0",
            client
                .job_control(std::slice::from_ref(&other), &nothing)
                .await,
        );
        said(
            "PMIx_Job_control, preemptible",
            client
                .job_control(&[], &flag(key::PMIX_JOB_CTRL_PREEMPTIBLE))
                .await,
        );
        let cleanup = [Info::new(
            key::PMIX_REGISTER_CLEANUP,
            Value::string("/tmp/peal-foreign-cleanup"),
        )];
        said(
            "PMIx_Job_control, cleanup",
            client
                .job_control(std::slice::from_ref(&me), &cleanup)
                .await,
        );
        let beats = MonitorRequest::heartbeat(Duration::from_secs(60), 3);
        said(
            "PMIx_Process_monitor, heartbeats",
            client.watch(beats).await,
        );
        said("PMIx_Heartbeat", client.beat().await);
    }
    let last = client.within(Duration::from_secs(120));
    let met = last.fence(&[], &[]).await;
    let left = client.finalize().await;
    if me.rank == Rank(0) {
        said("PMIx_Fence", met);
        said("PMIx_Finalize", left);
    }
    Ok(())
}

/// Raises an event of this range from the first rank. Some servers answer nothing after that, so no
/// further request is sent.
async fn notifies(range: &str) -> Result<()> {
    let client = Client::init().await?;
    let me = client.me().clone();
    let (tell, mut hear) = mpsc::unbounded_channel();
    let handler = Handler::non_blocking(move |_| {
        // The program may have ended already.
        let _ = tell.send(());
        HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    });
    client
        .register(&[NEWS], &ClassFilter::Both.directives(), handler)
        .await?;
    client.fence(&[], &[]).await?;
    if me.rank == Rank(0) {
        let all = [
            Range::Rm,
            Range::Local,
            Range::Namespace,
            Range::Session,
            Range::Global,
            Range::Custom,
        ];
        let range = all
            .into_iter()
            .find(|known| known.name() == range)
            .context("no such range")?;
        let aim = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs(client.peers()));
        let infos = if range == Range::Custom {
            vec![aim]
        } else {
            Vec::new()
        };
        said(
            &format!("PMIx_Notify_event, {}", range.name()),
            client.within(PATIENCE).notify(NEWS, range, infos).await,
        );
    } else {
        let heard = timeout(PATIENCE, hear.recv()).await.is_ok();
        println!(
            "rank {}: {}",
            me.rank,
            if heard { "received" } else { "not received" }
        );
    }
    std::process::exit(0)
}

fn told(event: &Event) -> String {
    let source = event
        .source
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_else(|| "nobody".to_owned());
    let infos: Vec<&str> = event.infos.iter().map(|info| info.key.as_str()).collect();
    format!(
        "{} from {source}, {}, {infos:?}, affected {:?}",
        event.code,
        event.range.name(),
        event.affected()
    )
}

/// Ends the last rank in this way. The other ranks print the events that they receive.
async fn hears(end: &str) -> Result<()> {
    let client = Client::init().await?;
    let (tell, mut hear) = mpsc::unbounded_channel();
    let handler = Handler::non_blocking(move |call| {
        // The program may have received enough.
        let _ = tell.send(told(call.event()));
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    client
        .register(&[], &ClassFilter::Both.directives(), handler.clone())
        .await?;
    // Some host environments raise these only for clients that name them.
    client
        .register(&ENDS, &ClassFilter::Both.directives(), handler.clone())
        .await?;
    client
        .register(&[NEWS], &ClassFilter::Both.directives(), handler)
        .await?;
    client.fence(&[], &[]).await?;
    if client.me().rank.0 as usize == client.peers().len() {
        match end {
            "killed" => kill_process(getpid(), Signal::KILL)?,
            "exits" => std::process::exit(3),
            "aborts" => std::process::abort(),
            // The proc requests a monitor and sends no heartbeat.
            "silent" => drop(
                client
                    .watch(MonitorRequest::heartbeat(Duration::from_secs(1), 1))
                    .await?,
            ),
            _ => return Ok(client.finalize().await?),
        }
    }
    let silence = if end == "silent" { MISSED } else { SILENCE };
    while let Ok(Some(event)) = timeout(silence, hear.recv()).await {
        println!("rank {}: {event}", client.me().rank);
    }
    println!("rank {}: nothing more", client.me().rank);
    Ok(client.finalize().await?)
}
