//! Heartbeats of clients: noted where they are read, which wakes nobody, and told to the state machine when it looks at them.
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

/// What a connection shares with the actor: when its client beat last, as long as the actor has not asked for that, or that the
/// actor wants to be told of the next heartbeat at once.
#[derive(Debug)]
pub(crate) struct HeartbeatCell {
    /// When the actor's clock was started.
    started: Instant,
    /// A time of that clock, or one of the two below. Nothing else is told by it, so that any order of memory will do.
    beat: AtomicU64,
}

/// The actor wants to be told.
const AWAITED: u64 = u64::MAX;

/// The actor has had the last.
const HAD: u64 = u64::MAX - 1;

impl HeartbeatCell {
    /// That of a client that has not beaten yet: the first time is awaited.
    pub(crate) fn new(started: Instant) -> HeartbeatCell {
        HeartbeatCell {
            started,
            beat: AtomicU64::new(AWAITED),
        }
    }

    /// Notes a heartbeat. Whether the actor is to be told.
    pub(crate) fn beat(&self) -> bool {
        self.note(MonotonicTime::default() + self.started.elapsed())
    }

    fn note(&self, MonotonicTime(at): MonotonicTime) -> bool {
        self.beat.swap(at, Ordering::Relaxed) == AWAITED
    }

    /// When it beat last, if that is news to the actor, which alone asks.
    fn take(&self) -> Option<MonotonicTime> {
        // In between the connection may note another: that is taken, and nothing lost.
        if self.beat.load(Ordering::Relaxed) == AWAITED {
            None
        } else {
            self.leave(HAD)
        }
    }

    /// The same; the next is awaited.
    fn await_next(&self) -> Option<MonotonicTime> {
        self.leave(AWAITED)
    }

    fn leave(&self, instead: u64) -> Option<MonotonicTime> {
        let noted = self.beat.swap(instead, Ordering::Relaxed);
        (noted < HAD).then_some(MonotonicTime(noted))
    }
}

/// The pulses of those who have beaten, by proc and connection: a proc and its clones may all beat.
#[derive(Debug, Default)]
pub(crate) struct HeartbeatTable(BTreeMap<Proc, BTreeMap<PeerId, Arc<HeartbeatCell>>>);

impl HeartbeatTable {
    /// A client has beaten whose heartbeat was awaited. Further ones are noted.
    pub(crate) fn begin(
        &mut self,
        peer: PeerId,
        pulse: Arc<HeartbeatCell>,
        state: &mut ServerState,
    ) {
        if let Some(at) = pulse.take() {
            state.beat(peer, at);
        }
        if let Some(proc) = state.proc_of(peer) {
            self.0.entry(proc.clone()).or_default().insert(peer, pulse);
        }
    }

    /// A client is about to leave: what was noted of it counts for its proc, which may have clones that stay.
    pub(crate) fn end(&mut self, peer: PeerId, state: &mut ServerState) {
        let Some(proc) = state.proc_of(peer) else {
            return;
        };
        let Some(pulses) = self.0.get_mut(proc) else {
            return;
        };
        let pulse = pulses.remove(&peer);
        if pulses.is_empty() {
            self.0.remove(proc);
        }
        if let Some(at) = pulse.and_then(|pulse| pulse.take()) {
            state.beat(peer, at);
        }
    }

    /// What the time brings, when all that was noted of those who are looked at has been told.
    pub(crate) fn tick(&self, state: &mut ServerState, now: MonotonicTime) -> Vec<Action> {
        let due: Vec<Proc> = state.beats_due(now).cloned().collect();
        due.iter()
            .for_each(|proc| self.tell(proc, HeartbeatCell::take, state));
        let actions = state.tick(now);
        // Nobody looks at the silent any more: they are watched again from the moment at which they beat.
        for proc in due
            .iter()
            .filter(|proc| state.is_silent(proc))
            .collect::<Vec<_>>()
        {
            self.tell(proc, HeartbeatCell::await_next, state);
        }
        actions
    }

    fn tell(
        &self,
        proc: &Proc,
        noted: impl Fn(&HeartbeatCell) -> Option<MonotonicTime>,
        state: &mut ServerState,
    ) {
        for (peer, pulse) in self.0.get(proc).into_iter().flatten() {
            if let Some(at) = noted(pulse) {
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

    /// A server that has a proc, with one connection or more, watched for heartbeats a second apart.
    struct Ward {
        state: ServerState,
        pulses: HeartbeatTable,
        peers: Vec<(PeerId, Arc<HeartbeatCell>)>,
    }

    impl Ward {
        fn of(connections: usize) -> Ward {
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
            let mut ward = Ward {
                state,
                pulses: HeartbeatTable::default(),
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
                peer: ward.peers[0].0,
                tag: 100,
            };
            ward.state.request(to, request, MonotonicTime(0));
            assert_eq!(ward.alerts(0), 0);
            ward
        }

        /// A connection of it reads a heartbeat at a time: whether the actor is told.
        fn beat(&mut self, connection: usize, at: u64) -> bool {
            let (peer, pulse) = self.peers[connection].clone();
            let told = pulse.note(MonotonicTime(at));
            if told {
                self.pulses.begin(peer, pulse, &mut self.state);
            }
            told
        }

        /// How many alerts there are at a time.
        fn alerts(&mut self, now: u64) -> usize {
            let actions = self.pulses.tick(&mut self.state, MonotonicTime(now));
            actions
                .iter()
                .filter(|action| matches!(action, Action::Chain { .. }))
                .count()
        }
    }

    #[test]
    fn first_heartbeat_is_reported_and_later_ones_noted_until_read() {
        let pulse = HeartbeatCell::new(Instant::now());
        assert_eq!(pulse.take(), None);
        assert!(pulse.beat() && !pulse.beat());
        assert!(pulse.take().is_some());
        assert_eq!((pulse.take(), pulse.beat()), (None, false));
        assert!(pulse.await_next().is_some());
        assert_eq!(
            (pulse.await_next(), pulse.take(), pulse.beat()),
            (None, None, true)
        );
    }

    #[test]
    fn noted_heartbeat_prevents_report_of_silence() {
        let mut ward = Ward::of(1);
        assert!(ward.beat(0, 500));
        for at in (1000..20_000).step_by(500) {
            assert!(!ward.beat(0, at));
            let due = ward
                .state
                .deadline()
                .filter(|due| *due <= MonotonicTime(at));
            assert_eq!(due.map_or(0, |due| ward.alerts(due.0)), 0, "{at}");
        }
        assert_eq!(ward.state.deadline(), Some(MonotonicTime(19_500 + 1500)));
        assert_eq!((ward.alerts(21_000), ward.state.deadline()), (1, None));
    }

    #[test]
    fn silent_proc_is_monitored_again_at_once() {
        let mut ward = Ward::of(1);
        ward.beat(0, 100);
        ward.beat(0, 200);
        // That this was noted is seen only now, and was too long ago.
        assert_eq!(ward.alerts(1900), 1);
        assert!(ward.beat(0, 5000));
        assert_eq!(ward.state.deadline(), Some(MonotonicTime(6500)));
        assert!(!ward.beat(0, 5100));
        assert_eq!(
            (ward.alerts(6500), ward.state.deadline()),
            (0, Some(MonotonicTime(6600)))
        );
        assert_eq!(ward.alerts(6600), 1);
    }

    #[test]
    fn a_clone_that_leaves_has_beaten_for_its_proc() {
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
            let mut ward = Ward::of(2);
            assert!(ward.beat(0, 100) && ward.beat(1, 200));
            assert!(!ward.beat(1, 1000) && !ward.beat(0, 900));
            let (clone, _) = ward.peers[1];
            ward.pulses.end(clone, &mut ward.state);
            leave(&mut ward.state, clone);
            assert_eq!(
                (ward.alerts(1700), ward.state.deadline()),
                (0, Some(MonotonicTime(2500))),
                "no beat undoes a later one"
            );
            let (last, _) = ward.peers[0];
            ward.pulses.end(last, &mut ward.state);
            assert!(ward.pulses.0.is_empty());
        }
    }
}
