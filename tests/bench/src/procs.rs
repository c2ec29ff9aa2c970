//! A proc of a job with Peal's own client: the counterpart of `tests/c/bench/client.c`, mode by
//! mode.
use crate::{
    arrivals::{Arrivals, Turns, now},
    flood,
    times::Times,
    under_load::{self, Harm},
};
use anyhow::{Context, Result};
use peal_client::{ClassFilter, Client, Handler, HandlerOutcome};
use peal_model::{Info, Infos, KeyName, Range, Rank, Status, Value, code};
use std::{path::PathBuf, sync::Arc, time::Instant};
use tokio::sync::mpsc;

/// Code of the measured event.
pub const NEWS: Status = Status(-3101);
/// Code of the event that answers it.
pub const ANSWER: Status = Status(-3102);

/// Number of the event.
pub const NUMBER: KeyName = KeyName("bench.number");
/// Time of sending in nanoseconds.
pub const SENT: KeyName = KeyName("bench.sent");

/// Arguments of `peal-bench proc`.
#[derive(clap::Args)]
pub struct Proc {
    /// The measured operation
    #[arg(value_enum)]
    mode: Mode,
    /// The number of measured operations
    pub count: u32,
    /// The number of operations before the measured ones
    pub warm: u32,
    /// The directory of the files by which the procs synchronize
    dir: PathBuf,
    /// For a flood, the maximum number of unacknowledged events, 0 for no limit; for fences and
    /// `pingpong`, the number of turns in which they are measured, 0 for a single one without
    /// waiting
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
    /// Rank 0 to rank 1, one event after the other, first alone and then while rank 2 raises as
    /// many as it can
    UnderFlood,
    /// The same while rank 2 raises events at which a hosted handler exceeds its limits
    UnderLimitHits,
    /// All procs
    Fence,
    /// Connects and waits
    Idle,
}

/// Returns the infos of an event, as many as the C program sends.
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

/// Returns the number that the info with this key holds.
pub fn number_in(infos: &[Info], key: KeyName) -> Option<u64> {
    infos.value_of(key).and_then(Value::as_u64)
}

/// Returns a handler that runs this action and returns no result of its own. The action must not
/// block, as in the C library.
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
                Mode::Pingpong => self.pingpong(&client, &arrivals).await?,
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
            let client = Arc::into_inner(client).context("the client is still in use")?;
            Ok(client.finalize().await?)
        })
    }

    async fn fan(&self, client: &Client, arrivals: Arrivals) -> Result<()> {
        let arrivals = Arc::new(arrivals);
        if client.me().rank != Rank(0) {
            let receivers = size(client)? - 1;
            let arrivals = arrivals.clone();
            // If the write fails, rank 0 misses the arrival and waits until it is stopped.
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

    async fn pingpong(&self, client: &Arc<Client>, arrivals: &Arrivals) -> Result<()> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let heard = quick(move |infos| {
            // The measuring task may have ended already.
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
        let turns = self.turns(client, arrivals)?;
        if answers {
            for _ in 0..self.turn_count() * (self.warm + self.count) {
                let (_, number) = told.recv().await.context("the client has gone")?;
                let number = u32::try_from(number.context("an event without a number")?)?;
                client.notify(ANSWER, Range::Local, infos(number)).await?;
            }
        } else {
            let mut times = Times::new(0, self.turn_count() * self.count);
            for _ in 0..self.turn_count() {
                turns.begin()?;
                for number in 0..self.warm + self.count {
                    let start = Instant::now();
                    client.notify(NEWS, Range::Local, infos(number)).await?;
                    let (end, _) = told.recv().await.context("the client has gone")?;
                    if number >= self.warm {
                        times.add(end.saturating_duration_since(start));
                    }
                }
                turns.end()?;
            }
            times.print();
        }
        // No proc continues before the other jobs had their turns.
        turns.begin()?;
        Ok(client.fence(&[], &[]).await?)
    }

    async fn fence(&self, client: &Client, arrivals: &Arrivals) -> Result<()> {
        let turns = self.turns(client, arrivals)?;
        let mut times = Times::new(0, self.turn_count());
        for _ in 0..self.turn_count() {
            turns.begin()?;
            for _ in 0..self.warm {
                client.fence(&[], &[]).await?;
            }
            let start = Instant::now();
            for _ in 0..self.count {
                client.fence(&[], &[]).await?;
            }
            times.add(start.elapsed() / self.count.max(1));
            turns.end()?;
        }
        // No proc continues before the other jobs had their turns.
        turns.begin()?;
        client.fence(&[], &[]).await?;
        if client.me().rank == Rank(0) {
            times.print_median();
        }
        Ok(())
    }

    fn turn_count(&self) -> u32 {
        self.extra.max(1)
    }

    /// Returns the turns of the job. Only rank 0 waits for them; the others wait for rank 0.
    fn turns<'a>(&self, client: &Client, arrivals: &'a Arrivals) -> Result<Turns<'a>> {
        arrivals.turns(self.extra > 0 && client.me().rank == Rank(0))
    }
}

fn size(client: &Client) -> Result<u32> {
    Ok(u32::try_from(client.peers().len())? + 1)
}
