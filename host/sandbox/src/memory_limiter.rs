//! Accounts of the memory and the number of instances, for each instance alone and for those that
//! share a budget.
use crate::LimitKind;
use crate::limits::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime::ResourceLimiter;

/// A bound that several instances share.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: LimitKind,
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: LimitKind, most: usize) -> Budget {
        Budget {
            limit,
            most,
            used: AtomicUsize::new(0),
        }
    }

    /// Returns the amount in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Takes an amount, all of it or nothing.
    fn take(&self, by: usize) -> Result<(), BudgetExceeded> {
        let more = |used: usize| {
            used.checked_add(by)
                .filter(|requested| *requested <= self.most)
        };
        // Check and addition are one atomic step: instances that grow at the same time would
        // otherwise exceed the bound together.
        match self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
        {
            Ok(_) => Ok(()),
            Err(used) => Err(BudgetExceeded {
                limit: self.limit,
                requested: used.saturating_add(by),
                most: self.most,
            }),
        }
    }

    fn give_back(&self, by: usize) {
        self.used.fetch_sub(by, Ordering::AcqRel);
    }
}

/// A refused request: the total that it would have reached, and the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BudgetExceeded {
    pub(crate) limit: LimitKind,
    pub(crate) requested: usize,
    pub(crate) most: usize,
}

/// Places of an instance in a budget, given back on drop.
pub(crate) struct InstanceSlot {
    budget: Arc<Budget>,
    places: usize,
}

impl InstanceSlot {
    pub(crate) fn of(budget: &Arc<Budget>, places: usize) -> Result<InstanceSlot, BudgetExceeded> {
        budget.take(places).map(|()| InstanceSlot {
            budget: Arc::clone(budget),
            places,
        })
    }
}

impl Drop for InstanceSlot {
    fn drop(&mut self) {
        self.budget.give_back(self.places);
    }
}

/// Account of the memories and tables of an instance. It remembers the last refusal and gives its
/// amount back to the budgets on drop.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    most: usize,
    used: usize,
    shared: Vec<Arc<Budget>>,
    refused: Option<BudgetExceeded>,
    growths: Growths,
}

/// Growths of memories and tables that were requested in one call.
#[derive(Debug, Default)]
struct Growths {
    /// Growths requested so far.
    requested: u32,
    /// Indexes of those that a replay might grant: refused because of other instances or of the
    /// system, or above their maximum.
    refused: Vec<u32>,
    /// Indexes of those to be refused, in a replay.
    script: Vec<u32>,
    /// Bytes of the last one, if it was granted.
    granted: usize,
}

impl Growths {
    /// Returns the index of the next growth.
    fn number(&mut self) -> u32 {
        let number = self.requested;
        self.requested = number.saturating_add(1);
        self.granted = 0;
        number
    }
}

impl MemoryLimiter {
    /// Returns the bytes of all memories and tables of the instance.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Makes the account of an instance with a bound of its own and shared budgets.
    pub(crate) fn new(most: usize, shared: Vec<Arc<Budget>>) -> MemoryLimiter {
        MemoryLimiter {
            most,
            used: 0,
            shared,
            refused: None,
            growths: Growths::default(),
        }
    }

    /// Takes the last refusal since the previous call of this function.
    pub(crate) fn take_refused(&mut self) -> Option<BudgetExceeded> {
        self.refused.take()
    }

    /// Accounts for a growth. Returns false if it is refused. Memories and tables never shrink, so
    /// it is enough to add, and to take back a growth that fails.
    fn grow(&mut self, by: usize) -> bool {
        let number = self.growths.number();
        let granted = if self.growths.script.contains(&number) {
            Err(self.refusal())
        } else {
            self.take(by)
        };
        // The instance's own bound refuses the same growth in a replay. What other instances have
        // left of a shared budget is not repeatable, so it is recorded.
        if granted.is_err_and(|refused| refused.limit != LimitKind::Memory) {
            self.growths.refused.push(number);
        }
        // A granted growth does not erase an earlier refusal, because of which the guest may still
        // fail.
        self.refused = granted.err().or(self.refused);
        if granted.is_ok() {
            self.growths.granted = by;
        }
        granted.is_ok()
    }

    /// Accounts for a growth to this size of a memory or table with this maximum. wasmtime would
    /// let a growth above the maximum fail after it was granted.
    fn grow_to(&mut self, by: usize, size: usize, maximum: Option<usize>) -> bool {
        // The own bound comes first: a memory that declares no maximum has one of 4 GiB.
        let is_within_bound = self.used.saturating_add(by) <= self.most;
        if is_within_bound && maximum.is_some_and(|maximum| size > maximum) {
            // The maximum of a table may be that of the engine's pool, and a replay may have no
            // pool.
            let number = self.growths.number();
            self.growths.refused.push(number);
            return false;
        }
        self.grow(by)
    }

    /// Returns the refusal for a growth that was refused in the recorded call.
    fn refusal(&self) -> BudgetExceeded {
        BudgetExceeded {
            limit: LimitKind::TotalMemory,
            requested: self.used,
            most: self.most,
        }
    }

    /// Sets the growths of the next call that are refused, by index from 0.
    pub(crate) fn follow(&mut self, refused: &[u32]) {
        self.growths.script = refused.to_vec();
    }

    /// Takes the indexes of the growths that a replay of the call that ended has to refuse.
    pub(crate) fn take_growths(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.growths).refused
    }

    fn take(&mut self, by: usize) -> Result<(), BudgetExceeded> {
        let requested = self.used.saturating_add(by);
        if requested > self.most {
            return Err(BudgetExceeded {
                limit: LimitKind::Memory,
                requested,
                most: self.most,
            });
        }
        for (at, budget) in self.shared.iter().enumerate() {
            if let Err(refused) = budget.take(by) {
                // All or nothing: what earlier budgets granted is given back.
                self.shared
                    .iter()
                    .take(at)
                    .for_each(|budget| budget.give_back(by));
                return Err(refused);
            }
        }
        self.used = requested;
        Ok(())
    }

    fn failed(&mut self, error: &wasmtime::Error) {
        tracing::debug!(%error, "memory or table not grown");
        // wasmtime reports a failure directly after it asked for the same growth, so the last
        // number is the one that failed. Whether the system has memory is not repeatable: a replay
        // refuses that growth.
        self.growths
            .refused
            .extend(self.growths.requested.checked_sub(1));
        let granted = std::mem::take(&mut self.growths.granted);
        self.used = self.used.saturating_sub(granted);
        self.shared
            .iter()
            .for_each(|budget| budget.give_back(granted));
        // The failed growth may have been granted first, so no refusal is known yet.
        self.refused.get_or_insert(BudgetExceeded {
            limit: LimitKind::Memory,
            requested: self.used,
            most: self.most,
        });
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.shared
            .iter()
            .for_each(|budget| budget.give_back(self.used));
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(self.grow_to(desired.saturating_sub(current), desired, maximum))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.failed(&error);
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let by = desired
            .saturating_sub(current)
            .saturating_mul(size_of::<usize>());
        Ok(self.grow_to(by, desired, maximum))
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.failed(&error);
        Ok(())
    }

    fn instances(&self) -> usize {
        // The default of wasmtime is 10,000.
        MAX_CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        MAX_TABLES as usize
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_are_added_up_and_a_refusal_is_remembered() {
        let mut tally = MemoryLimiter::new(200_000, Vec::new());
        assert!(tally.memory_growing(0, 65_536, None).unwrap());
        assert!(
            tally.memory_growing(0, 65_536, None).unwrap(),
            "a second memory"
        );
        assert!(tally.table_growing(0, 100, None).unwrap());
        assert_eq!(tally.take_refused(), None);
        assert!(
            !tally.table_growing(100, 20_000, None).unwrap(),
            "159,200 bytes more"
        );
        let refused = BudgetExceeded {
            limit: LimitKind::Memory,
            requested: 131_872 + 159_200 - 800 + 800,
            most: 200_000,
        };
        assert_eq!(tally.take_refused(), Some(refused));
        assert_eq!(tally.take_refused(), None);
        assert!(
            tally.memory_growing(65_536, 131_072, None).unwrap(),
            "what was refused is not counted"
        );
    }

    #[test]
    fn shared_memory_is_taken_from_all_budgets_or_none_and_returned() {
        let module = Arc::new(Budget::new(LimitKind::TotalMemory, 150));
        let tenant = Arc::new(Budget::new(LimitKind::TenantMemory, 120));
        let shared = || vec![module.clone(), tenant.clone()];
        let mut one = MemoryLimiter::new(100, shared());
        let mut two = MemoryLimiter::new(100, shared());
        assert!(one.grow(80) && two.grow(40));
        assert!(!two.grow(10));
        let refused = BudgetExceeded {
            limit: LimitKind::TenantMemory,
            requested: 130,
            most: 120,
        };
        assert_eq!(two.take_refused(), Some(refused));
        assert_eq!(
            (module.used(), tenant.used()),
            (120, 120),
            "what the second refused, the first has again"
        );
        assert!(!two.grow(31));
        assert_eq!(
            two.take_refused().map(|refused| refused.limit),
            Some(LimitKind::TotalMemory)
        );
        drop(one);
        assert!(two.grow(10));
        drop(two);
        assert_eq!((module.used(), tenant.used()), (0, 0));
    }

    #[test]
    fn failed_growths_are_not_counted_but_recorded() {
        let module = Arc::new(Budget::new(LimitKind::TotalMemory, 1000));
        let mut tally = MemoryLimiter::new(1000, vec![module.clone()]);
        assert!(tally.memory_growing(0, 100, Some(300)).unwrap());
        assert!(!tally.memory_growing(100, 301, Some(300)).unwrap());
        assert!(!tally.table_growing(0, 2, Some(1)).unwrap());
        assert_eq!(tally.take_refused(), None, "no limit was exceeded");
        assert!(!tally.memory_growing(100, 2000, Some(300)).unwrap());
        assert!(tally.take_refused().is_some());
        assert!(tally.memory_growing(100, 300, Some(300)).unwrap());
        let failure = || wasmtime::Error::msg("no memory is left");
        tally.memory_grow_failed(failure()).unwrap();
        assert_eq!((tally.used(), module.used()), (100, 100));
        assert_eq!(tally.take_growths(), [1, 2, 4]);
        assert!(tally.take_refused().is_some());
        drop(tally);
        assert_eq!(module.used(), 0);
    }
}
