//! Turns at something that takes time: so many at once, and of these so many for one user, so that nobody keeps others from
//! theirs. Each waits its turn in the order of coming. What has turns of its own need not be a user: log channels have, too.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Hands out turns.
#[derive(Debug)]
pub(crate) struct FairSemaphore<K = u32> {
    all: Arc<Semaphore>,
    each: usize,
    users: Mutex<BTreeMap<K, Weak<Semaphore>>>,
}

/// Somebody's turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct FairPermit {
    _of_all: OwnedSemaphorePermit,
    _of_user: OwnedSemaphorePermit,
    /// Goes with the last turn, and the last who waits for one.
    _user: Arc<Semaphore>,
}

impl<K: Ord> FairSemaphore<K> {
    /// So many at once, `each` of them for one user.
    pub(crate) fn new(all: usize, each: usize) -> FairSemaphore<K> {
        FairSemaphore {
            all: Arc::new(Semaphore::new(all)),
            each,
            users: Mutex::default(),
        }
    }

    /// Waits for a turn of this user.
    pub(crate) async fn take(&self, uid: K) -> Result<FairPermit, AcquireError> {
        let user = self.user(uid);
        let of_user = user.clone().acquire_owned().await?;
        let of_all = self.all.clone().acquire_owned().await?;
        Ok(FairPermit {
            _of_all: of_all,
            _of_user: of_user,
            _user: user,
        })
    }

    fn user(&self, uid: K) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = users.get(&uid).and_then(Weak::upgrade) {
            return user;
        }
        users.retain(|_, user| user.strong_count() > 0);
        let user = Arc::new(Semaphore::new(self.each));
        users.insert(uid, Arc::downgrade(&user));
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    /// Whether it is there at once.
    async fn at_once(turns: &FairSemaphore, uid: u32) -> Option<FairPermit> {
        let mut turn = std::pin::pin!(turns.take(uid));
        std::future::poll_fn(|context| {
            Poll::Ready(match turn.as_mut().poll(context) {
                Poll::Ready(turn) => turn.ok(),
                Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test]
    async fn one_user_cannot_take_the_turns_of_others() {
        let turns = FairSemaphore::new(3, 2);
        let (first, second) = (at_once(&turns, 7).await, at_once(&turns, 7).await);
        assert!(first.is_some() && second.is_some());
        assert!(
            at_once(&turns, 7).await.is_none(),
            "a third one of the same user"
        );
        let other = at_once(&turns, 8).await;
        assert!(other.is_some());
        assert!(at_once(&turns, 9).await.is_none(), "a fourth one at all");
        drop((first, second, other));
        assert!(at_once(&turns, 9).await.is_some());
        assert_eq!(
            turns.users.lock().unwrap().len(),
            1,
            "nothing is kept of users who are gone"
        );
    }
}
