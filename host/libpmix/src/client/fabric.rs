//! Fabrics, and distances of devices.
use super::{
    control::infos_of,
    library::Library,
    operations::{ProgramData, begin, check_connection, give_array, refusal, wait},
    progress::call_program,
};
use crate::{
    abi::{
        CCpuset, CDeviceDistance, CDeviceDistanceCallback, CFabric, CInfo, COpCallback, CStatus,
        CTopology,
    },
    border,
    convert::{CpusetList, read_array, read_one},
    destruct::Destruct,
    heap_array::HeapArray,
    values::topology::device_distances,
};
use peal_client::{Client, ClientError};
use peal_model::{DeviceDistance, Info, Reply, Request, Status, Topology, code};
use std::{ffi::c_void, ptr};

/// Asks the server about a fabric.
async fn ask(client: Client, request: Request) -> Result<Vec<Info>, ClientError> {
    infos_of(client.send_request(request).await?)
}

/// Writes infos into a fabric of the program, whose older infos are freed.
///
/// # Safety
///
/// `fabric` points to a fabric with infos from the C heap or none, which nothing else uses.
unsafe fn fill(fabric: *mut CFabric, infos: &[Info]) -> Result<(), Status> {
    let infos = HeapArray::from_models(infos)?;
    // SAFETY: the caller guarantees a fabric, and the origin of its infos.
    unsafe {
        drop(HeapArray::from_raw((*fabric).info, (*fabric).ninfo));
        ((*fabric).info, (*fabric).ninfo) = infos.into_raw();
    }
    Ok(())
}

/// Blocking form of a request about a fabric.
///
/// # Safety
///
/// As for [`fill`], or `fabric` is null.
unsafe fn wait_fabric(
    function: &'static str,
    fabric: *mut CFabric,
    request: Request,
) -> Result<(), Status> {
    if fabric.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    let found = wait(function, |client| ask(client, request))?;
    let found = found.map_err(|error| refusal(function, &error))?;
    // SAFETY: the caller guarantees what `fill` demands.
    unsafe { fill(fabric, &found) }
}

/// The `_nb` form of a request about a fabric, which the program leaves alone until the callback.
///
/// # Safety
///
/// As for [`fill`], or `fabric` is null. `cbfunc` may be called with `cbdata` from another thread.
unsafe fn begin_fabric(
    function: &'static str,
    fabric: *mut CFabric,
    request: Request,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> Result<(), Status> {
    Library::running()?;
    let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    if fabric.is_null() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    let (data, fabric) = (ProgramData::new(cbdata), ProgramData::new(fabric.cast()));
    begin(
        |client| ask(client, request),
        move |found| {
            let found = found.map_err(|error| refusal(function, &error));
            let filled = found.and_then(|infos| {
                // SAFETY: the caller guarantees a fabric until the callback.
                unsafe { fill(fabric.get().cast(), &infos) }
            });
            let status = filled.map_or_else(|status| status, |()| code::PMIX_SUCCESS);
            // SAFETY: the program passed the function for this call.
            call_program(|| unsafe { callback(status.0, data.get()) });
        },
    )
}

/// `PMIx_Fabric_register`: fills a fabric with what the server knows of it.
///
/// # Safety
///
/// `fabric` is null or points to a constructed fabric, `directives` is null or begins an array of `ndirs`
/// infos.
#[unsafe(export_name = "PMIx_Fabric_register")]
pub unsafe extern "C" fn fabric_register(
    fabric: *mut CFabric,
    directives: *const CInfo,
    ndirs: usize,
) -> CStatus {
    border::status("PMIx_Fabric_register", || {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let directives = unsafe { read_array(directives, ndirs, "directives") }?;
        let request = Request::FabricRegister { directives };
        // SAFETY: the caller guarantees a fabric or null.
        unsafe { wait_fabric("PMIx_Fabric_register", fabric, request) }
    })
}

/// `PMIx_Fabric_register_nb`: fills a fabric, and calls back.
///
/// # Safety
///
/// As for [`fabric_register`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Fabric_register_nb")]
pub unsafe extern "C" fn fabric_register_nb(
    fabric: *mut CFabric,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Fabric_register_nb", || {
        // SAFETY: the caller guarantees the array.
        let directives = unsafe { read_array(directives, ndirs, "directives") }?;
        let request = Request::FabricRegister { directives };
        // SAFETY: the caller guarantees a fabric or null, and the callback.
        unsafe { begin_fabric("PMIx_Fabric_register_nb", fabric, request, cbfunc, cbdata) }
    })
}

/// Returns the request that updates a fabric.
///
/// # Safety
///
/// `fabric` is null or points to a fabric.
unsafe fn update_of(fabric: *const CFabric) -> Result<Request, Status> {
    // SAFETY: the caller guarantees a fabric or null.
    let fabric = unsafe { fabric.as_ref() }.ok_or(code::PMIX_ERR_BAD_PARAM)?;
    Ok(Request::FabricUpdate {
        index: fabric.index as u64,
    })
}

/// `PMIx_Fabric_update`: fills a registered fabric anew.
///
/// # Safety
///
/// `fabric` is null or points to a registered fabric.
#[unsafe(export_name = "PMIx_Fabric_update")]
pub unsafe extern "C" fn fabric_update(fabric: *mut CFabric) -> CStatus {
    border::status("PMIx_Fabric_update", || {
        Library::running()?;
        // SAFETY: the caller guarantees a fabric or null.
        unsafe { wait_fabric("PMIx_Fabric_update", fabric, update_of(fabric)?) }
    })
}

/// `PMIx_Fabric_update_nb`: fills a registered fabric anew, and calls back.
///
/// # Safety
///
/// As for [`fabric_update`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Fabric_update_nb")]
pub unsafe extern "C" fn fabric_update_nb(
    fabric: *mut CFabric,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Fabric_update_nb";
    border::status(FUNCTION, || {
        // SAFETY: the caller guarantees a fabric or null, and the callback.
        unsafe { begin_fabric(FUNCTION, fabric, update_of(fabric)?, cbfunc, cbdata) }
    })
}

/// `PMIx_Fabric_deregister`: frees what a fabric owns. The server is not asked.
///
/// # Safety
///
/// `fabric` is null or points to a registered fabric.
#[unsafe(export_name = "PMIx_Fabric_deregister")]
pub unsafe extern "C" fn fabric_deregister(fabric: *mut CFabric) -> CStatus {
    border::status("PMIx_Fabric_deregister", || {
        Library::running()?;
        // SAFETY: the caller guarantees a fabric or null, and that its parts may be freed.
        unsafe { fabric.as_mut().ok_or(code::PMIX_ERR_BAD_PARAM)?.destruct() };
        Ok(())
    })
}

/// `PMIx_Fabric_deregister_nb`: frees what a fabric owns, and calls back.
///
/// # Safety
///
/// As for [`fabric_deregister`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Fabric_deregister_nb")]
pub unsafe extern "C" fn fabric_deregister_nb(
    fabric: *mut CFabric,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Fabric_deregister_nb", || {
        Library::running()?;
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees a fabric or null, and that its parts may be freed.
        unsafe { fabric.as_mut().ok_or(code::PMIX_ERR_BAD_PARAM)?.destruct() };
        let data = ProgramData::new(cbdata);
        begin(
            |_| async {},
            move |()| {
                // SAFETY: the program passed the function for this call.
                call_program(|| unsafe { callback(code::PMIX_SUCCESS.0, data.get()) });
            },
        )
    })
}

/// Arguments of a request for distances, and the distances if this process could compute them.
enum DistanceRequest {
    /// Distances that hwloc's library has computed here.
    Computed(Vec<DeviceDistance>),
    /// Request for the server, which may know more of the machine.
    ForServer(Request),
}

impl DistanceRequest {
    /// Reads the arguments, and computes the distances here if possible.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_UNREACH` if only the server could know the distances, and the connection is lost.
    ///
    /// # Safety
    ///
    /// `topology` and `cpuset` are null or point to such structures, `info` is null or begins an array
    /// of `ninfo` infos.
    unsafe fn read(
        topology: *const CTopology,
        cpuset: *const CCpuset,
        info: *const CInfo,
        ninfo: usize,
    ) -> Result<DistanceRequest, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees the array.
        let infos = unsafe { read_array(info, ninfo, "infos") }?;
        // SAFETY: the caller guarantees the structures.
        match unsafe { device_distances(topology, cpuset, &infos) } {
            Ok(distances) => return Ok(DistanceRequest::Computed(distances)),
            Err(status) => tracing::debug!(%status, "distances not computed by this process"),
        }
        check_connection()?;
        // For those that are absent the server takes its own.
        let topology = if topology.is_null() {
            Topology { xml: None }
        } else {
            // SAFETY: the caller guarantees the structure.
            unsafe { read_one(topology, "topology") }?
        };
        let CpusetList(cpuset) = if cpuset.is_null() {
            CpusetList(None)
        } else {
            // SAFETY: the caller guarantees the structure.
            unsafe { read_one(cpuset, "cpuset") }?
        };
        Ok(DistanceRequest::ForServer(Request::DeviceDistances {
            topology,
            cpuset,
            infos,
        }))
    }

    /// Returns the distances.
    async fn run(self, client: Client) -> Result<Vec<DeviceDistance>, ClientError> {
        let request = match self {
            DistanceRequest::Computed(distances) => return Ok(distances),
            DistanceRequest::ForServer(request) => request,
        };
        Ok(match client.send_request(request).await? {
            Reply::Distances { distances, .. } => distances,
            _ => Vec::new(),
        })
    }
}

/// `PMIx_Compute_distances`: returns the distances from processors to devices, which the caller frees.
///
/// # Safety
///
/// `topo` and `cpuset` are null or point to such structures, `info` is null or begins an array of `ninfo`
/// infos. `result` and `ndist` are null or point to places for the results.
#[unsafe(export_name = "PMIx_Compute_distances")]
pub unsafe extern "C" fn compute_distances(
    topo: *mut CTopology,
    cpuset: *mut CCpuset,
    info: *mut CInfo,
    ninfo: usize,
    result: *mut *mut CDeviceDistance,
    ndist: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Compute_distances";
    border::status(FUNCTION, || {
        if result.is_null() || ndist.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees the places.
        unsafe { give_array(HeapArray::default(), result, ndist) };
        // SAFETY: the caller guarantees what `DistanceRequest::read` demands.
        let request = unsafe { DistanceRequest::read(topo, cpuset, info, ninfo) }?;
        let found = wait(FUNCTION, |client| request.run(client))?;
        let found = found.map_err(|error| refusal(FUNCTION, &error))?;
        let found = HeapArray::from_models(&found)?;
        // SAFETY: as above.
        unsafe { give_array(found, result, ndist) };
        Ok(())
    })
}

/// `PMIx_Compute_distances_nb`: calls back with distances, which are freed after the callback.
///
/// # Safety
///
/// As for [`compute_distances`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Compute_distances_nb")]
pub unsafe extern "C" fn compute_distances_nb(
    topo: *mut CTopology,
    cpuset: *mut CCpuset,
    info: *mut CInfo,
    ninfo: usize,
    cbfunc: CDeviceDistanceCallback,
    cbdata: *mut c_void,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Compute_distances_nb";
    border::status(FUNCTION, || {
        let callback = cbfunc.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        // SAFETY: the caller guarantees what `DistanceRequest::read` demands.
        let request = unsafe { DistanceRequest::read(topo, cpuset, info, ninfo) }?;
        let data = ProgramData::new(cbdata);
        begin(
            |client| request.run(client),
            move |found| {
                let found = found.map_err(|error| refusal(FUNCTION, &error));
                let converted = found.and_then(|found| Ok(HeapArray::from_models(&found)?));
                let (status, mut found) = match converted {
                    Ok(found) => (code::PMIX_SUCCESS, found),
                    Err(status) => (status, HeapArray::default()),
                };
                let (first, len) = found.as_raw_parts();
                // SAFETY: the program passed the function for this call; the distances live until
                // then, so that no release function is needed.
                call_program(|| unsafe {
                    callback(status.0, first, len, data.get(), None, ptr::null_mut());
                });
            },
        )
    })
}
