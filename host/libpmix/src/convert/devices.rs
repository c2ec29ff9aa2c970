//! Devices, fabrics, and the processors and topology of a node.
use super::{
    ConvertError, FromC, ReadBounds, ToC, fill_list, read_list,
    text::{text, text_to_c},
};
use crate::{
    abi::{
        CCoord, CCpuset, CDevice, CDeviceDistance, CEndpoint, CGeometry, CNodePid, CResourceUnit,
        CTopology,
    },
    hwloc::{self, HwlocLibrary},
};
use peal_model::{
    Bytes, Coord, Device, DeviceDistance, Endpoint, Geometry, NodePid, ResourceUnit, Text, Topology,
};
use std::ffi::CString;

/// List form of a cpuset, such as `0-3,8`; `None` if it has no bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpusetList(pub Option<Text>);

impl FromC for Coord {
    type Source = CCoord;

    unsafe fn from_c(source: &CCoord, bounds: &mut ReadBounds) -> Result<Coord, ConvertError> {
        Ok(Coord {
            view: source.view,
            // SAFETY: the caller guarantees what `from_c` demands.
            coordinates: unsafe { read_list(source.coord, source.dims, "coordinates", bounds) }?,
        })
    }
}

impl ToC for Coord {
    type Target = CCoord;

    fn fill(&self, target: &mut CCoord) -> Result<(), ConvertError> {
        target.view = self.view;
        fill_list(&self.coordinates, &mut target.coord, &mut target.dims)
    }
}

impl FromC for Geometry {
    type Source = CGeometry;

    unsafe fn from_c(
        source: &CGeometry,
        bounds: &mut ReadBounds,
    ) -> Result<Geometry, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(Geometry {
                fabric: source.fabric as u64,
                uuid: text(source.uuid, bounds)?,
                osname: text(source.osname, bounds)?,
                coordinates: read_list(source.coordinates, source.ncoords, "coordinates", bounds)?,
            })
        }
    }
}

impl ToC for Geometry {
    type Target = CGeometry;

    fn fill(&self, target: &mut CGeometry) -> Result<(), ConvertError> {
        target.fabric = self.fabric as usize;
        target.uuid = text_to_c(self.uuid.as_ref())?;
        target.osname = text_to_c(self.osname.as_ref())?;
        fill_list(
            &self.coordinates,
            &mut target.coordinates,
            &mut target.ncoords,
        )
    }
}

impl FromC for DeviceDistance {
    type Source = CDeviceDistance;

    unsafe fn from_c(
        source: &CDeviceDistance,
        bounds: &mut ReadBounds,
    ) -> Result<DeviceDistance, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(DeviceDistance {
                uuid: text(source.uuid, bounds)?,
                osname: text(source.osname, bounds)?,
                device_type: source.r#type,
                min: source.mindist,
                max: source.maxdist,
            })
        }
    }
}

impl ToC for DeviceDistance {
    type Target = CDeviceDistance;

    fn fill(&self, target: &mut CDeviceDistance) -> Result<(), ConvertError> {
        target.uuid = text_to_c(self.uuid.as_ref())?;
        target.osname = text_to_c(self.osname.as_ref())?;
        target.r#type = self.device_type;
        target.mindist = self.min;
        target.maxdist = self.max;
        Ok(())
    }
}

impl FromC for Endpoint {
    type Source = CEndpoint;

    unsafe fn from_c(
        source: &CEndpoint,
        bounds: &mut ReadBounds,
    ) -> Result<Endpoint, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(Endpoint {
                uuid: text(source.uuid, bounds)?,
                osname: text(source.osname, bounds)?,
                address: Bytes::from_c(&source.endpt, bounds)?,
            })
        }
    }
}

impl ToC for Endpoint {
    type Target = CEndpoint;

    fn fill(&self, target: &mut CEndpoint) -> Result<(), ConvertError> {
        target.uuid = text_to_c(self.uuid.as_ref())?;
        target.osname = text_to_c(self.osname.as_ref())?;
        self.address.fill(&mut target.endpt)
    }
}

impl FromC for Device {
    type Source = CDevice;

    unsafe fn from_c(source: &CDevice, bounds: &mut ReadBounds) -> Result<Device, ConvertError> {
        // SAFETY: the caller guarantees what `from_c` demands.
        unsafe {
            Ok(Device {
                uuid: text(source.uuid, bounds)?,
                osname: text(source.osname, bounds)?,
                device_type: source.r#type,
            })
        }
    }
}

impl ToC for Device {
    type Target = CDevice;

    fn fill(&self, target: &mut CDevice) -> Result<(), ConvertError> {
        target.uuid = text_to_c(self.uuid.as_ref())?;
        target.osname = text_to_c(self.osname.as_ref())?;
        target.r#type = self.device_type;
        Ok(())
    }
}

impl FromC for ResourceUnit {
    type Source = CResourceUnit;

    unsafe fn from_c(
        source: &CResourceUnit,
        _: &mut ReadBounds,
    ) -> Result<ResourceUnit, ConvertError> {
        Ok(ResourceUnit {
            device_type: source.r#type,
            count: source.count as u64,
        })
    }
}

impl ToC for ResourceUnit {
    type Target = CResourceUnit;

    fn fill(&self, target: &mut CResourceUnit) -> Result<(), ConvertError> {
        target.r#type = self.device_type;
        target.count = self.count as usize;
        Ok(())
    }
}

impl FromC for NodePid {
    type Source = CNodePid;

    unsafe fn from_c(source: &CNodePid, bounds: &mut ReadBounds) -> Result<NodePid, ConvertError> {
        Ok(NodePid {
            // SAFETY: the caller guarantees what `from_c` demands.
            hostname: unsafe { text(source.hostname, bounds) }?,
            node_id: source.nodeid,
            pid: source.pid.cast_unsigned(),
        })
    }
}

impl ToC for NodePid {
    type Target = CNodePid;

    fn fill(&self, target: &mut CNodePid) -> Result<(), ConvertError> {
        target.hostname = text_to_c(self.hostname.as_ref())?;
        target.nodeid = self.node_id;
        target.pid = self.pid.cast_signed();
        Ok(())
    }
}

fn library(what: &'static str) -> Result<&'static HwlocLibrary, ConvertError> {
    hwloc::library().ok_or(ConvertError::NoHwloc { what })
}

impl FromC for CpusetList {
    type Source = CCpuset;

    /// Reads a bitmap of hwloc. The C library takes a cpuset without source for hwloc's.
    unsafe fn from_c(source: &CCpuset, _: &mut ReadBounds) -> Result<CpusetList, ConvertError> {
        // SAFETY: the caller guarantees that the source is a string or null.
        if !source.source.is_null() && !unsafe { hwloc::is_source(source.source) } {
            return Err(ConvertError::NoHwloc { what: "cpuset" });
        }
        if source.bitmap.is_null() {
            return Ok(CpusetList(None));
        }
        // SAFETY: the source says that the bitmap is hwloc's.
        let list = unsafe { library("cpuset")?.bitmap_text(source.bitmap) }?;
        Ok(CpusetList(Some(list)))
    }
}

impl ToC for CpusetList {
    type Target = CCpuset;

    fn fill(&self, target: &mut CCpuset) -> Result<(), ConvertError> {
        target.source = hwloc::source()?;
        if let Some(list) = &self.0 {
            let bytes = list.as_bytes();
            let bytes = bytes.strip_prefix(b"hwloc:").unwrap_or(bytes);
            let list = CString::new(bytes).map_err(|_| ConvertError::Hwloc { what: "cpuset" })?;
            target.bitmap = library("cpuset")?.bitmap(&list)?;
        }
        Ok(())
    }
}

impl FromC for Topology {
    type Source = CTopology;

    /// Reads a topology of hwloc. The C library takes one without source for hwloc's.
    unsafe fn from_c(
        source: &CTopology,
        bounds: &mut ReadBounds,
    ) -> Result<Topology, ConvertError> {
        // SAFETY: the caller guarantees that the source is a string or null.
        if !source.source.is_null() && !unsafe { hwloc::is_source(source.source) } {
            return Err(ConvertError::NoHwloc { what: "topology" });
        }
        if source.topology.is_null() {
            return Ok(Topology { xml: None });
        }
        // SAFETY: the source says that the topology is hwloc's.
        let (xml, support) = unsafe { library("topology")?.topology_xml(source.topology) }?;
        bounds.bytes(xml.as_bytes().len())?;
        Ok(Topology {
            xml: Some((xml, support)),
        })
    }
}

impl ToC for Topology {
    type Target = CTopology;

    fn fill(&self, target: &mut CTopology) -> Result<(), ConvertError> {
        target.source = hwloc::source()?;
        if let Some((xml, support)) = &self.xml {
            target.topology = library("topology")?.topology(xml, support)?;
        }
        Ok(())
    }
}
