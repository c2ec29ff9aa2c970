//! Effect of one client's load on another client. Rank 0 raises events for rank 1, one after the
//! other: first alone, then under load. For the load, rank 2 raises as many events as it can, or
//! events at which a hosted handler exceeds its limits.
use crate::{
    arrivals::{Arrivals, now},
    procs::{ANSWER, NEWS, Proc, infos, quick},
    times::Times,
};
use anyhow::Result;
use peal_client::{ClassFilter, Client};
use peal_model::{Range, Rank, Status};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;
use tokio::{sync::Semaphore, task::JoinSet};

/// Code of the flood's events, for which no handler is registered.
const FLOOD: Status = Status(-3998);

/// Code at which the component `limit-breaker` exceeds a limit.
const BOMB: Status = Status(-3997);

/// Interval between events with this code. It is shorter than the time until a call is interrupted.
const BOMB_EVERY: Duration = Duration::from_millis(20);

/// Load that rank 2 causes.
#[derive(Clone, Copy)]
pub enum Harm {
    /// As many events as rank 2 can raise.
    Flood,
    /// Events at which a hosted handler exceeds its limits.
    LimitHits,
}

/// Maximum number of unacknowledged events of the flood.
const WINDOW: usize = 256;

/// Runs the part of this rank: measures, receives or causes the load.
pub async fn run(proc: &Proc, client: &Arc<Client>, arrivals: Arrivals, harm: Harm) -> Result<()> {
    let arrivals = Arc::new(arrivals);
    let rank = client.me().rank;
    let over = Arc::new(AtomicBool::new(false));
    if rank == Rank(1) {
        let arrivals = arrivals.clone();
        // If the write fails, rank 0 misses the arrival and waits until it is stopped.
        let arrive = quick(move |_| drop(arrivals.arrive(now(), 1)));
        client
            .register(&[NEWS], &ClassFilter::Both.directives(), arrive)
            .await?;
    }
    if rank == Rank(2) {
        let over = over.clone();
        let end = quick(move |_| over.store(true, Ordering::Relaxed));
        client
            .register(&[ANSWER], &ClassFilter::Both.directives(), end)
            .await?;
    }
    client.fence(&[], &[]).await?;
    if rank == Rank(0) {
        measure(proc, client, &arrivals).await?.print_as("alone");
    }
    client.fence(&[], &[]).await?;
    match rank {
        Rank(0) => {
            measure(proc, client, &arrivals).await?.print();
            client.notify(ANSWER, Range::Local, infos(0)).await?;
        }
        Rank(2) => match harm {
            Harm::Flood => flood(client, &over).await?,
            Harm::LimitHits => hit_limits(client, &over).await?,
        },
        _ => {}
    }
    Ok(client.fence(&[], &[]).await?)
}

async fn measure(proc: &Proc, client: &Client, arrivals: &Arrivals) -> Result<Times> {
    let mut times = Times::new(proc.warm, proc.count);
    for number in 0..proc.warm + proc.count {
        let start = now();
        client.notify(NEWS, Range::Local, infos(number)).await?;
        times.add(arrivals.await_last()?.saturating_sub(start));
    }
    Ok(times)
}

async fn flood(client: &Arc<Client>, over: &AtomicBool) -> Result<()> {
    let room = Arc::new(Semaphore::new(WINDOW));
    let mut sending = JoinSet::new();
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let seat = room.clone().acquire_owned().await?;
        let client = client.clone();
        number += 1;
        sending.spawn(async move {
            let sent = client.notify(FLOOD, Range::Local, infos(number)).await;
            drop(seat);
            sent
        });
        while let Some(sent) = sending.try_join_next() {
            sent??;
        }
    }
    while let Some(sent) = sending.join_next().await {
        sent??;
    }
    // The number shows that there was a flood.
    println!("flood {number}");
    Ok(())
}

async fn hit_limits(client: &Client, over: &AtomicBool) -> Result<()> {
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        client.notify(BOMB, Range::Local, infos(number)).await?;
        number += 1;
        tokio::time::sleep(BOMB_EVERY).await;
    }
    println!("limit-hits {number}");
    Ok(())
}
