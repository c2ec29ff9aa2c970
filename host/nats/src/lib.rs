//! The NATS servers on which Peal's servers meet: their configuration, keys and checks, and the network
//! that they make.
//!
//! ```text
//! subjects      the names of all subjects, written and parsed
//! streams       what is stored: membership, seals and modules
//! permissions   who may publish and subscribe where
//! site          files of a cluster: `peal cluster init`
//!   authority     certificates of the NATS servers
//!   keys          keys of nodes
//!   server_config configuration of a NATS server
//!   files         how files are written
//! link          connection of a node or of the administrator
//! check         whether a NATS server is fit for a cluster
//! network       the network on which servers meet
//!   records       reading and writing of the one sequence of members
//!   view          what a server shows of its cluster
//! asking        requests to other nodes
//! stored_seals  seals of all nodes, as the stream has them
//! members       the servers of a cluster, for its administrator
//! deployment    modules for all nodes: records, reports and objects
//! ```
//!
//! # Trust
//!
//! A NATS server lets a node publish only where the node is the named sender. It answers requests of
//! JetStream to any subject that the requester names, without regard to permissions. Nodes may make only
//! requests whose answers are JSON, which no message of Peal is: with `DIRECT.GET` or a consumer of its own
//! a node could have its own bytes published as another, and have streams deleted
//! (`tests/nats/permissions.rs`).

mod answering;
mod asking;
mod authority;
mod check;
mod deployment;
mod difference;
mod files;
mod keys;
mod link;
mod members;
mod network;
mod permissions;
mod records;
mod seals;
mod sequenced;
mod server_config;
mod site;
mod stored_seals;
mod storing;
mod streams;
mod subjects;
mod view;

pub use answering::{NodeAnswerFuture, NodeService, NodeServiceSlot};
pub use asking::{AskError, NodeAnswer, NodeAsker};
pub use authority::CertificateError;
pub use check::{MIN_VERSION, NatsReport, ServerProblem, StoredStream, check_server};
pub use deployment::{
    DeploymentChange, DeploymentError, DeploymentStatus, FetchedModule, FetchedSet,
    MAX_OBJECT_BYTES, ModuleExchange, ModuleWork, ObjectError, object_id,
};
pub use difference::SettingDifference;
pub use files::{SiteFileChange, SiteFileError};
pub use keys::{NodeKey, NodeKeyError};
pub use link::{ClusterAccess, ClusterAccessError, LinkError, NatsLink};
pub use members::read_members;
pub use network::NatsNetwork;
pub use peal_cluster::{
    AbandonedRollout, AskFailure, ClusterMember, ClusterModule, ClusterModuleSet,
    ClusterServerSettings, ContinuedMembership, DeployedSet, DeploymentRecord, MAX_SET_MODULES,
    Membership, NodeReport, ObjectId, ProposalError, RolloutStage, RolloutTerms, SealCounts,
    SealLimits, SetAnswer, SetError, SetNumber, SetProposal, SetRollout, TrailSeal,
};
pub use permissions::{NodeKind, SubjectPermissions};
pub use records::RecordReadError;
pub use seals::SealQueue;
pub use server_config::server_config;
pub use site::{ClusterSite, SiteError, SitePlan, SiteRequest, plan_site, prepare_site};
pub use stored_seals::{SealReadError, StoredSeal, read_seals, sealed_nodes};
pub use streams::{AppliedStream, ClusterStream, StreamSetupError, apply_streams, plan_streams};
pub use subjects::{ClusterSubject, ClusterSubjects, SubjectError};
pub use view::{ClusterStanding, ClusterView};
