//! Registration of a job by another host environment (`PMIx_server_register_nspace`,
//! `PMIx_server_register_client`): from its infos to the job as this server keeps it.
//!
//! Infos come in the forms of the releases 4.x to 6.x: at the top level, in arrays for each realm, with
//! maps as texts. Data that clients need and the host environment leaves out are derived.
mod job_entries;
mod maps;
mod placed;

use self::job_entries::JobEntries;
pub use self::{maps::MapError, placed::PlacementError};
use crate::job::{
    AppSpec, JobPlacement, JobSpec, LauncherMonitoring, NodeRanks, NodeRoute, RegisteredJob,
};
use peal_model::{Info, Infos, Key, KeyName, Nspace, Proc, Rank, UserIdentity, Value, code, key};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use thiserror::Error;

/// Reason why a registration is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LauncherJobError {
    /// An info has a value of the wrong type.
    #[error("{key} of a registration has a value of type {found}, expected {expected}")]
    WrongType {
        /// The key.
        key: Key,
        /// The type of the value.
        found: peal_model::DataType,
        /// The right type.
        expected: &'static str,
    },
    /// A map cannot be read.
    #[error("{key} of a registration: {error}")]
    Map {
        /// The key.
        key: Key,
        /// The reason.
        error: MapError,
    },
    /// The maps of nodes and procs do not fit together.
    #[error("node map has {nodes} nodes, proc map has procs of {procs}: they must be equal")]
    MapLengths {
        /// The number of nodes.
        nodes: usize,
        /// The number of nodes in the proc map.
        procs: usize,
    },
    /// A registered proc is none of the job.
    #[error("rank {rank} of this node is not below the size of the job, {size}")]
    RankBeyondSize {
        /// The rank.
        rank: Rank,
        /// The size.
        size: u32,
    },
    /// The job has too many procs.
    #[error("job has {size} procs; the limit is {max}")]
    TooLarge {
        /// The number of procs.
        size: u32,
        /// The limit.
        max: u32,
    },
}

impl LauncherJobError {
    /// Returns the status for the host environment.
    pub fn status(&self) -> peal_model::Status {
        match self {
            LauncherJobError::TooLarge { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
            _ => code::PMIX_ERR_BAD_PARAM,
        }
    }
}

/// Largest number of procs of a job.
const MAX_SIZE: u32 = 1 << 20;

/// A job as far as its host environment has registered it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LauncherJob {
    nspace: Nspace,
    /// The name of this node.
    hostname: String,
    /// The user of the host environment, for a job without procs on this node.
    host_user: UserIdentity,
    /// The infos, in the order in which they came.
    infos: Vec<Info>,
    description: Description,
    clients: BTreeMap<Rank, UserIdentity>,
    monitoring: LauncherMonitoring,
}

/// The part of a registration that `PMIx_server_register_nspace` brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum Description {
    /// It has not come.
    Missing,
    /// It names this number of procs of this node.
    Procs(usize),
    /// The number of procs of this node is not known.
    UnknownProcs,
}

impl LauncherJob {
    /// Begins a registration on the node `hostname`, by a host environment of the user `host_user`.
    pub fn new(nspace: Nspace, hostname: &str, host_user: UserIdentity) -> LauncherJob {
        LauncherJob {
            nspace,
            hostname: hostname.to_owned(),
            host_user,
            infos: Vec::new(),
            description: Description::Missing,
            clients: BTreeMap::new(),
            monitoring: LauncherMonitoring::Missing,
        }
    }

    /// Sets the ability of the launcher to monitor procs.
    pub fn set_monitoring(&mut self, monitoring: LauncherMonitoring) {
        self.monitoring = monitoring;
    }

    /// Adds the description of the job. A later one adds to it; its values replace earlier ones of the
    /// same key. `local` is the number of procs of this node, negative if it is not known.
    pub fn describe(&mut self, local: i32, infos: Vec<Info>) {
        self.add_data(infos);
        self.description =
            usize::try_from(local).map_or(Description::UnknownProcs, Description::Procs);
    }

    /// Adds data of the job. Values replace earlier ones of the same key.
    pub fn add_data(&mut self, infos: Vec<Info>) {
        let is_array = |info: &Info| matches!(info.value, Value::DataArray(_));
        for info in infos {
            // Arrays describe one proc, node or application each, so there are many of one key.
            if !is_array(&info) {
                self.infos
                    .retain(|known| known.key != info.key || is_array(known));
            }
            self.infos.push(info);
        }
    }

    /// Adds a proc of this node.
    pub fn add_client(&mut self, rank: Rank, identity: UserIdentity) {
        self.clients.insert(rank, identity);
    }

    /// Removes a proc of this node.
    pub fn remove_client(&mut self, rank: Rank) {
        self.clients.remove(&rank);
    }

    /// Returns true if the job is described and all its procs of this node are registered.
    pub fn is_complete(&self) -> bool {
        match self.description {
            Description::Missing => false,
            Description::Procs(count) => self.clients.len() >= count,
            Description::UnknownProcs => true,
        }
    }

    /// Returns the job.
    ///
    /// # Errors
    ///
    /// Fails if an info has the wrong type or the infos contradict each other.
    pub fn spec(&self) -> Result<JobSpec, LauncherJobError> {
        let infos = top_level(&self.infos)?;
        let nodes = self.node_ranks(&infos)?;
        let size = self.size(&infos, &nodes)?;
        let beyond = self.clients.keys().find(|rank| rank.0 >= size);
        if let Some(rank) = beyond {
            return Err(LauncherJobError::RankBeyondSize { rank: *rank, size });
        }
        let identity = self.clients.values().next().copied();
        let offset = number(&infos, key::PMIX_NPROC_OFFSET)?.unwrap_or(0);
        let slots = number(&infos, key::PMIX_UNIV_SIZE)?.unwrap_or(size);
        let parent = infos
            .value_of(key::PMIX_PARENT_ID)
            .and_then(|value| match value {
                Value::Proc(parent) => Some(parent.clone()),
                _ => None,
            });
        let local: BTreeSet<Rank> = self.clients.keys().copied().collect();
        let entries = JobEntries {
            nspace: &self.nspace,
            hostname: &self.hostname,
            infos: &infos,
            nodes: &nodes,
            local: &local,
            size,
        };
        let entries = entries.build()?;
        Ok(JobSpec {
            nspace: self.nspace.clone(),
            apps: vec![AppSpec {
                size,
                command: None,
                wdir: None,
            }],
            hostname: self.hostname.clone(),
            identity: identity.unwrap_or(self.host_user),
            parent,
            offset,
            slots,
            topology: None,
            processors: None,
            placement: JobPlacement::Registered(Arc::new(RegisteredJob {
                size,
                local,
                nodes,
                route: NodeRoute::HostEnvironment,
                entries,
                monitoring: self.monitoring,
            })),
        })
    }

    /// Returns the nodes with their ranks. Without maps, the procs of this node are all that is known.
    fn node_ranks(&self, infos: &[Info]) -> Result<Vec<NodeRanks>, LauncherJobError> {
        let map = |keys: [KeyName; 2]| {
            let found = keys.into_iter().find_map(|key| {
                let value = infos.value_of(key)?;
                Some((Key::from(key), value))
            });
            let text = found.map(|(key, value)| match text(value) {
                Some(text) => Ok((key, text)),
                None => Err(wrong_type(&key, value, "PMIX_STRING or PMIX_REGEX")),
            });
            text.transpose()
        };
        let nodes = map([key::PMIX_NODE_MAP, key::PMIX_NODE_MAP_RAW])?;
        let ranks = map([key::PMIX_PROC_MAP, key::PMIX_PROC_MAP_RAW])?;
        let (Some((node_key, nodes)), Some((proc_key, ranks))) = (nodes, ranks) else {
            let ranks: Vec<Rank> = self.clients.keys().copied().collect();
            let this = NodeRanks {
                hostname: self.hostname.clone(),
                ranks,
            };
            return Ok(vec![this]);
        };
        let nodes = maps::nodes(&nodes).map_err(|error| LauncherJobError::Map {
            key: node_key,
            error,
        })?;
        let ranks = maps::ranks(&ranks).map_err(|error| LauncherJobError::Map {
            key: proc_key,
            error,
        })?;
        if nodes.len() != ranks.len() {
            return Err(LauncherJobError::MapLengths {
                nodes: nodes.len(),
                procs: ranks.len(),
            });
        }
        let placed = nodes.into_iter().zip(ranks);
        Ok(placed
            .map(|(hostname, ranks)| NodeRanks { hostname, ranks })
            .collect())
    }

    /// Returns the number of procs of the job: as its host environment says, else as the maps say, else
    /// as many as are registered.
    fn size(&self, infos: &[Info], nodes: &[NodeRanks]) -> Result<u32, LauncherJobError> {
        let placed: usize = nodes.iter().map(|node| node.ranks.len()).sum();
        let size = number(infos, key::PMIX_JOB_SIZE)?;
        let size = size.unwrap_or_else(|| u32::try_from(placed).unwrap_or(u32::MAX));
        if size > MAX_SIZE {
            return Err(LauncherJobError::TooLarge {
                size,
                max: MAX_SIZE,
            });
        }
        Ok(size)
    }
}

/// Returns the infos with the members of job arrays (`PMIX_JOB_INFO_ARRAY`) among them.
fn top_level(infos: &[Info]) -> Result<Vec<Info>, LauncherJobError> {
    let mut all = Vec::with_capacity(infos.len());
    for info in infos {
        if info.key == key::PMIX_JOB_INFO_ARRAY {
            all.extend(members(info)?.into_iter().cloned());
        } else {
            all.push(info.clone());
        }
    }
    Ok(all)
}

/// Returns the infos of an array.
fn members(info: &Info) -> Result<Vec<&Info>, LauncherJobError> {
    let members = match &info.value {
        Value::DataArray(array) => array.as_infos(),
        _ => None,
    };
    members.ok_or_else(|| wrong_type(&info.key, &info.value, "PMIX_DATA_ARRAY of PMIX_INFO"))
}

/// Returns the number of an info.
fn number(infos: &[Info], name: KeyName) -> Result<Option<u32>, LauncherJobError> {
    let value = infos.value_of(name);
    let number = value.map(|value| {
        value
            .as_u32()
            .ok_or_else(|| wrong_type(&name.into(), value, "an unsigned number of 32 bits"))
    });
    number.transpose()
}

/// Returns the text of a map.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::ByteObject(bytes) => {
            let bytes = bytes.as_slice();
            let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
            str::from_utf8(text).ok().map(str::to_owned)
        }
        value => value.as_str().map(str::to_owned),
    }
}

fn wrong_type(key: &Key, value: &Value, expected: &'static str) -> LauncherJobError {
    LauncherJobError::WrongType {
        key: key.clone(),
        found: value.data_type(),
        expected,
    }
}

/// Returns the procs of a list of ranks.
fn procs<'a>(nspace: &'a Nspace, ranks: &'a [Rank]) -> impl Iterator<Item = Proc> + 'a {
    ranks.iter().map(|rank| Proc::new(nspace.clone(), *rank))
}

#[cfg(test)]
mod tests;
