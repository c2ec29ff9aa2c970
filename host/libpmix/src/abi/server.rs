//! Functions of a host environment: the server module and the types of its members.
use super::{
    CAllocDirective, CApp, CByteObject, CCredentialCallback, CDataRange, CFabricOperation,
    CGroupOperation, CInfo, CInfoCallback, CIofChannel, CLookupCallback, CModexCallback,
    COpCallback, CProc, CQuery, CResourceBlockDirective, CResourceUnit, CSpawnCallback, CStatus,
    CValidationCallback,
};
use std::ffi::{c_char, c_int, c_void};

/// `pmix_server_client_connected_fn_t`.
pub type CServerClientConnected = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        server_object: *mut c_void,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_client_connected2_fn_t`.
pub type CServerClientConnected2 = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        server_object: *mut c_void,
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_client_finalized_fn_t`.
pub type CServerClientFinalized = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        server_object: *mut c_void,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_abort_fn_t`.
pub type CServerAbort = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        server_object: *mut c_void,
        status: c_int,
        msg: *const c_char,
        procs: *mut CProc,
        nprocs: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_fencenb_fn_t`.
pub type CServerFence = Option<
    unsafe extern "C" fn(
        procs: *const CProc,
        nprocs: usize,
        info: *const CInfo,
        ninfo: usize,
        data: *mut c_char,
        ndata: usize,
        cbfunc: CModexCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_dmodex_req_fn_t`.
pub type CServerDirectModex = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: CModexCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_publish_fn_t`.
pub type CServerPublish = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_lookup_fn_t`.
pub type CServerLookup = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        keys: *mut *mut c_char,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: CLookupCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_unpublish_fn_t`.
pub type CServerUnpublish = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        keys: *mut *mut c_char,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_spawn_fn_t`.
pub type CServerSpawn = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        job_info: *const CInfo,
        ninfo: usize,
        apps: *const CApp,
        napps: usize,
        cbfunc: CSpawnCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_connect_fn_t`.
pub type CServerConnect = Option<
    unsafe extern "C" fn(
        procs: *const CProc,
        nprocs: usize,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_disconnect_fn_t`.
pub type CServerDisconnect = Option<
    unsafe extern "C" fn(
        procs: *const CProc,
        nprocs: usize,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_register_events_fn_t`.
pub type CServerRegisterEvents = Option<
    unsafe extern "C" fn(
        codes: *mut CStatus,
        ncodes: usize,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_deregister_events_fn_t`.
pub type CServerDeregisterEvents = Option<
    unsafe extern "C" fn(
        codes: *mut CStatus,
        ncodes: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_notify_event_fn_t`.
pub type CServerNotifyEvent = Option<
    unsafe extern "C" fn(
        code: CStatus,
        source: *const CProc,
        range: CDataRange,
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_connection_cbfunc_t`.
pub type CConnectionCallback =
    Option<unsafe extern "C" fn(incoming_sd: c_int, cbdata: *mut c_void)>;

/// `pmix_server_listener_fn_t`.
pub type CServerListener = Option<
    unsafe extern "C" fn(
        listening_sd: c_int,
        cbfunc: CConnectionCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_query_fn_t`.
pub type CServerQuery = Option<
    unsafe extern "C" fn(
        proct: *mut CProc,
        queries: *mut CQuery,
        nqueries: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_tool_connection_cbfunc_t`.
pub type CToolConnectionCallback =
    Option<unsafe extern "C" fn(status: CStatus, proc: *mut CProc, cbdata: *mut c_void)>;

/// `pmix_server_tool_connection_fn_t`.
pub type CServerToolConnected = Option<
    unsafe extern "C" fn(
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: CToolConnectionCallback,
        cbdata: *mut c_void,
    ),
>;

/// `pmix_server_log_fn_t`.
pub type CServerLog = Option<
    unsafe extern "C" fn(
        client: *const CProc,
        data: *const CInfo,
        ndata: usize,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ),
>;

/// `pmix_server_alloc_fn_t`.
pub type CServerAllocate = Option<
    unsafe extern "C" fn(
        client: *const CProc,
        directive: CAllocDirective,
        data: *const CInfo,
        ndata: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_job_control_fn_t`.
pub type CServerJobControl = Option<
    unsafe extern "C" fn(
        requestor: *const CProc,
        targets: *const CProc,
        ntargets: usize,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_monitor_fn_t`.
pub type CServerMonitor = Option<
    unsafe extern "C" fn(
        requestor: *const CProc,
        monitor: *const CInfo,
        error: CStatus,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_get_cred_fn_t`.
pub type CServerGetCredential = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CCredentialCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_validate_cred_fn_t`.
pub type CServerValidateCredential = Option<
    unsafe extern "C" fn(
        proc: *const CProc,
        cred: *const CByteObject,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CValidationCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_iof_fn_t`.
pub type CServerIofPull = Option<
    unsafe extern "C" fn(
        procs: *const CProc,
        nprocs: usize,
        directives: *const CInfo,
        ndirs: usize,
        channels: CIofChannel,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_stdin_fn_t`.
pub type CServerPushStdin = Option<
    unsafe extern "C" fn(
        source: *const CProc,
        targets: *const CProc,
        ntargets: usize,
        directives: *const CInfo,
        ndirs: usize,
        bo: *const CByteObject,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_grp_fn_t`.
pub type CServerGroup = Option<
    unsafe extern "C" fn(
        op: CGroupOperation,
        grp: *mut c_char,
        procs: *const CProc,
        nprocs: usize,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_fabric_fn_t`.
pub type CServerFabric = Option<
    unsafe extern "C" fn(
        requestor: *const CProc,
        op: CFabricOperation,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_tool_connection2_fn_t`, since 6.1.
pub type CServerToolConnected2 = Option<
    unsafe extern "C" fn(
        info: *mut CInfo,
        ninfo: usize,
        cbfunc: CToolConnectionCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_log2_fn_t`, since 6.1.
pub type CServerLog2 = Option<
    unsafe extern "C" fn(
        client: *const CProc,
        data: *const CInfo,
        ndata: usize,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_session_control_fn_t`, since 6.1.
pub type CServerSessionControl = Option<
    unsafe extern "C" fn(
        requestor: *const CProc,
        session_id: u32,
        directives: *const CInfo,
        ndirs: usize,
        cbfunc: CInfoCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_resource_block_fn_t`, since 6.1.
pub type CServerResourceBlock = Option<
    unsafe extern "C" fn(
        requestor: *const CProc,
        directive: CResourceBlockDirective,
        block: *const c_char,
        units: *const CResourceUnit,
        nunit: usize,
        info: *const CInfo,
        ninfo: usize,
        cbfunc: COpCallback,
        cbdata: *mut c_void,
    ) -> CStatus,
>;

/// `pmix_server_module_t` of 4.2: 28 functions. A host built for 4.2 has no more memory than this,
/// so a pointer to a module is a pointer to this type until the host's release is known.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "members have the names of the C members")]
pub struct CServerModule {
    pub client_connected: CServerClientConnected,
    pub client_finalized: CServerClientFinalized,
    pub abort: CServerAbort,
    pub fence_nb: CServerFence,
    pub direct_modex: CServerDirectModex,
    pub publish: CServerPublish,
    pub lookup: CServerLookup,
    pub unpublish: CServerUnpublish,
    pub spawn: CServerSpawn,
    pub connect: CServerConnect,
    pub disconnect: CServerDisconnect,
    pub register_events: CServerRegisterEvents,
    pub deregister_events: CServerDeregisterEvents,
    pub listener: CServerListener,
    pub notify_event: CServerNotifyEvent,
    pub query: CServerQuery,
    pub tool_connected: CServerToolConnected,
    pub log: CServerLog,
    pub allocate: CServerAllocate,
    pub job_control: CServerJobControl,
    pub monitor: CServerMonitor,
    pub get_credential: CServerGetCredential,
    pub validate_credential: CServerValidateCredential,
    pub iof_pull: CServerIofPull,
    pub push_stdin: CServerPushStdin,
    pub group: CServerGroup,
    pub fabric: CServerFabric,
    pub client_connected2: CServerClientConnected2,
}

/// `pmix_server_module_t` of 6.1 and 7.0: that of 4.2 and four more functions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "members have the names of the C members")]
pub struct CServerModule61 {
    /// The functions of 4.2.
    pub base: CServerModule,
    pub tool_connected2: CServerToolConnected2,
    pub log2: CServerLog2,
    pub session_control: CServerSessionControl,
    pub resource_block: CServerResourceBlock,
}
