//! Use of this node's resources, by procs and in total.
mod node;
mod process;
mod tree;

use peal_core::{
    monitor::{UsageOf, UsageRequest},
    server::UsageFound,
};
use peal_model::{DataArray, Info, Key, KeyName, Proc, UserIdentity, Value, code};
use rustix::fs::{Mode, OFlags, openat};
use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    time::{SystemTime, UNIX_EPOCH},
};

pub use process::of_proc;

/// Maximum bytes of a kernel file that are read. The rest of a longer file is ignored.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Measures the requested resources, as far as the user of the request may see them. `pid_of`
/// returns the process id of a proc that runs here. Blocks.
pub fn measure(
    request: &UsageRequest,
    identity: UserIdentity,
    pid_of: &dyn Fn(&Proc) -> Option<u32>,
) -> UsageFound {
    let name = crate::hostname();
    if let Some(other) = request.nodes.iter().find(|node| **node != name) {
        return Err((
            code::PMIX_ERR_NOT_FOUND,
            format!("usage of node {other:?} is not available; this node is {name:?}"),
        ));
    }
    let fields = Fields(&request.fields);
    match &request.of {
        UsageOf::Node => Ok(vec![node::usage(fields)]),
        UsageOf::Disks(wanted) => some(node::disks(wanted, fields), "disk"),
        UsageOf::Networks(wanted) => some(node::networks(wanted, fields), "network"),
        UsageOf::Procs { procs, pids } => processes(procs, pids, identity, pid_of, fields),
    }
}

fn processes(
    procs: &[Proc],
    pids: &BTreeSet<u32>,
    identity: UserIdentity,
    pid_of: &dyn Fn(&Proc) -> Option<u32>,
    fields: Fields<'_>,
) -> UsageFound {
    let running = |proc: &Proc| of_proc(proc, pid_of(proc)?, fields);
    let mut found: Vec<Info> = procs.iter().filter_map(running).collect();
    for pid in pids {
        match process::of_pid(*pid, identity, fields) {
            Ok(info) => found.push(info),
            Err(error) => {
                let status = if error.kind() == io::ErrorKind::PermissionDenied {
                    code::PMIX_ERR_NO_PERMISSIONS
                } else {
                    code::PMIX_ERR_NOT_FOUND
                };
                return Err((status, format!("process {pid}: {error}")));
            }
        }
    }
    some(found, "running process")
}

/// Returns what was found, or an error that names the kind of resource.
fn some(found: Vec<Info>, kind: &str) -> UsageFound {
    if found.is_empty() {
        Err((
            code::PMIX_ERR_NOT_FOUND,
            format!("this node has no {kind} that the request selects"),
        ))
    } else {
        Ok(found)
    }
}

/// Returns the usage of the server's own process.
pub fn of_server(fields: Fields<'_>) -> Option<Info> {
    process::own(fields)
}

/// Returns the usage of this node, as queries report it.
pub fn of_node() -> Info {
    node::usage(Fields::ALL)
}

/// Selection of attributes. An empty selection stands for all.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(&'a BTreeSet<Key>);

static EVERYTHING: BTreeSet<Key> = BTreeSet::new();

impl Fields<'_> {
    /// Selection of all attributes.
    pub const ALL: Fields<'static> = Fields(&EVERYTHING);

    /// Selects these attributes and no others.
    pub fn these(keys: &BTreeSet<Key>) -> Fields<'_> {
        Fields(keys)
    }

    /// Returns true if the attribute is selected.
    fn selects(self, key: KeyName) -> bool {
        self.0.is_empty() || self.name(key)
    }

    /// Returns true if the attribute is selected by its name, not only as one of all.
    fn name(self, key: KeyName) -> bool {
        self.0.iter().any(|wanted| *wanted == key)
    }
}

/// Usage report that is being put together: the infos that name its subject, then the selected
/// attributes, then the time of the sample.
struct Assembly<'a> {
    infos: Vec<Info>,
    fields: Fields<'a>,
}

impl<'a> Assembly<'a> {
    fn of(head: Vec<Info>, fields: Fields<'a>) -> Assembly<'a> {
        Assembly {
            infos: head,
            fields,
        }
    }

    fn put(&mut self, key: KeyName, value: impl FnOnce() -> Value) {
        if self.fields.selects(key) {
            self.infos.push(Info::new(key, value()));
        }
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = (KeyName, u64)>) {
        numbers
            .into_iter()
            .for_each(|(key, number)| self.put(key, || Value::Uint64(number)));
    }

    /// Adds numbers of bytes, in units of 2^20 bytes.
    fn memory(&mut self, amounts: impl IntoIterator<Item = (KeyName, Option<u64>)>) {
        for (key, bytes) in amounts {
            if let Some(bytes) = bytes {
                self.put(key, || megabytes(bytes));
            }
        }
    }

    fn done(mut self, key: KeyName, sampled: KeyName) -> Info {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.infos.push(Info::new(sampled, Value::Time(now)));
        Info::new(key, Value::DataArray(DataArray::infos(self.infos)))
    }
}

#[allow(clippy::cast_precision_loss, reason = "the attributes are floats")]
fn megabytes(bytes: u64) -> Value {
    Value::Float(bytes as f32 / (1 << 20) as f32)
}

/// Reads a kernel file below an open directory.
fn read(directory: impl AsFd, name: &str) -> io::Result<Vec<u8>> {
    let file = File::from(openat(
        directory,
        name,
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let mut bytes = Vec::new();
    // Files of `/proc` have size zero in their metadata, so the read itself is bounded.
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_directory(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Infos, key};

    fn no_pid(_: &Proc) -> Option<u32> {
        None
    }

    fn me() -> UserIdentity {
        UserIdentity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    fn usage_request(of: UsageOf, fields: &[KeyName]) -> UsageRequest {
        UsageRequest {
            of,
            fields: fields.iter().map(|key| (*key).into()).collect(),
            nodes: BTreeSet::new(),
        }
    }

    fn is_missing(found: &UsageFound) -> bool {
        matches!(found, Err((code::PMIX_ERR_NOT_FOUND, _)))
    }

    fn inner(info: &Info) -> Vec<Info> {
        let Value::DataArray(array) = &info.value else {
            panic!("{info:?}")
        };
        array.as_infos().unwrap().into_iter().cloned().collect()
    }

    #[test]
    fn process_reports_requested_usage() {
        let own = || UsageOf::Procs {
            procs: Vec::new(),
            pids: [std::process::id()].into(),
        };
        let found = measure(&usage_request(own(), &[]), me(), &no_pid).unwrap();
        assert_eq!(found[0].key, key::PMIX_PROC_RESOURCE_USAGE);
        let infos = inner(&found[0]);
        assert_eq!(
            infos[0],
            Info::new(key::PMIX_PROC_PID, Value::Pid(std::process::id()))
        );
        let float = |key| match infos.value_of(key) {
            Some(Value::Float(number)) => *number,
            other => panic!("{key:?}: {other:?}"),
        };
        let resident = float(key::PMIX_PROC_RSS);
        let all = float(key::PMIX_PROC_VSIZE);
        assert!(
            0.5 < resident && resident < all && all <= float(key::PMIX_PROC_PEAK_VSIZE),
            "{resident} of {all} MB"
        );
        assert!(0.0 < float(key::PMIX_PROC_PSS));
        assert!((0.0..10_000.0).contains(&float(key::PMIX_PROC_PERCENT_CPU)));
        assert!(matches!(
            infos.value_of(key::PMIX_PROC_NUM_THREADS),
            Some(Value::Uint16(2..))
        ));
        assert!(matches!(
            infos.value_of(key::PMIX_PROC_SAMPLE_TIME),
            Some(Value::Time(1_700_000_000..))
        ));

        let found = measure(&usage_request(own(), &[key::PMIX_PROC_CPU]), me(), &no_pid).unwrap();
        let infos = inner(&found[0]);
        let keys: Vec<&str> = infos.iter().map(|info| info.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                key::PMIX_PROC_PID.0,
                key::PMIX_HOSTNAME.0,
                key::PMIX_PROC_CPU.0,
                key::PMIX_PROC_SAMPLE_TIME.0
            ]
        );
    }

    #[test]
    fn usage_of_other_users_processes_is_not_reported() {
        let init = usage_request(
            UsageOf::Procs {
                procs: Vec::new(),
                pids: [1].into(),
            },
            &[],
        );
        let other_user = UserIdentity {
            uid: 54_321,
            gid: 54_321,
        };
        assert_eq!(
            measure(&init, other_user, &no_pid).unwrap_err().0,
            code::PMIX_ERR_NO_PERMISSIONS
        );
        let gone = usage_request(
            UsageOf::Procs {
                procs: Vec::new(),
                pids: [u32::MAX].into(),
            },
            &[],
        );
        assert!(is_missing(&measure(&gone, me(), &no_pid)));
        let unknown = usage_request(
            UsageOf::Procs {
                procs: vec![Proc::all(peal_model::Nspace::new("job").unwrap())],
                pids: [].into(),
            },
            &[],
        );
        assert!(is_missing(&measure(&unknown, me(), &no_pid)));
    }

    #[test]
    fn node_usage_has_memory_disks_and_networks() {
        let found = measure(&usage_request(UsageOf::Node, &[]), me(), &no_pid).unwrap();
        let infos = inner(&found[0]);
        assert_eq!(
            infos[0],
            Info::new(key::PMIX_HOSTNAME, Value::string(&crate::hostname()))
        );
        for key in [
            key::PMIX_NODE_LOAD_AVG,
            key::PMIX_NODE_MEM_TOTAL,
            key::PMIX_NODE_MEM_FREE,
        ] {
            assert!(
                matches!(infos.value_of(key), Some(Value::Float(0.0..))),
                "{key:?} in {infos:?}"
            );
        }
        let nets = measure(
            &usage_request(UsageOf::Networks(["lo".to_owned()].into()), &[]),
            me(),
            &no_pid,
        )
        .unwrap();
        assert_eq!(nets.len(), 1);
        assert_eq!(
            inner(&nets[0])[0],
            Info::new(key::PMIX_NETWORK_ID, Value::string("lo"))
        );
        let fields = [key::PMIX_NODE_LOAD_AVG, key::PMIX_NETWORK_RESOURCE_USAGE];
        let nested =
            inner(&measure(&usage_request(UsageOf::Node, &fields), me(), &no_pid).unwrap()[0]);
        assert!(
            nested
                .iter()
                .any(|info| info.key == key::PMIX_NETWORK_RESOURCE_USAGE)
        );
        assert!(is_missing(&measure(
            &usage_request(UsageOf::Disks(["no such".to_owned()].into()), &[]),
            me(),
            &no_pid
        )));
        let elsewhere = UsageRequest {
            nodes: ["elsewhere".to_owned()].into(),
            ..usage_request(UsageOf::Node, &[])
        };
        assert!(is_missing(&measure(&elsewhere, me(), &no_pid)));
    }
}
