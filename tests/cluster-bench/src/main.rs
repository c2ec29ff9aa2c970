//! `peal-cluster-bench`: many servers in this process join a cluster on one real NATS server, and send
//! each other events. Prints lines `NAME VALUE`. It is a package of its own, since it needs no engine.
#![allow(clippy::print_stdout, reason = "the program prints its measurements")]
mod arrivals;
mod nats_server;
mod usage;

use anyhow::{Context, Result, ensure};
use arrivals::{Arrivals, CountingServer};
use clap::Parser;
use nats_server::NatsServer;
use peal_cluster::{ClusterServerSettings, ServerKind, ServerNetwork, ServerTransport};
use peal_core::user_scope::UserScope;
use peal_model::{Event, Info, Key, Nspace, Proc, Range, Rank, Status, Value};
use peal_nats::{ClusterAccess, NatsNetwork};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, time::sleep};
use usage::ProcessUsage;

/// A server of a node has a heap of its own. The system's allocator spends a quarter of the processor time
/// on the one heap of all servers here.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Time between two events, in which all acknowledgements of the first one arrive.
const PAUSE: Duration = Duration::from_millis(400);
/// Time limit of connections and requests of a server.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of each measured operation.
const PATIENCE: Duration = Duration::from_secs(100);

/// Measures a cluster; run by `cargo xtask bench`.
#[derive(Parser)]
struct Args {
    /// The program of the NATS server
    nats_server: PathBuf,
    /// An empty directory for the files of the cluster
    directory: PathBuf,
    /// The number of servers
    #[arg(long, default_value_t = 1000)]
    servers: usize,
    /// The number of events
    #[arg(long, default_value_t = 20)]
    events: usize,
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.servers >= 2, "a cluster has two servers at least");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(&args))
}

async fn measure(args: &Args) -> Result<()> {
    let nats = NatsServer::start(&args.nats_server, &args.directory, args.servers).await?;
    let arrivals = Arrivals::of(args.servers);
    let runtimes = ServerRuntimes::start()?;
    let alone = ProcessUsage::of_this_process()?;
    let nats_before = ProcessUsage::of(nats.pid())?;
    let began = Instant::now();
    let transports: Vec<Arc<dyn ServerTransport>> = nats
        .accesses(TIMEOUT)
        .zip(runtimes.handles.iter().cycle())
        .zip(1..)
        .map(|((access, runtime), run)| {
            let _in_runtime = runtime.enter();
            join(access, run, &arrivals)
        })
        .collect();
    arrivals
        .wait_for_members(PATIENCE)
        .await
        .context("not all servers know each other")?;
    let joined = began.elapsed();
    let used = ProcessUsage::of_this_process()?;
    println!("join_ms {:.3}", millis(joined));
    let enrolled = arrivals.enrolled();
    for (name, place) in [
        ("first_member_ms", 0),
        ("half_member_ms", enrolled.len() / 2),
        ("last_member_ms", enrolled.len() - 1),
    ] {
        if let Some(at) = enrolled.get(place) {
            println!("{name} {:.3}", millis(at.saturating_duration_since(began)));
        }
    }
    println!("join_cpu_ms {:.3}", millis(used.cpu - alone.cpu));
    let nats_used = ProcessUsage::of(nats.pid())?;
    println!(
        "join_nats_cpu_ms {:.3}",
        millis(nats_used.cpu - nats_before.cpu)
    );
    let grown = used.resident_kib.saturating_sub(alone.resident_kib);
    println!("kib_per_server {:.3}", count(grown) / count(args.servers));
    let mut times = events(&transports, &arrivals, args.events).await?;
    times.sort_unstable();
    let at = |place: usize| times.get(place).copied().unwrap_or_default();
    println!("event_ms {:.3}", millis(at(times.len() / 2)));
    println!("event_ms_most {:.3}", millis(at(times.len() - 1)));
    println!("lost {}", arrivals.lost());
    Ok(())
}

/// Runtimes of the servers, one for each processor. A server stays in its own, as the server of a node
/// does. In one runtime for all, threads would free what others have allocated.
struct ServerRuntimes {
    handles: Vec<Handle>,
}

impl ServerRuntimes {
    fn start() -> Result<ServerRuntimes> {
        let count = std::thread::available_parallelism()?.get();
        let handles = (0..count).map(|_| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let handle = runtime.handle().clone();
            // It runs until the program ends.
            std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
            Ok(handle)
        });
        Ok(ServerRuntimes {
            handles: handles.collect::<Result<_>>()?,
        })
    }
}

fn join(access: ClusterAccess, run: u64, arrivals: &Arc<Arrivals>) -> Arc<dyn ServerTransport> {
    let settings = ClusterServerSettings::default();
    let software = env!("CARGO_PKG_VERSION").to_owned();
    let network = NatsNetwork::new(access, settings, software, run);
    network.join(CountingServer::new(arrivals), ServerKind::Node)
}

/// Measures events, each of another server, from the call until the last server has it.
async fn events(
    transports: &[Arc<dyn ServerTransport>],
    arrivals: &Arrivals,
    count: usize,
) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(count);
    let step = (transports.len() / count.max(1)).max(1);
    for (number, transport) in transports
        .iter()
        .cycle()
        .step_by(step)
        .take(count)
        .enumerate()
    {
        sleep(PAUSE).await;
        let event = event(number)?;
        let began = arrivals.expect_event();
        transport.distribute(event, UserScope::Everybody);
        let arrived = arrivals
            .wait_for_event(PATIENCE)
            .await
            .with_context(|| format!("event {number} did not reach all servers"))?;
        times.push(arrived.saturating_duration_since(began));
    }
    Ok(times)
}

/// Returns an event with four infos, as elsewhere in the bench.
fn event(number: usize) -> Result<Arc<Event>> {
    let source = Proc::new(Nspace::new("bench")?, Rank(0));
    let info = |name: &str| -> Result<Info> {
        let value = Value::Uint64(u64::try_from(number)?);
        Ok(Info::new(Key::new(name)?, value))
    };
    let names = ["bench.number", "bench.two", "bench.three", "bench.four"];
    Ok(Arc::new(Event {
        code: Status(-3101),
        source: Some(source),
        range: Range::Global,
        infos: names.iter().map(|name| info(name)).collect::<Result<_>>()?,
    }))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns a count for a mean; it is far below the numbers that a float cannot hold.
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn count(number: usize) -> f64 {
    number as f64
}
