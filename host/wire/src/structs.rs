//! The compound data types, member by member.
use crate::{
    WireError,
    packed::{Packed, packed},
    reader::MessageReader,
    writer::MessageWriter,
};
use peal_model::{
    App, Bytes, Coord, DataType, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry,
    NetStats, NodePid, NodeStats, ProcInfo, Query, Regattr, ResourceUnit, Text, Topology,
    data_type as dt,
};

/// Length of the raw bytes that follow a topology's XML: three structures of hwloc 2.4 to 2.10 with
/// its support flags (6 for discovery, 11 for binding processors, 15 for binding memory). The
/// length is not on the wire.
const TOPOLOGY_SUPPORT: usize = 6 + 11 + 15;

/// Reads a list after its length, which is a size.
fn sized<T: Packed>(r: &mut MessageReader<'_>, part: &'static str) -> Result<Vec<T>, WireError> {
    let count = r.unsigned(part)?;
    r.list(part, count, T::unpack)
}

fn put_sized<T: Packed>(
    w: &mut MessageWriter<'_>,
    part: &'static str,
    values: &[T],
) -> Result<(), WireError> {
    w.count(part, values.len())?;
    // The call above checks the limit only: a size is unsigned on the wire, a count is signed.
    w.unsigned(values.len() as u64);
    values.iter().try_for_each(|value| value.pack(w))
}

/// Reads a list after its length, which is a signed integer.
fn numbered<T: Packed>(r: &mut MessageReader<'_>, part: &'static str) -> Result<Vec<T>, WireError> {
    // The number is signed on the wire. Reading it into an unsigned type refuses negative ones.
    let count: u32 = r.signed(part)?;
    r.list(part, u64::from(count), T::unpack)
}

fn put_numbered<T: Packed>(
    w: &mut MessageWriter<'_>,
    part: &'static str,
    values: &[T],
) -> Result<(), WireError> {
    let count = w.count(part, values.len())?;
    w.signed(count);
    values.iter().try_for_each(|value| value.pack(w))
}

/// Reads a fixed number of numbers.
fn fixed<T: Packed + Default + Copy, const N: usize>(
    r: &mut MessageReader<'_>,
) -> Result<[T; N], WireError> {
    let mut numbers = [T::default(); N];
    for number in &mut numbers {
        *number = T::unpack(r)?;
    }
    Ok(numbers)
}

fn put_fixed<T: Packed>(w: &mut MessageWriter<'_>, numbers: &[T]) -> Result<(), WireError> {
    numbers.iter().try_for_each(|number| number.pack(w))
}

/// Reads the length of a list that must be empty. All releases of OpenPMIx send wrong parts of
/// memory in place of a node's disks and interfaces, and write received ones over their own memory.
/// Peal neither sends nor accepts any.
fn empty(r: &mut MessageReader<'_>, part: &'static str) -> Result<(), WireError> {
    match r.unsigned(part)? {
        0 => Ok(()),
        len => Err(WireError::TooLong {
            part,
            len,
            limit: 0,
        }),
    }
}

/// Reads a process id. Among the numbers of the operating system it alone is preceded by its type.
pub(crate) fn pid(r: &mut MessageReader<'_>) -> Result<u32, WireError> {
    pid_type(r)?;
    r.unsigned("process id")
}

/// Reads the type before a process id, or before all of an array.
pub(crate) fn pid_type(r: &mut MessageReader<'_>) -> Result<(), WireError> {
    match r.type_code()? {
        dt::PMIX_UINT32 => Ok(()),
        found => Err(WireError::TypeMismatch {
            found,
            expected: dt::PMIX_UINT32,
        }),
    }
}

pub(crate) fn put_pid(w: &mut MessageWriter<'_>, pid: u32) {
    w.type_code(dt::PMIX_UINT32);
    w.unsigned(pid);
}

fn put_topology(w: &mut MessageWriter<'_>, topology: &Topology) -> Result<(), WireError> {
    let Some((xml, support)) = &topology.xml else {
        return w.string("topology", None);
    };
    let support = support.as_slice();
    if support.len() != TOPOLOGY_SUPPORT {
        return Err(WireError::Topology {
            len: support.len(),
            expected: TOPOLOGY_SUPPORT,
        });
    }
    w.string("topology", Some(xml.as_bytes()))?;
    w.bytes(support);
    Ok(())
}

fn topology(r: &mut MessageReader<'_>) -> Result<Topology, WireError> {
    let Some(xml) = r.string("topology")?.map(Text::from) else {
        return Ok(Topology { xml: None });
    };
    let support = r.bytes("support structures of a topology", TOPOLOGY_SUPPORT as u64)?;
    Ok(Topology {
        xml: Some((xml, Bytes::from(support))),
    })
}

packed! {
    App = dt::PMIX_APP,
        |r| Ok(App {
            command: Packed::unpack(r)?,
            args: numbered(r, "arguments")?,
            env: numbered(r, "environment")?,
            cwd: Packed::unpack(r)?,
            max_procs: r.signed("number of procs")?,
            infos: sized(r, "infos of an application")?,
        }),
        |app, w| {
            app.command.pack(w)?;
            put_numbered(w, "arguments", &app.args)?;
            put_numbered(w, "environment", &app.env)?;
            app.cwd.pack(w)?;
            w.signed(app.max_procs);
            put_sized(w, "infos of an application", &app.infos)?;
        };
    ProcInfo = dt::PMIX_PROC_INFO,
        |r| Ok(ProcInfo {
            proc: Packed::unpack(r)?,
            hostname: Packed::unpack(r)?,
            executable: Packed::unpack(r)?,
            pid: pid(r)?,
            state: Packed::unpack(r)?,
        }),
        |info, w| {
            info.proc.pack(w)?;
            info.hostname.pack(w)?;
            info.executable.pack(w)?;
            put_pid(w, info.pid);
            info.state.pack(w)?;
        };
    Query = dt::PMIX_QUERY,
        |r| Ok(Query { keys: numbered(r, "keys of a query")?, qualifiers: sized(r, "qualifiers")? }),
        |query, w| {
            put_numbered(w, "keys of a query", &query.keys)?;
            put_sized(w, "qualifiers", &query.qualifiers)?;
        };
    Envar = dt::PMIX_ENVAR,
        |r| Ok(Envar { name: Packed::unpack(r)?, value: Packed::unpack(r)?, separator: r.byte("separator")? }),
        |envar, w| {
            envar.name.pack(w)?;
            envar.value.pack(w)?;
            w.byte(envar.separator);
        };
    Coord = dt::PMIX_COORD,
        |r| Ok(Coord { view: r.byte("view")?, coordinates: sized(r, "coordinates")? }),
        |coord, w| {
            w.byte(coord.view);
            put_sized(w, "coordinates", &coord.coordinates)?;
        };
    Regattr = dt::PMIX_REGATTR,
        |r| Ok(Regattr {
            name: Packed::unpack(r)?,
            key: Packed::unpack(r)?,
            data_type: Packed::unpack(r)?,
            description: numbered(r, "description")?,
        }),
        |attribute, w| {
            attribute.name.pack(w)?;
            attribute.key.pack(w)?;
            attribute.data_type.pack(w)?;
            put_numbered(w, "description", &attribute.description)?;
        };
    Geometry = dt::PMIX_GEOMETRY,
        |r| Ok(Geometry {
            fabric: Packed::unpack(r)?,
            uuid: Packed::unpack(r)?,
            osname: Packed::unpack(r)?,
            coordinates: sized(r, "coordinates")?,
        }),
        |geometry, w| {
            geometry.fabric.pack(w)?;
            geometry.uuid.pack(w)?;
            geometry.osname.pack(w)?;
            put_sized(w, "coordinates", &geometry.coordinates)?;
        };
    DeviceDistance = dt::PMIX_DEVICE_DIST,
        |r| Ok(DeviceDistance {
            uuid: Packed::unpack(r)?,
            osname: Packed::unpack(r)?,
            device_type: Packed::unpack(r)?,
            min: r.unsigned("smallest distance")?,
            max: r.unsigned("largest distance")?,
        }),
        |distance, w| {
            distance.uuid.pack(w)?;
            distance.osname.pack(w)?;
            distance.device_type.pack(w)?;
            w.unsigned(distance.min);
            w.unsigned(distance.max);
        };
    Endpoint = dt::PMIX_ENDPOINT,
        |r| Ok(Endpoint { uuid: Packed::unpack(r)?, osname: Packed::unpack(r)?, address: Packed::unpack(r)? }),
        |endpoint, w| {
            endpoint.uuid.pack(w)?;
            endpoint.osname.pack(w)?;
            endpoint.address.pack(w)?;
        };
    Topology = dt::PMIX_TOPO, |r| topology(r), |value, w| put_topology(w, value)?;
    DiskStats = DataType::DISK_STATS,
        |r| Ok(DiskStats { disk: Packed::unpack(r)?, counters: fixed(r)? }),
        |disk, w| {
            disk.disk.pack(w)?;
            put_fixed(w, &disk.counters)?;
        };
    NetStats = DataType::NET_STATS,
        |r| Ok(NetStats { interface: Packed::unpack(r)?, counters: fixed(r)? }),
        |net, w| {
            net.interface.pack(w)?;
            put_fixed(w, &net.counters)?;
        };
    NodeStats = DataType::NODE_STATS,
        |r| {
            let node = Packed::unpack(r)?;
            let load = fixed(r)?;
            let memory = fixed(r)?;
            let sample_time = (r.signed("seconds")?, r.signed("microseconds")?);
            empty(r, "disks of a node")?;
            empty(r, "network interfaces of a node")?;
            Ok(NodeStats { node, load, memory, sample_time })
        },
        |node, w| {
            node.node.pack(w)?;
            put_fixed(w, &node.load)?;
            put_fixed(w, &node.memory)?;
            w.signed(node.sample_time.0);
            w.signed(node.sample_time.1);
            // The counts of disks and interfaces are zero.
            w.unsigned(0u64);
            w.unsigned(0u64);
        };
    Device = dt::PMIX_DEVICE,
        |r| Ok(Device { uuid: Packed::unpack(r)?, osname: Packed::unpack(r)?, device_type: Packed::unpack(r)? }),
        |device, w| {
            device.uuid.pack(w)?;
            device.osname.pack(w)?;
            device.device_type.pack(w)?;
        };
    ResourceUnit = dt::PMIX_RESOURCE_UNIT,
        |r| Ok(ResourceUnit { device_type: Packed::unpack(r)?, count: Packed::unpack(r)? }),
        |unit, w| {
            unit.device_type.pack(w)?;
            unit.count.pack(w)?;
        };
    NodePid = dt::PMIX_NODE_PID,
        |r| Ok(NodePid { hostname: Packed::unpack(r)?, node_id: Packed::unpack(r)?, pid: pid(r)? }),
        |node, w| {
            node.hostname.pack(w)?;
            node.node_id.pack(w)?;
            put_pid(w, node.pid);
        };
}
