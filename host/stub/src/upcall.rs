//! Upcalls of a server to the host environment: the functions of `pmix_server_module_t`.
use peal_model::{
    App, Bytes, Event, Info, IofChannel, Nspace, Pdata, Proc, Query, ResourceUnit, Status, Text,
};
use serde::{Deserialize, Serialize};

/// Upcall that is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "members have the names of the C function's parameters in the Standard"
)]
pub enum HostUpcall {
    /// Ends procs (`pmix_server_abort_fn_t`). Without targets, ends the requester's job.
    Abort {
        source: Proc,
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    },
    /// Synchronizes servers and exchanges their data (`pmix_server_fencenb_fn_t`). The result is
    /// [`UpcallResult::Data`]: the data of all servers, one behind the other.
    Fence {
        procs: Vec<Proc>,
        infos: Vec<Info>,
        data: Bytes,
    },
    /// Requests the values of a proc of another node (`pmix_server_dmodex_req_fn_t`). The result is
    /// [`UpcallResult::Data`].
    DirectModex { proc: Proc, infos: Vec<Info> },
    /// Publishes data (`pmix_server_publish_fn_t`).
    Publish { source: Proc, infos: Vec<Info> },
    /// Looks up published data (`pmix_server_lookup_fn_t`). The result is
    /// [`UpcallResult::Published`].
    Lookup {
        source: Proc,
        keys: Vec<Text>,
        infos: Vec<Info>,
    },
    /// Removes published data (`pmix_server_unpublish_fn_t`).
    Unpublish {
        source: Proc,
        keys: Vec<Text>,
        infos: Vec<Info>,
    },
    /// Starts a job (`pmix_server_spawn_fn_t`). The result is [`UpcallResult::Spawned`].
    Spawn {
        source: Proc,
        infos: Vec<Info>,
        apps: Vec<App>,
    },
    /// Connects procs (`pmix_server_connect_fn_t`).
    Connect { procs: Vec<Proc>, infos: Vec<Info> },
    /// Disconnects procs (`pmix_server_disconnect_fn_t`).
    Disconnect { procs: Vec<Proc>, infos: Vec<Info> },
    /// Registers for environment events (`pmix_server_register_events_fn_t`). No codes mean every
    /// code.
    RegisterEvents {
        codes: Vec<Status>,
        infos: Vec<Info>,
    },
    /// Deregisters from environment events (`pmix_server_deregister_events_fn_t`).
    DeregisterEvents { codes: Vec<Status> },
    /// Passes on an event of a proc of this node (`pmix_server_notify_event_fn_t`).
    Notify { event: Event },
    /// Answers queries (`pmix_server_query_fn_t`). The result is [`UpcallResult::Infos`].
    Query { source: Proc, queries: Vec<Query> },
    /// Names a tool that has connected (`pmix_server_tool_connection_fn_t`). The result is
    /// [`UpcallResult::Tool`].
    ToolConnected { infos: Vec<Info> },
    /// Logs data (`pmix_server_log_fn_t`).
    Log {
        source: Proc,
        data: Vec<Info>,
        directives: Vec<Info>,
    },
    /// Changes the allocation of resources (`pmix_server_alloc_fn_t`). The result is
    /// [`UpcallResult::Infos`].
    Allocate {
        source: Proc,
        directive: u8,
        infos: Vec<Info>,
    },
    /// Controls jobs (`pmix_server_job_control_fn_t`). The result is [`UpcallResult::Infos`].
    JobControl {
        source: Proc,
        targets: Vec<Proc>,
        directives: Vec<Info>,
    },
    /// Monitors procs or files (`pmix_server_monitor_fn_t`). The result is [`UpcallResult::Infos`].
    Monitor {
        source: Proc,
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    },
    /// Creates a credential (`pmix_server_get_cred_fn_t`). The result is
    /// [`UpcallResult::Credential`].
    GetCredential { source: Proc, directives: Vec<Info> },
    /// Validates a credential (`pmix_server_validate_cred_fn_t`). The result is
    /// [`UpcallResult::Infos`].
    ValidateCredential {
        source: Proc,
        credential: Bytes,
        directives: Vec<Info>,
    },
    /// Forwards output to this server (`pmix_server_iof_fn_t`).
    IofPull {
        procs: Vec<Proc>,
        directives: Vec<Info>,
        channels: IofChannel,
    },
    /// Passes standard input to procs (`pmix_server_stdin_fn_t`). No data marks its end.
    PushStdin {
        source: Proc,
        targets: Vec<Proc>,
        directives: Vec<Info>,
        data: Option<Bytes>,
    },
    /// Forms or ends a group (`pmix_server_grp_fn_t`). The result is [`UpcallResult::Infos`].
    Group {
        operation: u8,
        group: Text,
        procs: Vec<Proc>,
        directives: Vec<Info>,
    },
    /// Requests information about a fabric (`pmix_server_fabric_fn_t`). The result is
    /// [`UpcallResult::Infos`].
    Fabric {
        source: Proc,
        operation: u8,
        directives: Vec<Info>,
    },
    /// Controls a session (`pmix_server_session_control_fn_t`). The result is
    /// [`UpcallResult::Infos`].
    SessionControl {
        source: Proc,
        session: u32,
        infos: Vec<Info>,
    },
    /// Reports that a proc has finalized (`pmix_server_client_finalized_fn_t`). Its finalize waits for
    /// the answer.
    ClientFinalized { proc: Proc },
    /// Changes a resource block (`pmix_server_resource_block_fn_t`).
    ResourceBlock {
        source: Proc,
        directive: u8,
        block: Option<Text>,
        units: Vec<ResourceUnit>,
        infos: Vec<Info>,
    },
}

/// Upcall without an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostNotice {
    /// A proc has connected for the first time (`pmix_server_client_connected2_fn_t`). Slurm's
    /// plugin never calls back, so nothing waits for it.
    ClientConnected(Proc),
    /// A proc has lost its connection without having finalized. The stub's own handlers get
    /// `PMIX_ERR_LOST_CONNECTION`.
    ClientLost(Proc),
    /// An event for the host environment itself.
    Event(Event),
}

/// Result of an upcall.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum UpcallResult {
    /// The operation is complete.
    Done,
    /// Infos.
    Infos(Vec<Info>),
    /// Bytes that only servers read.
    Data(Bytes),
    /// Published data.
    Published(Vec<Pdata>),
    /// The new job.
    Spawned(Nspace),
    /// The name of a tool.
    Tool(Proc),
    /// A credential.
    Credential {
        /// The credential.
        credential: Bytes,
        /// Information about it.
        infos: Vec<Info>,
    },
    /// A result whose status is not `PMIX_SUCCESS`: reasons of a refusal, or the part that was found.
    /// The result has none of its own.
    WithStatus {
        /// The status.
        status: Status,
        /// The result.
        result: Box<UpcallResult>,
    },
}

/// Kind of an upcall: a member of the host environment's module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each is the upcall of that name")]
pub enum UpcallKind {
    Abort,
    ClientFinalized,
    Fence,
    DirectModex,
    Publish,
    Lookup,
    Unpublish,
    Spawn,
    Connect,
    Disconnect,
    RegisterEvents,
    DeregisterEvents,
    Notify,
    Query,
    ToolConnected,
    Log,
    Allocate,
    JobControl,
    Monitor,
    GetCredential,
    ValidateCredential,
    IofPull,
    PushStdin,
    Group,
    Fabric,
    SessionControl,
    ResourceBlock,
}

impl HostUpcall {
    /// Returns the kind of the upcall.
    pub fn kind(&self) -> UpcallKind {
        match self {
            HostUpcall::Abort { .. } => UpcallKind::Abort,
            HostUpcall::ClientFinalized { .. } => UpcallKind::ClientFinalized,
            HostUpcall::Fence { .. } => UpcallKind::Fence,
            HostUpcall::DirectModex { .. } => UpcallKind::DirectModex,
            HostUpcall::Publish { .. } => UpcallKind::Publish,
            HostUpcall::Lookup { .. } => UpcallKind::Lookup,
            HostUpcall::Unpublish { .. } => UpcallKind::Unpublish,
            HostUpcall::Spawn { .. } => UpcallKind::Spawn,
            HostUpcall::Connect { .. } => UpcallKind::Connect,
            HostUpcall::Disconnect { .. } => UpcallKind::Disconnect,
            HostUpcall::RegisterEvents { .. } => UpcallKind::RegisterEvents,
            HostUpcall::DeregisterEvents { .. } => UpcallKind::DeregisterEvents,
            HostUpcall::Notify { .. } => UpcallKind::Notify,
            HostUpcall::Query { .. } => UpcallKind::Query,
            HostUpcall::ToolConnected { .. } => UpcallKind::ToolConnected,
            HostUpcall::Log { .. } => UpcallKind::Log,
            HostUpcall::Allocate { .. } => UpcallKind::Allocate,
            HostUpcall::JobControl { .. } => UpcallKind::JobControl,
            HostUpcall::Monitor { .. } => UpcallKind::Monitor,
            HostUpcall::GetCredential { .. } => UpcallKind::GetCredential,
            HostUpcall::ValidateCredential { .. } => UpcallKind::ValidateCredential,
            HostUpcall::IofPull { .. } => UpcallKind::IofPull,
            HostUpcall::PushStdin { .. } => UpcallKind::PushStdin,
            HostUpcall::Group { .. } => UpcallKind::Group,
            HostUpcall::Fabric { .. } => UpcallKind::Fabric,
            HostUpcall::SessionControl { .. } => UpcallKind::SessionControl,
            HostUpcall::ResourceBlock { .. } => UpcallKind::ResourceBlock,
        }
    }
}
