//! Groups of the procs of this server: from requests and events to what is decided of them, and back.
use super::{
    Action, RequestId, ServerState,
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

/// A group, for whoever looks on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStatus {
    /// Whose.
    pub uid: u32,
    /// What it is called.
    pub name: Text,
    /// Its number, if it has one.
    pub context_id: Option<u64>,
    /// Who is in it.
    pub members: Vec<Proc>,
}

impl GroupStatus {
    /// All of it, for a query.
    fn told(&self) -> Info {
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
    /// Another server is there from now on.
    pub fn server_joined(&mut self, server: ServerId) -> Vec<Action> {
        self.with_groups(|groups| groups.server_joined(server))
    }

    /// Another server is gone; all that it sent has come.
    pub fn server_left(&mut self, server: ServerId, now: MonotonicTime) -> Vec<Action> {
        self.with_groups(|groups| groups.server_left(server, now))
    }

    /// Another server sent this about groups.
    pub fn group_message(
        &mut self,
        from: ServerId,
        message: GroupMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.with_groups(|groups| groups.received(from, message, now))
    }

    /// A request about a group that may be made.
    pub(super) fn group(
        &mut self,
        to: RequestId,
        source: Proc,
        request: Request,
        now: MonotonicTime,
    ) -> Vec<Action> {
        match self.group_call(to, source, request, None, now) {
            Ok(steps) => self.stepped(steps),
            Err(error) => vec![reply(to, error.status())],
        }
    }

    /// The same for one that may not be made: whoever takes part is told.
    pub(super) fn refuse_group(
        &mut self,
        to: RequestId,
        request: Request,
        refusal: GroupRefusal,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let status = refusal.status;
        match self.group_call(to, refusal.proc.clone(), request, Some(refusal), now) {
            Ok(steps) => self.stepped(steps),
            // Nobody can wait for what makes no sense.
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
                uid: server.uid_of(&proc),
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
                self.brings(&proc, &mut construct)?;
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

    /// What a proc has put for others, and its job: those at other servers will know it. What it has not committed yet is committed with that.
    pub(super) fn brings(
        &mut self,
        proc: &Proc,
        construct: &mut group::ConstructRequest,
    ) -> Result<(), GroupError> {
        construct.job = self.jobs.get(&proc.nspace).map(|job| job.info.clone());
        if let Some(RankData { kvals, .. }) = construct.data.take() {
            // Nobody here waits for what is for others.
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

    /// An event that procs raise to form a group by themselves, or to say what becomes of one in which somebody failed.
    pub(super) fn group_event(&mut self, event: &Event, now: MonotonicTime) -> Vec<Action> {
        let (Some(source), Some(Value::String(Some(name)))) =
            (&event.source, event.infos.value_of(key::PMIX_GROUP_ID))
        else {
            return Vec::new();
        };
        let key = GroupKey {
            uid: self.uid_of(source),
            name: GroupName::Called(name.clone()),
        };
        let steps = match event.code {
            code::PMIX_GROUP_INVITED => {
                let invited = named_in(event);
                let mut actions = self.tell_of_absence(source, &invited);
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
        self.stepped(steps)
    }

    /// Members of a group that an event of one of them reaches.
    fn members_reached(&self, event: &Event, key: &GroupKey) -> NamedProcs {
        let aim = EventTargets::of(event);
        let arrives =
            |member: &Proc| audience::leaves_node(event) || self.jobs.contains_key(&member.nspace);
        let members = self.groups.members(key).unwrap_or_default().into_iter();
        members
            .filter(|member| aim.is_meant_for(event, member) && arrives(member))
            .collect()
    }

    /// Who invites others to a group asks for its number by a request for job control that names nobody
    /// (`PMIX_GROUP_ASSIGN_CONTEXT_ID`), since no server forms it.
    pub(super) fn asks_for_context_id(request: &Request) -> bool {
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

    /// Whom procs stand for: the members of a group, where one is named by its name.
    pub(super) fn members_named(&self, uid: u32, procs: Vec<Proc>) -> Vec<Proc> {
        let is_group = |proc: &Proc| !self.jobs.contains_key(&proc.nspace);
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

    /// The same for procs that one of a user's procs names.
    pub(super) fn named_by<T: FromIterator<Proc>>(&self, source: &Proc, procs: Vec<Proc>) -> T {
        self.members_named(self.uid_of(source), procs)
            .into_iter()
            .collect()
    }

    /// A request in which members stand for the groups that it names among procs.
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

    /// The same for those whom an event is meant for.
    pub(super) fn name_members(&self, event: &mut Event) {
        let Some(source) = &event.source else { return };
        let targets = event
            .infos
            .iter_mut()
            .filter(|info| info.key == key::PMIX_EVENT_CUSTOM_RANGE);
        for info in targets {
            if let Some(procs) = info.value.as_procs()
                && procs
                    .iter()
                    .any(|proc| !self.jobs.contains_key(&proc.nspace))
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
            // A rank in a group is a place among its members.
            (Some(members), rank) => {
                let member = usize::try_from(rank.0)
                    .ok()
                    .and_then(|place| members.get(place).cloned());
                vec![member.unwrap_or(proc)]
            }
            (None, _) => vec![proc],
        }
    }

    /// What a member said of itself when a group was formed, for whoever names that group by its number.
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
        let said = self.groups.said(source, proc, context_id)?;
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

    /// The groups of a user, and who is in each.
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

    /// Answers what is asked about groups: how many there are, what they are called, who is in one, or all that there is to tell of each.
    pub fn told_of_groups(&self, identity: UserIdentity, queries: &[Query]) -> Vec<Info> {
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
                    let all = groups.iter().map(GroupStatus::told);
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

    pub(super) fn uid_of(&self, proc: &Proc) -> u32 {
        self.identity(proc)
            .map_or(u32::MAX, |identity| identity.uid)
    }

    /// Does to the groups what follows from what became of procs.
    pub(super) fn with_groups(
        &mut self,
        what: impl FnOnce(&mut Groups) -> Vec<GroupAction>,
    ) -> Vec<Action> {
        let steps = what(&mut self.groups);
        self.stepped(steps)
    }

    pub(super) fn stepped(&mut self, steps: Vec<GroupAction>) -> Vec<Action> {
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
                    let elsewhere = |data: &&RankData| !self.jobs.contains_key(&data.proc.nspace);
                    let data: Vec<RankData> =
                        formed.data.iter().filter(elsewhere).cloned().collect();
                    data.into_iter().for_each(|data| self.modex.learn(data));
                    let here = |procs: &&[Proc]| {
                        procs
                            .first()
                            .is_some_and(|proc| self.jobs.contains_key(&proc.nspace))
                    };
                    let here: Vec<&[Proc]> = formed.members.of_each_job().filter(here).collect();
                    for member in here.into_iter().flatten() {
                        let waiting = self.modex.share(member);
                        actions.extend(self.answer_gets(member, waiting));
                    }
                }
                GroupAction::Lost { proc, uid } => {
                    actions.extend(self.tell_of_end(&proc, UserScope::User(uid)))
                }
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
                let own = self.peers.get(&to.peer).map(|peer| &peer.proc.nspace);
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
                let own = self.peers.get(&to.peer).map(|peer| &peer.proc.nspace);
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

/// What one who takes part in a construct was told: the next of the same job is told the same.
struct NotifiedParticipant {
    formed: Arc<Formed>,
    own: Option<Nspace>,
    result: Arc<GroupResult>,
}

/// What procs of a job are told of a group, their own job left out.
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

/// One of the procs of each job that is named, or several where they do not stand together: what is asked about jobs need not be asked of
/// every proc.
pub(super) fn each_job(procs: &[Proc]) -> impl Iterator<Item = &Proc> {
    procs
        .chunk_by(|one, other| one.nspace == other.nspace)
        .filter_map(<[Proc]>::first)
}
