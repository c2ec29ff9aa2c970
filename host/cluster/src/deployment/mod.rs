//! Deployment of modules in a cluster, without I/O: the record of all nodes, their reports, and what one
//! server has to do.
//!
//! ```text
//! record    records and reports, and their bytes
//! decision  next record of a set on its way
//! proposal  records that an administrator asks for
//! server    one server: what to prepare, run, report and write
//! ```
//!
//! A record says which set all nodes run and which is on its way. Nodes believe records, which only
//! deployers may write, and the reports of nodes about themselves. The server that deployed a set decides
//! when all run it; its record replaces the last one, or is refused if there is a later one.
mod decision;
mod proposal;
mod record;
mod server;

pub use decision::canary_nodes;
pub use proposal::{ProposalError, RolloutTerms, SetProposal};
pub use record::{
    AbandonedRollout, ClusterModule, ClusterModuleSet, DeployedSet, DeploymentRecord,
    MAX_DEPLOYMENT_RECORD, MAX_KEPT_SETS, MAX_SET_BYTES, MAX_SET_MODULES, NodeReport, ObjectId,
    RolloutStage, SetAnswer, SetError, SetNumber, SetRollout,
};
pub use server::{ClusterDeployment, DeploymentOutput, PendingRecord, PreparedSet, WriteResult};
