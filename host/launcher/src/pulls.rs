//! Pulls of the output of procs (`PMIx_IOF_pull`), and the forwarding to the pullers.
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

/// Maximum number of pulls of one proc or tool.
const MAX_PULLS_PER_PULLER: usize = 64;
/// Maximum number of pulls of all together.
const MAX_PULLS: usize = 4096;

/// Local id of the pull that a tool has by default for jobs that it spawns. Client and server agree
/// on it.
const DEFAULT_PULL: u64 = 0;

/// Directives of a pull that are honoured. The last output is kept in any case, which satisfies
/// `PMIX_IOF_DROP_OLDEST`.
pub(super) const SERVED: [KeyName; 2] = [key::PMIX_IOF_CACHE_SIZE, key::PMIX_IOF_DROP_OLDEST];

impl EmbeddedHostEnvironment {
    /// Begins a pull and passes on the kept output of the sources. The kept output follows the
    /// reply to the requester, since the server queues it behind this upcall.
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
        // The output of jobs of other launchers does not pass through this process.
        let launching = self.launching.get().ok_or(code::PMIX_ERR_NOT_FOUND)?;
        if sources.is_empty()
            || !sources
                .iter()
                .all(|source| self.jobs.find(&source.nspace).is_some())
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
    /// The puller's own id of the pull. Each message to the puller contains it.
    local_id: u64,
}

impl Pull {
    /// Returns true if the pull includes this channel of this proc.
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
    /// Returns the pullers of a stream, each with its own id of the pull.
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
        if own >= MAX_PULLS_PER_PULLER || self.pulls.len() >= MAX_PULLS {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        self.last += 1;
        self.pulls.insert(self.last, pull);
        Ok(self.last)
    }
}

/// Pulls of the output of the host environment's procs.
#[derive(Debug, Default)]
pub(super) struct Pulls(Mutex<Inner>);

impl Pulls {
    /// Begins a pull of these channels of these procs. Returns its handle. Kept output is passed to
    /// `late`, at most `most` bytes of each stream, before any later output.
    ///
    /// # Errors
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the maximum number of pulls is reached.
    fn add_late(
        &self,
        puller: Proc,
        (sources, channels): (Vec<Proc>, IofChannel),
        local_id: u64,
        (most, late): (usize, impl Fn(IofOutput)),
    ) -> Result<u64, Status> {
        // The lock is held until the kept output is passed on, so that newer output follows it.
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
                let source = source.clone();
                let data = Bytes::from(data.as_slice());
                // Not awaited, because the lock is held.
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

    /// Ends a pull. Only its puller can do so.
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

    /// Begins the default pull of a tool for a job that it spawns. It ends when the returned handle
    /// is dropped.
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
            local_id: DEFAULT_PULL,
        };
        // Nothing is kept yet, since the job has not been started.
        let id = self.lock().add(pull)?;
        Ok(PullHandle {
            pulls: self.clone(),
            puller,
            id,
        })
    }

    /// Ends all pulls of a proc or tool that is gone.
    pub(super) fn forget(&self, puller: &Proc) {
        self.lock().pulls.retain(|_, pull| pull.puller != *puller);
    }

    /// Removes the kept output of a job that has ended, since it can no longer be pulled.
    pub(super) fn job_ended(&self, job: &Nspace) {
        self.lock().backlog.forget(job);
    }

    /// Keeps output, up to `kept` bytes of the stream, and returns the pullers of the stream.
    fn written(
        &self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        kept: usize,
    ) -> Vec<(Proc, u64)> {
        let mut inner = self.lock();
        // Under one lock: a pull that begins meanwhile gets the output once, from the backlog or
        // from the caller.
        inner.backlog.write((source, channel), written, kept);
        inner.wanting(source, channel)
    }

    /// Keeps logged lines like output, without a change of the stream's state. Returns the pullers.
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
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Default pull of a tool for a job that it has spawned. It lasts as long as the job.
#[derive(Debug)]
pub(super) struct PullHandle {
    pulls: Arc<Pulls>,
    puller: Proc,
    id: u64,
}

impl Drop for PullHandle {
    fn drop(&mut self) {
        // An error means that the tool is gone and its pulls with it.
        let _ = self.pulls.remove(&self.puller, self.id);
    }
}

/// One output of one proc as it is forwarded to pullers.
#[derive(Clone)]
pub(super) struct Pulled {
    pub(super) pulls: Arc<Pulls>,
    pub(super) server: ServerHandle,
    pub(super) source: Proc,
    pub(super) channel: IofChannel,
    /// Number of bytes that are kept for later pulls.
    pub(super) kept: usize,
}

impl Pulled {
    /// Begins to keep the streams of the proc's job, unless nothing is kept.
    pub(super) fn open(&self) {
        if self.kept > 0 {
            self.pulls.lock().backlog.open(&self.source.nspace);
        }
    }

    /// Forwards lines that were logged to the stream. Blocks until the server has accepted them.
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
        let source = self.source.clone();
        let channels = self.channel;
        IofOutput {
            source,
            channels,
            local_id,
            infos: Vec::new(),
            data: Bytes::from(written),
        }
    }

    /// Forwards output; empty output is the end of the stream. Waits until the server has accepted
    /// it, not until the pullers have read it. A puller that does not read loses output.
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
        let pulls = Pulls::default();
        let tool = proc("tool", Rank(0));
        let out = IofChannel::STDOUT;
        let err = IofChannel::STDERR;
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
            "it belongs to another puller"
        );
        pulls.remove(&tool, first).unwrap();
        assert!(of(0, out).is_empty());
        pulls.forget(&proc("job", Rank(0)));
        assert!(of(1, err).is_empty());
    }

    #[test]
    fn late_pull_gets_last_output_before_the_rest() {
        let pulls = Pulls::default();
        let source = proc("job", Rank(0));
        let out = IofChannel::STDOUT;
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
        assert_eq!(of(&pulls, &source, IofChannel::STDOUT), [DEFAULT_PULL]);
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
        assert!((0..MAX_PULLS_PER_PULLER).all(|_| add("greedy").is_ok()));
        assert_eq!(add("greedy"), Err(code::PMIX_ERR_OUT_OF_RESOURCE));
        assert!(add("other").is_ok());
    }
}
