//! Queries, and logging.
use super::{
    library::Library,
    operations::{InfoAnswer, begin_infos, begin_status, wait_infos, wait_status},
};
use crate::{
    abi::{CInfo, CInfoCallback, COpCallback, CQuery, CStatus},
    border,
    convert::read_array,
};
use peal_client::{Client, ClientError};
use peal_model::{Info, Query, Status, code};
use std::ffi::c_void;

/// Reads queries, of which there must be some.
///
/// # Safety
///
/// `queries` is null or begins an array of `nqueries` queries.
unsafe fn read_queries(queries: *const CQuery, nqueries: usize) -> Result<Vec<Query>, Status> {
    Library::running()?;
    // SAFETY: the caller guarantees the array.
    let queries: Vec<Query> = unsafe { read_array(queries, nqueries, "queries") }?;
    if queries.is_empty() {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    Ok(queries)
}

async fn query(function: &'static str, client: Client, queries: Vec<Query>) -> InfoAnswer {
    match client.query(&queries).await {
        Ok(found) if found.partial => InfoAnswer {
            status: code::PMIX_QUERY_PARTIAL_SUCCESS,
            infos: found.infos,
        },
        found => InfoAnswer::new(function, found.map(|found| found.infos)),
    }
}

/// `PMIx_Query_info`: returns information that the server has, which the caller frees.
///
/// # Safety
///
/// `queries` is null or begins an array of `nqueries` queries. `results` and `nresults` are null or
/// point to places for the results.
#[unsafe(export_name = "PMIx_Query_info")]
pub unsafe extern "C" fn query_info(
    queries: *mut CQuery,
    nqueries: usize,
    results: *mut *mut CInfo,
    nresults: *mut usize,
) -> CStatus {
    border::status("PMIx_Query_info", || {
        // SAFETY: the caller guarantees the array.
        let queries = unsafe { read_queries(queries, nqueries) }?;
        let ask = |client| query("PMIx_Query_info", client, queries);
        // SAFETY: the caller guarantees the places.
        unsafe { wait_infos("PMIx_Query_info", results, nresults, ask) }
    })
}

/// `PMIx_Query_info_nb`: calls back with information that the server has.
///
/// # Safety
///
/// As for [`query_info`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Query_info_nb")]
pub unsafe extern "C" fn query_info_nb(
    queries: *mut CQuery,
    nqueries: usize,
    cbfunc: CInfoCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Query_info_nb", || {
        // SAFETY: the caller guarantees the array.
        let queries = unsafe { read_queries(queries, nqueries) }?;
        let ask = |client| query("PMIx_Query_info_nb", client, queries);
        begin_infos(cbfunc, cbdata, ask)
    })
}

/// Arguments of a log request.
struct Log {
    data: Vec<Info>,
    directives: Vec<Info>,
}

impl Log {
    /// Reads the arguments, of which data must be there.
    ///
    /// # Safety
    ///
    /// `data` is null or begins an array of `ndata` infos, `directives` of `ndirs` infos.
    unsafe fn read(
        data: *const CInfo,
        ndata: usize,
        directives: *const CInfo,
        ndirs: usize,
    ) -> Result<Log, Status> {
        Library::running()?;
        // SAFETY: the caller guarantees the arrays.
        let log = unsafe {
            Log {
                data: read_array(data, ndata, "data")?,
                directives: read_array(directives, ndirs, "directives")?,
            }
        };
        if log.data.is_empty() {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        Ok(log)
    }

    async fn run(self, client: Client) -> Result<(), ClientError> {
        client.log(&self.data, &self.directives).await.map(drop)
    }
}

/// `PMIx_Log`: writes to log channels, and waits until the server has done so.
///
/// # Safety
///
/// `data` is null or begins an array of `ndata` infos, `directives` of `ndirs` infos.
#[unsafe(export_name = "PMIx_Log")]
pub unsafe extern "C" fn log(
    data: *const CInfo,
    ndata: usize,
    directives: *const CInfo,
    ndirs: usize,
) -> CStatus {
    border::status("PMIx_Log", || {
        // SAFETY: the caller guarantees the arrays.
        let log = unsafe { Log::read(data, ndata, directives, ndirs) }?;
        wait_status("PMIx_Log", |client| log.run(client))
    })
}

/// `PMIx_Log_nb`: writes to log channels, and calls back when the server has done so.
///
/// # Safety
///
/// As for [`log`]; `cbfunc` may be called with `cbdata` from another thread.
#[unsafe(export_name = "PMIx_Log_nb")]
pub unsafe extern "C" fn log_nb(
    data: *const CInfo,
    ndata: usize,
    directives: *const CInfo,
    ndirs: usize,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) -> CStatus {
    border::status("PMIx_Log_nb", || {
        // SAFETY: the caller guarantees the arrays.
        let log = unsafe { Log::read(data, ndata, directives, ndirs) }?;
        begin_status("PMIx_Log_nb", cbfunc, cbdata, |client| log.run(client))
    })
}
