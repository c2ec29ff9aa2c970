//! Standard input of procs: data pushed to their job, until its end.
use peal_model::{Bytes, Rank};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::{io::AsyncWriteExt, process::ChildStdin, sync::mpsc, task::JoinSet};

/// Maximum number of pieces that wait for a proc that does not read. Beyond it, a push waits.
const MAX_QUEUED_PIECES: usize = 16;

/// Standard inputs of those procs of a job that have one.
#[derive(Debug, Default)]
pub struct Inputs(Mutex<BTreeMap<Rank, mpsc::Sender<Bytes>>>);

impl Inputs {
    /// Pushes data to all inputs, or to those of these ranks, and waits until each has accepted it.
    /// No data, or empty data, closes the inputs. Returns the number of inputs reached.
    pub async fn push(&self, ranks: Option<&BTreeSet<Rank>>, data: Option<Bytes>) -> usize {
        let is_meant = |rank: &Rank| ranks.is_none_or(|ranks| ranks.contains(rank));
        let Some(data) = data.filter(|data| !data.as_slice().is_empty()) else {
            // The task of an input closes it when its sender is dropped and its pieces are written.
            let mut inputs = self.lock();
            let before = inputs.len();
            inputs.retain(|rank, _| !is_meant(rank));
            return before - inputs.len();
        };
        // The senders are cloned, so that no lock is held while a push waits for a slow proc.
        let meant: Vec<_> = self
            .lock()
            .iter()
            .filter(|(rank, _)| is_meant(rank))
            .map(|(_, to)| to.clone())
            .collect();
        let mut reached = 0;
        for to in meant {
            // A proc that has ended or closed its input is not counted.
            reached += usize::from(to.send(data.clone()).await.is_ok());
        }
        reached
    }

    /// Connects the standard input of a proc to the pushed data.
    pub(super) fn connect(&self, rank: Rank, mut stdin: ChildStdin, tasks: &mut JoinSet<()>) {
        let (to, mut pieces) = mpsc::channel::<Bytes>(MAX_QUEUED_PIECES);
        self.lock().insert(rank, to);
        tasks.spawn(async move {
            while let Some(piece) = pieces.recv().await {
                if stdin.write_all(piece.as_slice()).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Removes the input of a proc that has ended.
    pub(super) fn ended(&self, rank: Rank) {
        self.lock().remove(&rank);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Rank, mpsc::Sender<Bytes>>> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
