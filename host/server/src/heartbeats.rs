//! Heartbeats of clients. The task that reads a heartbeat notes its time and wakes no other task.
//! The state machine gets the noted times when it checks deadlines.
use peal_core::{
    MonotonicTime,
    server::{Action, PeerId, ServerState},
};
use peal_model::Proc;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

/// Cell that a connection shares with the actor. It holds the time of the last heartbeat until the
/// actor takes it, or the mark that the actor must be notified of the next heartbeat at once.
#[derive(Debug)]
pub(crate) struct HeartbeatCell {
    /// Start of the actor's clock.
    started: Instant,
    /// Time of that clock, or one of the two marks below. It publishes no other data, so relaxed
    /// ordering suffices.
    beat: AtomicU64,
}

/// Mark: the actor must be notified of the next heartbeat.
const AWAITED: u64 = u64::MAX;

/// Mark: the actor has taken the last time.
const TAKEN: u64 = u64::MAX - 1;

impl HeartbeatCell {
    /// Creates the cell of a client without heartbeats yet. The first one is awaited.
    pub(crate) fn new(started: Instant) -> HeartbeatCell {
        HeartbeatCell {
            started,
            beat: AtomicU64::new(AWAITED),
        }
    }

    /// Notes a heartbeat. Returns true if the actor must be notified.
    pub(crate) fn beat(&self) -> bool {
        self.note(MonotonicTime::default() + self.started.elapsed())
    }

    fn note(&self, MonotonicTime(at): MonotonicTime) -> bool {
        self.beat.swap(at, Ordering::Relaxed) == AWAITED
    }

    /// Takes the time of the last heartbeat, if the actor does not have it yet. Called by the actor
    /// only.
    fn take(&self) -> Option<MonotonicTime> {
        // A heartbeat noted between the load and the swap is taken by the swap, so none is lost.
        if self.beat.load(Ordering::Relaxed) == AWAITED {
            None
        } else {
            self.leave(TAKEN)
        }
    }

    /// Takes the time of the last heartbeat and awaits the next one.
    fn await_next(&self) -> Option<MonotonicTime> {
        self.leave(AWAITED)
    }

    fn leave(&self, instead: u64) -> Option<MonotonicTime> {
        let noted = self.beat.swap(instead, Ordering::Relaxed);
        (noted < TAKEN).then_some(MonotonicTime(noted))
    }
}

/// Cells of the clients that have sent heartbeats, by proc and connection. A proc and its clones
/// may all send them.
#[derive(Debug, Default)]
pub(crate) struct HeartbeatTable(BTreeMap<Proc, BTreeMap<PeerId, Arc<HeartbeatCell>>>);

impl HeartbeatTable {
    /// Processes an awaited heartbeat. Later ones are noted in the cell.
    pub(crate) fn begin(
        &mut self,
        peer: PeerId,
        cell: Arc<HeartbeatCell>,
        state: &mut ServerState,
    ) {
        if let Some(at) = cell.take() {
            state.beat(peer, at);
        }
        if let Some(proc) = state.proc_of(peer) {
            self.0.entry(proc.clone()).or_default().insert(peer, cell);
        }
    }

    /// Removes the cell of a client that is about to leave. Its last heartbeat counts for its proc,
    /// which may have clones that stay.
    pub(crate) fn end(&mut self, peer: PeerId, state: &mut ServerState) {
        let Some(proc) = state.proc_of(peer) else {
            return;
        };
        let Some(cells) = self.0.get_mut(proc) else {
            return;
        };
        let cell = cells.remove(&peer);
        if cells.is_empty() {
            self.0.remove(proc);
        }
        if let Some(at) = cell.and_then(|cell| cell.take()) {
            state.beat(peer, at);
        }
    }

    /// Passes the noted heartbeats of all due procs on to the state, and then processes the
    /// deadlines that have passed.
    pub(crate) fn tick(&self, state: &mut ServerState, now: MonotonicTime) -> Vec<Action> {
        let due: Vec<Proc> = state.beats_due(now).cloned().collect();
        due.iter()
            .for_each(|proc| self.pass_on(proc, HeartbeatCell::take, state));
        let actions = state.tick(now);
        // A silent proc has no deadline that would make this function read its cells: its next
        // heartbeat must notify the actor.
        for proc in due
            .iter()
            .filter(|proc| state.is_silent(proc))
            .collect::<Vec<_>>()
        {
            self.pass_on(proc, HeartbeatCell::await_next, state);
        }
        actions
    }

    /// Passes all noted heartbeats on to the state. The next one of each client is awaited, also by a process
    /// that continues the server.
    pub(crate) fn pass_on_all(&self, state: &mut ServerState) {
        self.0
            .keys()
            .for_each(|proc| self.pass_on(proc, HeartbeatCell::await_next, state));
    }

    fn pass_on(
        &self,
        proc: &Proc,
        noted: impl Fn(&HeartbeatCell) -> Option<MonotonicTime>,
        state: &mut ServerState,
    ) {
        for (peer, cell) in self.0.get(proc).into_iter().flatten() {
            if let Some(at) = noted(cell) {
                state.beat(*peer, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::{
        job::JobSpec,
        server::{RequestId, StateSettings},
    };
    use peal_model::{Info, Nspace, Rank, Request, UserIdentity, Value, code, key};

    /// A server with one proc that has one or more connections and is monitored for heartbeats one
    /// second apart.
    struct MonitoredProc {
        state: ServerState,
        cells: HeartbeatTable,
        peers: Vec<(PeerId, Arc<HeartbeatCell>)>,
    }

    impl MonitoredProc {
        fn of(connections: usize) -> MonitoredProc {
            let nspace = Nspace::new("job").unwrap();
            let mut state = ServerState::new(StateSettings::default());
            state.add_job(JobSpec::new(
                nspace.clone(),
                1,
                "node",
                UserIdentity { uid: 1, gid: 1 },
            ));
            let proc = Proc::new(nspace, Rank(0));
            let started = Instant::now();
            let peers = (0..connections).map(|_| {
                let (peer, _) = state.admit(&proc, UserIdentity { uid: 1, gid: 1 }).unwrap();
                (peer, Arc::new(HeartbeatCell::new(started)))
            });
            let peers = peers.collect();
            let mut monitored = MonitoredProc {
                state,
                cells: HeartbeatTable::default(),
                peers,
            };
            let request = Request::Monitor {
                monitor: Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
                error: code::PMIX_SUCCESS,
                directives: vec![Info::new(
                    key::PMIX_MONITOR_HEARTBEAT_TIME,
                    Value::Uint32(1),
                )],
            };
            let to = RequestId {
                peer: monitored.peers[0].0,
                tag: 100,
            };
            monitored.state.request(to, request, MonotonicTime(0));
            assert_eq!(monitored.alerts(0), 0);
            monitored
        }

        /// Notes a heartbeat of a connection at a time. Returns true if the actor is notified.
        fn beat(&mut self, connection: usize, at: u64) -> bool {
            let (peer, cell) = self.peers[connection].clone();
            let was_awaited = cell.note(MonotonicTime(at));
            if was_awaited {
                self.cells.begin(peer, cell, &mut self.state);
            }
            was_awaited
        }

        /// Returns the number of alerts at a time.
        fn alerts(&mut self, now: u64) -> usize {
            let actions = self.cells.tick(&mut self.state, MonotonicTime(now));
            actions
                .iter()
                .filter(|action| matches!(action, Action::Chain { .. }))
                .count()
        }
    }

    #[test]
    fn first_heartbeat_is_reported_and_later_ones_noted_until_read() {
        let cell = HeartbeatCell::new(Instant::now());
        assert_eq!(cell.take(), None);
        assert!(cell.beat() && !cell.beat());
        assert!(cell.take().is_some());
        assert_eq!((cell.take(), cell.beat()), (None, false));
        assert!(cell.await_next().is_some());
        assert_eq!(
            (cell.await_next(), cell.take(), cell.beat()),
            (None, None, true)
        );
    }

    #[test]
    fn noted_heartbeat_prevents_report_of_silence() {
        let mut monitored = MonitoredProc::of(1);
        assert!(monitored.beat(0, 500));
        for at in (1000..20_000).step_by(500) {
            assert!(!monitored.beat(0, at));
            let due = monitored
                .state
                .deadline()
                .filter(|due| *due <= MonotonicTime(at));
            assert_eq!(due.map_or(0, |due| monitored.alerts(due.0)), 0, "{at}");
        }
        assert_eq!(
            monitored.state.deadline(),
            Some(MonotonicTime(19_500 + 1500))
        );
        assert_eq!(
            (monitored.alerts(21_000), monitored.state.deadline()),
            (1, None)
        );
    }

    #[test]
    fn silent_proc_is_monitored_again_at_once() {
        let mut monitored = MonitoredProc::of(1);
        monitored.beat(0, 100);
        monitored.beat(0, 200);
        // The heartbeat noted at 200 is read only now and is too old.
        assert_eq!(monitored.alerts(1900), 1);
        assert!(monitored.beat(0, 5000));
        assert_eq!(monitored.state.deadline(), Some(MonotonicTime(6500)));
        assert!(!monitored.beat(0, 5100));
        assert_eq!(
            (monitored.alerts(6500), monitored.state.deadline()),
            (0, Some(MonotonicTime(6600)))
        );
        assert_eq!(monitored.alerts(6600), 1);
    }

    #[test]
    fn heartbeat_of_leaving_clone_counts_for_its_proc() {
        for leave in [
            (|state: &mut ServerState, peer| {
                state.request(
                    RequestId { peer, tag: 1 },
                    Request::Finalize,
                    MonotonicTime(2),
                )
            }) as fn(&mut ServerState, PeerId) -> Vec<Action>,
            |state, peer| state.disconnected(peer, MonotonicTime(2)),
        ] {
            let mut monitored = MonitoredProc::of(2);
            assert!(monitored.beat(0, 100) && monitored.beat(1, 200));
            assert!(!monitored.beat(1, 1000) && !monitored.beat(0, 900));
            let (clone, _) = monitored.peers[1];
            monitored.cells.end(clone, &mut monitored.state);
            leave(&mut monitored.state, clone);
            assert_eq!(
                (monitored.alerts(1700), monitored.state.deadline()),
                (0, Some(MonotonicTime(2500))),
                "an earlier heartbeat replaced a later one"
            );
            let (last, _) = monitored.peers[0];
            monitored.cells.end(last, &mut monitored.state);
            assert!(monitored.cells.0.is_empty());
        }
    }
}
