//! Pulls of the output of procs (`PMIx_IOF_pull`), and the forwarding to the pullers.
use super::{EmbeddedHostEnvironment, backlog::OutputBacklog};
use peal_model::{
    Bytes, Info, InfoFlags, Infos, IofChannel, KeyName, Nspace, Proc, Status, code, key,
};
use peal_server::{Puller, ServerHandle, StreamPull};
use peal_wire::IofOutput;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum number of pulls of one proc or tool.
const MAX_PULLS_PER_PULLER: usize = 64;
/// Maximum number of pulls of all together.
const MAX_PULLS: usize = 4096;

/// Directives of a pull that are honoured. The last output is kept in any case, which satisfies
/// `PMIX_IOF_DROP_OLDEST`.
pub(super) const SERVED: [KeyName; 2] = [key::PMIX_IOF_CACHE_SIZE, key::PMIX_IOF_DROP_OLDEST];

impl EmbeddedHostEnvironment {
    /// Begins a pull of the output of jobs that this host environment has started.
    pub(super) fn pull(&self, pull: StreamPull, directives: &[Info]) -> Result<u64, Status> {
        let is_own = |source: &Proc| self.jobs.find(&source.nspace).is_some();
        if pull.sources.is_empty() || !pull.sources.iter().all(is_own) {
            return Err(code::PMIX_ERR_NOT_FOUND);
        }
        self.begin_pull(pull, directives)
    }

    /// Begins a pull and passes on the kept output of the sources. The kept output follows the
    /// reply to the requester, since the server queues it behind this upcall.
    pub(super) fn begin_pull(&self, pull: StreamPull, directives: &[Info]) -> Result<u64, Status> {
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
        let server = self.server.get().ok_or(code::PMIX_ERR_NOT_FOUND)?;
        let puller = pull.puller.proc.clone();
        let late = |output| server.forward_late(puller.clone(), output);
        self.pulls.add_late(pull, (most, late))
    }
}

/// Returns true if the pull includes this channel of this proc. As with the C library, no proc gets
/// its own output: one that prints what it pulls would never end.
fn is_selected_by(pull: &StreamPull, source: &Proc, channel: IofChannel) -> bool {
    let is_meant = |named: &Proc| {
        named.nspace == source.nspace && (!named.rank.is_valid() || named.rank == source.rank)
    };
    pull.channels.0 & channel.0 != 0
        && pull.puller.proc != *source
        && pull.sources.iter().any(is_meant)
}

/// Pulls, and the output that later ones get.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub(super) struct PullTable {
    pulls: BTreeMap<u64, StreamPull>,
    last: u64,
    backlog: OutputBacklog,
}

impl PullTable {
    /// Returns the pullers of a stream.
    fn pullers(&self, source: &Proc, channel: IofChannel) -> Vec<Puller> {
        let pulls = self.pulls.values();
        let pullers = pulls.filter(|pull| is_selected_by(pull, source, channel));
        pullers.map(|pull| pull.puller.clone()).collect()
    }

    fn add(&mut self, pull: StreamPull) -> Result<u64, Status> {
        let own = self
            .pulls
            .values()
            .filter(|other| other.puller.proc == pull.puller.proc)
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
pub(super) struct Pulls(Mutex<PullTable>);

impl Pulls {
    /// Begins a pull. Returns its handle. Kept output is passed to `late`, at most `most` bytes of
    /// each stream, before any later output.
    ///
    /// # Errors
    /// `PMIX_ERR_OUT_OF_RESOURCE` if the maximum number of pulls is reached.
    fn add_late(
        &self,
        pull: StreamPull,
        (most, late): (usize, impl Fn(IofOutput)),
    ) -> Result<u64, Status> {
        // The lock is held until the kept output is passed on, so that newer output follows it.
        let mut inner = self.lock();
        let id = inner.add(pull.clone())?;
        let kept = inner.backlog.of(
            |source, channel| is_selected_by(&pull, source, channel),
            most,
        );
        for (source, channels, data) in kept {
            // Not awaited, because the lock is held.
            late(IofOutput {
                source: source.clone(),
                channels,
                local_id: pull.puller.local_id,
                infos: Vec::new(),
                data: Bytes::from(data.as_slice()),
            });
        }
        Ok(id)
    }

    /// Ends a pull, and returns its sources. Only its puller can do so.
    pub(super) fn remove(&self, puller: &Proc, id: u64) -> Result<Vec<Proc>, Status> {
        let mut inner = self.lock();
        let is_own = inner
            .pulls
            .get(&id)
            .is_some_and(|pull| pull.puller.proc == *puller);
        let pull = if is_own {
            inner.pulls.remove(&id)
        } else {
            None
        };
        pull.map(|pull| pull.sources)
            .ok_or(code::PMIX_ERR_NOT_FOUND)
    }

    /// Begins the default pull of a tool for a job that it spawns. It ends when the returned handle
    /// is dropped.
    pub(super) fn hold(
        self: &Arc<Pulls>,
        puller: Proc,
        sources: Vec<Proc>,
        channels: IofChannel,
    ) -> Result<PullHandle, Status> {
        let pull = StreamPull {
            puller: Puller {
                proc: puller.clone(),
                local_id: StreamPull::DEFAULT,
            },
            sources,
            channels,
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
        let mut inner = self.lock();
        inner.pulls.retain(|_, pull| pull.puller.proc != *puller);
    }

    /// Removes the kept output of a job that has ended, since it can no longer be pulled.
    pub(super) fn job_ended(&self, job: &Nspace) {
        self.lock().backlog.forget(job);
    }

    /// Keeps output, up to `kept` bytes of the stream, and returns the pullers of the stream.
    pub(super) fn written(
        &self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        kept: usize,
    ) -> Vec<Puller> {
        let mut inner = self.lock();
        // Under one lock: a pull that begins meanwhile gets the output once, from the backlog or
        // from the caller.
        inner.backlog.write((source, channel), written, kept);
        inner.pullers(source, channel)
    }

    /// Keeps logged lines like output, without a change of the stream's state. Returns the pullers.
    fn logged(
        &self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        kept: usize,
    ) -> Vec<Puller> {
        let mut inner = self.lock();
        inner.backlog.insert((source, channel), written, kept);
        inner.pullers(source, channel)
    }

    /// Returns all pulls, for another process of the server.
    pub(super) fn handed(&self) -> PullTable {
        self.lock().clone()
    }

    /// Goes on with the pulls of another process of the server.
    pub(super) fn restore(&self, handed: PullTable) {
        *self.lock() = handed;
    }

    fn lock(&self) -> MutexGuard<'_, PullTable> {
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
        let source = (&self.source, self.channel);
        for puller in self.pulls.logged(source, written, self.kept) {
            self.server
                .forward_blocking(puller.proc, self.output(puller.local_id, written));
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
        let source = (&self.source, self.channel);
        for puller in self.pulls.written(source, written, self.kept) {
            self.server
                .forward(puller.proc, self.output(puller.local_id, written))
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

    fn pull(puller: Proc, sources: Vec<Proc>, channels: IofChannel, local_id: u64) -> StreamPull {
        StreamPull {
            puller: Puller {
                proc: puller,
                local_id,
            },
            sources,
            channels,
        }
    }

    fn of(pulls: &Pulls, source: &Proc, channel: IofChannel) -> Vec<u64> {
        let pullers = pulls.written((source, channel), b"x", 0);
        pullers.iter().map(|puller| puller.local_id).collect()
    }

    #[test]
    fn pull_gets_named_output_until_its_end() {
        let pulls = Pulls::default();
        let tool = proc("tool", Rank(0));
        let out = IofChannel::STDOUT;
        let err = IofChannel::STDERR;
        let all = proc("job", rank::PMIX_RANK_WILDCARD);
        let add = |new: StreamPull| pulls.lock().add(new).unwrap();
        let first = add(pull(tool.clone(), vec![all.clone()], out, 7));
        let both = IofChannel(out.0 | err.0);
        add(pull(proc("job", Rank(0)), vec![all], both, 8));
        let of = |rank, channel| of(&pulls, &proc("job", Rank(rank)), channel);
        assert_eq!(
            (of(0, out), of(1, out), of(1, err), of(0, err)),
            (vec![7], vec![7, 8], vec![8], vec![]),
            "no proc gets its own output"
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
            let pull = pull(proc("tool", Rank(0)), vec![source.clone()], out, 7);
            pulls.add_late(pull, (most, late)).unwrap();
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
        assert_eq!(
            of(&pulls, &source, IofChannel::STDOUT),
            [StreamPull::DEFAULT]
        );
        drop(held);
        assert!(of(&pulls, &source, IofChannel::STDOUT).is_empty());
    }

    #[test]
    fn pulls_per_peer_are_bounded() {
        let pulls = Pulls::default();
        let add = |job: &str| {
            let pull = pull(proc(job, Rank(0)), Vec::new(), IofChannel::STDOUT, 1);
            pulls.lock().add(pull)
        };
        assert!((0..MAX_PULLS_PER_PULLER).all(|_| add("greedy").is_ok()));
        assert_eq!(add("greedy"), Err(code::PMIX_ERR_OUT_OF_RESOURCE));
        assert!(add("other").is_ok());
    }
}
