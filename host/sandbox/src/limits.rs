//! What a module may use: memory, time, output, host calls. Each excess is a failure of the call, never of the host.
use std::time::Duration;
use wasmtime::ResourceLimiter;

const MIB: usize = 1024 * 1024;

/// The most core instances of one component. Components of interpreted languages are made of dozens of modules.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// The most memories of one component; those of interpreted languages have three.
pub(crate) const MAX_MEMORIES: u32 = 8;
/// The most tables of one component; those of interpreted languages have tens.
pub(crate) const MAX_TABLES: u32 = 64;
/// The most bytes that the engine keeps for one instance without counting them as its memory: passive segments, globals and
/// functions that are referred to. Components of interpreted languages have tens of thousands of these, a megabyte or two.
pub(crate) const MAX_BOOKKEEPING: u64 = 8 * 1024 * 1024;

/// The limits of one module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of all memories and tables of one instance together. A table element counts as a pointer. What else the engine
    /// keeps for an instance is bounded when the module is loaded.
    pub memory: usize,
    /// How long one call may run, host calls not counted. The start and the init of an instance have as long each, so that
    /// the first call of a fresh instance can take three times as long in all.
    pub call_time: Duration,
    /// How long one call may spend in host calls.
    pub host_time: Duration,
    /// Bytes that one call may push: results, nested arrays and notifications, as they lie in the host's memory. An array
    /// counts when it is passed and again wherever it is referred to.
    pub output: usize,
    /// Events that one call may raise. Beyond them `notify` refuses.
    pub notifications: usize,
    /// Host calls of one call, log messages among them.
    pub host_calls: u32,
    /// Calls after which an instance is replaced by a fresh one.
    pub max_calls: u64,
    /// Warm instances kept for the next calls. More exist while more calls run at once.
    pub instances: usize,
}

impl Default for Limits {
    /// Safe and roomy: 64 MiB (a Python component starts with 13), 100 ms, 1 s in host calls, 1 MiB of output, 16
    /// events raised, 10,000 host calls, 10,000 calls per instance, 8 warm instances.
    fn default() -> Limits {
        Limits {
            memory: 64 * MIB,
            call_time: Duration::from_millis(100),
            host_time: Duration::from_secs(1),
            output: MIB,
            notifications: 16,
            host_calls: 5000,
            max_calls: 10_000,
            instances: 8,
        }
    }
}

impl Limits {
    /// The most bytes that the engine copies out of the guest in one host call, whatever becomes of them. Not below what a
    /// log message may take, so that a module without output can still log.
    pub(crate) fn copied_per_host_call(&self) -> usize {
        const FLOOR: usize = 64 * 1024;
        self.output.max(FLOOR)
    }
}

/// Adds up what the memories and tables of an instance take, and remembers what was refused.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: usize,
    used: usize,
    refused: Option<usize>,
}

impl Tally {
    pub(crate) fn new(limit: usize) -> Tally {
        Tally { limit, used: 0, refused: None }
    }

    /// The size in bytes that was last refused, since this was last asked.
    pub(crate) fn take_refused(&mut self) -> Option<usize> {
        self.refused.take()
    }

    /// Bytes of all memories and tables.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Memories and tables never shrink, so it is enough to add. What is granted here and then fails stays counted.
    fn grow(&mut self, by: usize) -> bool {
        let wanted = self.used.saturating_add(by);
        if wanted > self.limit {
            self.refused = Some(wanted);
            return false;
        }
        self.used = wanted;
        true
    }
}

impl ResourceLimiter for Tally {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current)))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        tracing::debug!(%error, "a memory could not grow");
        self.refused.get_or_insert(self.used);
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.grow(desired.saturating_sub(current).saturating_mul(size_of::<usize>())))
    }

    fn instances(&self) -> usize {
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
    use super::Tally;
    use wasmtime::ResourceLimiter;

    #[test]
    fn memories_and_tables_are_added_up_and_a_refusal_is_remembered() {
        let mut tally = Tally::new(200_000);
        assert!(tally.memory_growing(0, 65_536, None).unwrap());
        assert!(tally.memory_growing(0, 65_536, None).unwrap(), "a second memory");
        assert!(tally.table_growing(0, 100, None).unwrap());
        assert_eq!(tally.take_refused(), None);
        assert!(!tally.table_growing(100, 20_000, None).unwrap(), "159,200 bytes more");
        assert!(tally.take_refused().is_some_and(|wanted| wanted > 200_000));
        assert_eq!(tally.take_refused(), None);
        assert!(tally.memory_growing(65_536, 131_072, None).unwrap(), "what was refused is not counted");
    }
}
