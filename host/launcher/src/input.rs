//! What procs read: what is pushed to their job, until that ends.
use peal_model::{Bytes, Rank};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::{io::AsyncWriteExt, process::ChildStdin, sync::mpsc, task::JoinSet};

/// How many pieces may wait for a proc that does not read; then whoever pushes waits, too.
const PIECES: usize = 16;

/// The standard inputs of the procs of a job that have one.
#[derive(Debug, Default)]
pub struct Inputs(Mutex<BTreeMap<Rank, mpsc::Sender<Bytes>>>);

impl Inputs {
    /// Pushes to all of them, or to those of these ranks, and waits until they have room. Nothing is the end: they can read no more behind
    /// that. Says how many it was for.
    pub async fn push(&self, ranks: Option<&BTreeSet<Rank>>, data: Option<Bytes>) -> usize {
        let is_meant = |rank: &Rank| ranks.is_none_or(|ranks| ranks.contains(rank));
        let Some(data) = data.filter(|data| !data.as_slice().is_empty()) else {
            let mut inputs = self.lock();
            let before = inputs.len();
            inputs.retain(|rank, _| !is_meant(rank));
            return before - inputs.len();
        };
        let meant: Vec<_> = self
            .lock()
            .iter()
            .filter(|(rank, _)| is_meant(rank))
            .map(|(_, to)| to.clone())
            .collect();
        let mut reached = 0;
        for to in meant {
            // One that has ended, or closed its input, misses nothing.
            reached += usize::from(to.send(data.clone()).await.is_ok());
        }
        reached
    }

    /// From now on a proc reads what is pushed.
    pub(super) fn connect(&self, rank: Rank, mut stdin: ChildStdin, tasks: &mut JoinSet<()>) {
        let (to, mut pieces) = mpsc::channel::<Bytes>(PIECES);
        self.lock().insert(rank, to);
        tasks.spawn(async move {
            while let Some(piece) = pieces.recv().await {
                if stdin.write_all(piece.as_slice()).await.is_err() {
                    return;
                }
            }
        });
    }

    /// A proc has ended.
    pub(super) fn ended(&self, rank: Rank) {
        self.lock().remove(&rank);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Rank, mpsc::Sender<Bytes>>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
