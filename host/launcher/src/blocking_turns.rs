//! Turns of users at work that blocks a thread: queries, which read `/proc`, and removals of files.
//! The threads of one user's work leave others to those of other users.
use peal_server::FairSemaphore;
use std::sync::Arc;

/// Limits of the threads that work for users at the same time. More work waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockingLimits {
    /// Threads for all users.
    pub all: usize,
    /// Threads for one user.
    pub user: usize,
}

impl Default for BlockingLimits {
    fn default() -> Self {
        BlockingLimits { all: 32, user: 4 }
    }
}

/// Turns of users, in the order of their requests.
#[derive(Clone, Debug)]
pub(crate) struct BlockingTurns(Arc<FairSemaphore>);

impl BlockingTurns {
    pub(crate) fn new(limits: BlockingLimits) -> BlockingTurns {
        BlockingTurns(Arc::new(FairSemaphore::new(limits.all, limits.user)))
    }

    /// Runs work for a user on another thread when it is the user's turn. Returns none if the work
    /// panics. The work continues, and keeps the turn, if the future is dropped after it has begun.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        uid: u32,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        // The semaphore is never closed.
        let permit = self.0.take(uid).await.ok()?;
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn blocked_work_of_one_user_delays_no_other() {
        let turns = BlockingTurns::new(BlockingLimits { all: 3, user: 2 });
        let (release, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let mut blocked = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (turns, wait) = (turns.clone(), wait.clone());
            blocked.spawn(async move {
                // Ends when the sender is dropped.
                let work = move || {
                    let _ = wait.lock().unwrap().recv();
                };
                turns.run(1, work).await
            });
        }
        assert_eq!(turns.run(2, || 7).await, Some(7));
        assert_eq!(turns.run(0, || 8).await, Some(8));
        drop(release);
        assert_eq!(blocked.join_all().await, vec![Some(()); 10]);
    }

    #[tokio::test]
    async fn work_that_panics_gives_its_turn_back() {
        let turns = BlockingTurns::new(BlockingLimits { all: 1, user: 1 });
        let panics = || -> u32 { panic!("planned") };
        assert_eq!(turns.run(1, panics).await, None);
        assert_eq!(turns.run(1, || 7).await, Some(7));
    }
}
