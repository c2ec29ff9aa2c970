//! The warm instances of a module: those that wait for the next call.
use crate::Isolation;
use crate::instance::Instance;
use peal_model::Nspace;
use std::sync::{Mutex, PoisonError};

/// Whose calls an instance may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tenancy {
    /// Anybody's, as nobody's data have been in it.
    Nobody,
    /// Everybody's.
    Everybody,
    /// Those that procs of this namespace have caused, or those that no proc has caused.
    Of(Option<Nspace>),
}

/// Idle instances, the one used last on top. Once closed it keeps none. In boxes, since each call takes one out and puts it
/// back.
#[expect(clippy::vec_box, reason = "an instance is moved at every call")]
pub(crate) struct IdleInstances {
    most: usize,
    isolation: Isolation,
    idle: Mutex<Option<Vec<Box<Instance>>>>,
}

/// The module was taken out of service.
pub(crate) struct ModuleRetired;

impl IdleInstances {
    /// Room for so many.
    pub(crate) fn new(most: usize, isolation: Isolation) -> IdleInstances {
        let most = if isolation == Isolation::Call {
            0
        } else {
            most
        };
        IdleInstances {
            most,
            isolation,
            idle: Mutex::new(Some(Vec::new())),
        }
    }

    /// Whose instance a call gets that this namespace has caused.
    pub(crate) fn tenancy(&self, nspace: Option<&Nspace>) -> Tenancy {
        match self.isolation {
            Isolation::Module => Tenancy::Everybody,
            Isolation::Namespace | Isolation::Call => Tenancy::Of(nspace.cloned()),
        }
    }

    /// An idle instance for this tenancy, if there is one. It is its from now on.
    pub(crate) fn take(&self, tenancy: &Tenancy) -> Result<Option<Box<Instance>>, ModuleRetired> {
        let find = |idle: &mut Vec<Box<Instance>>| {
            if *tenancy == Tenancy::Everybody {
                return idle.pop();
            }
            let of = |tenancy| {
                idle.iter()
                    .rposition(|instance| instance.tenancy == tenancy)
            };
            let at = of(tenancy.clone()).or_else(|| of(Tenancy::Nobody))?;
            Some(idle.remove(at))
        };
        let mut taken = self.lock(|idle| idle.as_mut().map(find).ok_or(ModuleRetired))?;
        if let Some(instance) = &mut taken
            && instance.tenancy == Tenancy::Nobody
        {
            instance.tenancy = tenancy.clone();
        }
        Ok(taken)
    }

    /// Keeps an instance for the next call. Where there is no room the one that was used longest ago makes some.
    pub(crate) fn give(&self, instance: Box<Instance>) {
        let refused = self.lock(|idle| match idle {
            Some(idle) if self.most > 0 => {
                let oldest = (idle.len() >= self.most).then(|| idle.remove(0));
                idle.push(instance);
                oldest
            }
            Some(_) | None => Some(instance),
        });
        refused.into_iter().for_each(|instance| instance.stop());
    }

    /// Stops the one that was used longest ago, to make room. Whether there was one.
    pub(crate) fn evict(&self) -> bool {
        let oldest = self.lock(|idle| {
            idle.as_mut()
                .filter(|idle| !idle.is_empty())
                .map(|idle| idle.remove(0))
        });
        oldest.map(|instance| instance.stop()).is_some()
    }

    /// Drops those that are idle now.
    pub(crate) fn clear(&self) {
        let idle = self.lock(|idle| idle.as_mut().map(std::mem::take));
        // Outside the lock: it takes a while.
        drop(idle);
    }

    /// Stops those that are idle now, and those that are in use as they come back.
    pub(crate) fn close(&self) {
        let idle = self.lock(Option::take);
        idle.into_iter()
            .flatten()
            .for_each(|instance| instance.stop());
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
