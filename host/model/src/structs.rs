//! The compound data types of the Standard that Peal carries without acting on them, or nearly so.
use crate::{Bytes, DataType, Info, Key, Proc, ProcState, Text, Value};
use serde::{Deserialize, Serialize};

/// An application to spawn (`pmix_app_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct App {
    /// The program.
    pub command: Option<Text>,
    /// Its arguments, the first being its name.
    pub args: Vec<Option<Text>>,
    /// Its environment, `NAME=value`.
    pub env: Vec<Option<Text>>,
    /// Where it starts.
    pub cwd: Option<Text>,
    /// How many procs at most.
    pub max_procs: i32,
    /// Directives.
    pub infos: Vec<Info>,
}

impl App {
    /// The program that is meant: what is named as that, or the first argument; none where that is empty.
    pub fn program(&self) -> Option<&Text> {
        let named = self
            .command
            .as_ref()
            .or_else(|| self.args.first().and_then(Option::as_ref));
        named.filter(|name| !name.as_bytes().is_empty())
    }
}

/// A published value and who published it (`pmix_pdata_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pdata {
    /// The publisher.
    pub proc: Proc,
    /// What it is.
    pub key: Key,
    /// Its value.
    pub value: Value,
}

/// What is known of a running proc (`pmix_proc_info_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcInfo {
    /// Which proc.
    pub proc: Proc,
    /// Where it runs.
    pub hostname: Option<Text>,
    /// Its program.
    pub executable: Option<Text>,
    /// Its process id.
    pub pid: u32,
    /// Its state.
    pub state: ProcState,
}

/// A question to the server or host (`pmix_query_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Query {
    /// What is asked.
    pub keys: Vec<Option<Text>>,
    /// What narrows it.
    pub qualifiers: Vec<Info>,
}

/// An environment variable to add to (`pmix_envar_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Envar {
    /// Its name.
    pub name: Option<Text>,
    /// What to add.
    pub value: Option<Text>,
    /// What stands between the parts.
    pub separator: u8,
}

/// Coordinates in a fabric (`pmix_coord_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Coord {
    /// Logical or physical.
    pub view: u8,
    /// One number per dimension.
    pub coordinates: Vec<u32>,
}

/// An attribute that somebody supports (`pmix_regattr_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Regattr {
    /// Its name.
    pub name: Option<Text>,
    /// Its key string.
    pub key: Option<Text>,
    /// The type of its value.
    pub data_type: DataType,
    /// What it does, line by line.
    pub description: Vec<Option<Text>>,
}

/// Where a device sits in its fabric (`pmix_geometry_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// The fabric's number.
    pub fabric: u64,
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name for it.
    pub osname: Option<Text>,
    /// Its coordinates.
    pub coordinates: Vec<Coord>,
}

/// How far a device is (`pmix_device_distance_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceDistance {
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name for it.
    pub osname: Option<Text>,
    /// What kind of device.
    pub device_type: u64,
    /// The smallest relative distance.
    pub min: u16,
    /// The largest relative distance.
    pub max: u16,
}

/// An address in a fabric (`pmix_endpoint_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name for it.
    pub osname: Option<Text>,
    /// The address, opaque.
    pub address: Bytes,
}

/// A machine's topology as hwloc XML (`pmix_topology_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Topology {
    /// The XML and hwloc's raw support structures, or nothing.
    pub xml: Option<(Text, Bytes)>,
}

/// What a disk has done so far (`pmix_disk_stats_t`, retired in 6.1).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiskStats {
    /// The disk's name.
    pub disk: Option<Text>,
    /// Reads completed, reads merged, sectors read, milliseconds reading; the same four of writing; operations in
    /// progress, milliseconds with any, and those weighted by how many there were.
    pub counters: [u64; 11],
}

/// What a network interface has done so far (`pmix_net_stats_t`, retired in 6.1).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NetStats {
    /// The interface's name.
    pub interface: Option<Text>,
    /// Bytes, packets and errors of receiving, then of sending.
    pub counters: [u64; 6],
}

/// How busy a node is (`pmix_node_stats_t`, retired in 6.1). There are no disks and interfaces in it, because no release
/// manages to send them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeStats {
    /// The node's name.
    pub node: Option<Text>,
    /// The load averages of 1, 5 and 15 minutes.
    pub load: [f32; 3],
    /// Memory in megabytes: total, free, buffers, cached; of the swap: cached, total, free; mapped.
    pub memory: [f32; 8],
    /// When that was so, in seconds and microseconds since the epoch.
    pub sample_time: (i64, i64),
}

/// A device (`pmix_device_t`, 6.x).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// The device's identifier.
    pub uuid: Option<Text>,
    /// The operating system's name for it.
    pub osname: Option<Text>,
    /// What kind of device.
    pub device_type: u64,
}

/// So many of a kind of resource (`pmix_resource_unit_t`, 6.x).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResourceUnit {
    /// What kind.
    pub device_type: u64,
    /// How many.
    pub count: u64,
}

/// A process on a node (`pmix_node_pid_t`, 6.x).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodePid {
    /// The node's name.
    pub hostname: Option<Text>,
    /// The node's number.
    pub node_id: u32,
    /// The process id there.
    pub pid: u32,
}
