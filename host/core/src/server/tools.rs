//! Tools: procs without a job. Each has a namespace of its own, and no collective waits for them.
use super::{Action, ConnectionRefusal, PeerId, ServerState, Upcall};
use crate::{audience::EventTargets, job::JobSpec};
use peal_model::{Event, JobInfo, Nspace, Proc, UserIdentity};
use std::collections::{BTreeMap, BTreeSet};

/// The fraction of the limit that is reserved for root and the server's user: one eighth.
const RESERVED_PART: usize = 8;

/// The connected tools.
#[derive(Debug, Default)]
pub(super) struct ToolTable(BTreeMap<Proc, ConnectedTool>);

#[derive(Debug)]
struct ConnectedTool {
    peer: PeerId,
    identity: UserIdentity,
}

impl ToolTable {
    /// Returns the user that a tool runs as, by its namespace.
    pub(super) fn identity(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.0
            .iter()
            .find(|(proc, _)| proc.nspace == *nspace)
            .map(|(_, tool)| tool.identity)
    }

    /// Returns the number of all tools.
    pub(super) fn count(&self) -> usize {
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

impl ServerState {
    /// Admits a tool that may connect ([`ServerState::check_admission`]). The tool has the name as
    /// long as it is connected.
    ///
    /// # Errors
    ///
    /// Fails if the name is taken or the limits on tools are reached.
    pub fn admit_tool(
        &mut self,
        proc: &Proc,
        identity: UserIdentity,
    ) -> Result<PeerId, ConnectionRefusal> {
        if self.jobs.contains_key(&proc.nspace) || self.tools.0.contains_key(proc) {
            return Err(ConnectionRefusal::NameTaken(proc.clone()));
        }
        if self
            .tools
            .identity(&proc.nspace)
            .is_some_and(|other| other != identity)
        {
            return Err(ConnectionRefusal::NameTaken(proc.clone()));
        }
        self.check_tool_shares(identity.uid)?;
        let peer = self.seat(proc, identity);
        self.tools
            .0
            .insert(proc.clone(), ConnectedTool { peer, identity });
        Ok(peer)
    }

    /// Checks that a user may have one more tool.
    fn check_tool_shares(&self, uid: u32) -> Result<(), ConnectionRefusal> {
        let (all, own) = (self.settings.max_tools, self.settings.max_tools_per_user);
        let is_bounded = self.is_bounded(uid);
        if is_bounded && self.tools.count_of(uid) >= own {
            return Err(ConnectionRefusal::TooManyToolsOfUser { uid, max: own });
        }
        // The reserved part keeps root and the server's user able to connect tools when users have
        // exhausted theirs.
        let max = if is_bounded {
            all - all / RESERVED_PART
        } else {
            all
        };
        if self.tools.count() >= max {
            Err(ConnectionRefusal::TooManyTools { max })
        } else {
            Ok(())
        }
    }

    /// Takes a name from its tools, for a job. Their connections become inactive, and their held
    /// requests are denied.
    pub(super) fn evict(&mut self, nspace: &Nspace) -> Vec<Action> {
        let evicted = self
            .tools
            .0
            .extract_if(.., |proc, _| proc.nspace == *nspace)
            .map(|(_, tool)| tool.peer);
        let mut actions: Vec<Action> = evicted
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|peer| self.dismiss(peer))
            .collect();
        self.modex.drop_job(nspace);
        self.monitors.end_job(nspace);
        actions.extend(self.deny_held(nspace));
        actions
    }

    /// Returns the tools that an event names as targets, with their users, except those that are
    /// notified already. Events for other targets are not retained for tools, because most never
    /// register.
    pub(super) fn named_tools(
        &self,
        event: &Event,
        aim: &EventTargets,
        told: &BTreeSet<PeerId>,
    ) -> Vec<(Proc, u32)> {
        let named = |(proc, tool): &(&Proc, &ConnectedTool)| {
            aim.names(proc) && aim.is_meant_for(event, proc) && !told.contains(&tool.peer)
        };
        self.tools
            .0
            .iter()
            .filter(named)
            .map(|(proc, tool)| (proc.clone(), tool.identity.uid))
            .collect()
    }

    /// Handles the departure of a tool. Its values are dropped.
    pub(super) fn tool_left(&mut self, peer: PeerId) -> Option<Action> {
        let (proc, is_last) = self.tools.leave(peer)?;
        self.retained.free_proc(&proc);
        self.monitors.end_proc(&proc);
        if is_last {
            self.modex.drop_job(&proc.nspace);
        }
        Some(Action::Upcall(Upcall::ToolLeft(proc)))
    }

    /// Returns the data of a tool's own namespace, as of a job with one proc.
    pub(super) fn tool_data(&self, nspace: &Nspace) -> Option<JobInfo> {
        let identity = self.tools.identity(nspace)?;
        Some(JobSpec::new(nspace.clone(), 1, &self.settings.hostname, identity).job_info())
    }

    /// Returns true if a requester may see a namespace: its own, one of the same user, or any for
    /// root.
    pub(super) fn may_see(&self, requester: &Proc, nspace: &Nspace) -> bool {
        let owner = self.jobs.get(nspace).map(|job| job.spec.identity.uid);
        requester.nspace == *nspace
            || self
                .identity(requester)
                .is_some_and(|asks| asks.uid == 0 || owner.is_none_or(|owner| owner == asks.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        MonotonicTime,
        server::{Action, AdmissionCheck, RequestId, StateSettings},
    };
    use peal_model::{
        Commit, ConnectionKind, JobEntry, KeyName, Kval, PeerInfo, Rank, Reply, Request, Scope,
        Status, Value, code, key,
    };
    use std::sync::Arc;

    const SERVER: UserIdentity = UserIdentity { uid: 500, gid: 500 };
    const OWNER: UserIdentity = UserIdentity {
        uid: 1000,
        gid: 100,
    };
    const ROOT: UserIdentity = UserIdentity { uid: 0, gid: 0 };
    const OTHER: UserIdentity = UserIdentity {
        uid: 1001,
        gid: 100,
    };
    const KEY: KeyName = KeyName("test.key");

    fn proc(nspace: &str, rank: u32) -> Proc {
        Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
    }

    /// A server with a job of two procs; at most three tools.
    fn server() -> ServerState {
        let mut server = ServerState::new(StateSettings {
            max_tools: 3,
            ..StateSettings::default()
        });
        let UserIdentity { uid, gid } = OWNER;
        server.add_job(JobSpec::new(
            Nspace::new("job").unwrap(),
            2,
            "node",
            UserIdentity { uid, gid },
        ));
        server
    }

    fn ask(server: &mut ServerState, peer: PeerId, request: Request) -> Reply {
        let actions = server.request(RequestId { peer, tag: 1 }, request, MonotonicTime(0));
        let [Action::Reply { reply, .. }, ..] = actions.as_slice() else {
            panic!("{actions:?}")
        };
        reply.clone()
    }

    #[test]
    fn root_the_servers_user_and_users_of_jobs_may_attach_tools() {
        for (identity, welcome) in [(ROOT, true), (SERVER, true), (OWNER, true), (OTHER, false)] {
            let mut server = server();
            server.guard(SERVER, []);
            let peer = PeerInfo {
                pid: None,
                release: "4.2.2".into(),
            };
            let entrance = server.check_admission(
                ConnectionKind::Tool,
                &proc("tool", 0),
                (identity, Arc::default()),
                (peer, Vec::new()),
            );
            assert_eq!(entrance == AdmissionCheck::Open, welcome, "{entrance:?}");
        }
    }

    #[test]
    fn a_name_is_somebodys_until_they_leave_and_tools_are_counted() {
        let mut server = server();
        let taken = |proc: &Proc| Err(ConnectionRefusal::NameTaken(proc.clone()));
        let (of_job, tool, second) = (proc("job", 7), proc("tool", 0), proc("tool", 1));
        assert_eq!(server.admit_tool(&of_job, OWNER), taken(&of_job));
        let peer = server.admit_tool(&tool, OWNER).unwrap();
        assert_eq!(server.admit_tool(&tool, OWNER), taken(&tool));
        assert_eq!(
            server.admit_tool(&second, ROOT),
            taken(&second),
            "a namespace has one user"
        );
        server.admit_tool(&second, OWNER).unwrap();
        server.admit_tool(&proc("third", 0), ROOT).unwrap();
        let fourth = proc("fourth", 0);
        assert_eq!(
            server.admit_tool(&fourth, ROOT),
            Err(ConnectionRefusal::TooManyTools { max: 3 })
        );
        // Who has finalized and comes back before its connection is seen to end keeps its new name.
        assert_eq!(
            ask(&mut server, peer, Request::Finalize).status(),
            code::PMIX_SUCCESS
        );
        server.admit_tool(&tool, OWNER).unwrap();
        assert_eq!(server.disconnected(peer, MonotonicTime(0)), []);
        assert_eq!(server.admit_tool(&tool, OWNER), taken(&tool));
    }

    #[test]
    fn a_job_takes_its_name_from_a_tool() {
        let mut server = server();
        let peer = server.admit_tool(&proc("next", 0), OTHER).unwrap();
        let UserIdentity { uid, gid } = OWNER;
        server.add_job(JobSpec::new(
            Nspace::new("next").unwrap(),
            1,
            "node",
            UserIdentity { uid, gid },
        ));
        assert_eq!(
            ask(&mut server, peer, Request::JobData).status(),
            code::PMIX_ERR_INIT
        );
        assert_eq!(server.identity(&proc("next", 0)), Some(OWNER));
        server.admit(&proc("next", 0), OWNER).unwrap();
        assert_eq!(server.disconnected(peer, MonotonicTime(0)), []);
        assert_eq!(
            server.life(&proc("next", 0)),
            Some(crate::job::ProcPhase::Connected(1))
        );
    }

    #[test]
    fn a_tool_has_data_of_its_own_and_leaves_nothing_behind() {
        let mut server = server();
        let tool = proc("tool", 0);
        let peer = server.admit_tool(&tool, OWNER).unwrap();
        let Reply::JobData(info) = ask(&mut server, peer, Request::JobData) else {
            panic!("no job data")
        };
        assert_eq!(info.nspace, tool.nspace);
        let of_rank = |entry: &JobEntry| match entry {
            JobEntry::Rank(Rank(0), kvals) => {
                kvals.contains(&Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(0)))
            }
            _ => false,
        };
        assert!(info.entries.iter().any(of_rank), "{info:?}");
        let kvals = vec![Kval::new(KEY, Value::Bool(true))];
        let commit = Request::Commit(vec![Commit {
            scope: Scope::Global,
            kvals,
        }]);
        assert_eq!(ask(&mut server, peer, commit).status(), code::PMIX_SUCCESS);
        assert!(server.modex.has(&tool, None));
        assert_eq!(
            server.disconnected(peer, MonotonicTime(0)),
            [Action::Upcall(Upcall::ToolLeft(tool.clone()))]
        );
        assert!(!server.modex.has(&tool, None));
        assert_eq!((server.identity(&tool), server.counts().peers), (None, 0));
    }

    #[test]
    fn values_of_other_users_are_not_given_to_tools() {
        let get = |of: &Proc| Request::Get {
            proc: of.clone(),
            infos: Vec::new(),
            key: Some("pmix.job.size".into()),
        };
        let job = Proc::all(Nspace::new("job").unwrap());
        for (identity, status) in [
            (OWNER, code::PMIX_SUCCESS),
            (ROOT, code::PMIX_SUCCESS),
            (SERVER, code::PMIX_ERR_NO_PERMISSIONS),
        ] {
            let mut server = server();
            let peer = server.admit_tool(&proc("tool", 0), identity).unwrap();
            assert_eq!(
                ask(&mut server, peer, get(&job)).status(),
                status,
                "{identity}"
            );
            let unknown: Status = ask(&mut server, peer, get(&proc("nobody", 0))).status();
            assert_eq!(unknown, code::PMIX_ERR_NOT_FOUND);
        }
    }
}
