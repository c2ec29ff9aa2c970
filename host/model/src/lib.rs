//! Types of the PMIx Standard: procs, ranks, values, infos, statuses, ranges, events, and the
//! requests and replies between a client and its server.
//!
//! Names and numbers come from `data/pmix-registry.toml`; [`names`] is generated from it by `cargo
//! xtask codegen`. This crate does no I/O and has no clock. The encoding of messages is in
//! `peal-wire`.

mod array;
mod attribute;
mod bits;
mod cluster;
mod conversion;
mod display;
mod english;
mod event;
mod hook;
mod ident;
mod info;
mod job;
#[rustfmt::skip]
pub mod names;
mod named;
mod plain;
mod policy;
mod registration_change;
mod reply;
mod request;
mod shown;
mod size;
mod status;
mod structs;
mod text;
mod types;
mod value;

pub use array::{DataArray, MixedArray};
pub use cluster::{ClusterName, ClusterNameError, NodeName};
pub use english::{counted, with_article};
pub use event::{ChainResult, Event};
pub use hook::{
    Application, BuiltInRule, ConnectionKind, ConnectionSubject, ControlExtent, EventSubject,
    GroupOperationKind, GroupSubject, Hook, JobControlSubject, LogSubject, MonitorSubject,
    PeerInfo, PolicySubject, ProvisionSubject, RegistrationSubject, SpawnSubject,
};
pub use ident::{IdentError, Key, KeyName, Nspace, Proc, Rank};
pub use info::{Info, InfoFlags, Infos, Kval};
pub use job::{JobEntry, JobInfo, RankData, SharedData};
pub use named::NamedProcs;
pub use names::{Attribute, data_type, key, number, rank, status as code};
pub use plain::{plain, plain_lines};
pub use policy::{
    Amendment, LogRequest, Mail, PolicyOutcome, PolicyRequest, TargetProc, UnixGroup, UserIdentity,
};
pub use registration_change::{ModuleRegistration, RegistrationChange};
pub use reply::{GroupResult, Reply};
pub use request::{CommandCode, Commit, Request};
pub use shown::{shown_microseconds, shown_rate};
pub use size::Size;
pub use status::Status;
pub use structs::{
    App, Coord, Device, DeviceDistance, DiskStats, Endpoint, Envar, Geometry, NetStats, NodePid,
    NodeStats, Pdata, ProcInfo, Query, Regattr, ResourceUnit, Topology,
};
pub use text::{Bytes, Text};
pub use types::{
    DataType, IofChannel, JobState, LinkState, Persistence, ProcState, Range, Scope, UnknownNumber,
};
pub use value::Value;

#[cfg(test)]
mod tests;
