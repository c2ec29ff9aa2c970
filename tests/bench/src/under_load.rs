//! What harm that one client does costs another: rank 0 raises events for rank 1, one after the other, first alone and then
//! while rank 2 raises as many as it can, or such as make a hosted handler do harm.
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

/// What is raised in a flood; nobody listens to it.
const FLOOD: Status = Status(-3998);

/// What makes the component `bomb` do harm.
const BOMB: Status = Status(-3997);

/// How long it is from one bomb to the next: they are there faster than they can be cut off.
const BOMB_EVERY: Duration = Duration::from_millis(20);

/// What rank 2 does.
#[derive(Clone, Copy)]
pub enum Harm {
    /// Raises as many events as it can.
    Flood,
    /// Raises events that a hosted handler is cut off at.
    LimitHits,
}

/// How many events of the flood may be unacknowledged.
const WINDOW: usize = 256;

/// Measures, listens or does harm.
pub async fn run(proc: &Proc, client: &Arc<Client>, arrivals: Arrivals, harm: Harm) -> Result<()> {
    let arrivals = Arc::new(arrivals);
    let (rank, over) = (client.me().rank, Arc::new(AtomicBool::new(false)));
    if rank == Rank(1) {
        let arrivals = arrivals.clone();
        // What cannot be written is missed by rank 0, which then waits until it is stopped.
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
    let (room, mut sending) = (Arc::new(Semaphore::new(WINDOW)), JoinSet::new());
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
    // So that it can be seen that it was one.
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
