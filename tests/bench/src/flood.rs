//! A flood of events from rank 0 to rank 1, which counts the events that arrive.
use crate::{
    arrivals::now,
    procs::{NEWS, NUMBER, Proc, SENT, infos, number_in, quick},
};
use anyhow::Result;
use peal_client::{ClassFilter, Client};
use peal_model::{Range, Rank};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{
    sync::{
        Semaphore,
        mpsc::{self, UnboundedReceiver},
    },
    task::JoinSet,
    time::timeout,
};

/// Time without an event after which no more events are expected.
const PATIENCE: Duration = Duration::from_secs(5);

/// Times of sending and receiving since the epoch, and the number of the event.
type Arrival = (Duration, Duration, u64);

/// Sends the events, or receives them and prints the figures.
pub async fn run(proc: &Proc, client: &Arc<Client>) -> Result<()> {
    let (tell, told) = mpsc::unbounded_channel();
    let rank = client.me().rank;
    if rank == Rank(1) {
        let heard = quick(move |infos| {
            let received = now();
            let number = number_in(infos, NUMBER).unwrap_or(u64::MAX);
            let sent = Duration::from_nanos(number_in(infos, SENT).unwrap_or(u64::MAX));
            // The receiver may have ended already.
            let _ = tell.send((sent, received, number));
        });
        client
            .register(&[NEWS], &ClassFilter::Both.directives(), heard)
            .await?;
    }
    client.fence(&[], &[]).await?;
    match rank {
        Rank(0) => send(proc, client).await?,
        Rank(1) => receive(proc.count, told).await,
        _ => {}
    }
    Ok(client.fence(&[], &[]).await?)
}

async fn send(proc: &Proc, client: &Arc<Client>) -> Result<()> {
    let open = if proc.extra == 0 {
        proc.count
    } else {
        proc.extra
    };
    let room = Arc::new(Semaphore::new(open as usize));
    let mut sending = JoinSet::new();
    for number in 0..proc.count {
        let seat = room.clone().acquire_owned().await?;
        let client = client.clone();
        sending.spawn(async move {
            let sent = client.notify(NEWS, Range::Local, infos(number)).await;
            drop(seat);
            sent
        });
    }
    while let Some(sent) = sending.join_next().await {
        sent??;
    }
    Ok(())
}

async fn receive(count: u32, mut told: UnboundedReceiver<Arrival>) {
    let mut seen = HashSet::new();
    let mut duplicates = 0;
    let mut first = Duration::MAX;
    let mut last = Duration::ZERO;
    for _ in 0..count {
        let Ok(Some((sent, received, number))) = timeout(PATIENCE, told.recv()).await else {
            break;
        };
        first = first.min(sent);
        last = last.max(received);
        if !seen.insert(number) {
            duplicates += 1;
        }
    }
    println!(
        "lost {}\nduplicates {duplicates}",
        count as usize - seen.len()
    );
    println!(
        "per_s {:.1}",
        seen.len() as f64 / last.saturating_sub(first).as_secs_f64()
    );
}
