//! Functions of host environments. None of them is supported yet: a launcher that loads the library
//! finds every name and learns from the status of `PMIx_server_init` that there is no server.
//!
//! | C name | result |
//! |---|---|
//! | functions that return a status | `PMIX_ERR_NOT_SUPPORTED`; no callback comes |
//! | `PMIx_server_deregister_nspace`, `PMIx_server_deregister_client` | their callback gets that status |
use crate::{
    abi::{
        CBool, CByteObject, CCpuset, CDataBuffer, CDmodexCallback, CInfo, CInfoCallback,
        CIofChannel, COpCallback, CProc, CServerModule, CSetupApplicationCallback, CStatus,
    },
    border,
};
use peal_model::{Status, code};
use std::ffi::{c_char, c_int, c_void};

/// Status of every function here.
const UNSUPPORTED: Status = code::PMIX_ERR_NOT_SUPPORTED;

/// Defines functions that return [`UNSUPPORTED`], each by a line for its documentation, its C name
/// and its parameters.
macro_rules! unsupported {
    ($(
        #[doc = $doc:literal]
        $c_name:literal $name:ident($($parameter:ident: $type:ty),* $(,)?);
    )+) => {$(
        #[doc = concat!("`", $c_name, "`:", $doc)]
        ///
        /// Not supported until the server part is there.
        ///
        /// # Safety
        ///
        /// All arguments are allowed: none is used.
        #[unsafe(export_name = $c_name)]
        #[allow(unused_variables, reason = "names are for the documentation")]
        pub unsafe extern "C" fn $name($($parameter: $type),*) -> CStatus {
            border::status($c_name, || Err(UNSUPPORTED))
        }
    )+};
}

unsupported! {
    /// starts the server of a host environment.
    "PMIx_server_init" server_init(module: *mut CServerModule, info: *mut CInfo, ninfo: usize);

    /// stops the server.
    "PMIx_server_finalize" server_finalize();

    /// registers a job with its data.
    "PMIx_server_register_nspace" server_register_nspace(
        nspace: *const c_char,
        nlocalprocs: c_int,
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// registers a proc that will connect.
    "PMIx_server_register_client" server_register_client(
        proc: *const CProc,
        uid: libc::uid_t,
        gid: libc::gid_t,
        server_object: *mut c_void,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// adds to an environment what a proc needs to find the server.
    "PMIx_server_setup_fork" server_setup_fork(proc: *const CProc, env: *mut *mut *mut c_char);

    /// returns what a proc of this node has put.
    "PMIx_server_dmodex_request" server_dmodex_request(
        proc: *const CProc,
        cbfunc: CDmodexCallback,
        cbdata: *mut c_void,
    );

    /// returns what the servers of a job's nodes need before its procs start.
    "PMIx_server_setup_application" server_setup_application(
        nspace: *const c_char,
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: CSetupApplicationCallback,
        cbdata: *mut c_void,
    );

    /// prepares this node for a job, with what `PMIx_server_setup_application` returned.
    "PMIx_server_setup_local_support" server_setup_local_support(
        nspace: *const c_char,
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// passes output of a proc to the clients and tools that pull it.
    "PMIx_server_IOF_deliver" server_iof_deliver(
        source: *const CProc,
        channel: CIofChannel,
        bo: *const CByteObject,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// stops or continues the output of a proc; since 7.0.
    "PMIx_server_IOF_flow_control" server_iof_flow_control(
        source: *const CProc,
        channel: CIofChannel,
        xoff: CBool,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// returns the inventory of this node.
    "PMIx_server_collect_inventory" server_collect_inventory(
        directives: *mut CInfo,
        ndirs: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    );

    /// stores inventories of nodes.
    "PMIx_server_deliver_inventory" server_deliver_inventory(
        info: *mut CInfo,
        ninfo: usize,
        directives: *mut CInfo,
        ndirs: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// names the attributes that the host environment supports in a function.
    "PMIx_Register_attributes" register_attributes(function: *mut c_char, attrs: *mut *mut c_char);

    /// returns the locality of a cpuset as text.
    "PMIx_server_generate_locality_string" server_generate_locality_string(
        cpuset: *const CCpuset,
        locality: *mut *mut c_char,
    );

    /// returns a cpuset as text.
    "PMIx_server_generate_cpuset_string" server_generate_cpuset_string(
        cpuset: *const CCpuset,
        cpuset_string: *mut *mut c_char,
    );

    /// makes a cpuset of its text; since 6.1.
    "PMIx_server_generate_cpuset" server_generate_cpuset(
        cpuset_string: *const c_char,
        cpuset: *mut CCpuset,
    );

    /// defines a process set.
    "PMIx_server_define_process_set" server_define_process_set(
        members: *const CProc,
        nmembers: usize,
        pset_name: *const c_char,
    );

    /// deletes a process set.
    "PMIx_server_delete_process_set" server_delete_process_set(pset_name: *mut c_char);

    /// registers resources that belong to no job.
    "PMIx_server_register_resources" server_register_resources(
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// removes resources that belong to no job.
    "PMIx_server_deregister_resources" server_deregister_resources(
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    );

    /// packs what the server knows of the jobs of procs; since 6.1.
    "PMIx_server_collect_job_info" server_collect_job_info(
        procs: *mut CProc,
        nprocs: usize,
        dbuf: *mut CDataBuffer,
    );
}

/// Ends a function that returns nothing: its callback gets the status, on the caller's thread as in
/// the C library before the initialization. A host that waits for it would hang otherwise.
///
/// # Safety
///
/// `cbfunc` is null or may be called with `cbdata`.
unsafe fn refuse(function: &'static str, cbfunc: COpCallback, cbdata: *mut c_void) {
    border::value(function, (), || {
        if let Some(callback) = cbfunc {
            // SAFETY: the caller guarantees the callback.
            unsafe { callback(UNSUPPORTED.0, cbdata) };
        }
    });
}

/// `PMIx_server_deregister_nspace`: removes a job.
///
/// Not supported until the server part is there: the callback says so.
///
/// # Safety
///
/// `cbfunc` is null or may be called with `cbdata`.
#[unsafe(export_name = "PMIx_server_deregister_nspace")]
pub unsafe extern "C" fn server_deregister_nspace(
    _nspace: *const c_char,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) {
    // SAFETY: the caller guarantees the callback.
    unsafe { refuse("PMIx_server_deregister_nspace", cbfunc, cbdata) };
}

/// `PMIx_server_deregister_client`: removes a proc.
///
/// Not supported until the server part is there: the callback says so.
///
/// # Safety
///
/// `cbfunc` is null or may be called with `cbdata`.
#[unsafe(export_name = "PMIx_server_deregister_client")]
pub unsafe extern "C" fn server_deregister_client(
    _proc: *const CProc,
    cbfunc: COpCallback,
    cbdata: *mut c_void,
) {
    // SAFETY: the caller guarantees the callback.
    unsafe { refuse("PMIx_server_deregister_client", cbfunc, cbdata) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn functions_newer_than_the_headers_are_not_supported() {
        // SAFETY: all arguments are allowed.
        let statuses = unsafe {
            [
                server_iof_flow_control(null(), 0, 1, null(), 9, None, null_mut()),
                server_generate_cpuset(null(), null_mut()),
                server_collect_job_info(null_mut(), 9, null_mut()),
            ]
        };
        assert_eq!(statuses, [UNSUPPORTED.0; 3]);
    }
}
