//! Groups of local procs: from requests and events to the coordinator's decisions, and back.
mod names;
mod reply;
mod status;

pub use self::status::GroupStatus;
pub(super) use self::{
    names::{ProcNames, each_job, group_value},
    status::{groups_of_user, query_groups},
};
use super::{
    Action, Purpose, RequestId, ServerContext, ServerState, Upcall,
    control::ControlRequester,
    data::timeout,
    policy_gate::{is_formed, named_in},
};
use crate::{
    MonotonicTime,
    fence::{Collect, FenceArrival},
    group::{
        self, AnnouncedGroup, ConstructRequest, ConstructRole, FailureResponse, GroupAction,
        GroupCall, GroupError, GroupKey, GroupName, GroupOperation, GroupRefusal, Groups,
        HostGroupAnswer, ServerId,
    },
    server_message::InterServerMessage,
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Infos, NamedProcs, Nspace, Proc, Range, RankData, Reply, Request, Status, Value,
    code, key,
};
use std::sync::Arc;

// A decision of the coordinator concerns the values of members, events, and the replies to
// participants. The functions that carry one out are therefore on `ServerState`.
impl ServerState {
    /// Gives this server the number that its network has assigned: greater than an earlier one, after
    /// which all other servers have left.
    pub fn enroll(&mut self, id: ServerId) {
        self.groups.enroll(id);
        self.data.enroll(id);
    }

    /// Adds another server.
    pub fn server_joined(&mut self, server: ServerId) -> Vec<Action> {
        let mut actions = self.with_groups(|groups| groups.server_joined(server));
        actions.extend(self.publications.servers_changed(&self.groups, None));
        actions
    }

    /// Removes another server, after everything that it sent has been received.
    pub fn server_left(&mut self, server: ServerId, now: MonotonicTime) -> Vec<Action> {
        let jobs = self.groups.jobs_at(server);
        let mut actions = self.with_groups(|groups| groups.server_left(server, now));
        for nspace in jobs {
            actions.extend(self.servers_changed(&nspace, Some(server)));
        }
        let left = Some(server);
        actions.extend(self.publications.servers_changed(&self.groups, left));
        actions.extend(self.requests_of_left(server, now));
        actions
    }

    /// Continues what depends on the servers that have procs of a job. `lost` has none any more.
    pub(super) fn servers_changed(
        &mut self,
        nspace: &Nspace,
        lost: Option<ServerId>,
    ) -> Vec<Action> {
        self.data
            .servers_changed(&self.clients, &self.groups, nspace, lost)
    }

    /// Handles the host environment's answer to an [`Upcall::Group`].
    pub fn group_answered(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        answer: Result<HostGroupAnswer, Status>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.with_groups(|groups| groups.host_answered(key, operation, answer, now))
    }

    /// Carries out a permitted group request.
    pub(super) fn group(
        &mut self,
        to: RequestId,
        source: Proc,
        request: Request,
        now: MonotonicTime,
    ) -> Vec<Action> {
        match self.group_call(to, source, request, None, now) {
            Ok(steps) => self.carry_out(steps),
            Err(error) => vec![super::reply(to, error.status())],
        }
    }

    /// Refuses a group request and reports that to the other participants.
    pub(super) fn refuse_group(
        &mut self,
        to: RequestId,
        request: Request,
        refusal: GroupRefusal,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let status = refusal.status;
        match self.group_call(to, refusal.proc.clone(), request, Some(refusal), now) {
            Ok(steps) => self.carry_out(steps),
            // An invalid request starts no collective, so there are no participants to notify.
            Err(_) => vec![super::reply(to, status)],
        }
    }

    fn group_call(
        &mut self,
        to: RequestId,
        proc: Proc,
        request: Request,
        refusal: Option<GroupRefusal>,
        now: MonotonicTime,
    ) -> Result<Vec<GroupAction>, GroupError> {
        let key = |server: &ServerState, name| {
            Ok(GroupKey {
                uid: server.clients.uid_of(&proc),
                name: GroupName::Called(group::name(name)?),
            })
        };
        let (key, construct, infos, timeout) = match request {
            Request::GroupConstruct {
                group,
                procs,
                directives,
            } => {
                let key = key(self, group)?;
                let infos = self.infos_for_host(&proc, &directives);
                let procs = self.names().members_named(key.uid, procs);
                let group::ParsedConstruct {
                    mut construct,
                    timeout,
                } = group::read(&proc, procs, directives)?;
                self.add_contribution(&proc, &mut construct)?;
                (key, Some(Arc::new(construct)), infos, timeout)
            }
            // Releases from 4.2.4 on list the members as well, which the server knows.
            Request::GroupDestruct {
                group, directives, ..
            } => {
                let infos = self.infos_for_host(&proc, &directives);
                (key(self, group)?, None, infos, group::timeout(&directives)?)
            }
            Request::GroupLeave { group, .. } => {
                let key = key(self, group)?;
                return Ok(self.groups.leave(to, &key, &proc, now));
            }
            // Callers pass only the requests above.
            _ => return Ok(Vec::new()),
        };
        Ok(self.groups.call(
            GroupCall {
                to,
                key,
                proc,
                construct,
                infos,
                timeout,
                refusal,
            },
            now,
        ))
    }

    /// Returns the infos of a call for the host environment, if the caller's job is on several nodes.
    /// Those for other members are among the contributions.
    fn infos_for_host(&self, proc: &Proc, directives: &[Info]) -> Vec<Info> {
        if !self.groups.has_other_nodes(&proc.nspace) {
            return Vec::new();
        }
        let for_members = [key::PMIX_GROUP_INFO, key::PMIX_PROC_INFO_ARRAY];
        let is_for_host = |info: &&Info| !for_members.iter().any(|key| info.key == *key);
        directives.iter().filter(is_for_host).cloned().collect()
    }

    /// Adds the proc's values and job to its contribution, for procs at other servers. Values in
    /// the request that are not committed yet are committed.
    fn add_contribution(
        &mut self,
        proc: &Proc,
        construct: &mut group::ConstructRequest,
    ) -> Result<(), GroupError> {
        construct.job = self
            .clients
            .job(&proc.nspace)
            .map(|job| job.info.initial().clone());
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.data.add_values(ctx, &self.groups, proc, construct)
    }

    /// Returns the view in which names of procs are looked up.
    pub(super) fn names(&self) -> ProcNames<'_> {
        ProcNames::new(&self.clients, &self.groups)
    }

    /// Returns the group that an event is about. Without a source or a name it is about none that a
    /// server could find.
    fn group_of(&self, event: &Event) -> Option<GroupKey> {
        let source = event.source.as_ref()?;
        let Value::String(Some(name)) = event.infos.value_of(key::PMIX_GROUP_ID)? else {
            return None;
        };
        let owner = self.clients.identity(source);
        let owner = owner.or_else(|| self.groups.owner_of(&source.nspace));
        Some(GroupKey {
            uid: owner.map_or_else(|| self.clients.uid_of(source), |owner| owner.uid),
            name: GroupName::Called(name.clone()),
        })
    }

    /// Returns the group that an event announces to local members, if this server does not know it yet.
    pub(super) fn unknown_group(&self, event: &Event) -> Option<GroupKey> {
        if event.code != code::PMIX_GROUP_CONSTRUCT_COMPLETE || !is_formed(event) {
            return None;
        }
        let is_local = |member: &Proc| self.clients.life(member).is_some();
        let key = self.group_of(event)?;
        let is_unknown = self.groups.members(&key).is_none();
        (is_unknown && named_in(event).iter().any(is_local)).then_some(key)
    }

    /// Watches the procs that an event invites to a group for their end.
    pub(super) fn watch_invited(&mut self, event: &Event) -> Vec<Action> {
        if event.code != code::PMIX_GROUP_INVITED || self.group_of(event).is_none() {
            return Vec::new();
        }
        let invited = named_in(event);
        self.with_groups(|groups| groups.watch(&invited))
    }

    /// Handles an event by which procs form a group by invitation, or respond to a failure in one.
    pub(super) fn group_event(&mut self, event: &Event, now: MonotonicTime) -> Vec<Action> {
        let (Some(source), Some(key)) = (&event.source, self.group_of(event)) else {
            return Vec::new();
        };
        let steps = match event.code {
            code::PMIX_GROUP_INVITED => {
                // No group is recorded yet.
                return self.events.notify_of_absence(
                    ServerContext::new(&self.clients, &self.settings),
                    source,
                    &named_in(event),
                );
            }
            // The event reports failures, too, and then there is no group to record.
            code::PMIX_GROUP_CONSTRUCT_COMPLETE if !is_formed(event) => return Vec::new(),
            code::PMIX_GROUP_CONSTRUCT_COMPLETE => {
                let context_id = event
                    .infos
                    .value_of(key::PMIX_GROUP_CONTEXT_ID)
                    .and_then(Value::as_u64);
                self.groups.announce(
                    &key,
                    source,
                    AnnouncedGroup {
                        members: named_in(event),
                        context_id,
                    },
                    now,
                )
            }
            code::PMIX_GROUP_CONSTRUCT_ABORT => {
                self.groups
                    .resolve_failure(&key, source, FailureResponse::Abort, now)
            }
            code::PMIX_GROUP_MEMBERSHIP_UPDATE => {
                self.groups
                    .resolve_failure(&key, source, FailureResponse::Continue, now)
            }
            code::PMIX_GROUP_LEADER_SELECTED => {
                self.groups
                    .resolve_failure(&key, source, FailureResponse::Lead, now)
            }
            code::PMIX_GROUP_LEFT => {
                let notified = self.names().members_reached(event, &key);
                self.groups.part(&key, source, notified, now)
            }
            _ => return Vec::new(),
        };
        self.carry_out(steps)
    }

    /// Returns true for a job-control request for a context id. The leader of an invitation sends
    /// it without targets (`PMIX_GROUP_ASSIGN_CONTEXT_ID`), because no server forms such a group.
    pub(super) fn is_context_id_request(request: &Request) -> bool {
        let Request::JobControl {
            targets,
            directives,
        } = request
        else {
            return false;
        };
        targets.is_empty() && directives.is_true(key::PMIX_GROUP_ASSIGN_CONTEXT_ID)
    }

    pub(super) fn allot_context_id(&mut self, to: RequestId) -> Vec<Action> {
        let number = Info::new(
            key::PMIX_GROUP_CONTEXT_ID,
            Value::Size(self.groups.context_id()),
        );
        let reply = Reply::Infos {
            status: code::PMIX_SUCCESS,
            infos: vec![number],
        };
        vec![Action::Reply { to, reply }]
    }

    /// Handles a connect or a disconnect.
    pub(super) fn connect(
        &mut self,
        purpose: Purpose,
        by: ControlRequester,
        source: Proc,
        procs: Vec<Proc>,
        infos: &[Info],
    ) -> Vec<Action> {
        let procs = NamedProcs::from(procs);
        // Procs of this server alone need no coordinator.
        if procs
            .iter()
            .any(|proc| self.groups.is_at_others(&proc.nspace))
        {
            return self.connect_across(purpose, by, source, procs, infos);
        }
        let arrival = FenceArrival {
            proc: source,
            request: by.to,
            collect: Collect::Nothing,
            at: by.at,
            deadline: timeout(infos).map(|after| by.at + after),
        };
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.data
            .connect(ctx, &self.groups, purpose, procs, arrival)
    }

    /// Connects or disconnects procs of several servers. The coordinator decides about them as
    /// about a group, and its decision carries the job data that each server needs.
    fn connect_across(
        &mut self,
        purpose: Purpose,
        ControlRequester { to, at, .. }: ControlRequester,
        proc: Proc,
        procs: NamedProcs,
        infos: &[Info],
    ) -> Vec<Action> {
        let uid = self.clients.uid_of(&proc);
        let may_name = |named: &Proc| match self.groups.owner_elsewhere(&named.nspace) {
            Some(owner) => owner.uid == uid,
            None => self.names().may_see(&proc, &named.nspace),
        };
        // As in a fence, jobs of other users look like unknown ones.
        if !procs.iter().all(may_name) {
            return vec![super::reply(to, code::PMIX_ERR_INVALID_NAMESPACE)];
        }
        // A proc must not connect others without itself.
        if !procs.iter().any(|named| named.covers(&proc)) {
            return vec![super::reply(to, code::PMIX_ERR_BAD_PARAM)];
        }
        let construct = match purpose {
            Purpose::Connect => {
                // Each caller names all procs, as the leaders of a group do.
                let mut construct = ConstructRequest::of(ConstructRole::Leader(procs.clone()));
                if let Err(error) = self.add_contribution(&proc, &mut construct) {
                    return vec![super::reply(to, error.status())];
                }
                Some(Arc::new(construct))
            }
            // As for a destruct, the coordinator needs no more than the key.
            Purpose::Disconnect | Purpose::Fence => None,
        };
        let key = GroupKey {
            uid,
            name: GroupName::Connected(procs),
        };
        let steps = self.groups.call(
            GroupCall {
                to,
                key,
                proc,
                construct,
                // The procs of several nodes connect by a fence.
                infos: Vec::new(),
                timeout: timeout(infos),
                refusal: None,
            },
            at,
        );
        self.carry_out(steps)
    }

    /// Applies a change to the groups and returns the actions that follow.
    pub(super) fn with_groups(
        &mut self,
        what: impl FnOnce(&mut Groups) -> Vec<GroupAction>,
    ) -> Vec<Action> {
        let steps = what(&mut self.groups);
        self.carry_out(steps)
    }

    pub(super) fn carry_out(&mut self, steps: Vec<GroupAction>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut notified = None;
        for step in steps {
            match step {
                GroupAction::Send { to, message } => actions.push(Action::Send {
                    to,
                    message: InterServerMessage::Group(message),
                }),
                GroupAction::AskHost(request) => {
                    actions.push(Action::Upcall(Upcall::Group(request)));
                }
                GroupAction::Answer { to, answer } => {
                    actions.push(reply::group_reply(&self.clients, to, answer, &mut notified))
                }
                GroupAction::Learn(formed) => {
                    // Values of local procs are in the store since they were committed.
                    let elsewhere = |data: &&RankData| {
                        !self.clients.has_job(&data.proc.nspace)
                            || self.clients.is_elsewhere(&data.proc)
                    };
                    let data: Vec<RankData> =
                        formed.data.iter().filter(elsewhere).cloned().collect();
                    data.into_iter().for_each(|data| self.data.learn(data));
                    let has_job = |procs: &&[Proc]| {
                        procs
                            .first()
                            .is_some_and(|proc| self.clients.has_job(&proc.nspace))
                    };
                    let of_jobs = formed.members.of_each_job().filter(has_job).flatten();
                    let here: Vec<&Proc> = of_jobs
                        .filter(|member| !self.clients.is_elsewhere(member))
                        .collect();
                    for member in here {
                        let ctx = ServerContext::new(&self.clients, &self.settings);
                        actions.extend(self.data.share(ctx, &self.groups, member));
                    }
                }
                GroupAction::Lost { proc, uid } => actions.extend(self.events.notify_of_end(
                    ServerContext::new(&self.clients, &self.settings),
                    &proc,
                    UserScope::User(uid),
                )),
                GroupAction::Forget(jobs) => jobs
                    .iter()
                    .for_each(|nspace| self.data.drop_values_of_job(nspace)),
                GroupAction::RefuseMessage { from, refusal } => {
                    actions.push(Action::MessageRefused { from, refusal });
                }
                GroupAction::Notify { procs, code, infos } => {
                    let targets = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs(procs));
                    let infos = [vec![targets], infos].concat();
                    let event = Event {
                        code,
                        source: None,
                        range: Range::Custom,
                        infos,
                    };
                    // An event that is too large is left out. The decision itself stands without
                    // it.
                    actions.extend(self.notify(event).unwrap_or_default());
                }
            }
        }
        actions
    }
}
