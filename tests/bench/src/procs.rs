//! A proc of a job with Peal's own client: the counterpart of `tests/c/bench/client.c`, mode by mode.
use crate::{
    arrivals::{Arrivals, now},
    flood,
    times::Times,
    under_load::{self, Harm},
};
use anyhow::{Context, Result};
use peal_client::{ClassFilter, Client, Handler, HandlerOutcome};
use peal_model::{Info, Infos, KeyName, Range, Rank, Status, Value, code};
use std::{io::Read, path::PathBuf, sync::Arc, time::Instant};
use tokio::sync::mpsc;

/// The event that is measured ...
pub const NEWS: Status = Status(-3101);
/// ... and the answer to it.
pub const ANSWER: Status = Status(-3102);

/// Which event it is.
pub const NUMBER: KeyName = KeyName("bench.number");
/// When it was sent, in nanoseconds.
pub const SENT: KeyName = KeyName("bench.sent");

/// `peal-bench proc`.
#[derive(clap::Args)]
pub struct Proc {
    /// What is measured
    #[arg(value_enum)]
    mode: Mode,
    /// How many are measured
    pub count: u32,
    /// How many are not, before those
    pub warm: u32,
    /// Where the files are by which the procs know of each other
    dir: PathBuf,
    /// Of a flood, how many events may be unacknowledged, 0 for any number; of fences, in how many turns they are measured, 0
    /// for one that nobody is waited for
    #[arg(default_value_t = 0)]
    pub extra: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    /// Rank 0 to all others, one event after the other, until the last one's handler runs
    Fan,
    /// Rank 0 to rank 1, which answers with an event
    Pingpong,
    /// Rank 0 to rank 1, many at once
    Flood,
    /// Rank 0 to rank 1, one event after the other, first alone and then while rank 2 raises as many as it can
    UnderFlood,
    /// The same while rank 2 raises events that a hosted handler is cut off at
    UnderLimitHits,
    /// All procs
    Fence,
    /// Connects and waits
    Idle,
}

/// The infos of an event, as many as the C program sends.
pub fn infos(number: u32) -> Vec<Info> {
    let sent = u64::try_from(now().as_nanos()).unwrap_or_default();
    vec![
        Info::new(NUMBER, Value::Uint64(number.into())),
        Info::new(SENT, Value::Uint64(sent)),
        Info::new(
            KeyName("bench.text"),
            Value::string("a short diagnostic text"),
        ),
        Info::new(KeyName("bench.flag"), Value::Bool(true)),
    ]
}

/// The number that an info holds.
pub fn number_in(infos: &[Info], key: KeyName) -> Option<u64> {
    infos.value_of(key).and_then(Value::as_u64)
}

/// A handler that takes no action but does this, which must not block, as in the C library.
pub fn quick(action: impl Fn(&[Info]) + Send + Sync + 'static) -> Handler {
    Handler::non_blocking(move |call| {
        action(&call.event().infos);
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    })
}

impl Proc {
    /// Connects, measures, finalizes.
    pub fn run(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let arrivals = Arrivals::open(&self.dir)?;
            let client = Arc::new(Client::init().await?);
            match self.mode {
                Mode::Fan => self.fan(&client, arrivals).await?,
                Mode::Pingpong => self.pingpong(&client).await?,
                Mode::Flood => flood::run(self, &client).await?,
                Mode::UnderFlood => under_load::run(self, &client, arrivals, Harm::Flood).await?,
                Mode::UnderLimitHits => {
                    under_load::run(self, &client, arrivals, Harm::LimitHits).await?
                }
                Mode::Fence => self.fence(&client, &arrivals).await?,
                Mode::Idle => {
                    arrivals.arrive(now(), size(&client)?)?;
                    arrivals.await_leave()?;
                }
            }
            let client = Arc::into_inner(client).context("somebody still uses the client")?;
            Ok(client.finalize().await?)
        })
    }

    async fn fan(&self, client: &Client, arrivals: Arrivals) -> Result<()> {
        let arrivals = Arc::new(arrivals);
        if client.me().rank != Rank(0) {
            let (receivers, arrivals) = (size(client)? - 1, arrivals.clone());
            // What cannot be written is missed by rank 0, which then waits until it is stopped.
            let arrive = quick(move |_| drop(arrivals.arrive(now(), receivers)));
            client
                .register(&[NEWS], &ClassFilter::Both.directives(), arrive)
                .await?;
        }
        client.fence(&[], &[]).await?;
        if client.me().rank == Rank(0) {
            let mut times = Times::new(self.warm, self.count);
            for number in 0..self.warm + self.count {
                let start = now();
                client.notify(NEWS, Range::Local, infos(number)).await?;
                times.add(arrivals.await_last()?.saturating_sub(start));
            }
            times.print();
        }
        Ok(client.fence(&[], &[]).await?)
    }

    async fn pingpong(&self, client: &Arc<Client>) -> Result<()> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let heard = quick(move |infos| {
            // Who measures may have heard enough.
            let _ = tell.send((Instant::now(), number_in(infos, NUMBER)));
        });
        let answers = client.me().rank == Rank(1);
        client
            .register(
                &[if answers { NEWS } else { ANSWER }],
                &ClassFilter::Both.directives(),
                heard,
            )
            .await?;
        client.fence(&[], &[]).await?;
        if answers {
            for _ in 0..self.warm + self.count {
                let (_, number) = told.recv().await.context("the client has gone")?;
                let number = u32::try_from(number.context("an event without a number")?)?;
                client.notify(ANSWER, Range::Local, infos(number)).await?;
            }
        } else {
            let mut times = Times::new(self.warm, self.count);
            for number in 0..self.warm + self.count {
                let start = Instant::now();
                client.notify(NEWS, Range::Local, infos(number)).await?;
                let (end, _) = told.recv().await.context("the client has gone")?;
                times.add(end.saturating_duration_since(start));
            }
            times.print();
        }
        Ok(client.fence(&[], &[]).await?)
    }

    async fn fence(&self, client: &Client, arrivals: &Arrivals) -> Result<()> {
        let turns = (self.extra > 0 && client.me().rank == Rank(0))
            .then(|| arrivals.turns())
            .transpose()?;
        let begin_turn = || {
            turns
                .as_ref()
                .map_or(Ok(()), |mut turns| turns.read_exact(&mut [0]))
        };
        let mut times = Times::new(0, self.extra.max(1));
        for _ in 0..self.extra.max(1) {
            begin_turn()?;
            for _ in 0..self.warm {
                client.fence(&[], &[]).await?;
            }
            let start = Instant::now();
            for _ in 0..self.count {
                client.fence(&[], &[]).await?;
            }
            times.add(start.elapsed() / self.count.max(1));
            if turns.is_some() {
                arrivals.turn_is_over()?;
            }
        }
        // Nobody goes before the other jobs have had their turns.
        begin_turn()?;
        client.fence(&[], &[]).await?;
        if client.me().rank == Rank(0) {
            times.print_median();
        }
        Ok(())
    }
}

fn size(client: &Client) -> Result<u32> {
    Ok(u32::try_from(client.peers().len())? + 1)
}
