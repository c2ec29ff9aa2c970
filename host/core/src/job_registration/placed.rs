//! Jobs that are placed on nodes with servers of Peal. Each of the servers registers the same
//! placement, and finds its own procs by the name of its node.
use super::{MAX_SIZE, job_entries::JobEntries};
use crate::job::{
    AppSpec, JobPlacement, JobSpec, LauncherMonitoring, NodeRanks, NodeRoute, RegisteredJob,
};
use peal_model::{Info, Nspace, Rank, UserIdentity, Value, key};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use thiserror::Error;

/// Reason why a placement is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// A node is named twice.
    #[error("node {0:?} is named twice in a placement; name each node once, with all of its ranks")]
    RepeatedNode(String),
    /// A node has no name, or one that no map can hold.
    #[error(
        "{0:?} is no name of a node in a placement; a name has 1 to 255 bytes and none of `,;[]`"
    )]
    NodeName(String),
    /// A rank is on two nodes.
    #[error("rank {rank} is on nodes {first:?} and {second:?}; a rank is on one node")]
    RepeatedRank {
        /// The rank.
        rank: Rank,
        /// The first node.
        first: String,
        /// The second node.
        second: String,
    },
    /// A rank is on no node.
    #[error("rank {rank} is on no node, although the job has {size} procs; ranks begin at 0")]
    MissingRank {
        /// The lowest missing rank.
        rank: Rank,
        /// The number of procs.
        size: u32,
    },
    /// The job has too many procs.
    #[error("job has {size} procs; the limit is {max}")]
    TooManyProcs {
        /// The number of procs.
        size: usize,
        /// The limit.
        max: u32,
    },
}

impl JobSpec {
    /// Creates a job with one application whose ranks are on these nodes, as the server on the node
    /// `hostname` registers it. The other nodes have servers of Peal in the same server transport.
    ///
    /// # Errors
    ///
    /// Fails unless the nodes have all ranks from 0 on, each once.
    pub fn on_nodes(
        nspace: Nspace,
        nodes: Vec<NodeRanks>,
        hostname: impl Into<String>,
        identity: UserIdentity,
    ) -> Result<JobSpec, PlacementError> {
        let size = check(&nodes)?;
        let hostname = hostname.into();
        let here = nodes.iter().find(|node| node.hostname == hostname);
        let local: BTreeSet<Rank> = here
            .into_iter()
            .flat_map(|node| node.ranks.iter().copied())
            .collect();
        let entries = JobEntries {
            nspace: &nspace,
            hostname: &hostname,
            infos: &maps(&nodes),
            nodes: &nodes,
            local: &local,
            size,
        };
        let entries = entries.derived();
        Ok(JobSpec {
            nspace,
            apps: vec![AppSpec {
                size,
                command: None,
                wdir: None,
            }],
            hostname,
            identity,
            parent: None,
            offset: 0,
            slots: size,
            topology: None,
            processors: None,
            placement: JobPlacement::Registered(Arc::new(RegisteredJob {
                size,
                local,
                nodes,
                route: NodeRoute::Servers,
                entries,
                monitoring: LauncherMonitoring::Missing,
            })),
        })
    }
}

/// Returns the number of procs.
fn check(nodes: &[NodeRanks]) -> Result<u32, PlacementError> {
    let size = nodes.iter().map(|node| node.ranks.len()).sum();
    let too_many = || PlacementError::TooManyProcs {
        size,
        max: MAX_SIZE,
    };
    let count = u32::try_from(size).map_err(|_| too_many())?;
    if count > MAX_SIZE {
        return Err(too_many());
    }
    let mut names = BTreeSet::new();
    let mut places: BTreeMap<Rank, &str> = BTreeMap::new();
    for NodeRanks { hostname, ranks } in nodes {
        if !(1..=255).contains(&hostname.len()) || hostname.contains([',', ';', '[', ']']) {
            return Err(PlacementError::NodeName(hostname.clone()));
        }
        if !names.insert(hostname) {
            return Err(PlacementError::RepeatedNode(hostname.clone()));
        }
        for rank in ranks {
            if let Some(first) = places.insert(*rank, hostname) {
                return Err(PlacementError::RepeatedRank {
                    rank: *rank,
                    first: first.to_owned(),
                    second: hostname.clone(),
                });
            }
        }
    }
    // There are as many ranks as procs, so a rank beyond the size means that a lower one is missing.
    let missing = (0..count).map(Rank).find(|rank| !places.contains_key(rank));
    match missing {
        Some(rank) => Err(PlacementError::MissingRank { rank, size: count }),
        None => Ok(count),
    }
}

/// Returns the maps of nodes and procs, as the C library's component `raw` writes them.
fn maps(nodes: &[NodeRanks]) -> [Info; 2] {
    let names: Vec<&str> = nodes.iter().map(|node| node.hostname.as_str()).collect();
    let ranks = nodes.iter().map(|node| {
        let ranks: Vec<String> = node.ranks.iter().map(|rank| rank.0.to_string()).collect();
        ranks.join(",")
    });
    let ranks: Vec<String> = ranks.collect();
    let map = |key, parts: String| Info::new(key, Value::string(&format!("raw:{parts}")));
    [
        map(key::PMIX_NODE_MAP, names.join(",")),
        map(key::PMIX_PROC_MAP, ranks.join(";")),
    ]
}
