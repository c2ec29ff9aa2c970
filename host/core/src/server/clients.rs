//! The clients of a server: jobs with their procs, tools, and connections. Answers the questions
//! that every part uses, and admits connections.
use super::{Action, ConnectionRefusal, PeerId, RequestId, StateSettings, reply};
use crate::{
    event_targets::EventTargets,
    job::{JobProgress, JobSpec, NodeRoute, ProcNode, ProcPhase, TrackedJob},
    psets::PsetError,
    quota::{Quota, QuotaReport, unreserved},
    targets::JobRanks,
};
use peal_model::{
    Event, JobInfo, Nspace, Proc, Rank, Reply, TargetProc, Text, UnixGroup, UserIdentity, code,
    rank,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A user that the kernel assigns to no process.
const UNKNOWN_USER: UserIdentity = UserIdentity {
    uid: u32::MAX,
    gid: u32::MAX,
};

/// All jobs, tools and connections of a server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ClientTable {
    jobs: BTreeMap<Nspace, TrackedJob>,
    tools: ToolTable,
    peers: BTreeMap<PeerId, ConnectedPeer>,
    next_peer: u64,
    /// The user and Unix group of the server; none until
    /// [`ServerState::guard`](crate::server::ServerState::guard).
    server: Option<UserIdentity>,
}

/// A connection of an admitted peer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConnectedPeer {
    pub(super) proc: Proc,
    /// The user that the connection was admitted as.
    pub(super) identity: UserIdentity,
    /// The Unix groups of its process.
    groups: Arc<[UnixGroup]>,
    standing: ConnectionState,
}

impl ConnectedPeer {
    /// Returns true until the client has finalized or lost its name.
    pub(super) fn is_active(&self) -> bool {
        self.standing == ConnectionState::Active
    }
}

/// The state of a connection.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ConnectionState {
    Active,
    /// The client has finalized; only the end of the connection can follow.
    Left,
}

/// The connected tools: procs without a job. Each has a namespace of its own, and no collective
/// waits for them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ToolTable(BTreeMap<Proc, ConnectedTool>);

#[derive(Debug, Serialize, Deserialize)]
struct ConnectedTool {
    peer: PeerId,
    identity: UserIdentity,
}

impl ToolTable {
    /// Returns the user that a tool runs as, by its namespace.
    fn identity(&self, nspace: &Nspace) -> Option<UserIdentity> {
        // The number of tools is bounded (`max_tools`), so a search is good enough.
        self.0
            .iter()
            .find(|(proc, _)| proc.nspace == *nspace)
            .map(|(_, tool)| tool.identity)
    }

    /// Returns the number of all tools.
    fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of a user's tools.
    fn count_of(&self, uid: u32) -> usize {
        self.0
            .values()
            .filter(|tool| tool.identity.uid == uid)
            .count()
    }

    /// Removes the tool of a connection. Also returns true if it was the last one of its namespace.
    fn leave(&mut self, peer: PeerId) -> Option<(Proc, bool)> {
        let gone = self
            .0
            .iter()
            .find(|(_, tool)| tool.peer == peer)
            .map(|(proc, _)| proc.clone())?;
        self.0.remove(&gone);
        let is_last = self.identity(&gone.nspace).is_none();
        Some((gone, is_last))
    }
}

/// A connection of a proc that was just admitted.
#[derive(Debug)]
pub(super) struct AdmittedConnection {
    /// The connection.
    pub(super) peer: PeerId,
    /// The phase of the proc before the admission.
    pub(super) before: ProcPhase,
}

/// Users.
impl ClientTable {
    /// Sets the user that the server runs as.
    pub(super) fn set_server(&mut self, server: UserIdentity) {
        self.server = Some(server);
    }

    /// Returns the user that the server runs as.
    pub(super) fn server(&self) -> UserIdentity {
        self.server.unwrap_or(UNKNOWN_USER)
    }

    /// Returns true if a user is bounded by a share: all users but root and the server's own.
    pub(super) fn is_bounded(&self, uid: u32) -> bool {
        uid != 0 && uid != self.server().uid
    }

    /// Returns the user that a proc or tool runs as, if it is known.
    pub(super) fn identity(&self, proc: &Proc) -> Option<UserIdentity> {
        let of_job = self.jobs.get(&proc.nspace).map(|job| job.spec.identity);
        of_job.or_else(|| self.tools.identity(&proc.nspace))
    }

    /// Returns the uid that a proc or tool runs as; `u32::MAX` if it is unknown.
    pub(super) fn uid_of(&self, proc: &Proc) -> u32 {
        self.identity(proc)
            .map_or(u32::MAX, |identity| identity.uid)
    }

    /// Returns true if a requester may see a job of this server: its own, one of the same user, or
    /// any for root.
    fn may_see_job(&self, requester: &Proc, job: &TrackedJob) -> bool {
        requester.nspace == job.spec.nspace
            || self
                .identity(requester)
                .is_some_and(|user| user.uid == 0 || user.uid == job.spec.identity.uid)
    }

    /// Adds the owners to procs that a request names.
    pub(super) fn targets(&self, procs: &[Proc]) -> Vec<TargetProc> {
        procs
            .iter()
            .map(|proc| TargetProc {
                proc: proc.clone(),
                owner: self.identity(proc),
            })
            .collect()
    }
}

/// Jobs and procs.
impl ClientTable {
    /// Adds a job, in place of one of the same name.
    pub(super) fn add_job(&mut self, spec: JobSpec) {
        self.jobs.insert(spec.nspace.clone(), TrackedJob::new(spec));
    }

    /// Removes a job. Its connections stay until they are closed.
    pub(super) fn remove_job(&mut self, nspace: &Nspace) {
        self.jobs.remove(nspace);
    }

    /// Returns true if the job is registered.
    pub(super) fn has_job(&self, nspace: &Nspace) -> bool {
        self.jobs.contains_key(nspace)
    }

    /// Returns a job.
    pub(super) fn job(&self, nspace: &Nspace) -> Option<&TrackedJob> {
        self.jobs.get(nspace)
    }

    /// Returns a job, to change its data or the phases of its procs.
    pub(super) fn job_mut(&mut self, nspace: &Nspace) -> Option<&mut TrackedJob> {
        self.jobs.get_mut(nspace)
    }

    /// Returns all jobs, in the order of their names.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &TrackedJob> {
        self.jobs.values()
    }

    /// Returns the jobs of a user, in the order of their names.
    pub(super) fn jobs_of(&self, uid: u32) -> impl Iterator<Item = &TrackedJob> {
        self.jobs
            .values()
            .filter(move |job| job.spec.identity.uid == uid)
    }

    /// Returns the number of jobs.
    pub(super) fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Returns the progress of all jobs, in the order of their names.
    pub(super) fn progress(&self) -> impl Iterator<Item = JobProgress> {
        self.jobs.values().map(TrackedJob::progress)
    }

    /// Returns the phases of a job's procs of this node, in the order of their ranks.
    pub(super) fn phases_of(&self, nspace: &Nspace) -> impl Iterator<Item = (Rank, ProcPhase)> {
        self.jobs
            .get(nspace)
            .into_iter()
            .flat_map(TrackedJob::phases)
    }

    /// Returns the ranks of a job.
    pub(super) fn ranks_of(&self, nspace: &Nspace) -> Option<JobRanks> {
        self.jobs.get(nspace).map(|job| JobRanks {
            local: job.procs.ranks().collect(),
            size: job.spec.has_procs_elsewhere().then(|| job.spec.size()),
        })
    }

    /// Returns true if a proc is on another node, by the word of its host environment.
    pub(super) fn is_elsewhere(&self, proc: &Proc) -> bool {
        self.jobs
            .get(&proc.nspace)
            .is_some_and(|job| job.spec.is_elsewhere(proc.rank))
    }

    /// Returns the way to a proc of another node.
    pub(super) fn route_to(&self, proc: &Proc) -> Option<NodeRoute> {
        let job = self.jobs.get(&proc.nspace)?;
        job.spec.is_elsewhere(proc.rank).then(|| job.spec.route())
    }

    /// Returns the way to a single proc of another node.
    pub(super) fn route_to_rank(&self, proc: &Proc) -> Option<NodeRoute> {
        let job = self.jobs.get(&proc.nspace)?;
        let is_elsewhere = job.spec.node_of(proc.rank) == Some(ProcNode::Other);
        is_elsewhere.then(|| job.spec.route())
    }

    /// Returns the phase of a proc, if it is known.
    pub(super) fn life(&self, proc: &Proc) -> Option<ProcPhase> {
        self.jobs.get(&proc.nspace)?.procs.get(proc.rank)
    }

    /// Sets the phase of a known proc.
    pub(super) fn set_life(&mut self, proc: &Proc, life: ProcPhase) {
        if let Some(job) = self.jobs.get_mut(&proc.nspace) {
            job.procs.set(proc.rank, life);
        }
    }

    /// Returns true if a proc may still put values; for an undefined rank, if any proc of the job
    /// may.
    pub(super) fn may_put(&self, proc: &Proc) -> bool {
        let lives = |life: ProcPhase| matches!(life, ProcPhase::Expected | ProcPhase::Connected(_));
        match self.jobs.get(&proc.nspace) {
            Some(job) if proc.rank == rank::PMIX_RANK_UNDEF => job.procs.may_put(),
            _ => self.life(proc).is_some_and(lives),
        }
    }

    /// Returns true if a proc has ended or is unknown.
    pub(super) fn has_ended(&self, proc: &Proc) -> bool {
        self.life(proc)
            .is_none_or(|life| matches!(life, ProcPhase::Terminated | ProcPhase::Lost))
    }

    /// Returns true if all procs of a known job have ended.
    pub(super) fn has_job_ended(&self, nspace: &Nspace) -> bool {
        self.jobs
            .get(nspace)
            .is_some_and(|job| job.procs.have_ended())
    }
}

/// Process sets.
impl ClientTable {
    /// Returns the user of the procs that a process set is to have.
    ///
    /// # Errors
    ///
    /// Fails if a proc is unknown, the procs belong to several users, or there are none.
    pub(super) fn owner_of_set(&self, name: &Text, members: &[Proc]) -> Result<u32, PsetError> {
        let mut owner = None;
        for proc in members {
            let unknown = || PsetError::Unknown {
                name: name.clone(),
                proc: proc.clone(),
            };
            // An unknown proc has no user to compare.
            self.life(proc).ok_or_else(unknown)?;
            let uid = self.uid_of(proc);
            if *owner.get_or_insert(uid) != uid {
                return Err(PsetError::Mixed(name.clone()));
            }
        }
        owner.ok_or_else(|| PsetError::Empty(name.clone()))
    }
}

/// Connections.
impl ClientTable {
    /// Admits a connection of a proc.
    pub(super) fn admit(
        &mut self,
        proc: &Proc,
        claimed: UserIdentity,
        max: u32,
    ) -> Result<AdmittedConnection, ConnectionRefusal> {
        let job = self
            .jobs
            .get_mut(&proc.nspace)
            .ok_or_else(|| ConnectionRefusal::UnknownNspace(proc.nspace.clone()))?;
        let size = job.spec.size();
        let before = job
            .procs
            .get(proc.rank)
            .ok_or_else(|| ConnectionRefusal::UnknownRank {
                proc: proc.clone(),
                size,
            })?;
        let expected = job.spec.identity;
        if claimed != expected {
            return Err(ConnectionRefusal::WrongUser {
                proc: proc.clone(),
                expected,
                found: claimed,
            });
        }
        let after = match before {
            // A program may finalize and initialize again. Where the host environment does not know
            // the processes of a proc, several may run one after the other.
            ProcPhase::Expected | ProcPhase::Finalized | ProcPhase::Terminated => {
                ProcPhase::Connected(1)
            }
            ProcPhase::Connected(n) if n >= max => {
                return Err(ConnectionRefusal::TooManyClones {
                    proc: proc.clone(),
                    max,
                });
            }
            ProcPhase::Connected(n) => ProcPhase::Connected(n + 1),
            // Others were notified of the end, and collectives have continued without the proc.
            ProcPhase::Lost => return Err(ConnectionRefusal::Ended(proc.clone())),
        };
        job.procs.set(proc.rank, after);
        let peer = self.add_connection(proc, claimed);
        Ok(AdmittedConnection { peer, before })
    }

    /// Admits a tool. The tool has the name as long as it is connected.
    pub(super) fn admit_tool(
        &mut self,
        proc: &Proc,
        identity: UserIdentity,
        settings: &StateSettings,
    ) -> Result<PeerId, ConnectionRefusal> {
        if self.jobs.contains_key(&proc.nspace) || self.tools.0.contains_key(proc) {
            return Err(ConnectionRefusal::NameTaken(proc.clone()));
        }
        if self
            .tools
            .identity(&proc.nspace)
            // Several tools may share a namespace if they are of one user. Otherwise a user could
            // join the namespace of another one.
            .is_some_and(|other| other != identity)
        {
            return Err(ConnectionRefusal::NameTaken(proc.clone()));
        }
        self.check_tool_shares(identity.uid, settings)?;
        let peer = self.add_connection(proc, identity);
        self.tools
            .0
            .insert(proc.clone(), ConnectedTool { peer, identity });
        Ok(peer)
    }

    /// Checks that a user may have one more tool.
    fn check_tool_shares(
        &self,
        uid: u32,
        settings: &StateSettings,
    ) -> Result<(), ConnectionRefusal> {
        let all = settings.max_tools;
        let own = settings.max_tools_per_user;
        let is_bounded = self.is_bounded(uid);
        if is_bounded && self.tools.count_of(uid) >= own {
            return Err(ConnectionRefusal::TooManyToolsOfUser { uid, max: own });
        }
        // The reserved part keeps root and the server's user able to connect tools when users have
        // exhausted theirs.
        let max = if is_bounded { unreserved(all) } else { all };
        if self.tools.count() >= max {
            Err(ConnectionRefusal::TooManyTools { max })
        } else {
            Ok(())
        }
    }

    /// Adds a connection of an admitted peer.
    fn add_connection(&mut self, proc: &Proc, identity: UserIdentity) -> PeerId {
        // The first connection is 1, because 0 is `PeerId::MODULES`.
        self.next_peer += 1;
        let id = PeerId(self.next_peer);
        // All procs of a job share one name, so that comparing them is a comparison of pointers.
        let nspace = self
            .jobs
            .get(&proc.nspace)
            .map_or(&proc.nspace, |job| &job.spec.nspace)
            .clone();
        let proc = Proc::new(nspace, proc.rank);
        self.peers.insert(
            id,
            ConnectedPeer {
                proc,
                identity,
                groups: Arc::default(),
                standing: ConnectionState::Active,
            },
        );
        id
    }

    /// Makes a connection inactive.
    pub(super) fn deactivate(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.standing = ConnectionState::Left;
        }
    }

    /// Removes a closed connection.
    pub(super) fn remove_connection(&mut self, id: PeerId) -> Option<ConnectedPeer> {
        self.peers.remove(&id)
    }

    /// Counts one connection of a proc less. Returns true if it was the last one; the proc is then
    /// in the phase `after`.
    pub(super) fn leave(&mut self, proc: &Proc, after: ProcPhase) -> bool {
        match self.life(proc) {
            Some(ProcPhase::Connected(n)) if n > 1 => {
                self.set_life(proc, ProcPhase::Connected(n - 1));
                false
            }
            Some(ProcPhase::Connected(_)) => {
                self.set_life(proc, after);
                true
            }
            // The end of the proc was reported before its connections closed, and is not reported
            // again.
            Some(
                ProcPhase::Expected
                | ProcPhase::Finalized
                | ProcPhase::Terminated
                | ProcPhase::Lost,
            )
            | None => false,
        }
    }

    /// Removes the tool of a connection. Also returns true if it was the last one of its namespace.
    pub(super) fn tool_left(&mut self, peer: PeerId) -> Option<(Proc, bool)> {
        self.tools.leave(peer)
    }

    /// Takes a name from its tools, for a job. Returns their connections, which are still active.
    pub(super) fn evict_tools(&mut self, nspace: &Nspace) -> Vec<PeerId> {
        self.tools
            .0
            .extract_if(.., |proc, _| proc.nspace == *nspace)
            .map(|(_, tool)| tool.peer)
            .collect()
    }

    /// Sets the Unix groups of a connection's process, as the kernel reports them.
    pub(super) fn set_unix_groups(&mut self, id: PeerId, groups: Arc<[UnixGroup]>) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.groups = groups;
        }
    }

    /// Returns a connection until it is closed.
    pub(super) fn peer(&self, id: PeerId) -> Option<&ConnectedPeer> {
        self.peers.get(&id)
    }

    /// Returns a connection that is active.
    pub(super) fn active_peer(&self, id: PeerId) -> Option<&ConnectedPeer> {
        self.peers.get(&id).filter(|peer| peer.is_active())
    }

    /// Returns the number of connections.
    pub(super) fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// Returns the number of tools.
    pub(super) fn tool_count(&self) -> usize {
        self.tools.count()
    }

    /// Adds the tools of each user to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport, settings: &StateSettings) {
        report.limit(
            Quota::Tools,
            settings.max_tools_per_user,
            Some(settings.max_tools),
        );
        let tools = self.tools.0.values().map(|tool| (tool.identity.uid, 1));
        report.hold(Quota::Tools, tools);
    }

    /// Returns the proc of a connection until it is closed.
    pub(super) fn proc_of(&self, id: PeerId) -> Option<&Proc> {
        self.peers.get(&id).map(|peer| &peer.proc)
    }

    /// Returns the Unix groups of a client's process at its admission.
    pub(super) fn groups_of(&self, peer: PeerId) -> Arc<[UnixGroup]> {
        self.peers
            .get(&peer)
            .map(|peer| peer.groups.clone())
            .unwrap_or_default()
    }

    /// Returns the user that a client runs as.
    pub(super) fn identity_of(&self, peer: PeerId) -> Option<UserIdentity> {
        self.peers.get(&peer).map(|peer| peer.identity)
    }

    /// Returns the reply to a request; nothing if the requester has disconnected.
    pub(super) fn answer(&self, to: RequestId, reply: Reply) -> Vec<Action> {
        // Modules have no connection that could have closed.
        let is_awaited = to.peer == PeerId::MODULES || self.peers.contains_key(&to.peer);
        if is_awaited {
            vec![Action::Reply { to, reply }]
        } else {
            Vec::new()
        }
    }

    /// Returns the active connections of a proc or tool.
    pub(super) fn connections_of(&self, proc: &Proc) -> Vec<PeerId> {
        let theirs = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.proc == *proc && peer.is_active());
        theirs.map(|(id, _)| *id).collect()
    }

    /// Returns the connections of a proc or tool, also those that are no longer active.
    pub(super) fn all_connections_of(&self, proc: &Proc) -> Vec<PeerId> {
        let theirs = self.peers.iter().filter(|(_, peer)| peer.proc == *proc);
        theirs.map(|(id, _)| *id).collect()
    }

    /// Returns the connections of a namespace, also those that are no longer active.
    pub(super) fn connections_of_job(&self, nspace: &Nspace) -> Vec<PeerId> {
        let theirs = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.proc.nspace == *nspace);
        theirs.map(|(id, _)| *id).collect()
    }

    /// Returns the user of the tools of a namespace.
    pub(super) fn tool_identity(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.tools.identity(nspace)
    }

    /// Returns the tools that an event names as targets, with their users, except those that are
    /// notified already. Events for other targets are not retained for tools, because most never
    /// register.
    pub(super) fn named_tools(
        &self,
        event: &Event,
        aim: &EventTargets,
        direct_recipients: &BTreeSet<PeerId>,
    ) -> Vec<(Proc, u32)> {
        let named = |(proc, tool): &(&Proc, &ConnectedTool)| {
            aim.names(proc)
                && aim.is_meant_for(event, proc)
                && !direct_recipients.contains(&tool.peer)
        };
        self.tools
            .0
            .iter()
            .filter(named)
            .map(|(proc, tool)| (proc.clone(), tool.identity.uid))
            .collect()
    }
}

/// Replies about jobs. Resolution of peers and nodes is for clients of OpenPMIx 5.0 and later, and
/// limited to jobs that the requester may see.
impl ClientTable {
    /// Returns the data of the requester's own job or, for a tool, of its namespace.
    pub(super) fn job_data(&self, to: RequestId, source: &Proc, hostname: &str) -> Vec<Action> {
        let job = self
            .jobs
            .get(&source.nspace)
            .map(|job| job.info.initial().clone());
        match job.or_else(|| self.tool_data(&source.nspace, hostname).map(Arc::new)) {
            Some(info) => vec![Action::Reply {
                to,
                reply: Reply::JobData(info),
            }],
            None => vec![reply(to, code::PMIX_ERR_NOT_FOUND)],
        }
    }

    /// Returns the data of a tool's own namespace, as of a job with one proc.
    fn tool_data(&self, nspace: &Nspace, hostname: &str) -> Option<JobInfo> {
        let identity = self.tools.identity(nspace)?;
        Some(JobSpec::new(nspace.clone(), 1, hostname, identity).job_info())
    }

    /// Returns the procs of one job or of all jobs on a node; without a node, on the local one.
    pub(super) fn resolve_peers(
        &self,
        to: RequestId,
        source: &Proc,
        node: Option<&Text>,
        nspace: Option<&Nspace>,
    ) -> Vec<Action> {
        // A name that is not UTF-8 is that of no node.
        let node = node.map(|node| node.as_str().unwrap_or_default());
        let procs: Vec<Proc> = self
            .visible_jobs(source, nspace)
            .flat_map(|job| {
                let ranks = job.spec.ranks_on(node).into_iter();
                ranks.map(|rank| Proc::new(job.spec.nspace.clone(), rank))
            })
            .collect();
        match procs.is_empty() {
            true => vec![reply(to, code::PMIX_ERR_NOT_FOUND)],
            false => vec![Action::Reply {
                to,
                reply: Reply::Procs {
                    status: code::PMIX_SUCCESS,
                    procs,
                },
            }],
        }
    }

    /// Returns the nodes of one job or of all jobs.
    pub(super) fn resolve_nodes(
        &self,
        to: RequestId,
        source: &Proc,
        nspace: Option<&Nspace>,
    ) -> Vec<Action> {
        // Jobs of one node share its name, which is returned once.
        let nodes: BTreeSet<&str> = self
            .visible_jobs(source, nspace)
            .flat_map(|job| job.spec.nodes())
            .collect();
        if nodes.is_empty() {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        }
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(",");
        let nodes = Some(Text::from(nodes.as_str()));
        vec![Action::Reply {
            to,
            reply: Reply::Nodes {
                status: code::PMIX_SUCCESS,
                nodes,
            },
        }]
    }

    /// Returns one job or all jobs, as far as the source may see them.
    fn visible_jobs<'a>(
        &'a self,
        source: &'a Proc,
        nspace: Option<&'a Nspace>,
    ) -> impl Iterator<Item = &'a TrackedJob> {
        let named = move |job: &&TrackedJob| nspace.is_none_or(|nspace| *nspace == job.spec.nspace);
        self.jobs
            .values()
            .filter(named)
            .filter(move |job| self.may_see_job(source, job))
    }
}
