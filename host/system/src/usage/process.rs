//! Resource usage of a process.
use super::{Assembly, Fields, open_directory, read, tree};
use crate::hostname;
use peal_core::monitor::PROC_ELAPSED;
use peal_model::{Info, Proc, UserIdentity, Value, key};
use procfs_core::{
    FromBufRead, FromRead, Uptime,
    process::{SmapsRollup, Stat, Status},
};
use rustix::{fs::fstat, param::clock_ticks_per_second};
use std::io;

/// State letter of a process that a signal has stopped. It is reported for frozen processes, too,
/// for which the kernel has the letter of sleeping ones.
const STOPPED: char = 'T';

/// Contents of the kernel's files about a process. A file that this process may not read is empty.
#[derive(Clone, Debug, Default)]
struct ProcTexts {
    stat: Vec<u8>,
    status: Vec<u8>,
    shares: Vec<u8>,
    uptime: Vec<u8>,
    tree: Option<tree::TreeTexts>,
}

/// Returns the usage of a proc whose process has this id, or `None` if the process has ended.
pub fn of_proc(proc: &Proc, pid: u32, fields: Fields<'_>) -> Option<Info> {
    let (_, texts) = look(pid, fields).ok()?;
    let head = vec![
        Info::new(key::PMIX_PROCID, Value::Proc(proc.clone())),
        Info::new(key::PMIX_PROC_PID, Value::Pid(pid)),
    ];
    assemble(&texts, head, fields)
}

/// Returns the usage of this process.
pub(super) fn own(fields: Fields<'_>) -> Option<Info> {
    let pid = std::process::id();
    let (_, texts) = look(pid, fields).ok()?;
    assemble(
        &texts,
        vec![Info::new(key::PMIX_PROC_PID, Value::Pid(pid))],
        fields,
    )
}

/// Returns the usage of any process of this user. Root may request that of other users' processes.
pub(super) fn of_pid(pid: u32, identity: UserIdentity, fields: Fields<'_>) -> io::Result<Info> {
    let (owner, texts) = look(pid, fields)?;
    // Checked here, since a server that runs as root could read the files of all users.
    if identity.uid != 0 && identity.uid != owner {
        let why = format!(
            "the process belongs to user {owner}, the requester is user {}",
            identity.uid
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let head = vec![Info::new(key::PMIX_PROC_PID, Value::Pid(pid))];
    assemble(&texts, head, fields).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads the files about a process. Returns its owner with them. All are read through one open
/// directory, which cannot refer to a later process of the same id.
fn look(pid: u32, fields: Fields<'_>) -> io::Result<(u32, ProcTexts)> {
    let directory = open_directory(&format!("/proc/{pid}"))?;
    let owner = fstat(&directory)?.st_uid;
    let texts = ProcTexts {
        stat: read(&directory, "stat")?,
        status: read(&directory, "status")?,
        // Read only if selected: the kernel needs longer for it than for all other files, and
        // permits few users to read it.
        shares: if fields.selects(key::PMIX_PROC_PSS) {
            read(&directory, "smaps_rollup").unwrap_or_default()
        } else {
            Vec::new()
        },
        uptime: open_directory("/proc")
            .and_then(|proc| read(proc, "uptime"))
            .unwrap_or_default(),
        tree: tree::look(pid),
    };
    Ok((owner, texts))
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the attribute is a float"
)]
fn percent(used: u64, lived: u64) -> Value {
    Value::Float((used as f64 * 100.0 / lived.max(1) as f64) as f32)
}

/// Parses `/proc/PID/stat`. Returns `None` if the name is not in parentheses between two other
/// words, which the parser does not handle.
fn stat(text: &[u8]) -> Option<Stat> {
    let line = String::from_utf8_lossy(text);
    let (before, rest) = line.trim().split_once(" (")?;
    let (_, after) = rest.rsplit_once(") ")?;
    let is_whole = !before.contains(['(', ')']) && !after.contains(')');
    is_whole.then(|| Stat::from_read(text).ok()).flatten()
}

/// Converts a number of ticks to a time.
fn time_of(ticks: u64, hertz: u64) -> Value {
    Value::Timeval {
        seconds: (ticks / hertz).cast_signed(),
        microseconds: (ticks % hertz * 1_000_000 / hertz).cast_signed(),
    }
}

fn assemble(texts: &ProcTexts, mut head: Vec<Info>, fields: Fields<'_>) -> Option<Info> {
    let stat = stat(&texts.stat)?;
    let status = Status::from_buf_read(texts.status.as_slice()).ok();
    let uptime = Uptime::from_read(texts.uptime.as_slice()).ok();
    head.push(Info::new(key::PMIX_HOSTNAME, Value::string(&hostname())));
    let mut of = Assembly::of(head, fields);
    let hertz = clock_ticks_per_second().max(1);
    let used = stat.utime.saturating_add(stat.stime);
    let is_frozen = texts.tree.as_ref().is_some_and(tree::TreeTexts::is_frozen);
    of.put(key::PMIX_PROC_OS_STATE, || {
        Value::string(&if is_frozen { STOPPED } else { stat.state }.to_string())
    });
    of.put(key::PMIX_PROC_TIME, || time_of(used, hertz));
    if let Some(uptime) = uptime {
        let now = std::time::Duration::try_from_secs_f64(uptime.uptime).unwrap_or_default();
        let ticks = u64::try_from(now.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_mul(hertz)
            / 1000;
        // The start time is in ticks since boot, so the uptime was converted to ticks.
        let lived = ticks.saturating_sub(stat.starttime);
        of.put(key::PMIX_PROC_PERCENT_CPU, || percent(used, lived));
        of.put(PROC_ELAPSED, || time_of(lived, hertz));
    }
    // Report the kernel's number, as OpenPMIx does: a higher one is less urgent.
    of.put(key::PMIX_PROC_PRIORITY, || {
        Value::Int32(i32::try_from(stat.priority).unwrap_or_default())
    });
    of.put(key::PMIX_PROC_NUM_THREADS, || {
        Value::Uint16(u16::try_from(stat.num_threads).unwrap_or(u16::MAX))
    });
    if let Some(cpu) = stat.processor.and_then(|cpu| u16::try_from(cpu).ok()) {
        of.put(key::PMIX_PROC_CPU, || Value::Uint16(cpu));
    }
    let kilobytes = |of: fn(&Status) -> Option<u64>| {
        status
            .as_ref()
            .and_then(of)
            .map(|kb| kb.saturating_mul(1024))
    };
    let shares = SmapsRollup::from_buf_read(texts.shares.as_slice()).ok();
    let shares = shares.and_then(|rollup| {
        rollup
            .memory_map_rollup
            .0
            .first()?
            .extension
            .map
            .get("Pss")
            .copied()
    });
    of.memory([
        (key::PMIX_PROC_VSIZE, Some(stat.vsize)),
        (key::PMIX_PROC_RSS, kilobytes(|status| status.vmrss)),
        (key::PMIX_PROC_PEAK_VSIZE, kilobytes(|status| status.vmpeak)),
        (key::PMIX_PROC_PSS, shares),
    ]);
    if let Some(tree) = &texts.tree {
        tree.put(&mut of);
    }
    Some(of.done(key::PMIX_PROC_RESOURCE_USAGE, key::PMIX_PROC_SAMPLE_TIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Infos;
    use proptest::prelude::*;

    fn own() -> ProcTexts {
        look(std::process::id(), Fields::ALL).unwrap().1
    }

    #[test]
    fn usage_is_computed_from_proc_files() {
        let numbers = "1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3 0 1000 1048576 99".to_owned();
        let rest = vec!["0"; 28].join(" ");
        let stat = format!("17 (a) b (c) R {numbers} {rest}").into_bytes();
        let texts = ProcTexts {
            stat,
            uptime: b"40.00 1.00\n".to_vec(),
            ..ProcTexts::default()
        };
        let Value::DataArray(array) = assemble(&texts, Vec::new(), Fields::ALL).unwrap().value
        else {
            panic!()
        };
        let infos: Vec<Info> = array.as_infos().unwrap().into_iter().cloned().collect();
        assert_eq!(
            infos.value_of(key::PMIX_PROC_OS_STATE),
            Some(&Value::string("R"))
        );
        // 3 seconds of the 30 since the process was started, at 100 ticks a second.
        assert_eq!(
            infos.value_of(key::PMIX_PROC_TIME),
            Some(&Value::Timeval {
                seconds: 3,
                microseconds: 0
            })
        );
        assert_eq!(
            infos.value_of(key::PMIX_PROC_PERCENT_CPU),
            Some(&Value::Float(10.0))
        );
        assert_eq!(
            infos.value_of(PROC_ELAPSED),
            Some(&Value::Timeval {
                seconds: 30,
                microseconds: 0
            })
        );
        assert_eq!(
            infos.value_of(key::PMIX_PROC_VSIZE),
            Some(&Value::Float(1.0))
        );
        assert_eq!(
            infos.value_of(key::PMIX_PROC_PRIORITY),
            Some(&Value::Int32(20)),
            "the kernel's number"
        );
        assert_eq!(
            infos.value_of(key::PMIX_PROC_RSS),
            None,
            "unknown values are left out"
        );
    }

    proptest! {
        /// Unexpected text of the kernel leads to fewer attributes and to no panic.
        #[test]
        fn unexpected_kernel_text_causes_no_panic(cut in 0usize..2000, at in 0usize..2000, byte in any::<u8>(), which in 0..4u8) {
            let mut texts = own();
            let text = match which {
                0 => &mut texts.stat,
                1 => &mut texts.status,
                2 => &mut texts.shares,
                _ => &mut texts.uptime,
            };
            if let Some(here) = text.get_mut(at) {
                *here = byte;
            }
            text.truncate(cut.max(1));
            let _ = assemble(&texts, Vec::new(), Fields::ALL);
        }
    }
}
