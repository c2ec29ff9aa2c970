//! Groups of local procs: from requests and events to the coordinator's decisions, and back.
use super::{
    Action, RequestId, ServerContext, ServerState,
    group_policy::{is_formed, named_in},
    reply,
};
use crate::{
    MonotonicTime,
    audience::{self, EventTargets},
    group::{
        self, AnnouncedGroup, FailureResponse, Formed, GroupAction, GroupCall, GroupCallResult,
        GroupError, GroupKey, GroupMessage, GroupName, GroupRefusal, Groups, ServerId,
    },
    policy,
    user_scope::UserScope,
};
use peal_model::{
    Commit, DataArray, Event, GroupResult, Info, InfoFlags, Infos, JobInfo, KeyName, Kval,
    NamedProcs, Nspace, Proc, Query, Range, RankData, Reply, Request, Scope, Text, UserIdentity,
    Value, code, key, rank,
};
use std::sync::Arc;

/// The state of a group, for queries and admin requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStatus {
    /// The user that owns the group.
    pub uid: u32,
    /// The name of the group.
    pub name: Text,
    /// The context id, if the group has one.
    pub context_id: Option<u64>,
    /// The members of the group.
    pub members: Vec<Proc>,
}

impl GroupStatus {
    /// Returns the whole state as an info for a query.
    fn to_info(&self) -> Info {
        let infos = [
            Some(Info::new(
                key::PMIX_GROUP_ID,
                Value::String(Some(self.name.clone())),
            )),
            Some(Info::new(key::PMIX_USERID, Value::Uint32(self.uid))),
            self.context_id
                .map(|id| Info::new(key::PMIX_GROUP_CONTEXT_ID, Value::Size(id))),
            Some(Info::new(
                key::PMIX_GROUP_MEMBERSHIP,
                Value::procs(self.members.iter().cloned()),
            )),
        ];
        Info::new(
            key::PMIX_GROUP_INFO,
            Value::DataArray(DataArray::infos(infos.into_iter().flatten())),
        )
    }
}

impl ServerState {
    /// Adds another server.
    pub fn server_joined(&mut self, server: ServerId) -> Vec<Action> {
        self.with_groups(|groups| groups.server_joined(server))
    }

    /// Removes another server, after everything that it sent has been received.
    pub fn server_left(&mut self, server: ServerId, now: MonotonicTime) -> Vec<Action> {
        self.with_groups(|groups| groups.server_left(server, now))
    }

    /// Handles a group message of another server.
    pub fn group_message(
        &mut self,
        from: ServerId,
        message: GroupMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.with_groups(|groups| groups.received(from, message, now))
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
            Err(error) => vec![reply(to, error.status())],
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
            Err(_) => vec![reply(to, status)],
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
        let (key, what, timeout) = match request {
            Request::GroupConstruct {
                group,
                procs,
                directives,
            } => {
                let key = key(self, group)?;
                let procs = self.members_named(key.uid, procs);
                let group::ParsedConstruct {
                    mut construct,
                    timeout,
                } = group::read(&proc, procs, directives)?;
                self.add_contribution(&proc, &mut construct)?;
                (key, Some(Arc::new(construct)), timeout)
            }
            Request::GroupDestruct {
                group, directives, ..
            } => (key(self, group)?, None, group::timeout(&directives)?),
            Request::GroupLeave { group, .. } => {
                let key = key(self, group)?;
                return Ok(self.groups.leave(to, &key, &proc, now));
            }
            _ => return Ok(Vec::new()),
        };
        Ok(self.groups.call(
            GroupCall {
                to,
                key,
                proc,
                what,
                timeout,
                refusal,
            },
            now,
        ))
    }

    /// Adds the proc's values and job to its contribution, for procs at other servers. Values in
    /// the request that are not committed yet are committed.
    pub(super) fn add_contribution(
        &mut self,
        proc: &Proc,
        construct: &mut group::ConstructRequest,
    ) -> Result<(), GroupError> {
        construct.job = self.clients.job(&proc.nspace).map(|job| job.info.clone());
        if let Some(RankData { kvals, .. }) = construct.data.take() {
            // No local get can wait for values of remote scope.
            let commit = Commit {
                scope: Scope::Remote,
                kvals,
            };
            let share = self.put_share(proc);
            self.modex
                .commit(proc, share, vec![commit])
                .map_err(|_| GroupError::TooMuch)?;
        }
        construct.data = if self.groups.is_alone() {
            None
        } else {
            self.modex.for_others(proc)
        };
        Ok(())
    }

    /// Handles an event by which procs form a group by invitation, or respond to a failure in one.
    pub(super) fn group_event(&mut self, event: &Event, now: MonotonicTime) -> Vec<Action> {
        let (Some(source), Some(Value::String(Some(name)))) =
            (&event.source, event.infos.value_of(key::PMIX_GROUP_ID))
        else {
            return Vec::new();
        };
        let key = GroupKey {
            uid: self.clients.uid_of(source),
            name: GroupName::Called(name.clone()),
        };
        let steps = match event.code {
            code::PMIX_GROUP_INVITED => {
                let invited = named_in(event);
                let mut actions = self.events.notify_of_absence(
                    ServerContext::new(&self.clients, &self.settings),
                    source,
                    &invited,
                );
                actions.extend(self.with_groups(|groups| groups.watch(&invited)));
                return actions;
            }
            code::PMIX_GROUP_CONSTRUCT_COMPLETE if !is_formed(event) => return Vec::new(),
            code::PMIX_GROUP_CONSTRUCT_COMPLETE => {
                let context_id = event
                    .infos
                    .value_of(key::PMIX_GROUP_CONTEXT_ID)
                    .and_then(Value::as_u64);
                self.groups.announce(
                    &key,
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
                let notified = self.members_reached(event, &key);
                self.groups.part(&key, source, notified, now)
            }
            _ => return Vec::new(),
        };
        self.carry_out(steps)
    }

    /// Returns the members of a group that an event of one of them reaches.
    fn members_reached(&self, event: &Event, key: &GroupKey) -> NamedProcs {
        let aim = EventTargets::of(event);
        let arrives =
            |member: &Proc| audience::leaves_node(event) || self.clients.has_job(&member.nspace);
        let members = self.groups.members(key).unwrap_or_default().into_iter();
        members
            .filter(|member| aim.is_meant_for(event, member) && arrives(member))
            .collect()
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

    /// Replaces groups that are named as procs by their members.
    pub(super) fn members_named(&self, uid: u32, procs: Vec<Proc>) -> Vec<Proc> {
        let is_group = |proc: &Proc| !self.clients.has_job(&proc.nspace);
        if !each_job(&procs).any(is_group) {
            return procs;
        }
        procs
            .into_iter()
            .flat_map(|proc| {
                if is_group(&proc) {
                    self.of_group(uid, proc)
                } else {
                    vec![proc]
                }
            })
            .collect()
    }

    /// Replaces groups by their members, among procs that a user's proc names.
    pub(super) fn named_by<T: FromIterator<Proc>>(&self, source: &Proc, procs: Vec<Proc>) -> T {
        self.members_named(self.clients.uid_of(source), procs)
            .into_iter()
            .collect()
    }

    /// Replaces groups by their members in a request.
    pub(super) fn naming_members(&self, source: &Proc, mut request: Request) -> Request {
        if let Request::JobControl { targets: procs, .. }
        | Request::Abort { targets: procs, .. }
        | Request::Connect { procs, .. }
        | Request::Disconnect { procs, .. } = &mut request
        {
            *procs = self.named_by(source, std::mem::take(procs));
        }
        request
    }

    /// Replaces groups by their members among the targets of an event.
    pub(super) fn name_members(&self, event: &mut Event) {
        let Some(source) = &event.source else { return };
        let targets = event
            .infos
            .iter_mut()
            .filter(|info| info.key == key::PMIX_EVENT_CUSTOM_RANGE);
        for info in targets {
            if let Some(procs) = info.value.as_procs()
                && procs.iter().any(|proc| !self.clients.has_job(&proc.nspace))
            {
                info.value = Value::procs(self.named_by::<Vec<Proc>>(source, procs));
            }
        }
    }

    fn of_group(&self, uid: u32, proc: Proc) -> Vec<Proc> {
        let key = GroupKey {
            uid,
            name: GroupName::Called(Text::from(proc.nspace.as_str())),
        };
        match (self.groups.members(&key), proc.rank) {
            (Some(members), rank::PMIX_RANK_WILDCARD) => members,
            // A rank of a group is a position in the list of its members.
            (Some(members), rank) => {
                let member = usize::try_from(rank.0)
                    .ok()
                    .and_then(|place| members.get(place).cloned());
                vec![member.unwrap_or(proc)]
            }
            (None, _) => vec![proc],
        }
    }

    /// Returns the infos that a member contributed to a group's construct, for a get with the
    /// group's context id.
    pub(super) fn group_value(
        &self,
        source: &Proc,
        proc: &Proc,
        key: Option<&peal_model::Key>,
        infos: &[Info],
    ) -> Option<RankData> {
        let context_id = infos
            .value_of(key::PMIX_GROUP_CONTEXT_ID)
            .and_then(Value::as_u64)?;
        let said = self.groups.member_infos(source, proc, context_id)?;
        let qualifier = Info {
            key: key::PMIX_GROUP_CONTEXT_ID.into(),
            value: Value::Size(context_id),
            flags: InfoFlags::QUALIFIER,
        };
        let meant = said
            .iter()
            .filter(|info| key.is_none_or(|key| info.key == *key));
        let qualified = |info: &Info| {
            let both = [info.clone(), qualifier.clone()];
            Kval::new(
                key::PMIX_QUALIFIED_VALUE,
                Value::DataArray(DataArray::infos(both)),
            )
        };
        let kvals: Vec<Kval> = meant.map(qualified).collect();
        (!kvals.is_empty()).then(|| RankData {
            proc: proc.clone(),
            kvals,
        })
    }

    /// Returns the groups of a user with their members; all groups for root.
    pub fn groups_of_user(&self, uid: u32) -> Vec<GroupStatus> {
        let theirs = self
            .groups
            .known()
            .filter(|(key, _)| key.uid == uid || uid == 0);
        let status = |(key, formed): (&GroupKey, &Arc<Formed>)| {
            let (name, context_id) = (key.name.called()?.clone(), formed.context_id);
            Some(GroupStatus {
                uid: key.uid,
                name,
                context_id,
                members: self.groups.members(key)?,
            })
        };
        theirs.filter_map(status).collect()
    }

    /// Answers queries about groups: their number, names, members, or the whole state of each.
    pub fn query_groups(&self, identity: UserIdentity, queries: &[Query]) -> Vec<Info> {
        let groups = self.groups_of_user(identity.uid);
        let mut told = Vec::new();
        for query in queries {
            let meant = query
                .qualifiers
                .value_of(key::PMIX_GROUP_ID)
                .and_then(Value::as_str)
                .map(Text::from);
            for asked in query.keys.iter().flatten() {
                let is = |key: KeyName| asked.as_bytes() == key.0.as_bytes();
                if is(key::PMIX_QUERY_NUM_GROUPS) {
                    told.push(Info::new(
                        key::PMIX_QUERY_NUM_GROUPS,
                        Value::Size(groups.len() as u64),
                    ));
                } else if is(key::PMIX_QUERY_GROUP_NAMES) {
                    let names = groups.iter().map(|group| group.name.clone());
                    let names = DataArray::strings(names);
                    told.push(Info::new(
                        key::PMIX_QUERY_GROUP_NAMES,
                        Value::DataArray(names),
                    ));
                } else if is(key::PMIX_QUERY_GROUP_MEMBERSHIP) && meant.is_none() {
                    let all = groups.iter().map(GroupStatus::to_info);
                    told.push(Info::new(
                        key::PMIX_QUERY_GROUP_MEMBERSHIP,
                        Value::DataArray(DataArray::infos(all)),
                    ));
                } else if is(key::PMIX_QUERY_GROUP_MEMBERSHIP)
                    && let Some(group) = groups
                        .iter()
                        .find(|group| Some(&group.name) == meant.as_ref())
                {
                    let members = Value::procs(group.members.iter().cloned());
                    told.push(Info::new(key::PMIX_QUERY_GROUP_MEMBERSHIP, members));
                }
            }
        }
        told
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
        let (mut actions, mut told) = (Vec::new(), None);
        for step in steps {
            match step {
                GroupAction::Send { to, message } => {
                    actions.push(Action::SendGroupMessage { to, message })
                }
                GroupAction::Answer { to, answer } => {
                    actions.push(self.group_answer(to, answer, &mut told))
                }
                GroupAction::Learn(formed) => {
                    let elsewhere = |data: &&RankData| !self.clients.has_job(&data.proc.nspace);
                    let data: Vec<RankData> =
                        formed.data.iter().filter(elsewhere).cloned().collect();
                    data.into_iter().for_each(|data| self.modex.learn(data));
                    let here = |procs: &&[Proc]| {
                        procs
                            .first()
                            .is_some_and(|proc| self.clients.has_job(&proc.nspace))
                    };
                    let here: Vec<&[Proc]> = formed.members.of_each_job().filter(here).collect();
                    for member in here.into_iter().flatten() {
                        let waiting = self.modex.share(member);
                        actions.extend(self.answer_gets(member, waiting));
                    }
                }
                GroupAction::Lost { proc, uid } => actions.extend(self.events.notify_of_end(
                    ServerContext::new(&self.clients, &self.settings),
                    &proc,
                    UserScope::User(uid),
                )),
                GroupAction::Forget(jobs) => {
                    jobs.iter().for_each(|nspace| self.modex.drop_job(nspace))
                }
                GroupAction::Tell { procs, code, infos } => {
                    let targets = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs(procs));
                    let infos = [vec![targets], infos].concat();
                    let event = Event {
                        code,
                        source: None,
                        range: Range::Custom,
                        infos,
                    };
                    actions.extend(self.notify(event).unwrap_or_default());
                }
            }
        }
        actions
    }

    fn group_answer(
        &self,
        to: RequestId,
        answer: GroupCallResult,
        told: &mut Option<NotifiedParticipant>,
    ) -> Action {
        let reply = match answer {
            GroupCallResult::Done => Reply::Status(code::PMIX_SUCCESS),
            GroupCallResult::NotConnected(status) => Reply::Status(status),
            GroupCallResult::Connected(formed) => {
                let own = self.clients.peer(to.peer).map(|peer| &peer.proc.nspace);
                Reply::Connected {
                    status: code::PMIX_SUCCESS,
                    jobs: jobs_for(own, &formed),
                }
            }
            GroupCallResult::Failed(group::GroupFailure { status, reason, .. }) => {
                let (members, jobs, infos) = (Vec::new(), Vec::new(), vec![policy::reason(reason)]);
                Reply::Group(
                    GroupResult {
                        status,
                        members,
                        context_id: None,
                        jobs,
                        infos,
                    }
                    .into(),
                )
            }
            GroupCallResult::Formed(formed) => {
                let own = self.clients.peer(to.peer).map(|peer| &peer.proc.nspace);
                let same = |told: &&NotifiedParticipant| {
                    Arc::ptr_eq(&told.formed, &formed) && told.own.as_ref() == own
                };
                let result = told.as_ref().filter(same).map(|told| told.result.clone());
                let result = result.unwrap_or_else(|| Arc::new(formed_for(own, &formed)));
                *told = Some(NotifiedParticipant {
                    formed,
                    own: own.cloned(),
                    result: result.clone(),
                });
                Reply::Group(result)
            }
        };
        Action::Reply { to, reply }
    }
}

/// The latest result sent to a participant. The next participant of the same job shares it instead
/// of a copy.
struct NotifiedParticipant {
    formed: Arc<Formed>,
    own: Option<Nspace>,
    result: Arc<GroupResult>,
}

/// Returns the result of a construct for procs of a job, without the data of their own job.
fn formed_for(own: Option<&Nspace>, formed: &Formed) -> GroupResult {
    let infos = formed.infos.iter().map(|(proc, said)| {
        let whose = Info::new(key::PMIX_PROCID, Value::Proc(proc.clone()));
        let all = [vec![whose], said.clone()].concat();
        Info::new(
            key::PMIX_GROUP_INFO,
            Value::DataArray(DataArray::infos(all)),
        )
    });
    GroupResult {
        status: code::PMIX_SUCCESS,
        members: formed.membership(),
        context_id: formed.context_id,
        jobs: jobs_for(own, formed),
        infos: infos.collect(),
    }
}

fn jobs_for(own: Option<&Nspace>, formed: &Formed) -> Vec<JobInfo> {
    formed
        .jobs
        .iter()
        .filter(|job| Some(&job.nspace) != own)
        .map(|job| (**job).clone())
        .collect()
}

/// Returns one proc of each run of procs of the same job. Questions about jobs need not be asked
/// for every proc.
pub(super) fn each_job(procs: &[Proc]) -> impl Iterator<Item = &Proc> {
    procs
        .chunk_by(|one, other| one.nspace == other.nspace)
        .filter_map(<[Proc]>::first)
}
