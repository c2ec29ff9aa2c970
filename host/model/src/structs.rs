//! Compound data types of the Standard that Peal mostly carries without acting on them.
use crate::{Bytes, DataType, Info, Key, Proc, ProcState, Text, Value};
use serde::{Deserialize, Serialize};

/// An application to spawn (`pmix_app_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct App {
    /// Program.
    pub command: Option<Text>,
    /// Arguments; the first is the program's name.
    pub args: Vec<Option<Text>>,
    /// Environment, `NAME=value`.
    pub env: Vec<Option<Text>>,
    /// Working directory.
    pub cwd: Option<Text>,
    /// Largest number of procs.
    pub max_procs: i32,
    /// Directives.
    pub infos: Vec<Info>,
}

impl App {
    /// Returns the program to run: the command, or the first argument; `None` if it is empty.
    pub fn program(&self) -> Option<&Text> {
        let named = self
            .command
            .as_ref()
            .or_else(|| self.args.first().and_then(Option::as_ref));
        named.filter(|name| !name.as_bytes().is_empty())
    }
}

/// A published value with its publisher (`pmix_pdata_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pdata {
    /// Publisher.
    pub proc: Proc,
    /// Key of the data.
    pub key: Key,
    /// Value of the data.
    pub value: Value,
}

/// State of a proc (`pmix_proc_info_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcInfo {
    /// The proc.
    pub proc: Proc,
    /// Host name of its node.
    pub hostname: Option<Text>,
    /// Program.
    pub executable: Option<Text>,
    /// Process id.
    pub pid: u32,
    /// State.
    pub state: ProcState,
}

/// A query to the server or host environment (`pmix_query_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Query {
    /// Keys of the query.
    pub keys: Vec<Option<Text>>,
    /// Qualifiers of the query.
    pub qualifiers: Vec<Info>,
}

/// An environment variable to be extended (`pmix_envar_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Envar {
    /// Name of the variable.
    pub name: Option<Text>,
    /// Value to be added.
    pub value: Option<Text>,
    /// Separator of the parts.
    pub separator: u8,
}

/// Coordinates in a fabric (`pmix_coord_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Coord {
    /// View, logical or physical.
    pub view: u8,
    /// One number per dimension.
    pub coordinates: Vec<u32>,
}

/// Description of a supported attribute (`pmix_regattr_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Regattr {
    /// Name of the attribute.
    pub name: Option<Text>,
    /// Key string.
    pub key: Option<Text>,
    /// Type of the value.
    pub data_type: DataType,
    /// Description, line by line.
    pub description: Vec<Option<Text>>,
}

/// Position of a device in its fabric (`pmix_geometry_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Number of the fabric.
    pub fabric: u64,
    /// Identifier of the device.
    pub uuid: Option<Text>,
    /// Name of the device in the operating system.
    pub osname: Option<Text>,
    /// Coordinates.
    pub coordinates: Vec<Coord>,
}

/// Distance of a device (`pmix_device_distance_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DeviceDistance {
    /// Identifier of the device.
    pub uuid: Option<Text>,
    /// Name of the device in the operating system.
    pub osname: Option<Text>,
    /// Kind of the device.
    pub device_type: u64,
    /// Smallest relative distance.
    pub min: u16,
    /// Largest relative distance.
    pub max: u16,
}

/// An address in a fabric (`pmix_endpoint_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Endpoint {
    /// Identifier of the device.
    pub uuid: Option<Text>,
    /// Name of the device in the operating system.
    pub osname: Option<Text>,
    /// Address, opaque.
    pub address: Bytes,
}

/// Topology of a node as hwloc XML (`pmix_topology_t`).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Topology {
    /// XML and hwloc's raw support structures; `None` for a NULL pointer.
    pub xml: Option<(Text, Bytes)>,
}

/// Counters of a disk (`pmix_disk_stats_t`, retired in 6.1).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiskStats {
    /// Name of the disk.
    pub disk: Option<Text>,
    /// Reads completed, reads merged, sectors read, milliseconds reading; the same four of writing;
    /// operations in progress, milliseconds with any, and those weighted by the number of
    /// operations.
    pub counters: [u64; 11],
}

/// Counters of a network interface (`pmix_net_stats_t`, retired in 6.1).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NetStats {
    /// Name of the interface.
    pub interface: Option<Text>,
    /// Bytes, packets and errors received, then sent.
    pub counters: [u64; 6],
}

/// Load and memory of a node (`pmix_node_stats_t`, retired in 6.1). Disks and interfaces are
/// missing, because no release of OpenPMIx sends them correctly.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeStats {
    /// Name of the node.
    pub node: Option<Text>,
    /// Load averages of 1, 5 and 15 minutes.
    pub load: [f32; 3],
    /// Memory in megabytes: total, free, buffers, cached; of the swap: cached, total, free; mapped.
    pub memory: [f32; 8],
    /// Time of the sample, in seconds and microseconds since the epoch.
    pub sample_time: (i64, i64),
}

/// A device (`pmix_device_t`, 6.x).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Device {
    /// Identifier of the device.
    pub uuid: Option<Text>,
    /// Name of the device in the operating system.
    pub osname: Option<Text>,
    /// Kind of the device.
    pub device_type: u64,
}

/// A number of units of one kind of resource (`pmix_resource_unit_t`, 6.x).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResourceUnit {
    /// Kind of resource.
    pub device_type: u64,
    /// Number of units.
    pub count: u64,
}

/// A process on a node (`pmix_node_pid_t`, 6.x).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodePid {
    /// Name of the node.
    pub hostname: Option<Text>,
    /// Number of the node.
    pub node_id: u32,
    /// Process id on the node.
    pub pid: u32,
}
