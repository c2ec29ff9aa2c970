//! Resource usage of procs, as servers report it under the keys of the Standard.
use peal_core::monitor::{PROC_ELAPSED, TREE_MEMORY, TREE_PEAK_MEMORY, TREE_PROCESSES, TREE_TIME};
use peal_model::{DataArray, Info, KeyName, Proc, Value, key};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Depth to which arrays are searched.
const DEEPEST: usize = 4;

/// Resource usage of a proc, as far as it is known.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredUsage {
    /// Usage of one core, in percent.
    pub cpu_percent: Option<f64>,
    /// Time since the start of the process, in seconds.
    #[serde(default)]
    pub elapsed_seconds: Option<f64>,
    /// Processor time, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, in megabytes.
    pub resident_mb: Option<f64>,
    /// Proportional share of the memory, in megabytes.
    pub proportional_mb: Option<f64>,
    /// Virtual memory, in megabytes.
    pub virtual_mb: Option<f64>,
    pub threads: Option<u64>,
    /// State in the operating system.
    pub os_state: Option<String>,
    /// Processor time of the process and its descendants, in seconds.
    pub tree_cpu_seconds: Option<f64>,
    /// Memory of the process and its descendants, in megabytes.
    pub tree_mb: Option<f64>,
    /// Maximum of that memory so far.
    pub tree_peak_mb: Option<f64>,
    pub tree_processes: Option<u64>,
}

impl MeasuredUsage {
    fn of(infos: &[&Info]) -> MeasuredUsage {
        let value = |key: KeyName| {
            infos
                .iter()
                // The last value of a repeated key counts, as in every list of infos.
                .rev()
                .find(|info| info.key == key)
                .map(|info| &info.value)
        };
        let amount = |key: KeyName| value(key).and_then(number);
        MeasuredUsage {
            cpu_percent: amount(key::PMIX_PROC_PERCENT_CPU),
            elapsed_seconds: amount(PROC_ELAPSED),
            cpu_seconds: amount(key::PMIX_PROC_TIME),
            resident_mb: amount(key::PMIX_PROC_RSS),
            proportional_mb: amount(key::PMIX_PROC_PSS),
            virtual_mb: amount(key::PMIX_PROC_VSIZE),
            threads: value(key::PMIX_PROC_NUM_THREADS).and_then(Value::as_u64),
            os_state: value(key::PMIX_PROC_OS_STATE)
                .and_then(Value::as_str)
                .map(str::to_owned),
            tree_cpu_seconds: amount(TREE_TIME),
            tree_mb: amount(TREE_MEMORY),
            tree_peak_mb: amount(TREE_PEAK_MEMORY),
            tree_processes: value(TREE_PROCESSES).and_then(Value::as_u64),
        }
    }

    /// Returns the memory of the proc, in megabytes.
    pub fn memory_mb(&self) -> Option<f64> {
        self.resident_mb.or(self.proportional_mb)
    }

    /// Returns true if the process is stopped.
    pub fn is_stopped(&self) -> bool {
        self.os_state
            .as_ref()
            .is_some_and(|state| state.starts_with(['T', 't']))
    }

    /// Returns the usage as JSON.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "elapsed_seconds": self.elapsed_seconds, "cpu_percent": self.cpu_percent, "cpu_seconds": self.cpu_seconds, "resident_mb": self.resident_mb,
            "proportional_mb": self.proportional_mb, "virtual_mb": self.virtual_mb, "threads": self.threads,
            "os_state": self.os_state, "tree_cpu_seconds": self.tree_cpu_seconds, "tree_mb": self.tree_mb,
            "tree_peak_mb": self.tree_peak_mb, "tree_processes": self.tree_processes,
        })
    }
}

/// Returns the usage by proc, at any place in a reply or event.
pub fn of_procs(infos: &[Info]) -> BTreeMap<Proc, MeasuredUsage> {
    let mut found = BTreeMap::new();
    gather(&infos.iter().collect::<Vec<_>>(), DEEPEST, &mut found);
    found
}

fn gather(infos: &[&Info], depth: usize, found: &mut BTreeMap<Proc, MeasuredUsage>) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    if let Some(Value::Proc(proc)) = infos
        .iter()
        .find(|info| info.key == key::PMIX_PROCID)
        .map(|info| &info.value)
    {
        let usage = MeasuredUsage::of(infos);
        // An array may name a proc without its usage.
        if usage != MeasuredUsage::default() {
            found.insert(proc.clone(), usage);
        }
    }
    for info in infos {
        if let Some(infos) = members(info) {
            gather(&infos, depth, found);
        }
    }
}

/// Returns the infos in an info's array.
pub fn members(info: &Info) -> Option<Vec<&Info>> {
    match &info.value {
        Value::DataArray(array) => DataArray::as_infos(array),
        _ => None,
    }
}

/// Returns a number of any type; a time in seconds.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        // The conversion goes by the digits, so that 12.3 stays 12.3.
        Value::Float(number) => number.to_string().parse().ok(),
        Value::Double(number) => Some(*number),
        Value::Timeval {
            seconds,
            microseconds,
        } => Some(*seconds as f64 + *microseconds as f64 / 1e6),
        other => other.as_u64().map(|number| number as f64),
    }
    .filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Rank};

    #[test]
    fn usage_is_found_at_any_place_up_to_a_depth() {
        let proc = |rank| Proc::new(Nspace::new("solver").unwrap(), Rank(rank));
        let array = |key: KeyName, infos: Vec<Info>| {
            Info::new(key, Value::DataArray(DataArray::infos(infos)))
        };
        let of = |rank| {
            vec![
                Info::new(key::PMIX_PROCID, Value::Proc(proc(rank))),
                Info::new(key::PMIX_PROC_PERCENT_CPU, Value::Float(12.3)),
                Info::new(
                    key::PMIX_PROC_TIME,
                    Value::Timeval {
                        seconds: 1,
                        microseconds: 500_000,
                    },
                ),
                Info::new(key::PMIX_PROC_NUM_THREADS, Value::Uint16(3)),
                Info::new(key::PMIX_PROC_OS_STATE, Value::string("T")),
            ]
        };
        let direct = array(key::PMIX_PROC_RESOURCE_USAGE, of(0));
        let inner = array(
            key::PMIX_QUERY_PROC_RESOURCE_USAGE,
            vec![array(key::PMIX_PROC_RESOURCE_USAGE, of(1))],
        );
        let nothing = array(
            key::PMIX_PROC_RESOURCE_USAGE,
            vec![Info::new(key::PMIX_PROCID, Value::Proc(proc(2)))],
        );
        let deep = (0..DEEPEST).fold(of(3), |infos, _| {
            vec![array(key::PMIX_PROC_RESOURCE_USAGE, infos)]
        });
        let found = of_procs(&[direct, inner, nothing, deep[0].clone()]);
        assert_eq!(
            found.keys().map(|proc| proc.rank.0).collect::<Vec<_>>(),
            [0, 1]
        );
        let usage = &found[&proc(0)];
        assert_eq!(
            (usage.cpu_percent, usage.cpu_seconds, usage.threads),
            (Some(12.3), Some(1.5), Some(3))
        );
        assert!(usage.is_stopped());
    }
}
