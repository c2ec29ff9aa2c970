//! Resolution of procs and nodes of jobs.
use super::{
    library::Library,
    operations::{give_array, refusal, wait},
};
use crate::{
    abi::{CProc, CStatus},
    border,
    convert::{nspace_from_argument, text_argument, text_to_c},
    heap_array::HeapArray,
};
use peal_client::{Client, ClientError};
use peal_model::{Info, Nspace, Proc, Rank, Status, Text, Value, code, key};
use std::{ffi::c_char, ptr};

/// Reads a namespace; `None` for null or an empty one.
///
/// # Safety
///
/// `nspace` is null, a string or a `pmix_nspace_t`.
unsafe fn read_nspace(nspace: *const c_char) -> Result<Option<Nspace>, Status> {
    if nspace.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees a string.
    let nspace = unsafe { nspace_from_argument(nspace) }?;
    Ok(Some(nspace).filter(|nspace| !nspace.as_str().is_empty()))
}

/// Returns the procs of a job on a node: by the job data that the client has, else by the server,
/// which before 5.0.7 does not know the request.
async fn peers(
    client: Client,
    node: Option<Text>,
    nspace: Option<Nspace>,
) -> Result<Vec<Proc>, ClientError> {
    if let (Some(node), Some(nspace)) = (&node, &nspace) {
        let infos = [
            Info::new(key::PMIX_NODE_INFO, Value::Bool(true)),
            Info::new(key::PMIX_HOSTNAME, Value::String(Some(node.clone()))),
            Info::new(key::PMIX_OPTIONAL, Value::Bool(true)),
        ];
        let job = Proc::all(nspace.clone());
        let ranks = client.get(&job, key::PMIX_LOCAL_PEERS, &infos).await;
        if let Some(ranks) = ranks.ok().as_ref().and_then(Value::as_str) {
            let ranks = ranks.split(',').filter_map(|rank| rank.trim().parse().ok());
            let proc = |rank| Proc::new(nspace.clone(), Rank(rank));
            return Ok(ranks.map(proc).collect());
        }
    }
    let node = node.as_ref().and_then(Text::as_str);
    client.resolve_peers(node, nspace.as_ref()).await
}

/// Returns the nodes of a job in the same way.
async fn nodes(client: Client, nspace: Option<Nspace>) -> Result<Vec<String>, ClientError> {
    if let Some(nspace) = &nspace {
        let optional = [Info::new(key::PMIX_OPTIONAL, Value::Bool(true))];
        let job = Proc::all(nspace.clone());
        let names = client.get(&job, key::PMIX_NODE_LIST, &optional).await;
        if let Some(names) = names.ok().as_ref().and_then(Value::as_str) {
            return Ok(names.split(',').map(str::to_owned).collect());
        }
    }
    client.resolve_nodes(nspace.as_ref()).await
}

/// `PMIx_Resolve_peers`: returns the procs of a job on a node, which the caller frees. Without a node
/// it is that of the server, without a job it is all jobs.
///
/// # Safety
///
/// `nodename` is null or a string, `nspace` is null, a string or a `pmix_nspace_t`. `procs` and `nprocs`
/// are null or point to places for the results.
#[unsafe(export_name = "PMIx_Resolve_peers")]
pub unsafe extern "C" fn resolve_peers(
    nodename: *const c_char,
    nspace: *const c_char,
    procs: *mut *mut CProc,
    nprocs: *mut usize,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Resolve_peers";
    border::status(FUNCTION, || {
        if procs.is_null() || nprocs.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees the places.
        unsafe { give_array(HeapArray::default(), procs, nprocs) };
        Library::running()?;
        // SAFETY: the caller guarantees strings or null.
        let (node, nspace) = unsafe { (text_argument(nodename)?, read_nspace(nspace)?) };
        let resolve = |client: Client| peers(client, node, nspace);
        let found = wait(FUNCTION, resolve)?.map_err(|error| refusal(FUNCTION, &error))?;
        let found = HeapArray::from_models(&found)?;
        // SAFETY: as above.
        unsafe { give_array(found, procs, nprocs) };
        Ok(())
    })
}

/// `PMIx_Resolve_nodes`: returns the names of the nodes of a job, separated by commas, which the caller
/// frees. Without a job it is all jobs.
///
/// # Safety
///
/// `nspace` is null, a string or a `pmix_nspace_t`. `nodelist` is null or points to a place for the
/// result.
#[unsafe(export_name = "PMIx_Resolve_nodes")]
pub unsafe extern "C" fn resolve_nodes(
    nspace: *const c_char,
    nodelist: *mut *mut c_char,
) -> CStatus {
    const FUNCTION: &str = "PMIx_Resolve_nodes";
    border::status(FUNCTION, || {
        if nodelist.is_null() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        // SAFETY: the caller guarantees the place.
        unsafe { nodelist.write(ptr::null_mut()) };
        Library::running()?;
        // SAFETY: the caller guarantees a string or null.
        let nspace = unsafe { read_nspace(nspace) }?;
        let resolve = |client: Client| nodes(client, nspace);
        let found = wait(FUNCTION, resolve)?.map_err(|error| refusal(FUNCTION, &error))?;
        let names = Text::from(found.join(",").as_str());
        let names = text_to_c(Some(&names))?;
        // SAFETY: as above.
        unsafe { nodelist.write(names) };
        Ok(())
    })
}
