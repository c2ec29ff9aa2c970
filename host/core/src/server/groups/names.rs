//! Names of procs: groups that are named as procs, owners on all servers, and the infos that
//! members contributed.
use crate::{
    audience,
    event_targets::EventTargets,
    group::{GroupKey, GroupName, Groups},
    server::clients::ClientTable,
};
use peal_model::{
    DataArray, Event, Info, InfoFlags, Infos, Kval, NamedProcs, Nspace, Proc, RankData, Request,
    TargetProc, Text, Value, key, rank,
};

/// The clients and groups in which names of procs are looked up.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct ProcNames<'a> {
    clients: &'a ClientTable,
    groups: &'a Groups,
}

impl<'a> ProcNames<'a> {
    /// Creates the view of clients and groups.
    pub(in crate::server) fn new(clients: &'a ClientTable, groups: &'a Groups) -> ProcNames<'a> {
        ProcNames { clients, groups }
    }

    /// Returns true if a requester may see a namespace: its own, one of the same user, or any for
    /// root. The owner of a job of other servers is known by their word. What no server has
    /// announced is visible only while there is no other: it may be a job of another user elsewhere.
    pub(in crate::server) fn may_see(self, requester: &Proc, nspace: &Nspace) -> bool {
        if requester.nspace == *nspace {
            return true;
        }
        let Some(user) = self.clients.identity(requester) else {
            return false;
        };
        let owner = match self.clients.job(nspace) {
            Some(job) => Some(job.spec.identity),
            None if self.groups.is_alone() => return true,
            None => {
                let tool = self.clients.tool_identity(nspace);
                tool.or_else(|| self.groups.owner_of(nspace))
            }
        };
        user.uid == 0 || owner.is_some_and(|owner| owner.uid == user.uid)
    }

    /// Returns the members of a group that an event of one of them reaches.
    pub(super) fn members_reached(self, event: &Event, key: &GroupKey) -> NamedProcs {
        let aim = EventTargets::of(event);
        let arrives =
            |member: &Proc| audience::leaves_node(event) || self.clients.life(member).is_some();
        let members = self.groups.members(key).unwrap_or_default().into_iter();
        members
            .filter(|member| aim.is_meant_for(event, member) && arrives(member))
            .collect()
    }

    /// Replaces groups that are named as procs by their members.
    pub(in crate::server) fn members_named(self, uid: u32, procs: Vec<Proc>) -> Vec<Proc> {
        let is_group = |proc: &Proc| !self.clients.has_job(&proc.nspace);
        // Most lists name no group and stay as they are.
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
    pub(in crate::server) fn named_by<T: FromIterator<Proc>>(
        self,
        source: &Proc,
        procs: Vec<Proc>,
    ) -> T {
        self.members_named(self.clients.uid_of(source), procs)
            .into_iter()
            .collect()
    }

    /// Replaces groups by their members in a request.
    pub(in crate::server) fn naming_members(self, source: &Proc, mut request: Request) -> Request {
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
    pub(in crate::server) fn name_members(self, event: &mut Event) {
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

    fn of_group(self, uid: u32, proc: Proc) -> Vec<Proc> {
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

    /// Adds the owners to the procs that a connect names, on this server or on others.
    pub(in crate::server) fn connectable(self, procs: &[Proc]) -> Vec<TargetProc> {
        let owner = |proc: &Proc| {
            self.clients
                .identity(proc)
                .or_else(|| self.groups.owner_elsewhere(&proc.nspace))
        };
        procs
            .iter()
            .map(|proc| TargetProc {
                proc: proc.clone(),
                owner: owner(proc),
            })
            .collect()
    }
}

/// Returns the infos that a member contributed to a group's construct, for a get with the
/// group's context id.
pub(in crate::server) fn group_value(
    groups: &Groups,
    source: &Proc,
    proc: &Proc,
    key: Option<&peal_model::Key>,
    infos: &[Info],
) -> Option<RankData> {
    let context_id = infos
        .value_of(key::PMIX_GROUP_CONTEXT_ID)
        .and_then(Value::as_u64)?;
    let member_infos = groups.member_infos(source, proc, context_id)?;
    // A proc may contribute to several groups, and the context id tells which of them a value is
    // from.
    let qualifier = Info {
        key: key::PMIX_GROUP_CONTEXT_ID.into(),
        value: Value::Size(context_id),
        flags: InfoFlags::QUALIFIER,
    };
    let meant = member_infos
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

/// Returns one proc of each run of procs of the same job. Questions about jobs need not be asked
/// for every proc.
pub(in crate::server) fn each_job(procs: &[Proc]) -> impl Iterator<Item = &Proc> {
    procs
        .chunk_by(|one, other| one.nspace == other.nspace)
        .filter_map(<[Proc]>::first)
}
