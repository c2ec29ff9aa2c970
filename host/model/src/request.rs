//! Requests of a client.
use crate::{
    App, Bytes, Info, IofChannel, Kval, Nspace, Proc, Query, Range, ResourceUnit, Scope, Status,
    Text,
};
use crate::{Topology, UnknownNumber};
use serde::{Deserialize, Serialize};

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)+) => {
        /// Kind of a request, by its number on the wire.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum CommandCode { $($(#[$doc])* $name,)+ }

        impl CommandCode {
            /// All commands, in the order of their numbers.
            pub const ALL: &'static [CommandCode] = &[$(CommandCode::$name,)+];

            /// Returns the number.
            pub fn number(self) -> u8 {
                match self { $(CommandCode::$name => $number,)+ }
            }
        }

        impl TryFrom<u8> for CommandCode {
            type Error = UnknownNumber;
            fn try_from(number: u8) -> Result<CommandCode, UnknownNumber> {
                match number {
                    $($number => Ok(CommandCode::$name),)+
                    _ => Err(UnknownNumber { kind: "command", number: u32::from(number) }),
                }
            }
        }
    };
}

commands! {
    /// Requests the job data of the client's namespace.
    JobData = 0;
    /// Ends procs abnormally.
    Abort = 1;
    /// Sends the values that were put.
    Commit = 2;
    /// Waits for other procs.
    Fence = 3;
    /// Requests a value of a proc or job.
    Get = 4;
    /// Disconnects in order.
    Finalize = 5;
    /// Publishes data.
    Publish = 6;
    /// Looks up published data.
    Lookup = 7;
    /// Withdraws published data.
    Unpublish = 8;
    /// Spawns procs.
    Spawn = 9;
    /// Connects jobs.
    Connect = 10;
    /// Disconnects connected jobs.
    Disconnect = 11;
    /// Raises an event.
    Notify = 12;
    /// Registers for events.
    RegisterEvents = 13;
    /// Ends a registration for events; the only request without a reply.
    DeregisterEvents = 14;
    /// Queries information.
    Query = 15;
    /// Writes to log channels.
    Log = 16;
    /// Requests resources.
    Allocate = 17;
    /// Requests job control.
    JobControl = 18;
    /// Monitors procs or files.
    Monitor = 19;
    /// Requests a credential.
    GetCredential = 20;
    /// Validates a credential.
    ValidateCredential = 21;
    /// Pulls forwarded output.
    IofPull = 22;
    /// Pushes input.
    IofPush = 23;
    /// Constructs a group.
    GroupConstruct = 24;
    /// Leaves a group.
    GroupLeave = 27;
    /// Destructs a group.
    GroupDestruct = 28;
    /// Ends a pull of forwarded output.
    IofDeregister = 29;
    /// Requests fabric information.
    FabricRegister = 30;
    /// Requests newer fabric information.
    FabricUpdate = 31;
    /// Requests distances of devices.
    DeviceDistances = 32;
    /// Drops the cached data of a proc (from 5.x on).
    RefreshCache = 33;
    /// Acts on a resource block (from 6.x on).
    ResourceBlock = 34;
    /// Controls a session (from 6.x on).
    SessionControl = 35;
    /// Requests the procs on a node (from 5.0.7 on).
    ResolvePeers = 37;
    /// Requests the nodes of a namespace (from 5.0.7 on).
    ResolveNode = 38;
}

/// Values of one scope in a commit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Commit {
    /// Scope of the values, local or remote. A value put with global scope is in both.
    pub scope: Scope,
    /// The values.
    pub kvals: Vec<Kval>,
}

/// A request of a client with its arguments.
#[derive(Clone, PartialEq, Debug)]
#[allow(
    missing_docs,
    reason = "the members are the arguments of the API call that CommandCode names"
)]
#[derive(Serialize, Deserialize)]
pub enum Request {
    JobData,
    Abort {
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    },
    Commit(Vec<Commit>),
    Fence {
        procs: Vec<Proc>,
        infos: Vec<Info>,
    },
    Get {
        proc: Proc,
        infos: Vec<Info>,
        key: Option<Text>,
    },
    Finalize,
    Publish {
        uid: u32,
        infos: Vec<Info>,
    },
    Lookup {
        uid: u32,
        keys: Vec<Option<Text>>,
        infos: Vec<Info>,
    },
    Unpublish {
        uid: u32,
        keys: Vec<Option<Text>>,
        infos: Vec<Info>,
    },
    Spawn {
        infos: Vec<Info>,
        apps: Vec<App>,
    },
    Connect {
        procs: Vec<Proc>,
        infos: Vec<Info>,
    },
    Disconnect {
        procs: Vec<Proc>,
        infos: Vec<Info>,
    },
    Notify {
        code: Status,
        range: Range,
        infos: Vec<Info>,
    },
    /// An empty list of codes makes a default registration.
    RegisterEvents {
        codes: Vec<Status>,
        infos: Vec<Info>,
    },
    DeregisterEvents {
        codes: Vec<Status>,
    },
    Query {
        queries: Vec<Query>,
    },
    /// The timestamp is in seconds since the epoch, or zero for none.
    Log {
        timestamp: u64,
        data: Vec<Info>,
        directives: Vec<Info>,
    },
    Allocate {
        directive: u8,
        infos: Vec<Info>,
    },
    JobControl {
        targets: Vec<Proc>,
        directives: Vec<Info>,
    },
    Monitor {
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    },
    GetCredential {
        directives: Vec<Info>,
    },
    ValidateCredential {
        credential: Bytes,
        directives: Vec<Info>,
    },
    IofPull {
        sources: Vec<Proc>,
        directives: Vec<Info>,
        channels: IofChannel,
        local_id: u64,
    },
    /// No data or empty data mean the end of the input.
    IofPush {
        targets: Vec<Proc>,
        directives: Vec<Info>,
        data: Option<Bytes>,
    },
    IofDeregister {
        directives: Vec<Info>,
        remote_id: u64,
    },
    GroupConstruct {
        group: Option<Text>,
        procs: Vec<Proc>,
        directives: Vec<Info>,
    },
    /// Releases before 4.2.4 do not list the members.
    GroupDestruct {
        group: Option<Text>,
        members: Vec<Proc>,
        directives: Vec<Info>,
    },
    GroupLeave {
        group: Option<Text>,
        directives: Vec<Info>,
    },
    FabricRegister {
        directives: Vec<Info>,
    },
    FabricUpdate {
        index: u64,
    },
    DeviceDistances {
        topology: Topology,
        cpuset: Option<Text>,
        infos: Vec<Info>,
    },
    RefreshCache {
        proc: Proc,
    },
    ResourceBlock {
        directive: u8,
        block: Option<Text>,
        units: Vec<ResourceUnit>,
        infos: Vec<Info>,
    },
    SessionControl {
        session: u32,
        infos: Vec<Info>,
    },
    ResolvePeers {
        node: Option<Text>,
        nspace: Option<Nspace>,
    },
    ResolveNode {
        nspace: Option<Nspace>,
    },
}

impl Request {
    /// Returns the command.
    pub fn command(&self) -> CommandCode {
        match self {
            Request::JobData => CommandCode::JobData,
            Request::Abort { .. } => CommandCode::Abort,
            Request::Commit(_) => CommandCode::Commit,
            Request::Fence { .. } => CommandCode::Fence,
            Request::Get { .. } => CommandCode::Get,
            Request::Finalize => CommandCode::Finalize,
            Request::Publish { .. } => CommandCode::Publish,
            Request::Lookup { .. } => CommandCode::Lookup,
            Request::Unpublish { .. } => CommandCode::Unpublish,
            Request::Spawn { .. } => CommandCode::Spawn,
            Request::Connect { .. } => CommandCode::Connect,
            Request::Disconnect { .. } => CommandCode::Disconnect,
            Request::Notify { .. } => CommandCode::Notify,
            Request::RegisterEvents { .. } => CommandCode::RegisterEvents,
            Request::DeregisterEvents { .. } => CommandCode::DeregisterEvents,
            Request::Query { .. } => CommandCode::Query,
            Request::Log { .. } => CommandCode::Log,
            Request::Allocate { .. } => CommandCode::Allocate,
            Request::JobControl { .. } => CommandCode::JobControl,
            Request::Monitor { .. } => CommandCode::Monitor,
            Request::GetCredential { .. } => CommandCode::GetCredential,
            Request::ValidateCredential { .. } => CommandCode::ValidateCredential,
            Request::IofPull { .. } => CommandCode::IofPull,
            Request::IofPush { .. } => CommandCode::IofPush,
            Request::IofDeregister { .. } => CommandCode::IofDeregister,
            Request::GroupConstruct { .. } => CommandCode::GroupConstruct,
            Request::GroupDestruct { .. } => CommandCode::GroupDestruct,
            Request::GroupLeave { .. } => CommandCode::GroupLeave,
            Request::FabricRegister { .. } => CommandCode::FabricRegister,
            Request::FabricUpdate { .. } => CommandCode::FabricUpdate,
            Request::DeviceDistances { .. } => CommandCode::DeviceDistances,
            Request::RefreshCache { .. } => CommandCode::RefreshCache,
            Request::ResourceBlock { .. } => CommandCode::ResourceBlock,
            Request::SessionControl { .. } => CommandCode::SessionControl,
            Request::ResolvePeers { .. } => CommandCode::ResolvePeers,
            Request::ResolveNode { .. } => CommandCode::ResolveNode,
        }
    }
}
