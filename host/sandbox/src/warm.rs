//! The warm instances of a module: those that wait for the next call.
use crate::instance::Instance;
use std::sync::{Mutex, PoisonError};

/// Idle instances, the one used last on top. Once closed it keeps none. In boxes, since each call takes one out and puts it
/// back.
#[expect(clippy::vec_box, reason = "an instance is moved at every call")]
pub(crate) struct Warm {
    most: usize,
    idle: Mutex<Option<Vec<Box<Instance>>>>,
}

/// The module was taken out of service.
pub(crate) struct Closed;

impl Warm {
    /// Room for so many.
    pub(crate) fn new(most: usize) -> Warm {
        Warm { most, idle: Mutex::new(Some(Vec::new())) }
    }

    /// An idle instance, if there is one.
    pub(crate) fn take(&self) -> Result<Option<Box<Instance>>, Closed> {
        self.lock(|idle| idle.as_mut().map(Vec::pop).ok_or(Closed))
    }

    /// Keeps an instance for the next call, or stops it where there is no room.
    pub(crate) fn give(&self, instance: Box<Instance>) {
        let refused = self.lock(|idle| match idle {
            Some(idle) if idle.len() < self.most => {
                idle.push(instance);
                None
            }
            Some(_) | None => Some(instance),
        });
        refused.into_iter().for_each(|instance| instance.stop());
    }

    /// Stops those that are idle now, and those that are in use as they come back.
    pub(crate) fn close(&self) {
        let idle = self.lock(Option::take);
        idle.into_iter().flatten().for_each(|instance| instance.stop());
    }

    /// Gives up those that are idle; what is in use is dropped as it comes back.
    pub(crate) fn leave(&self) -> impl Iterator<Item = Box<Instance>> + use<> {
        self.lock(Option::take).into_iter().flatten()
    }

    /// Guests never run under the lock.
    fn lock<R>(&self, work: impl FnOnce(&mut Option<Vec<Box<Instance>>>) -> R) -> R {
        work(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
