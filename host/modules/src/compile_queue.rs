//! Queue of the work on user modules: one task at a time per user, users in turn, and a wait that
//! grows with each failure.
use peal_sandbox::Digest;
use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

/// Minimum wait after a failure.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait after a failure. After that time without failures a user's count starts again.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Maximum number of failed components remembered per user; the oldest are forgotten first.
const MAX_FAILED: usize = 64;

/// One task of the work on a user's modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UserTask {
    /// Compile a component.
    Compile(Digest),
    /// Start the modules, whose components are compiled.
    Start,
}

/// Tasks of all users. Callers pass the time.
#[derive(Debug)]
pub(crate) struct CompileQueue {
    max_running: usize,
    running: usize,
    users: BTreeMap<u32, UserQueue>,
    /// Users with waiting tasks and no running one, in order.
    turns: VecDeque<u32>,
}

/// Tasks and failures of one user.
#[derive(Debug, Default)]
struct UserQueue {
    waiting: VecDeque<UserTask>,
    running: Option<RunningTask>,
    failures: u32,
    not_before: Option<Instant>,
    failed: VecDeque<FailedComponent>,
}

#[derive(Debug)]
struct RunningTask {
    task: UserTask,
    since: Instant,
}

#[derive(Debug)]
struct FailedComponent {
    digest: Digest,
    reason: String,
}

impl UserQueue {
    fn can_start(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|from| from <= now)
    }

    /// Counts a failure. The next task waits at least as long as this one took, and twice as long
    /// after each further failure.
    fn fail(&mut self, took: Duration, now: Instant) {
        let is_long_ago = self.not_before.is_none_or(|from| from + MAX_WAIT <= now);
        self.failures = if is_long_ago {
            1
        } else {
            self.failures.saturating_add(1)
        };
        // The wait grows with the time that the failure cost: long compilations are the expensive
        // ones.
        let doubled = 2_u32.saturating_pow(self.failures - 1);
        self.not_before = Some(now + took.max(MIN_WAIT).saturating_mul(doubled).min(MAX_WAIT));
    }
}

impl CompileQueue {
    /// Creates an empty queue for at most `max_running` tasks at a time.
    pub(crate) fn new(max_running: usize) -> CompileQueue {
        CompileQueue {
            max_running,
            running: 0,
            users: BTreeMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Replaces the waiting tasks of a user.
    pub(crate) fn enqueue(&mut self, uid: u32, tasks: impl IntoIterator<Item = UserTask>) {
        let user = self.users.entry(uid).or_default();
        user.waiting = tasks.into_iter().collect();
        if user.waiting.is_empty() {
            self.turns.retain(|turn| *turn != uid);
        } else if user.running.is_none() && !self.turns.contains(&uid) {
            self.turns.push_back(uid);
        }
    }

    /// Takes the next task that may run at this time, if there is one.
    pub(crate) fn start(&mut self, now: Instant) -> Option<(u32, UserTask)> {
        if self.running >= self.max_running {
            return None;
        }
        let can_start = |uid: &u32| self.users.get(uid).is_some_and(|user| user.can_start(now));
        // A user who has to wait does not hold up those behind.
        let at = self.turns.iter().position(can_start)?;
        let uid = self.turns.remove(at)?;
        let user = self.users.get_mut(&uid)?;
        let task = user.waiting.pop_front()?;
        user.running = Some(RunningTask { task, since: now });
        self.running += 1;
        Some((uid, task))
    }

    /// Ends the running task of a user as successful.
    pub(crate) fn succeed(&mut self, uid: u32) {
        self.end(uid);
    }

    /// Ends the running task of a user without blame, and drops the user's waiting tasks.
    pub(crate) fn abandon(&mut self, uid: u32) {
        self.end(uid);
        self.enqueue(uid, []);
    }

    /// Ends the running task of a user as failed, and drops the user's waiting tasks. A component
    /// that failed is remembered.
    pub(crate) fn fail(&mut self, uid: u32, why: &str, now: Instant) {
        let Some(ended) = self.end(uid) else { return };
        // The other tasks are for the same modules, which start as a whole or not at all.
        self.enqueue(uid, []);
        let Some(user) = self.users.get_mut(&uid) else {
            return;
        };
        user.fail(now.saturating_duration_since(ended.since), now);
        if let UserTask::Compile(digest) = ended.task {
            user.failed.push_back(FailedComponent {
                digest,
                reason: why.to_owned(),
            });
            if user.failed.len() > MAX_FAILED {
                user.failed.pop_front();
            }
        }
    }

    fn end(&mut self, uid: u32) -> Option<RunningTask> {
        let user = self.users.get_mut(&uid)?;
        let ended = user.running.take()?;
        self.running = self.running.saturating_sub(1);
        // Behind the others, so that users take turns.
        if !user.waiting.is_empty() {
            self.turns.push_back(uid);
        }
        Some(ended)
    }

    /// Returns the reason for which a component of a user is not compiled again.
    pub(crate) fn failure(&self, uid: u32, digest: Digest) -> Option<&str> {
        let failed = &self.users.get(&uid)?.failed;
        failed
            .iter()
            .find(|component| component.digest == digest)
            .map(|component| component.reason.as_str())
    }

    /// Returns the time at which a delayed task may run, if there is room for one.
    pub(crate) fn next_start(&self) -> Option<Instant> {
        let times = self
            .turns
            .iter()
            .filter_map(|uid| self.users.get(uid)?.not_before);
        if self.running < self.max_running {
            times.min()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn component(number: u8) -> UserTask {
        UserTask::Compile(Digest([number; 32]))
    }

    #[test]
    fn users_take_turns_one_task_each() {
        let now = Instant::now();
        let mut queue = CompileQueue::new(2);
        queue.enqueue(1, [component(1), component(2), UserTask::Start]);
        assert_eq!(queue.start(now), Some((1, component(1))));
        assert_eq!(queue.start(now), None, "one at a time for each user");
        queue.enqueue(2, [component(1), UserTask::Start]);
        queue.enqueue(3, [component(3)]);
        assert_eq!(queue.start(now), Some((2, component(1))));
        assert_eq!(queue.start(now), None, "two at once in all");
        queue.succeed(1);
        assert_eq!(
            queue.start(now),
            Some((3, component(3))),
            "who waited longest"
        );
        queue.succeed(2);
        assert_eq!(queue.start(now), Some((1, component(2))));
        queue.succeed(1);
        assert_eq!(queue.start(now), Some((2, UserTask::Start)));
        queue.succeed(3);
        assert_eq!(queue.start(now), Some((1, UserTask::Start)));
        queue.succeed(1);
        queue.succeed(2);
        assert_eq!(queue.start(now), None);
        assert_eq!(queue.next_start(), None);
    }

    #[test]
    fn failed_component_is_remembered_and_wait_doubles() {
        let mut now = Instant::now();
        let mut queue = CompileQueue::new(1);
        for (number, wait) in [(1_u8, 10), (2, 20), (3, 40), (4, 80)] {
            queue.enqueue(7, [component(number), UserTask::Start]);
            assert_eq!(queue.start(now), Some((7, component(number))));
            now += SECOND * 10;
            queue.fail(7, "too large", now);
            assert_eq!(queue.failure(7, Digest([number; 32])), Some("too large"));
            assert_eq!(
                queue.failure(8, Digest([number; 32])),
                None,
                "others are not concerned"
            );
            // A touched byte makes another component, which has to wait all the same.
            queue.enqueue(7, [component(number + 1)]);
            let from = now + SECOND * wait;
            assert_eq!(queue.next_start(), Some(from));
            assert_eq!(queue.start(from - SECOND), None);
            queue.enqueue(8, [component(9)]);
            assert_eq!(
                queue.start(now),
                Some((8, component(9))),
                "others do not wait"
            );
            queue.succeed(8);
            now = from;
        }
        now += MAX_WAIT;
        assert_eq!(queue.start(now), Some((7, component(5))));
        queue.fail(7, "too large", now);
        queue.enqueue(7, [component(6)]);
        assert_eq!(
            queue.next_start(),
            Some(now + MIN_WAIT),
            "starts anew after a long time without failures"
        );
    }

    #[test]
    fn tasks_replaced_while_one_runs_wait_for_its_end() {
        let now = Instant::now();
        let mut queue = CompileQueue::new(4);
        queue.enqueue(1, [component(1), UserTask::Start]);
        assert_eq!(queue.start(now), Some((1, component(1))));
        queue.enqueue(1, [component(2)]);
        assert_eq!(queue.start(now), None);
        queue.succeed(1);
        assert_eq!(queue.start(now), Some((1, component(2))));
        queue.enqueue(1, []);
        queue.succeed(1);
        assert_eq!(queue.start(now), None);
    }

    /// Random steps: whatever happens, the bounds hold, only what waits is started, and at the end
    /// everything has been.
    #[test]
    fn random_steps_agree_with_sets_of_tasks() {
        for seed in 1..200_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let mut now = Instant::now();
            let max_running = random(3) as usize + 1;
            let mut queue = CompileQueue::new(max_running);
            let mut waiting: BTreeMap<u32, VecDeque<UserTask>> = BTreeMap::new();
            let mut running: BTreeMap<u32, UserTask> = BTreeMap::new();
            let mut not_before: BTreeMap<u32, Instant> = BTreeMap::new();
            for _ in 0..300 {
                let uid = random(4) as u32;
                match random(4) {
                    0 => {
                        let tasks: Vec<_> = (0..random(4))
                            .map(|number| component(number as u8))
                            .collect();
                        queue.enqueue(uid, tasks.clone());
                        waiting.insert(uid, tasks.into());
                    }
                    1 if running.remove(&uid).is_some() => queue.succeed(uid),
                    2 if running.remove(&uid).is_some() => {
                        queue.fail(uid, "", now);
                        waiting.remove(&uid);
                        not_before.insert(uid, now + MIN_WAIT);
                    }
                    _ => {
                        while let Some((uid, task)) = queue.start(now) {
                            assert_eq!(waiting.get_mut(&uid).unwrap().pop_front(), Some(task));
                            assert!(
                                running.insert(uid, task).is_none() && running.len() <= max_running
                            );
                            assert!(not_before.get(&uid).is_none_or(|from| *from <= now));
                        }
                        now += SECOND * random(3) as u32;
                    }
                }
            }
            while !(running.is_empty() && waiting.values().all(VecDeque::is_empty)) {
                std::mem::take(&mut running)
                    .into_keys()
                    .for_each(|uid| queue.succeed(uid));
                now = queue.next_start().unwrap_or(now).max(now);
                while let Some((uid, task)) = queue.start(now) {
                    assert_eq!(waiting.get_mut(&uid).unwrap().pop_front(), Some(task));
                    running.insert(uid, task);
                }
            }
        }
    }
}
