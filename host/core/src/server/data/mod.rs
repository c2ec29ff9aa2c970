//! Commit, get, fence and connect: exchange of values between procs, and collectives of them.
mod connect;
mod node_exchange;
mod over_servers;
mod remote_gets;

pub use self::{node_exchange::ModexId, remote_gets::ModexMessage};
use self::{node_exchange::NodeExchange, remote_gets::RemoteGets};
use serde::{Deserialize, Serialize};

use super::{
    Action, Collect, Completeness, FenceContribution, FenceId, LocallyComplete, PeerId, Purpose,
    RequestId, ServerContext, StateSettings, Upcall,
    clients::ClientTable,
    groups::{ProcNames, group_value},
    reply,
};
use crate::{
    MonotonicTime,
    assemblage::Assemblages,
    directives,
    fence::{FenceArrival, FenceReach, Fences, Participants},
    group::{ConstructRequest, GroupError, Groups, ServerId},
    job::{NodeRoute, ProcNode, ProcPhase, TrackedJob},
    job_values::JobValues,
    modex::{Modex, PutShare},
    put_values::SoughtValue,
    quota::{Quota, QuotaReport, unreserved},
    server_fences::{FenceLimits, FenceRound, ServerFences},
};
use peal_model::{
    Commit, Info, Infos, Key, NamedProcs, Nspace, Proc, Rank, RankData, Reply, Scope, SharedData,
    Status, Text, code, key, rank,
};
use std::{collections::BTreeSet, time::Duration};

/// The status of a connect with a proc that has ended.
const UNCONNECTABLE: Status = code::PMIX_ERR_LOST_CONNECTION;

/// A get of a client.
#[derive(Debug)]
pub(super) struct GetRequest<'a> {
    /// The request that awaits a reply.
    pub(super) to: RequestId,
    /// The requester.
    pub(super) source: &'a Proc,
    /// The proc that the values are of.
    pub(super) proc: Proc,
    /// The key; none for all values.
    pub(super) key: Option<Text>,
    /// The directives.
    pub(super) infos: &'a [Info],
}

/// The values that procs put, the fences and connects that are under way, and the procs that are
/// connected.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DataExchange {
    modex: Modex,
    fences: Fences,
    /// Fences of procs that other servers have, too.
    server_fences: ServerFences,
    assemblages: Assemblages,
    nodes: NodeExchange,
    remote_gets: RemoteGets,
    /// The latest time that a call brought.
    clock: MonotonicTime,
}

fn fence_limits(settings: &StateSettings) -> FenceLimits {
    FenceLimits {
        max_named: settings.max_fence_set_procs,
        max_ahead: settings.max_fences,
        fan_out: settings.fence_fan_out,
    }
}

/// Creation, ends and time.
impl DataExchange {
    /// Creates the state without values and fences.
    pub(super) fn new(settings: &StateSettings) -> DataExchange {
        DataExchange {
            modex: Modex::new(settings.max_put_bytes),
            fences: Fences::new(settings.max_fences),
            server_fences: ServerFences::new(ServerId::default(), fence_limits(settings)),
            assemblages: Assemblages::default(),
            nodes: NodeExchange::default(),
            remote_gets: RemoteGets::default(),
            clock: MonotonicTime::default(),
        }
    }

    pub(super) fn set_limits(&mut self, settings: &StateSettings) {
        self.modex.set_limit(settings.max_put_bytes);
        self.fences.set_limit(settings.max_fences);
        self.server_fences.set_limits(fence_limits(settings));
    }

    /// Returns the memory of the values that procs have put, in bytes.
    pub(super) fn charged_bytes(&self) -> usize {
        self.modex.charged_bytes()
    }

    /// Adds the values of each user to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport, settings: &StateSettings) {
        report.limit(
            Quota::PutBytes,
            settings.max_put_bytes_per_user,
            Some(settings.max_put_bytes_total),
        );
        report.hold(Quota::PutBytes, self.modex.bytes_by_user());
    }

    /// Returns true if a proc has put any value.
    #[cfg(test)]
    pub(super) fn has_values(&self, proc: &Proc) -> bool {
        self.modex.has(proc, None)
    }

    /// Returns the time at which the next get or fence expires.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let held = [
            self.modex.deadline(),
            self.fences.deadline(),
            self.server_fences.deadline(),
            self.remote_gets.deadline(),
        ];
        held.into_iter().flatten().min()
    }

    /// Expires gets and fences.
    pub(super) fn expire(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.clock = now;
        self.remote_gets.expire(now);
        let late = self.modex.expire(now).into_iter();
        let late = late.map(|to| reply(to, code::PMIX_ERR_TIMEOUT));
        let mut actions: Vec<Action> = late.collect();
        let expired = self.fences.expire(now);
        actions.extend(self.fail_fences(ctx.clients, groups, expired, code::PMIX_ERR_TIMEOUT));
        let asked = self.server_fences.tick(groups, now);
        actions.extend(self.carry_out(ctx.clients, groups, asked));
        actions
    }

    /// Forgets the pending gets and fences of a closed connection.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.modex.forget(peer);
        self.fences.forget(peer);
    }

    /// Notes that the host environment has added to the data of a proc.
    pub(super) fn host_data_changed(&mut self, proc: &Proc) {
        self.modex.host_data_changed(proc);
    }

    /// Drops the values of a proc.
    pub(super) fn drop_values(&mut self, proc: &Proc) {
        self.modex.drop_proc(proc);
    }

    /// Drops the values of all procs of a namespace.
    pub(super) fn drop_values_of_job(&mut self, nspace: &Nspace) {
        self.modex.drop_job(nspace);
    }

    /// Removes the data of a job, and answers the requests that wait for its procs.
    pub(super) fn drop_job(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        nspace: &Nspace,
    ) -> Vec<Action> {
        self.modex.drop_job(nspace);
        self.assemblages.drop_job(nspace);
        let unknown = code::PMIX_ERR_INVALID_NAMESPACE;
        let waiting = self.modex.give_up_job(nspace).into_iter();
        let mut actions: Vec<Action> = waiting.map(|to| reply(to, unknown)).collect();
        // Before the local parts are removed: other servers get a status only for those that have
        // not contributed.
        let steps = self.server_fences.drop_job(nspace, groups);
        let gone = self.fences.drop_job(nspace).into_iter();
        actions.extend(
            gone.flat_map(|fence| fence.waiting)
                .map(|to| reply(to, unknown)),
        );
        actions.extend(self.carry_out(clients, groups, steps));
        actions.extend(self.nodes.drop_job(nspace));
        actions.extend(self.drop_remote_gets(nspace));
        actions
    }

    /// Continues the gets, connects and fences that wait for a departed proc, except fences if the
    /// proc may initialize again.
    pub(super) fn proc_departed(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        proc: &Proc,
    ) -> Vec<Action> {
        let mut unanswered = self.modex.give_up(proc);
        let any_rank = Proc::new(proc.nspace.clone(), rank::PMIX_RANK_UNDEF);
        // A get for any rank goes on waiting while another proc of the job may put the value.
        if !clients.may_put(&any_rank) {
            unanswered.extend(self.modex.give_up(&any_rank));
        }
        let mut actions: Vec<Action> = unanswered
            .into_iter()
            .map(|to| reply(to, code::PMIX_ERR_NOT_FOUND))
            .collect();
        actions.extend(self.fail_connects(proc));
        actions.extend(
            self.nodes
                .answer(proc, || values_for_others(&self.modex, proc)),
        );
        actions.extend(self.answer_servers(proc, Some(code::PMIX_ERR_NOT_FOUND)));
        let may_return = clients.life(proc) == Some(ProcPhase::Finalized);
        actions.extend(
            self.gather_complete(clients, groups, |fences| match may_return {
                true => fences.finalized(proc),
                false => fences.leave(proc),
            }),
        );
        actions
    }

    /// Continues the fences that wait for a finalized proc that has terminated.
    pub(super) fn proc_terminated(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        proc: &Proc,
    ) -> Vec<Action> {
        self.gather_complete(clients, groups, |fences| fences.leave(proc))
    }

    /// Removes a proc that restarts from connects, and fails its fences.
    pub(super) fn proc_restarts(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        proc: &Proc,
    ) -> Vec<Action> {
        self.leave_assemblages(proc);
        let failed = self.fences.drop_proc(proc);
        self.fail_fences(clients, groups, failed, code::PMIX_ERR_PROC_RESTART)
    }

    /// Gathers the fences that a change completes.
    fn gather_complete(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        complete: impl FnOnce(&mut Fences) -> Vec<LocallyComplete>,
    ) -> Vec<Action> {
        complete(&mut self.fences)
            .into_iter()
            .flat_map(|complete| self.gather(clients, groups, complete))
            .collect()
    }
}

/// Values.
impl DataExchange {
    /// Stores the values that a proc puts, and answers the gets that wait for them.
    pub(super) fn commit(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        to: RequestId,
        source: &Proc,
        commits: Vec<Commit>,
    ) -> Vec<Action> {
        // The limit is for all procs of the user together.
        let share = put_share(ctx, source);
        match self.modex.commit(source, share, commits) {
            Err(refusal) => {
                vec![
                    reply(to, code::PMIX_ERR_OUT_OF_RESOURCE),
                    Action::PutRefused {
                        proc: source.clone(),
                        refusal,
                    },
                ]
            }
            Ok(waiting) => {
                let local = self.answer_gets(ctx, groups, source, waiting);
                let remote = self
                    .nodes
                    .answer(source, || values_for_others(&self.modex, source));
                let servers = self.answer_servers(source, None);
                std::iter::once(reply(to, code::PMIX_SUCCESS))
                    .chain(local)
                    .chain(remote)
                    .chain(servers)
                    .collect()
            }
        }
    }

    /// Answers pending gets with the data that are now known of a proc.
    fn answer_gets(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        of: &Proc,
        waiting: Vec<RequestId>,
    ) -> Vec<Action> {
        // No answer has to be made if nothing waits for it.
        if waiting.is_empty() {
            return Vec::new();
        }
        let info = info_of(ctx.clients, groups, of, &of.nspace);
        let data = info.map(|info| self.modex.answer(of, || info.of(of)));
        waiting
            .into_iter()
            .map(|to| Action::Reply {
                to,
                reply: found(data.clone()),
            })
            .collect()
    }

    /// Answers a get, or holds it until the value comes.
    pub(super) fn get(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        request: GetRequest<'_>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let GetRequest {
            to,
            source,
            proc,
            key,
            infos,
        } = request;
        let key = match key
            .as_ref()
            .map(|text| text.as_str().and_then(|text| Key::new(text).ok()))
        {
            Some(None) => return vec![reply(to, code::PMIX_ERR_BAD_PARAM)],
            Some(Some(key)) => Some(key),
            None => None,
        };
        if let Some(value) = group_value(groups, source, &proc, key.as_ref(), infos) {
            return vec![Action::Reply {
                to,
                reply: found([value.into()]),
            }];
        }
        let sought = key.map(|key| SoughtValue::new(key, infos));
        if let Some(info) = info_of(ctx.clients, groups, source, &proc.nspace)
            && let Some(data) = self.known_data(&info, &proc, sought.as_ref())
        {
            return vec![Action::Reply {
                to,
                reply: found(data),
            }];
        }
        // Clients of OpenPMIx 5 add `pmix.optional` to gets that they send all the same. They
        // expect an answer at once.
        let now_or_never = infos.is_true(key::PMIX_IMMEDIATE) || infos.is_true(key::PMIX_OPTIONAL);
        // A proc that was lost with its server puts nothing any more.
        let route = ctx.clients.route_to_rank(&proc);
        let elsewhere = route.is_some_and(|_| !groups.has_ended(&proc));
        // Only the host environment sets reserved keys, and it has done so before the procs start.
        let may_come = (elsewhere || ctx.clients.may_put(&proc))
            && !sought
                .as_ref()
                .is_some_and(|sought| sought.key.is_reserved());
        let hidden = sought
            .as_ref()
            .is_some_and(|sought| self.modex.hides(&proc, sought));
        if now_or_never || !may_come || hidden {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        }
        if self.modex.held_by(to.peer) >= ctx.settings.max_pending_gets {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        let deadline = now + timeout(infos).unwrap_or(ctx.settings.get_timeout);
        self.clock = self.clock.max(now);
        let asked = match route {
            Some(NodeRoute::Servers) => {
                self.ask_server(groups, &proc, sought.as_ref(), deadline, now)
            }
            Some(NodeRoute::HostEnvironment) if self.nodes.request(&proc) => {
                vec![Action::Upcall(Upcall::DirectModex(proc.clone()))]
            }
            Some(NodeRoute::HostEnvironment) | None => Vec::new(),
        };
        self.modex.hold(&proc, sought, to, deadline);
        asked
    }

    /// Stores the values of a proc of another node, and answers the gets that wait for them. The
    /// other node has sent all that the proc has put, so gets of further values fail.
    pub(super) fn modex_received(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        proc: &Proc,
        values: Result<Vec<RankData>, Status>,
    ) -> Vec<Action> {
        self.nodes.received(proc);
        let missing = match values {
            Ok(values) => {
                let learned = values.into_iter().filter(|data| data.proc == *proc);
                learned.for_each(|data| self.modex.learn(data.into()));
                code::PMIX_ERR_NOT_FOUND
            }
            Err(status) => status,
        };
        let answered = self.modex.answered(proc);
        let mut actions = self.answer_gets(ctx, groups, proc, answered);
        let unanswered = self.modex.give_up(proc).into_iter();
        actions.extend(unanswered.map(|to| reply(to, missing)));
        actions
    }

    /// Answers the request of another node for the values of a local proc, at once or when the proc
    /// has put some.
    pub(super) fn modex_request(
        &mut self,
        clients: &ClientTable,
        to: ModexId,
        proc: Proc,
    ) -> Vec<Action> {
        if let Some(values) = values_for_others(&self.modex, &proc) {
            return vec![Action::ModexReply {
                to,
                values: Ok(values),
            }];
        }
        if clients.may_put(&proc) {
            return self.nodes.wait(proc, to).into_iter().collect();
        }
        vec![Action::ModexReply {
            to,
            values: Err(code::PMIX_ERR_NOT_FOUND),
        }]
    }

    /// Returns all data of a proc, or of a job for its wildcard rank.
    pub(super) fn refresh(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        to: RequestId,
        source: &Proc,
        proc: &Proc,
    ) -> Vec<Action> {
        if !ProcNames::new(clients, groups).may_see(source, &proc.nspace) {
            return vec![reply(to, code::PMIX_ERR_NO_PERMISSIONS)];
        }
        let Some(info) = info_of(clients, groups, source, &proc.nspace) else {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        };
        let kvals = self.modex.answer(proc, || info.of(proc)).into_inner().kvals;
        vec![Action::Reply {
            to,
            reply: Reply::Kvals {
                status: code::PMIX_SUCCESS,
                kvals,
            },
        }]
    }

    /// Returns all data of a proc or job if they include the sought value; without a key, if the
    /// proc has put anything. An undefined rank means any proc that has the value.
    fn known_data(
        &mut self,
        info: &JobValues,
        proc: &Proc,
        sought: Option<&SoughtValue>,
    ) -> Option<Vec<SharedData>> {
        let found = if proc.rank == rank::PMIX_RANK_UNDEF {
            info.procs().find(|proc| self.modex.has(proc, sought))
        } else {
            let knows = match sought {
                Some(sought) => self.modex.has(proc, Some(sought)) || info.has(proc, &sought.key),
                // The requester has the host environment's values of a proc already.
                None => self.modex.has(proc, None) || !proc.rank.is_valid(),
            };
            knows.then(|| proc.clone())
        };
        if let Some(proc) = found {
            return Some(vec![self.modex.answer(&proc, || info.of(&proc))]);
        }
        // Clients of OpenPMIx 4.2 use the wildcard rank for the host environment's values of procs
        // of other jobs.
        let of_ranks = proc.rank == rank::PMIX_RANK_WILDCARD && info.any_rank_has(&sought?.key);
        of_ranks.then(|| info.all().map(SharedData::from).collect())
    }

    /// Adds a proc's values to its contribution to a group, for procs at other servers. Values in
    /// the request that are not committed yet are committed.
    pub(super) fn add_values(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        proc: &Proc,
        construct: &mut ConstructRequest,
    ) -> Result<(), GroupError> {
        if let Some(RankData { kvals, .. }) = construct.data.take() {
            // No local get can wait for values of remote scope.
            let commit = Commit {
                scope: Scope::Remote,
                kvals,
            };
            let share = put_share(ctx, proc);
            self.modex
                .commit(proc, share, vec![commit])
                .map_err(|_| GroupError::TooMuch)?;
        }
        // Procs of this server read the values of each other from its store.
        construct.data = if groups.is_alone() && !groups.has_other_nodes(&proc.nspace) {
            None
        } else {
            values_for_others(&self.modex, proc)
        };
        Ok(())
    }

    /// Stores values of procs at other servers.
    pub(super) fn learn(&mut self, data: RankData) {
        self.modex.learn(data.into());
    }

    /// Makes the values of a local proc visible to procs at other servers, and answers the gets
    /// that wait for them.
    pub(super) fn share(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        member: &Proc,
    ) -> Vec<Action> {
        let waiting = self.modex.share(member);
        self.answer_gets(ctx, groups, member, waiting)
    }
}

/// Collectives.
impl DataExchange {
    /// Adds a proc to a collective of these procs. Starts the collective if it is the first.
    pub(super) fn join_collective(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        purpose: Purpose,
        procs: NamedProcs,
        arrival: FenceArrival,
    ) -> Vec<Action> {
        let source = &arrival.proc;
        let to = arrival.request;
        // Each call may start a fence of its own, so a proc could start any number.
        if self.fences.is_busy(source) {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        // Participants are computed once per collective, not per arrival: jobs are large.
        self.clock = self.clock.max(arrival.at);
        let id = match self.fences.awaiting(purpose, &procs, source) {
            Some(id) => id,
            None => match participants(ctx.clients, groups, source, procs, purpose) {
                Ok(Participants {
                    attendance: Completeness::Partial,
                    ..
                }) if purpose == Purpose::Connect => {
                    // Such a connect cannot succeed any more, so it is not started.
                    return vec![reply(to, UNCONNECTABLE)];
                }
                Ok(participants) => {
                    let reach = match self.reach_of(groups, &participants) {
                        Ok(reach) => reach,
                        Err(status) => return vec![reply(to, status)],
                    };
                    self.start_fence(purpose, participants, reach)
                }
                Err(status) => return vec![reply(to, status)],
            },
        };
        match self.fences.arrive(id, arrival) {
            Some(complete) => self.gather(ctx.clients, groups, complete),
            None => Vec::new(),
        }
    }

    /// Continues a fence whose local procs have all arrived.
    fn gather(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        complete: LocallyComplete,
    ) -> Vec<Action> {
        if complete.reach == FenceReach::ThisServer {
            // Procs of this server read the values of each other from its store.
            return self.gathered(clients, complete.id, Ok(FenceContribution::default()));
        }
        let data = match complete.collect {
            Collect::Data => complete
                .arrived
                .iter()
                .filter_map(|proc| self.modex.for_others(proc))
                .collect(),
            // The other servers still learn that all have arrived here.
            Collect::Nothing => Vec::new(),
        };
        let contribution = FenceContribution {
            data,
            attendance: complete.attendance,
        };
        match complete.reach {
            FenceReach::Servers(generation) => {
                let round = FenceRound {
                    procs: complete.procs,
                    generation,
                };
                let now = self.clock;
                let steps =
                    self.server_fences
                        .contribute(&round, complete.id, contribution, groups, now);
                self.carry_out(clients, groups, steps)
            }
            FenceReach::ThisServer | FenceReach::HostEnvironment => vec![Action::Gather {
                id: complete.id,
                purpose: complete.purpose,
                procs: complete.procs,
                contribution,
            }],
        }
    }

    /// Completes a fence after all servers have arrived or gathering failed. Stores the data of
    /// other servers and answers all waiting procs.
    pub(super) fn gathered(
        &mut self,
        clients: &ClientTable,
        id: FenceId,
        outcome: Result<FenceContribution, Status>,
    ) -> Vec<Action> {
        let Some(finished) = self.fences.finish(id) else {
            // The fence has expired or failed in the meantime.
            return Vec::new();
        };
        let status = match outcome {
            Err(status) => status,
            Ok(FenceContribution { data, attendance }) => {
                // Stored before the replies, because a get may follow a reply at once. A host
                // environment returns the values of local procs, too.
                data.into_iter()
                    .filter(|data| clients.life(&data.values.proc).is_none())
                    .for_each(|data| self.modex.learn(data));
                match attendance.and(finished.attendance) {
                    Completeness::Full => code::PMIX_SUCCESS,
                    Completeness::Partial => code::PMIX_ERR_PARTIAL_SUCCESS,
                }
            }
        };
        match finished.purpose {
            // The last arrival is answered first, so that it reaches the next fence ahead of the
            // others, which waited for it in this one.
            Purpose::Fence => finished
                .waiting
                .into_iter()
                .rev()
                .map(|to| reply(to, status))
                .collect(),
            Purpose::Connect => self.complete_connect(clients, finished, status),
            Purpose::Disconnect => self.complete_disconnect(finished, status),
        }
    }
}

/// Returns the local procs of a set that can still arrive, and whether some cannot. A finalized
/// proc can arrive while its process lives, where the purpose allows it.
///
/// # Errors
///
/// Fails for unknown jobs, jobs of other users and unknown ranks, because such a fence could
/// never end. Jobs of other servers are allowed if the source shares a group with them.
fn participants(
    clients: &ClientTable,
    groups: &Groups,
    source: &Proc,
    procs: NamedProcs,
    purpose: Purpose,
) -> Result<Participants, Status> {
    let mut expected = BTreeSet::new();
    let mut attendance = Completeness::Full;
    let mut route = None;
    for named in &procs {
        // The servers of these procs wait for them.
        if groups.is_elsewhere(&named.nspace) && groups.meets(source, named) {
            route = route.max(Some(NodeRoute::Servers));
            continue;
        }
        let is_job = clients.has_job(&named.nspace);
        if !is_job
            && named.nspace == source.nspace
            && clients.tool_identity(&source.nspace).is_some()
        {
            // A tool or singleton is the only proc of its namespace.
            expected.insert(source.clone());
            continue;
        }
        // Jobs of other users look like unknown ones.
        let job = clients
            .job(&named.nspace)
            .filter(|_| ProcNames::new(clients, groups).may_see(source, &named.nspace));
        let job = job.ok_or(code::PMIX_ERR_INVALID_NAMESPACE)?;
        // The way through the host environment reaches all: its servers are those of one job.
        route = route.max(clients.route_to(named));
        let ranks = ranks_of(job, named.rank).ok_or(code::PMIX_ERR_BAD_PARAM)?;
        for (rank, life) in ranks {
            if can_arrive(life, purpose) {
                expected.insert(Proc::new(named.nspace.clone(), rank));
            } else {
                attendance = Completeness::Partial;
            }
        }
    }
    if !expected.contains(source) {
        return Err(code::PMIX_ERR_BAD_PARAM);
    }
    Ok(Participants {
        procs,
        expected,
        attendance,
        route,
    })
}

/// Returns the values that a proc has put for procs of other nodes.
fn values_for_others(modex: &Modex, proc: &Proc) -> Option<RankData> {
    modex.for_others(proc).map(|snapshot| snapshot.values)
}

/// Returns true if a proc in this phase can still arrive at a collective.
fn can_arrive(life: ProcPhase, purpose: Purpose) -> bool {
    match life {
        ProcPhase::Expected | ProcPhase::Connected(_) => true,
        ProcPhase::Finalized => purpose.awaits_finalized(),
        ProcPhase::Terminated | ProcPhase::Lost => false,
    }
}

/// Returns the user that is charged for the values of a proc, and the share of that user.
fn put_share(ctx: ServerContext<'_>, proc: &Proc) -> PutShare {
    let uid = ctx.clients.uid_of(proc);
    let total = ctx.settings.max_put_bytes_total;
    let (max_bytes, max_total_bytes) = if ctx.clients.is_bounded(uid) {
        (ctx.settings.max_put_bytes_per_user, unreserved(total))
    } else {
        (usize::MAX, total)
    };
    PutShare {
        uid,
        max_bytes,
        max_total_bytes,
    }
}

/// Returns the job data of a local job, or of a remote job with a proc in a group with the
/// source.
fn info_of(
    clients: &ClientTable,
    groups: &Groups,
    source: &Proc,
    nspace: &Nspace,
) -> Option<JobValues> {
    let own = clients.job(nspace).map(|job| job.info.clone());
    own.or_else(|| {
        let shared = groups.shared_job(source, nspace)?;
        Some(JobValues::from(shared.clone()))
    })
}

fn ranks_of(job: &TrackedJob, named: Rank) -> Option<Vec<(Rank, ProcPhase)>> {
    let all = || job.procs.iter().collect();
    match named {
        // Only the procs of this node are awaited here.
        rank::PMIX_RANK_WILDCARD | rank::PMIX_RANK_LOCAL_PEERS | rank::PMIX_RANK_LOCAL_NODE => {
            Some(all())
        }
        one if job.spec.node_of(one) == Some(ProcNode::Other) => Some(Vec::new()),
        one => job.procs.get(one).map(|life| vec![(one, life)]),
    }
}

fn found(data: impl IntoIterator<Item = SharedData>) -> Reply {
    Reply::Data {
        status: code::PMIX_SUCCESS,
        ranks: data.into_iter().collect(),
    }
}

/// Returns the timeout of a request. [`ServerState::request`](super::ServerState::request) has
/// validated it.
pub(super) fn timeout(infos: &[Info]) -> Option<Duration> {
    directives::timeout(infos).ok().flatten()
}

/// Returns the arrival of a proc at a fence.
pub(super) fn fence_arrival(
    to: RequestId,
    source: Proc,
    infos: &[Info],
    now: MonotonicTime,
) -> FenceArrival {
    let collect = if infos.is_true(key::PMIX_COLLECT_DATA) {
        Collect::Data
    } else {
        Collect::Nothing
    };
    FenceArrival {
        proc: source,
        request: to,
        collect,
        at: now,
        deadline: timeout(infos).map(|after| now + after),
    }
}
