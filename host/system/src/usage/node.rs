//! Resource usage of a node, its disks and its networks.
use super::{Assembly, Fields, open_directory, read};
use crate::hostname;
use peal_model::{DataArray, Info, Value, key};
use procfs_core::{DiskStat, DiskStats, FromBufRead, FromRead, LoadAverage, Meminfo, net};
use std::collections::BTreeSet;

/// Reads a file directly below `/proc`. Returns no bytes if that fails.
fn text(name: &str) -> Vec<u8> {
    open_directory("/proc")
        .and_then(|proc| read(proc, name))
        .unwrap_or_default()
}

/// Returns the usage of this node. The usage of its disks and networks is included only if their
/// attributes are selected by name.
pub(super) fn usage(fields: Fields<'_>) -> Info {
    let mut of = Assembly::of(
        vec![Info::new(key::PMIX_HOSTNAME, Value::string(&hostname()))],
        fields,
    );
    if let Ok(load) = LoadAverage::from_read(text("loadavg").as_slice()) {
        of.put(key::PMIX_NODE_LOAD_AVG, || Value::Float(load.one));
        of.put(key::PMIX_NODE_LOAD_AVG5, || Value::Float(load.five));
        of.put(key::PMIX_NODE_LOAD_AVG15, || Value::Float(load.fifteen));
    }
    if let Ok(memory) = Meminfo::from_buf_read(text("meminfo").as_slice()) {
        of.memory([
            (key::PMIX_NODE_MEM_TOTAL, Some(memory.mem_total)),
            (key::PMIX_NODE_MEM_FREE, Some(memory.mem_free)),
            (key::PMIX_NODE_MEM_BUFFERS, Some(memory.buffers)),
            (key::PMIX_NODE_MEM_CACHED, Some(memory.cached)),
            (key::PMIX_NODE_MEM_SWAP_CACHED, Some(memory.swap_cached)),
            (key::PMIX_NODE_SWAP_TOTAL, Some(memory.swap_total)),
            (key::PMIX_NODE_MEM_SWAP_FREE, Some(memory.swap_free)),
            (key::PMIX_NODE_MEM_MAPPED, Some(memory.mapped)),
        ]);
    }
    let all = BTreeSet::new();
    if fields.name(key::PMIX_DISK_RESOURCE_USAGE) {
        let disks = DataArray::infos(disks(&all, Fields::ALL));
        of.put(key::PMIX_DISK_RESOURCE_USAGE, || Value::DataArray(disks));
    }
    if fields.name(key::PMIX_NETWORK_RESOURCE_USAGE) {
        let networks = DataArray::infos(networks(&all, Fields::ALL));
        of.put(key::PMIX_NETWORK_RESOURCE_USAGE, || {
            Value::DataArray(networks)
        });
    }
    of.done(key::PMIX_NODE_RESOURCE_USAGE, key::PMIX_NODE_SAMPLE_TIME)
}

/// Returns the usage of the disks of these names. Without names, returns that of all disks that
/// have read or written.
pub(super) fn disks(wanted: &BTreeSet<String>, fields: Fields<'_>) -> Vec<Info> {
    let DiskStats(all) =
        DiskStats::from_buf_read(text("diskstats").as_slice()).unwrap_or(DiskStats(Vec::new()));
    let is_wanted = |disk: &&DiskStat| {
        if wanted.is_empty() {
            disk.reads > 0 || disk.writes > 0
        } else {
            wanted.contains(&disk.name)
        }
    };
    all.iter()
        .filter(is_wanted)
        .map(|disk| of_disk(disk, fields))
        .collect()
}

fn of_disk(disk: &DiskStat, fields: Fields<'_>) -> Info {
    let mut of = Assembly::of(
        vec![Info::new(key::PMIX_DISK_ID, Value::string(&disk.name))],
        fields,
    );
    of.numbers([
        (key::PMIX_DISK_READ_COMPLETED, disk.reads),
        (key::PMIX_DISK_READ_MERGED, disk.merged),
        (key::PMIX_DISK_READ_SECTORS, disk.sectors_read),
        (key::PMIX_DISK_READ_MILLISEC, disk.time_reading),
        (key::PMIX_DISK_WRITE_COMPLETED, disk.writes),
        (key::PMIX_DISK_WRITE_MERGED, disk.writes_merged),
        (key::PMIX_DISK_WRITE_SECTORS, disk.sectors_written),
        (key::PMIX_DISK_WRITE_MILLISEC, disk.time_writing),
        (key::PMIX_DISK_IO_IN_PROGRESS, disk.in_progress),
        (key::PMIX_DISK_IO_MILLISEC, disk.time_in_progress),
        (key::PMIX_DISK_IO_WEIGHTED, disk.weighted_time_in_progress),
    ]);
    of.done(key::PMIX_DISK_RESOURCE_USAGE, key::PMIX_DISK_SAMPLE_TIME)
}

/// Returns the usage of the networks of these names, or of all networks without names.
pub(super) fn networks(wanted: &BTreeSet<String>, fields: Fields<'_>) -> Vec<Info> {
    let found = net::InterfaceDeviceStatus::from_buf_read(text("net/dev").as_slice());
    let mut all: Vec<net::DeviceStatus> = found
        .map(|found| found.0.into_values().collect())
        .unwrap_or_default();
    // The parser returns them in a hash map, whose order changes from call to call.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    let is_wanted =
        |network: &&net::DeviceStatus| wanted.is_empty() || wanted.contains(&network.name);
    all.iter()
        .filter(is_wanted)
        .map(|network| of_network(network, fields))
        .collect()
}

fn of_network(network: &net::DeviceStatus, fields: Fields<'_>) -> Info {
    let mut of = Assembly::of(
        vec![Info::new(
            key::PMIX_NETWORK_ID,
            Value::string(&network.name),
        )],
        fields,
    );
    of.numbers([
        (key::PMIX_NET_RECVD_BYTES, network.recv_bytes),
        (key::PMIX_NET_RECVD_PCKTS, network.recv_packets),
        (key::PMIX_NET_RECVD_ERRS, network.recv_errs),
        (key::PMIX_NET_SENT_BYTES, network.sent_bytes),
        (key::PMIX_NET_SENT_PCKTS, network.sent_packets),
        (key::PMIX_NET_SENT_ERRS, network.sent_errs),
    ]);
    of.done(key::PMIX_NETWORK_RESOURCE_USAGE, key::PMIX_NET_SAMPLE_TIME)
}
