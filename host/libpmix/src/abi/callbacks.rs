//! Functions that a C program passes to the client interface.
use super::{CByteObject, CDeviceDistance, CInfo, CIofChannel, CPdata, CProc, CStatus, CValue};
use std::ffi::{c_char, c_void};

/// `pmix_release_cbfunc_t`.
pub type CReleaseCallback = Option<unsafe extern "C" fn(cbdata: *mut c_void)>;

/// `pmix_op_cbfunc_t`.
pub type COpCallback = Option<unsafe extern "C" fn(status: CStatus, cbdata: *mut c_void)>;

/// `pmix_modex_cbfunc_t`.
pub type CModexCallback = Option<
    unsafe extern "C" fn(
        status: CStatus,
        data: *const c_char,
        ndata: usize,
        cbdata: *mut c_void,
        release_fn: CReleaseCallback,
        release_cbdata: *mut c_void,
    ),
>;

/// `pmix_spawn_cbfunc_t`. The namespace is a `pmix_nspace_t`, which C passes as a pointer.
pub type CSpawnCallback =
    Option<unsafe extern "C" fn(status: CStatus, nspace: *mut c_char, cbdata: *mut c_void)>;

/// `pmix_lookup_cbfunc_t`.
pub type CLookupCallback = Option<
    unsafe extern "C" fn(status: CStatus, data: *mut CPdata, ndata: usize, cbdata: *mut c_void),
>;

/// `pmix_event_notification_cbfunc_fn_t`, which a handler calls when it has ended.
pub type CEventCompletion = Option<
    unsafe extern "C" fn(
        status: CStatus,
        results: *mut CInfo,
        nresults: usize,
        cbfunc: COpCallback,
        thiscbdata: *mut c_void,
        notification_cbdata: *mut c_void,
    ),
>;

/// `pmix_notification_fn_t`, an event handler.
pub type CEventHandler = Option<
    unsafe extern "C" fn(
        evhdlr_registration_id: usize,
        status: CStatus,
        source: *const CProc,
        info: *mut CInfo,
        ninfo: usize,
        results: *mut CInfo,
        nresults: usize,
        cbfunc: CEventCompletion,
        cbdata: *mut c_void,
    ),
>;

/// `pmix_hdlr_reg_cbfunc_t`, and `pmix_evhdlr_reg_cbfunc_t`, its older name.
pub type CRegistrationCallback =
    Option<unsafe extern "C" fn(status: CStatus, refid: usize, cbdata: *mut c_void)>;

/// `pmix_value_cbfunc_t`.
pub type CValueCallback =
    Option<unsafe extern "C" fn(status: CStatus, kv: *mut CValue, cbdata: *mut c_void)>;

/// `pmix_info_cbfunc_t`.
pub type CInfoCallback = Option<
    unsafe extern "C" fn(
        status: CStatus,
        info: *mut CInfo,
        ninfo: usize,
        cbdata: *mut c_void,
        release_fn: CReleaseCallback,
        release_cbdata: *mut c_void,
    ),
>;

/// `pmix_credential_cbfunc_t`.
pub type CCredentialCallback = Option<
    unsafe extern "C" fn(
        status: CStatus,
        credential: *mut CByteObject,
        info: *mut CInfo,
        ninfo: usize,
        cbdata: *mut c_void,
    ),
>;

/// `pmix_validation_cbfunc_t`.
pub type CValidationCallback = Option<
    unsafe extern "C" fn(status: CStatus, info: *mut CInfo, ninfo: usize, cbdata: *mut c_void),
>;

/// `pmix_device_dist_cbfunc_t`.
pub type CDeviceDistanceCallback = Option<
    unsafe extern "C" fn(
        status: CStatus,
        dist: *mut CDeviceDistance,
        ndist: usize,
        cbdata: *mut c_void,
        release_fn: CReleaseCallback,
        release_cbdata: *mut c_void,
    ),
>;

/// `pmix_iof_cbfunc_t`.
pub type CIofCallback = Option<
    unsafe extern "C" fn(
        iofhdlr: usize,
        channel: CIofChannel,
        source: *mut CProc,
        payload: *mut CByteObject,
        info: *mut CInfo,
        ninfo: usize,
    ),
>;

/// `pmix_dmodex_response_fn_t`.
pub type CDmodexCallback = Option<
    unsafe extern "C" fn(status: CStatus, data: *mut c_char, sz: usize, cbdata: *mut c_void),
>;

/// `pmix_setup_application_cbfunc_t`.
pub type CSetupApplicationCallback = Option<
    unsafe extern "C" fn(
        status: CStatus,
        info: *mut CInfo,
        ninfo: usize,
        provided_cbdata: *mut c_void,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ),
>;
