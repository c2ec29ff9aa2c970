//! Semaphore with a limit for all users and one per user, so that no user can take the permits of
//! others. Permits are given in the order of requests. The key need not be a user: log channels are
//! used as keys, too.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Semaphore whose permits belong to users, or to other keys.
#[derive(Debug)]
pub struct FairSemaphore<K = u32> {
    all: Arc<Semaphore>,
    each: usize,
    users: Mutex<BTreeMap<K, Weak<Semaphore>>>,
}

/// Permit of one user, until it is dropped.
#[derive(Debug)]
pub struct FairPermit {
    _of_all: OwnedSemaphorePermit,
    _of_user: OwnedSemaphorePermit,
    /// Keeps the user's semaphore in the table. The last permit and the last waiting request remove
    /// it.
    _user: Arc<Semaphore>,
}

impl<K: Ord> FairSemaphore<K> {
    /// Creates a semaphore with `all` permits, at most `each` of them for one user.
    pub fn new(all: usize, each: usize) -> FairSemaphore<K> {
        FairSemaphore {
            all: Arc::new(Semaphore::new(all)),
            each,
            users: Mutex::default(),
        }
    }

    /// Waits for a permit of this user.
    ///
    /// # Errors
    ///
    /// None: the semaphore is never closed.
    pub async fn take(&self, uid: K) -> Result<FairPermit, AcquireError> {
        let user = self.user(uid);
        // First the user's own: a request that waits for it must not hold a permit of all.
        let of_user = user.clone().acquire_owned().await?;
        let of_all = self.all.clone().acquire_owned().await?;
        Ok(FairPermit {
            _of_all: of_all,
            _of_user: of_user,
            _user: user,
        })
    }

    /// Returns a permit of this user if one is free.
    pub fn try_take(&self, uid: K) -> Option<FairPermit> {
        let user = self.user(uid);
        let of_user = user.clone().try_acquire_owned().ok()?;
        let of_all = self.all.clone().try_acquire_owned().ok()?;
        Some(FairPermit {
            _of_all: of_all,
            _of_user: of_user,
            _user: user,
        })
    }

    fn user(&self, uid: K) -> Arc<Semaphore> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = users.get(&uid).and_then(Weak::upgrade) {
            return user;
        }
        // Remove users without permits here, so that the table does not grow with each new user.
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

    /// Returns a permit if one is available at once.
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
        let first = at_once(&turns, 7).await;
        let second = at_once(&turns, 7).await;
        assert!(first.is_some() && second.is_some());
        assert!(
            at_once(&turns, 7).await.is_none(),
            "a third permit of the same user"
        );
        let other = at_once(&turns, 8).await;
        assert!(other.is_some());
        assert!(at_once(&turns, 9).await.is_none(), "a fourth permit");
        assert!(turns.try_take(9).is_none(), "a fourth permit");
        drop((first, other));
        assert!(turns.try_take(7).is_some());
        let mine = turns.try_take(7);
        assert!(
            turns.try_take(7).is_none(),
            "a third permit of the same user"
        );
        drop((second, mine));
        assert!(at_once(&turns, 9).await.is_some());
        assert_eq!(
            turns.users.lock().unwrap().len(),
            1,
            "users without permits are kept"
        );
    }
}
