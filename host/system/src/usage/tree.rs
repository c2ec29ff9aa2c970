//! Resource usage of a proc with all processes that it has started, by the counters of their
//! control group. The counters include processes that have ended.
use super::{Assembly, read};
use crate::cgroup;
use peal_core::monitor::{TREE_MEMORY, TREE_PEAK_MEMORY, TREE_PROCESSES, TREE_TIME};
use peal_model::Value;
use std::os::fd::OwnedFd;

/// Contents of the kernel's files about a control group. Which of them exist depends on the
/// controllers of the group.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeTexts {
    events: Vec<u8>,
    cpu: Vec<u8>,
    memory: Vec<u8>,
    peak: Vec<u8>,
    processes: Vec<u8>,
}

/// Reads the files about the control group of a process, if that is the group of a proc.
pub(super) fn look(pid: u32) -> Option<TreeTexts> {
    let directory: OwnedFd = cgroup::of(pid)?;
    let text = |name| read(&directory, name).unwrap_or_default();
    Some(TreeTexts {
        events: text("cgroup.events"),
        cpu: text("cpu.stat"),
        memory: text("memory.current"),
        peak: text("memory.peak"),
        processes: text("cgroup.procs"),
    })
}

impl TreeTexts {
    /// Returns true if all processes in the group are frozen. Their own states do not show it.
    pub(super) fn is_frozen(&self) -> bool {
        field(&self.events, "frozen") == Some(1)
    }

    pub(super) fn put(&self, of: &mut Assembly<'_>) {
        if let Some(used) = field(&self.cpu, "usage_usec") {
            of.put(TREE_TIME, || Value::Timeval {
                seconds: (used / 1_000_000).cast_signed(),
                microseconds: (used % 1_000_000).cast_signed(),
            });
        }
        of.memory([
            (TREE_MEMORY, number(&self.memory)),
            (TREE_PEAK_MEMORY, number(&self.peak)),
        ]);
        // The file has one process id per line.
        let processes = self.processes.iter().filter(|byte| **byte == b'\n').count();
        of.numbers((processes > 0).then_some((TREE_PROCESSES, processes as u64)));
    }
}

/// Returns the number behind a word at the beginning of a line.
fn field(text: &[u8], name: &str) -> Option<u64> {
    let lines = std::str::from_utf8(text).ok()?.lines();
    lines
        .filter_map(|line| line.split_once(' '))
        .find(|(word, _)| *word == name)?
        .1
        .parse()
        .ok()
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Fields;
    use peal_model::{Info, key};

    fn put(texts: &TreeTexts) -> Vec<Info> {
        let mut of = Assembly::of(Vec::new(), Fields::ALL);
        texts.put(&mut of);
        let Value::DataArray(array) = of
            .done(key::PMIX_PROC_RESOURCE_USAGE, key::PMIX_PROC_SAMPLE_TIME)
            .value
        else {
            panic!()
        };
        let mut infos: Vec<Info> = array.as_infos().unwrap().into_iter().cloned().collect();
        infos.pop();
        infos
    }

    #[test]
    fn usage_counted_by_kernel_for_tree_is_reported_and_rest_is_not() {
        let all = TreeTexts {
            events: b"populated 1\nfrozen 1\n".to_vec(),
            cpu: b"usage_usec 2500001\nuser_usec 1\n".to_vec(),
            memory: b"3145728\n".to_vec(),
            peak: b"4194304\n".to_vec(),
            processes: b"17\n18\n".to_vec(),
        };
        let told = [
            Info::new(
                TREE_TIME,
                Value::Timeval {
                    seconds: 2,
                    microseconds: 500_001,
                },
            ),
            Info::new(TREE_MEMORY, Value::Float(3.0)),
            Info::new(TREE_PEAK_MEMORY, Value::Float(4.0)),
            Info::new(TREE_PROCESSES, Value::Uint64(2)),
        ];
        assert!(all.is_frozen());
        assert_eq!(put(&all), told);
        let strange = TreeTexts {
            cpu: b"usage_usec max\n".to_vec(),
            memory: b"\xff".to_vec(),
            ..TreeTexts::default()
        };
        assert!(!strange.is_frozen());
        assert_eq!(put(&strange), []);
    }
}
