//! Warm instances of a module: those that are idle until the next call.
use crate::Isolation;
use crate::instance::Instance;
use peal_model::Nspace;
use std::sync::{Mutex, PoisonError};

/// Calls that an instance may receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Tenancy {
    /// Any calls so far: no data of a proc have been in the instance.
    Unused,
    /// All calls of the module.
    Shared,
    /// Calls caused by procs of this namespace; for `None`, calls that no proc has caused.
    Of(Option<Nspace>),
}

/// Idle instances, the one used last at the end. Once closed it keeps none. The instances are boxed
/// because each call takes one out and puts it back.
#[expect(clippy::vec_box, reason = "an instance is moved at every call")]
pub(crate) struct IdleInstances {
    most: usize,
    isolation: Isolation,
    idle: Mutex<Option<Vec<Box<Instance>>>>,
}

/// Error for a module that was stopped.
pub(crate) struct ModuleRetired;

impl IdleInstances {
    /// Makes an empty set of at most `most` instances.
    pub(crate) fn new(most: usize, isolation: Isolation) -> IdleInstances {
        // No instance is used twice, so none is kept.
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

    /// Returns the tenancy that a call caused by a namespace needs.
    pub(crate) fn tenancy(&self, nspace: Option<&Nspace>) -> Tenancy {
        match self.isolation {
            Isolation::Module => Tenancy::Shared,
            Isolation::Namespace | Isolation::Call => Tenancy::Of(nspace.cloned()),
        }
    }

    /// Takes an idle instance for a tenancy, if there is one. From now on the instance has that
    /// tenancy.
    pub(crate) fn take(&self, tenancy: &Tenancy) -> Result<Option<Box<Instance>>, ModuleRetired> {
        let find = |idle: &mut Vec<Box<Instance>>| {
            if *tenancy == Tenancy::Shared {
                return idle.pop();
            }
            let of = |tenancy| {
                idle.iter()
                    .rposition(|instance| instance.tenancy == tenancy)
            };
            // An instance of another tenancy may hold data of that namespace: only an unused one
            // can stand in.
            let at = of(tenancy.clone()).or_else(|| of(Tenancy::Unused))?;
            Some(idle.remove(at))
        };
        let mut taken = self.lock(|idle| idle.as_mut().map(find).ok_or(ModuleRetired))?;
        if let Some(instance) = &mut taken
            && instance.tenancy == Tenancy::Unused
        {
            instance.tenancy = tenancy.clone();
        }
        Ok(taken)
    }

    /// Keeps an instance for the next call. If the set is full, the instance used longest ago is
    /// stopped.
    pub(crate) fn put(&self, instance: Box<Instance>) {
        let refused = self.lock(|idle| match idle {
            Some(idle) if self.most > 0 => {
                let oldest = (idle.len() >= self.most).then(|| idle.remove(0));
                idle.push(instance);
                oldest
            }
            Some(_) | None => Some(instance),
        });
        // Outside of the lock: `lifecycle.stop` runs guest code.
        refused.into_iter().for_each(|instance| instance.stop());
    }

    /// Stops the instance that was used longest ago. Returns true if there was one.
    pub(crate) fn evict(&self) -> bool {
        let oldest = self.lock(|idle| {
            idle.as_mut()
                .filter(|idle| !idle.is_empty())
                .map(|idle| idle.remove(0))
        });
        oldest.map(|instance| instance.stop()).is_some()
    }

    /// Drops the idle instances.
    pub(crate) fn clear(&self) {
        let idle = self.lock(|idle| idle.as_mut().map(std::mem::take));
        // Drop outside the lock: dropping a store takes a while.
        drop(idle);
    }

    /// Stops the idle instances, and those in use when they come back.
    pub(crate) fn close(&self) {
        let idle = self.lock(Option::take);
        idle.into_iter()
            .flatten()
            .for_each(|instance| instance.stop());
    }

    /// Takes the idle instances out; those in use are dropped when they come back.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = Box<Instance>> + use<> {
        self.lock(Option::take).into_iter().flatten()
    }

    /// Runs `work` under the lock. It must not call a guest.
    fn lock<R>(&self, work: impl FnOnce(&mut Option<Vec<Box<Instance>>>) -> R) -> R {
        work(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
