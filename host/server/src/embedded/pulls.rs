//! Who wants the output of procs (`PMIx_IOF_pull`), and its way to them.
use crate::handle::ServerHandle;
use peal_model::{Bytes, IofChannel, Proc, Status, code};
use peal_wire::Output;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many pulls one proc or tool may have, and all together.
const EACH: usize = 64;
const ALL: usize = 4096;

/// The default registration of a tool for what it starts has this id, on either side.
const BY_ITSELF: u64 = 0;

#[derive(Debug)]
struct Pull {
    puller: Proc,
    sources: Vec<Proc>,
    channels: IofChannel,
    /// The puller's own number of it, which each message carries.
    local_id: u64,
}

impl Pull {
    fn wants(&self, source: &Proc, channel: IofChannel) -> bool {
        let is_meant =
            |named: &Proc| named.nspace == source.nspace && (!named.rank.is_valid() || named.rank == source.rank);
        self.channels.0 & channel.0 != 0 && self.sources.iter().any(is_meant)
    }
}

#[derive(Default, Debug)]
struct Inner {
    pulls: BTreeMap<u64, Pull>,
    last: u64,
}

/// Who wants output of the procs of a host.
#[derive(Debug, Default)]
pub(super) struct Pulls(Mutex<Inner>);

impl Pulls {
    /// From now on this proc or tool gets what these write to these channels; the answer is a handle by which that ends.
    ///
    /// # Errors
    /// That there are as many as may be.
    pub(super) fn add(
        &self,
        puller: Proc,
        sources: Vec<Proc>,
        channels: IofChannel,
        local_id: u64,
    ) -> Result<u64, Status> {
        let mut inner = self.lock();
        let own = inner.pulls.values().filter(|pull| pull.puller == puller).count();
        if own >= EACH || inner.pulls.len() >= ALL {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        inner.last += 1;
        let id = inner.last;
        inner.pulls.insert(id, Pull { puller, sources, channels, local_id });
        Ok(id)
    }

    /// Who began one ends it.
    pub(super) fn remove(&self, puller: &Proc, id: u64) -> Result<(), Status> {
        let mut inner = self.lock();
        match inner.pulls.get(&id) {
            Some(pull) if pull.puller == *puller => {
                inner.pulls.remove(&id);
                Ok(())
            }
            _ => Err(code::PMIX_ERR_NOT_FOUND),
        }
    }

    /// The same for what a tool starts, which did not ask for it by itself: it ends when the answer is dropped.
    pub(super) fn hold(
        self: &Arc<Pulls>,
        puller: Proc,
        sources: Vec<Proc>,
        channels: IofChannel,
    ) -> Result<Held, Status> {
        let id = self.add(puller.clone(), sources, channels, BY_ITSELF)?;
        Ok(Held { pulls: self.clone(), puller, id })
    }

    /// A proc or tool is gone.
    pub(super) fn forget(&self, puller: &Proc) {
        self.lock().pulls.retain(|_, pull| pull.puller != *puller);
    }

    fn of(&self, source: &Proc, channel: IofChannel) -> Vec<(Proc, u64)> {
        let inner = self.lock();
        let wanting = inner.pulls.values().filter(|pull| pull.wants(source, channel));
        wanting.map(|pull| (pull.puller.clone(), pull.local_id)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a tool pulls of a job that it has started, as long as it is about to run or runs.
#[derive(Debug)]
pub(super) struct Held {
    pulls: Arc<Pulls>,
    puller: Proc,
    id: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A tool that is gone has none any more.
        let _ = self.pulls.remove(&self.puller, self.id);
    }
}

/// One output of one proc, for those who want it.
#[derive(Clone)]
pub(super) struct Pulled {
    pub(super) pulls: Arc<Pulls>,
    pub(super) server: ServerHandle,
    pub(super) source: Proc,
    pub(super) channel: IofChannel,
}

impl Pulled {
    /// Passes on what was written, or its end, which is nothing. Waits until the server has taken it, not until they have read it: who does
    /// not read loses some of it.
    pub(super) async fn forward(&self, written: &[u8]) {
        for (puller, local_id) in self.pulls.of(&self.source, self.channel) {
            let (source, channels) = (self.source.clone(), self.channel);
            let output = Output { source, channels, local_id, infos: Vec::new(), data: Bytes::from(written) };
            self.server.forward(puller, output).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Rank, rank};

    fn proc(job: &str, rank: Rank) -> Proc {
        Proc::new(Nspace::new(job).unwrap(), rank)
    }

    #[test]
    fn who_pulls_gets_what_was_named_until_that_ends() {
        let (pulls, tool) = (Pulls::default(), proc("tool", Rank(0)));
        let (out, err) = (IofChannel::STDOUT, IofChannel::STDERR);
        let all = proc("job", rank::PMIX_RANK_WILDCARD);
        let first = pulls.add(tool.clone(), vec![all], out, 7).unwrap();
        pulls.add(proc("job", Rank(0)), vec![proc("job", Rank(1))], IofChannel(out.0 | err.0), 8).unwrap();
        let of =
            |rank, channel| pulls.of(&proc("job", Rank(rank)), channel).iter().map(|(_, id)| *id).collect::<Vec<_>>();
        assert_eq!((of(0, out), of(1, out), of(1, err), of(0, err)), (vec![7], vec![7, 8], vec![8], vec![]));
        assert_eq!(pulls.remove(&proc("job", Rank(0)), first), Err(code::PMIX_ERR_NOT_FOUND), "it is another's");
        pulls.remove(&tool, first).unwrap();
        assert!(of(0, out).is_empty());
        pulls.forget(&proc("job", Rank(0)));
        assert!(of(1, err).is_empty());
    }

    #[test]
    fn what_a_tool_pulls_of_a_job_that_it_starts_goes_with_that() {
        let pulls = Arc::new(Pulls::default());
        let source = proc("job", Rank(0));
        let of = || pulls.of(&source, IofChannel::STDOUT).len();
        let held = pulls.hold(proc("tool", Rank(0)), vec![source.clone()], IofChannel::STDOUT).unwrap();
        assert_eq!(of(), 1);
        drop(held);
        assert_eq!(of(), 0);
    }

    #[test]
    fn nobody_has_more_than_may_be() {
        let pulls = Pulls::default();
        let add = |job: &str| pulls.add(proc(job, Rank(0)), Vec::new(), IofChannel::STDOUT, 1);
        assert!((0..EACH).all(|_| add("greedy").is_ok()));
        assert_eq!(add("greedy"), Err(code::PMIX_ERR_OUT_OF_RESOURCE));
        assert!(add("other").is_ok());
    }
}
