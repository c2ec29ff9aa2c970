//! Binding of procs to processors: which ones each proc may run on, and the start of its process on them.
use super::processors::{NodeProcessors, Processor, ranges};
use peal_core::{choice::ProcessorUnit, job::ProcProcessors};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    sync::Arc,
};
use thiserror::Error;

/// Processors that procs are placed on, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BindingRule {
    /// Processors of this node.
    pub processors: Arc<NodeProcessors>,
    /// Unit that each proc takes the next one of, by turns.
    pub map_by: ProcessorUnit,
    /// Unit that a proc may run on: the one that contains the first processor of its unit of `map_by`, or if
    /// that is larger, the next one in it.
    pub bind_to: ProcessorUnit,
}

/// Processors of one proc.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// Numbers of the processors in the kernel.
    numbers: BTreeSet<u32>,
    locality: String,
    picture: String,
}

/// Procs that cannot be placed as it is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BindingError {
    /// The node has no such unit.
    #[error("this node has no {unit} that hwloc knows; take another unit (`lstopo` shows them)")]
    NoUnit {
        /// Unit.
        unit: ProcessorUnit,
    },
    /// Procs would share a core, or a hardware thread.
    #[error(
        "rank {rank} would share a {shared} with another proc; start fewer procs, or bind to none"
    )]
    Shared {
        /// First rank without one of its own.
        rank: u32,
        /// Core or hardware thread.
        shared: ProcessorUnit,
    },
}

impl BindingRule {
    /// Returns the processors of these ranks, which follow one another on the node.
    ///
    /// # Errors
    ///
    /// Names the first rank that cannot be placed.
    pub fn bind(&self, ranks: Range<u32>) -> Result<Vec<Binding>, BindingError> {
        let units = |unit| match self.processors.units(unit) {
            units if units.is_empty() => Err(BindingError::NoUnit { unit }),
            units => Ok(units),
        };
        let places = units(self.map_by)?;
        let targets = units(self.bind_to)?;
        // A proc needs a core, or a hardware thread where procs are bound to those.
        let needed = match self.bind_to {
            ProcessorUnit::HardwareThread => ProcessorUnit::HardwareThread,
            _ => ProcessorUnit::Core,
        };
        let mut procs: BTreeMap<u32, usize> = BTreeMap::new();
        // Those of earlier jobs of the node have the first places.
        (0..ranks.end)
            .zip(places.values().cycle())
            .map(|(rank, place)| {
                let inside: BTreeSet<u32> = place
                    .iter()
                    .filter_map(|one| one.unit(self.bind_to))
                    .collect();
                let least = |index: &u32| procs.get(index).copied().unwrap_or_default();
                let target = inside.into_iter().min_by_key(least);
                let found = target.and_then(|index| Some((index, targets.get(&index)?)));
                let Some((index, processors)) = found else {
                    return Err(BindingError::NoUnit { unit: self.bind_to });
                };
                let count = procs.entry(index).or_default();
                *count += 1;
                if *count > room(processors, needed) {
                    return Err(BindingError::Shared {
                        rank: rank.saturating_sub(ranks.start),
                        shared: needed,
                    });
                }
                let numbers: BTreeSet<u32> = processors.iter().map(|one| one.number).collect();
                Ok(Binding {
                    locality: self.processors.locality(&numbers),
                    picture: self.processors.picture(&numbers),
                    numbers,
                })
            })
            .skip(usize::try_from(ranks.start).unwrap_or(usize::MAX))
            .collect()
    }
}

/// Returns the number of procs that have room on some processors.
fn room(processors: &[&Processor], needed: ProcessorUnit) -> usize {
    let units: BTreeSet<Option<u32>> = processors.iter().map(|one| one.unit(needed)).collect();
    units.len()
}

impl Binding {
    /// Returns a line about the binding of a rank, with a picture of the node as `mpirun` prints it.
    pub fn report(&self, rank: u32) -> String {
        let processors = ranges(&self.numbers);
        format!(
            "rank {rank} is bound to processors {processors}: {}",
            self.picture
        )
    }

    /// Returns what procs are told.
    pub(crate) fn described(&self) -> ProcProcessors {
        ProcProcessors {
            cpuset: ranges(&self.numbers).as_str().into(),
            locality: self.locality.as_str().into(),
        }
    }

    /// Starts a process that may run on these processors alone. It inherits them from this thread, which has
    /// its own again afterwards.
    pub(crate) fn start<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let own = sched_getaffinity(None)?;
        let mut processors = CpuSet::new();
        let known = self
            .numbers
            .iter()
            .filter_map(|number| usize::try_from(*number).ok());
        known
            .filter(|number| *number < CpuSet::MAX_CPU)
            .for_each(|number| processors.set(number));
        sched_setaffinity(None, &processors)?;
        let started = start();
        sched_setaffinity(None, &own)?;
        started
    }
}

/// Returns a function that is true for processors that this thread may run on.
///
/// # Errors
///
/// The error of the system.
pub fn usable_processors() -> io::Result<impl Fn(u32) -> bool> {
    let usable = sched_getaffinity(None)?;
    Ok(move |number| {
        let number = usize::try_from(number);
        number.is_ok_and(|number| number < CpuSet::MAX_CPU && usable.is_set(number))
    })
}

#[cfg(test)]
mod tests;
