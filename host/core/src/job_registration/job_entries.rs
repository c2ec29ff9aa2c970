//! Job data from the infos of a registration, in the form that clients of the C library take.
use super::{LauncherJobError, members, procs, wrong_type};
use crate::{
    job::NodeRanks,
    job_data::{array, job},
};
use peal_model::{Info, Infos, JobEntry, Key, KeyName, Kval, Nspace, Rank, Value, key};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Parts from which the job data are made.
pub(super) struct JobEntries<'a> {
    pub(super) nspace: &'a Nspace,
    /// The name of this node.
    pub(super) hostname: &'a str,
    /// The infos, those of job arrays among them.
    pub(super) infos: &'a [Info],
    pub(super) nodes: &'a [NodeRanks],
    /// The ranks of this node.
    pub(super) local: &'a BTreeSet<Rank>,
    pub(super) size: u32,
}

/// Keys that describe the node of the server at the top level.
const NODE_KEYS: [KeyName; 8] = [
    key::PMIX_LOCAL_SIZE,
    key::PMIX_NODE_SIZE,
    key::PMIX_LOCAL_PEERS,
    key::PMIX_LOCAL_PROCS,
    key::PMIX_LOCALLDR,
    key::PMIX_NODE_OVERSUBSCRIBED,
    key::PMIX_LOCAL_CPUSETS,
    key::PMIX_AVAIL_PHYS_MEMORY,
];

/// Keys that are for the server alone.
const SERVER_KEYS: [KeyName; 3] = [
    key::PMIX_REGISTER_NODATA,
    key::PMIX_NODE_MAP_RAW,
    key::PMIX_PROC_MAP_RAW,
];

impl JobEntries<'_> {
    /// Returns the entries: those of the job, its sessions, nodes and applications, then those of the
    /// ranks.
    ///
    /// # Errors
    ///
    /// Fails if an array has another type.
    pub(super) fn build(&self) -> Result<Vec<JobEntry>, LauncherJobError> {
        let mut entries = Vec::new();
        let mut ranks: BTreeMap<Rank, Vec<Kval>> = BTreeMap::new();
        let mut described: Vec<Vec<Info>> = Vec::new();
        for info in self.infos {
            if info.key == key::PMIX_PROC_DATA {
                let (rank, kvals) = proc_data(info)?;
                ranks.entry(rank).or_default().extend(kvals);
            } else if info.key == key::PMIX_NODE_INFO_ARRAY {
                described.push(members(info)?.into_iter().cloned().collect());
            } else if !SERVER_KEYS.iter().any(|key| info.key == *key) {
                entries.push(job_value(info));
            }
        }
        Ok(self.completed(entries, ranks, described))
    }

    /// Returns the entries of a job of which the infos are values of the job alone.
    pub(super) fn derived(&self) -> Vec<JobEntry> {
        let entries = self.infos.iter().map(job_value).collect();
        self.completed(entries, BTreeMap::new(), Vec::new())
    }

    /// Adds what the host environment left out.
    fn completed(
        &self,
        mut entries: Vec<JobEntry>,
        mut ranks: BTreeMap<Rank, Vec<Kval>>,
        described: Vec<Vec<Info>>,
    ) -> Vec<JobEntry> {
        self.add_job_values(&mut entries);
        entries.extend(self.node_arrays(described));
        if !self.has(key::PMIX_APP_INFO_ARRAY) {
            entries.push(array(key::PMIX_APP_INFO_ARRAY, self.only_app()));
        }
        let places = self.places();
        for rank in (0..self.size).map(Rank) {
            let kvals = ranks.remove(&rank).unwrap_or_default();
            entries.push(JobEntry::Rank(
                rank,
                complete(rank, kvals, places.get(&rank)),
            ));
        }
        entries
    }

    fn has(&self, key: KeyName) -> bool {
        self.infos.value_of(key).is_some()
    }

    /// Adds values of the job that the host environment left out.
    fn add_job_values(&self, entries: &mut Vec<JobEntry>) {
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let names: Vec<&str> = self
            .nodes
            .iter()
            .map(|node| node.hostname.as_str())
            .collect();
        let derived = [
            (key::PMIX_JOB_SIZE, Value::Uint32(self.size)),
            (key::PMIX_UNIV_SIZE, Value::Uint32(self.size)),
            (key::PMIX_MAX_PROCS, Value::Uint32(self.size)),
            (key::PMIX_JOBID, Value::string(self.nspace.as_str())),
            (key::PMIX_NUM_NODES, Value::Uint32(nodes)),
            (key::PMIX_NODE_LIST, Value::string(&names.join(","))),
            (key::PMIX_JOB_NUM_APPS, Value::Uint32(1)),
            (key::PMIX_NPROC_OFFSET, Value::Rank(Rank(0))),
        ];
        for (key, value) in derived {
            if !self.has(key) {
                entries.push(job(key, value));
            }
        }
    }

    /// Returns an array for each node: what the host environment says of it, and what follows from the
    /// maps.
    fn node_arrays(&self, described: Vec<Vec<Info>>) -> Vec<JobEntry> {
        let mut described: Vec<Option<Vec<Info>>> = described.into_iter().map(Some).collect();
        let mut arrays = Vec::new();
        for (id, node) in (0_u32..).zip(self.nodes) {
            let own = described
                .iter_mut()
                .find(|infos| infos.as_ref().is_some_and(|infos| is_of(infos, node, id)));
            let mut infos = own.and_then(Option::take).unwrap_or_default();
            // Values of this node come at the top level, too.
            if node.hostname == self.hostname {
                let own = self.infos.iter();
                infos.extend(own.filter(|info| is_node_key(&info.key)).cloned());
            }
            for derived in self.derived_of_node(node, id) {
                if !infos.iter().any(|info| info.key == derived.key) {
                    infos.push(derived);
                }
            }
            arrays.push(array(key::PMIX_NODE_INFO_ARRAY, infos));
        }
        // Nodes that have no procs of the job.
        let others = described.into_iter().flatten();
        arrays.extend(others.map(|infos| array(key::PMIX_NODE_INFO_ARRAY, infos)));
        arrays
    }

    fn derived_of_node(&self, node: &NodeRanks, id: u32) -> Vec<Info> {
        let peers: Vec<String> = node.ranks.iter().map(|rank| rank.0.to_string()).collect();
        let count = u32::try_from(node.ranks.len()).unwrap_or(u32::MAX);
        let mut infos = vec![
            Info::new(key::PMIX_HOSTNAME, Value::string(&node.hostname)),
            Info::new(key::PMIX_NODEID, Value::Uint32(id)),
            Info::new(key::PMIX_LOCAL_SIZE, Value::Uint32(count)),
            Info::new(key::PMIX_NODE_SIZE, Value::Uint32(count)),
            Info::new(key::PMIX_LOCAL_PEERS, Value::string(&peers.join(","))),
            Info::new(
                key::PMIX_LOCAL_PROCS,
                Value::procs(procs(self.nspace, &node.ranks)),
            ),
        ];
        let leader = node.ranks.iter().min();
        infos.extend(leader.map(|rank| Info::new(key::PMIX_LOCALLDR, Value::Rank(*rank))));
        infos
    }

    /// Returns the values of the only application, of a host environment that names none.
    fn only_app(&self) -> Vec<Info> {
        vec![
            Info::new(key::PMIX_APPNUM, Value::Uint32(0)),
            Info::new(key::PMIX_APP_SIZE, Value::Uint32(self.size)),
            Info::new(key::PMIX_APPLDR, Value::Rank(Rank(0))),
        ]
    }

    /// Returns the place of each rank that the maps name.
    fn places(&self) -> HashMap<Rank, RankPlace<'_>> {
        let mut places = HashMap::new();
        for (node_id, node) in (0_u32..).zip(self.nodes) {
            for (position, rank) in node.ranks.iter().enumerate() {
                let place = RankPlace {
                    hostname: &node.hostname,
                    node_id,
                    position: u16::try_from(position).unwrap_or(u16::MAX),
                };
                places.insert(*rank, place);
            }
        }
        // A proc that is registered here but in no map.
        for (position, rank) in self.local.iter().enumerate() {
            places.entry(*rank).or_insert(RankPlace {
                hostname: self.hostname,
                node_id: 0,
                position: u16::try_from(position).unwrap_or(u16::MAX),
            });
        }
        places
    }
}

/// Returns an info as a value of the job.
fn job_value(info: &Info) -> JobEntry {
    JobEntry::Job(Kval {
        key: info.key.clone(),
        value: info.value.clone(),
    })
}

/// Place of a rank.
struct RankPlace<'a> {
    hostname: &'a str,
    node_id: u32,
    /// Position among the ranks of its node.
    position: u16,
}

/// Returns the rank and the values of an array about one proc.
fn proc_data(info: &Info) -> Result<(Rank, Vec<Kval>), LauncherJobError> {
    let members = members(info)?;
    let rank = members.iter().find(|member| member.key == key::PMIX_RANK);
    let rank = rank
        .and_then(|member| member.value.as_rank())
        .ok_or_else(|| wrong_type(&info.key, &info.value, "an array with PMIX_RANK"))?;
    let kvals = members
        .into_iter()
        .filter(|member| member.key != key::PMIX_RANK)
        .map(|member| Kval {
            key: member.key.clone(),
            value: member.value.clone(),
        });
    Ok((rank, kvals.collect()))
}

/// Adds values that the host environment left out, and sets the node: Slurm gives all ranks the id of
/// the node that registers.
fn complete(rank: Rank, mut kvals: Vec<Kval>, place: Option<&RankPlace<'_>>) -> Vec<Kval> {
    let mut derived = vec![
        Kval::new(key::PMIX_APPNUM, Value::Uint32(0)),
        Kval::new(key::PMIX_APP_RANK, Value::Rank(rank)),
        Kval::new(key::PMIX_GLOBAL_RANK, Value::Rank(rank)),
        Kval::new(key::PMIX_REINCARNATION, Value::Uint32(0)),
    ];
    if let Some(place) = place {
        kvals.retain(|kval| kval.key != key::PMIX_NODEID && kval.key != key::PMIX_HOSTNAME);
        derived.extend([
            Kval::new(key::PMIX_HOSTNAME, Value::string(place.hostname)),
            Kval::new(key::PMIX_NODEID, Value::Uint32(place.node_id)),
            Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(place.position)),
            Kval::new(key::PMIX_NODE_RANK, Value::Uint16(place.position)),
        ]);
    }
    for value in derived {
        if !kvals.iter().any(|kval| kval.key == value.key) {
            kvals.push(value);
        }
    }
    kvals
}

/// Returns true if infos describe this node, by its name or its id.
fn is_of(infos: &[Info], node: &NodeRanks, id: u32) -> bool {
    match (
        infos.value_of(key::PMIX_HOSTNAME),
        infos.value_of(key::PMIX_NODEID),
    ) {
        (Some(Value::String(Some(name))), _) => name.as_bytes() == node.hostname.as_bytes(),
        (_, Some(number)) => number.as_u32() == Some(id),
        _ => false,
    }
}

fn is_node_key(key: &Key) -> bool {
    NODE_KEYS.iter().any(|node_key| *key == *node_key)
}
