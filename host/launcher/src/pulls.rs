//! Who wants the output of procs (`PMIx_IOF_pull`), and its way to them.
use super::{EmbeddedHostEnvironment, backlog::OutputBacklog};
use peal_model::{
    Bytes, Info, InfoFlags, Infos, IofChannel, KeyName, Nspace, Proc, Status, code, key,
};
use peal_server::ServerHandle;
use peal_wire::IofOutput;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many pulls one proc or tool may have, and all together.
const EACH: usize = 64;
const ALL: usize = 4096;

/// The default registration of a tool for what it starts has this id, on either side.
const BY_ITSELF: u64 = 0;

/// What is done about what is asked beside. What procs wrote is kept anyway, the last of it.
pub(super) const SERVED: [KeyName; 2] = [key::PMIX_IOF_CACHE_SIZE, key::PMIX_IOF_DROP_OLDEST];

impl EmbeddedHostEnvironment {
    /// Begins a pull, and passes on what is kept of what these have written: behind the answer, as it takes its turn behind this.
    pub(super) fn pull(
        &self,
        puller: Proc,
        (sources, channels): (Vec<Proc>, IofChannel),
        local_id: u64,
        directives: &[Info],
    ) -> Result<u64, Status> {
        let is_unserved = |info: &Info| {
            info.flags.contains(InfoFlags::REQUIRED)
                && !SERVED.iter().any(|served| info.key == *served)
        };
        if directives.iter().any(is_unserved) {
            return Err(code::PMIX_ERR_NOT_SUPPORTED);
        }
        let most = match directives.value_of(key::PMIX_IOF_CACHE_SIZE) {
            None => usize::MAX,
            Some(bytes) => {
                let bytes = bytes.as_u32().ok_or(code::PMIX_ERR_BAD_PARAM)?;
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
        };
        // Of jobs that others start the output goes elsewhere.
        let launching = self.launching.get().ok_or(code::PMIX_ERR_NOT_FOUND)?;
        if sources.is_empty()
            || !sources
                .iter()
                .all(|source| self.kin.find(&source.nspace).is_some())
        {
            return Err(code::PMIX_ERR_NOT_FOUND);
        }
        let late = |output| launching.server.forward_late(puller.clone(), output);
        self.pulls
            .add_late(puller.clone(), (sources, channels), local_id, (most, late))
    }
}

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
        let is_meant = |named: &Proc| {
            named.nspace == source.nspace && (!named.rank.is_valid() || named.rank == source.rank)
        };
        self.channels.0 & channel.0 != 0 && self.sources.iter().any(is_meant)
    }
}

#[derive(Default, Debug)]
struct Inner {
    pulls: BTreeMap<u64, Pull>,
    last: u64,
    backlog: OutputBacklog,
}

impl Inner {
    /// The pullers of a stream, each with its own number of the pull.
    fn wanting(&self, source: &Proc, channel: IofChannel) -> Vec<(Proc, u64)> {
        let wanting = self
            .pulls
            .values()
            .filter(|pull| pull.wants(source, channel));
        wanting
            .map(|pull| (pull.puller.clone(), pull.local_id))
            .collect()
    }

    fn add(&mut self, pull: Pull) -> Result<u64, Status> {
        let own = self
            .pulls
            .values()
            .filter(|other| other.puller == pull.puller)
            .count();
        if own >= EACH || self.pulls.len() >= ALL {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        self.last += 1;
        self.pulls.insert(self.last, pull);
        Ok(self.last)
    }
}

/// Who wants output of the procs of a host.
#[derive(Debug, Default)]
pub(super) struct Pulls(Mutex<Inner>);

impl Pulls {
    /// From now on this proc or tool gets what these write to these channels; the answer is a handle by which that ends. What they have
    /// written goes to `late`, no more than so many bytes of each, before anything that they write from now on.
    ///
    /// # Errors
    /// That there are as many as may be.
    fn add_late(
        &self,
        puller: Proc,
        (sources, channels): (Vec<Proc>, IofChannel),
        local_id: u64,
        (most, late): (usize, impl Fn(IofOutput)),
    ) -> Result<u64, Status> {
        let mut inner = self.lock();
        let pull = Pull {
            puller,
            sources,
            channels,
            local_id,
        };
        let id = inner.add(pull)?;
        if let Some(pull) = inner.pulls.get(&id) {
            for (source, channels, data) in inner
                .backlog
                .of(|source, channel| pull.wants(source, channel), most)
            {
                let (source, data) = (source.clone(), Bytes::from(data.as_slice()));
                late(IofOutput {
                    source,
                    channels,
                    local_id,
                    infos: Vec::new(),
                    data,
                });
            }
        }
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
    ) -> Result<PullHandle, Status> {
        let pull = Pull {
            puller: puller.clone(),
            sources,
            channels,
            local_id: BY_ITSELF,
        };
        let id = self.lock().add(pull)?;
        Ok(PullHandle {
            pulls: self.clone(),
            puller,
            id,
        })
    }

    /// A proc or tool is gone.
    pub(super) fn forget(&self, puller: &Proc) {
        self.lock().pulls.retain(|_, pull| pull.puller != *puller);
    }

    /// A job has ended: nobody can pull from it any more.
    pub(super) fn job_ended(&self, job: &Nspace) {
        self.lock().backlog.forget(job);
    }

    /// Who wants what was written; so much of it is kept for those who will.
    fn written(
        &self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        kept: usize,
    ) -> Vec<(Proc, u64)> {
        let mut inner = self.lock();
        inner.backlog.write((source, channel), written, kept);
        inner.wanting(source, channel)
    }

    /// The same of what was logged to a stream, which neither begins nor ends it.
    fn logged(
        &self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        kept: usize,
    ) -> Vec<(Proc, u64)> {
        let mut inner = self.lock();
        inner.backlog.insert((source, channel), written, kept);
        inner.wanting(source, channel)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a tool pulls of a job that it has started, as long as it is about to run or runs.
#[derive(Debug)]
pub(super) struct PullHandle {
    pulls: Arc<Pulls>,
    puller: Proc,
    id: u64,
}

impl Drop for PullHandle {
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
    /// How many bytes are kept for those who pull later.
    pub(super) kept: usize,
}

impl Pulled {
    /// Begins to keep the stream, if any of it is kept.
    pub(super) fn open(&self) {
        if self.kept > 0 {
            self.pulls.lock().backlog.open((&self.source, self.channel));
        }
    }

    /// Passes on what was logged to the stream. Blocks until the server has taken it.
    pub(super) fn forward_logged(&self, written: &[u8]) {
        for (puller, local_id) in
            self.pulls
                .logged((&self.source, self.channel), written, self.kept)
        {
            self.server
                .forward_blocking(puller, self.output(local_id, written));
        }
    }

    fn output(&self, local_id: u64, written: &[u8]) -> IofOutput {
        let (source, channels) = (self.source.clone(), self.channel);
        IofOutput {
            source,
            channels,
            local_id,
            infos: Vec::new(),
            data: Bytes::from(written),
        }
    }

    /// Passes on what was written, or its end, which is nothing. Waits until the server has taken it, not until they have read it: who does
    /// not read loses some of it.
    pub(super) async fn forward(&self, written: &[u8]) {
        for (puller, local_id) in
            self.pulls
                .written((&self.source, self.channel), written, self.kept)
        {
            self.server
                .forward(puller, self.output(local_id, written))
                .await;
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

    fn add(
        pulls: &Pulls,
        puller: Proc,
        sources: Vec<Proc>,
        channels: IofChannel,
        local_id: u64,
    ) -> Result<u64, Status> {
        pulls.lock().add(Pull {
            puller,
            sources,
            channels,
            local_id,
        })
    }

    fn of(pulls: &Pulls, source: &Proc, channel: IofChannel) -> Vec<u64> {
        pulls
            .written((source, channel), b"x", 0)
            .iter()
            .map(|(_, id)| *id)
            .collect()
    }

    #[test]
    fn pull_gets_named_output_until_its_end() {
        let (pulls, tool) = (Pulls::default(), proc("tool", Rank(0)));
        let (out, err) = (IofChannel::STDOUT, IofChannel::STDERR);
        let all = proc("job", rank::PMIX_RANK_WILDCARD);
        let first = add(&pulls, tool.clone(), vec![all], out, 7).unwrap();
        add(
            &pulls,
            proc("job", Rank(0)),
            vec![proc("job", Rank(1))],
            IofChannel(out.0 | err.0),
            8,
        )
        .unwrap();
        let of = |rank, channel| of(&pulls, &proc("job", Rank(rank)), channel);
        assert_eq!(
            (of(0, out), of(1, out), of(1, err), of(0, err)),
            (vec![7], vec![7, 8], vec![8], vec![])
        );
        assert_eq!(
            pulls.remove(&proc("job", Rank(0)), first),
            Err(code::PMIX_ERR_NOT_FOUND),
            "it is another's"
        );
        pulls.remove(&tool, first).unwrap();
        assert!(of(0, out).is_empty());
        pulls.forget(&proc("job", Rank(0)));
        assert!(of(1, err).is_empty());
    }

    #[test]
    fn late_pull_gets_last_output_before_the_rest() {
        let (pulls, source, out) = (Pulls::default(), proc("job", Rank(0)), IofChannel::STDOUT);
        pulls.written((&source, out), b"one\ntwo\n", 64);
        pulls.written((&source, IofChannel::STDERR), b"error\n", 64);
        let late = |most| {
            let got = std::cell::RefCell::new(Vec::new());
            let late = |output: IofOutput| {
                got.borrow_mut()
                    .push((output.local_id, output.data.as_slice().to_vec()))
            };
            pulls
                .add_late(
                    proc("tool", Rank(0)),
                    (vec![source.clone()], out),
                    7,
                    (most, late),
                )
                .unwrap();
            got.into_inner()
        };
        assert_eq!(late(usize::MAX), [(7, b"one\ntwo\n".to_vec())]);
        assert_eq!(late(4), [(7, b"two\n".to_vec())]);
        assert_eq!(of(&pulls, &source, out), [7, 7]);
        pulls.job_ended(&source.nspace);
        assert_eq!(late(usize::MAX), []);
    }

    #[test]
    fn pull_of_spawning_tool_ends_with_spawned_job() {
        let pulls = Arc::new(Pulls::default());
        let source = proc("job", Rank(0));
        let held = pulls
            .hold(
                proc("tool", Rank(0)),
                vec![source.clone()],
                IofChannel::STDOUT,
            )
            .unwrap();
        assert_eq!(of(&pulls, &source, IofChannel::STDOUT), [BY_ITSELF]);
        drop(held);
        assert!(of(&pulls, &source, IofChannel::STDOUT).is_empty());
    }

    #[test]
    fn pulls_per_peer_are_bounded() {
        let pulls = Pulls::default();
        let add = |job: &str| {
            add(
                &pulls,
                proc(job, Rank(0)),
                Vec::new(),
                IofChannel::STDOUT,
                1,
            )
        };
        assert!((0..EACH).all(|_| add("greedy").is_ok()));
        assert_eq!(add("greedy"), Err(code::PMIX_ERR_OUT_OF_RESOURCE));
        assert!(add("other").is_ok());
    }
}
