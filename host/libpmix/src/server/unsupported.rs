//! Functions of host environments that are not supported yet.
use crate::{
    abi::{CBool, CDataBuffer, CInfo, CIofChannel, COpCallback, CProc, CStatus},
    border,
};
use peal_model::{Status, code};
use std::ffi::c_void;

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
        /// Not supported.
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

    /// packs what the server knows of the jobs of procs; since 6.1.
    "PMIx_server_collect_job_info" server_collect_job_info(
        procs: *mut CProc,
        nprocs: usize,
        dbuf: *mut CDataBuffer,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    #[test]
    fn functions_without_a_server_are_not_supported() {
        // SAFETY: all arguments are allowed.
        let statuses = unsafe {
            [
                server_iof_flow_control(null(), 0, 1, null(), 9, None, null_mut()),
                server_collect_job_info(null_mut(), 9, null_mut()),
            ]
        };
        assert_eq!(statuses, [UNSUPPORTED.0; 2]);
    }
}
