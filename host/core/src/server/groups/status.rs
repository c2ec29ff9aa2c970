//! The state of groups, for queries and admin requests.
use crate::group::{Formed, GroupKey, Groups};
use peal_model::{DataArray, Info, Infos, KeyName, Proc, Query, Text, UserIdentity, Value, key};
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
            // Root sees the groups of all users, and users may use the same names.
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

/// Returns the groups of a user with their members; all groups for root.
pub(in crate::server) fn groups_of_user(groups: &Groups, uid: u32) -> Vec<GroupStatus> {
    let theirs = groups.known().filter(|(key, _)| key.uid == uid || uid == 0);
    let status = |(key, formed): (&GroupKey, &Arc<Formed>)| {
        // Connected procs form no group that a query could name.
        let name = key.name.called()?.clone();
        let context_id = formed.context_id;
        Some(GroupStatus {
            uid: key.uid,
            name,
            context_id,
            members: groups.members(key)?,
        })
    };
    theirs.filter_map(status).collect()
}

/// Answers queries about groups: their number, names, members, or the whole state of each.
pub(in crate::server) fn query_groups(
    groups: &Groups,
    identity: UserIdentity,
    queries: &[Query],
) -> Vec<Info> {
    let groups = groups_of_user(groups, identity.uid);
    let mut infos = Vec::new();
    for query in queries {
        let meant = query
            .qualifiers
            .value_of(key::PMIX_GROUP_ID)
            .and_then(Value::as_str)
            .map(Text::from);
        for name in query.keys.iter().flatten() {
            let is = |key: KeyName| name.as_bytes() == key.0.as_bytes();
            if is(key::PMIX_QUERY_NUM_GROUPS) {
                infos.push(Info::new(
                    key::PMIX_QUERY_NUM_GROUPS,
                    Value::Size(groups.len() as u64),
                ));
            } else if is(key::PMIX_QUERY_GROUP_NAMES) {
                let names = groups.iter().map(|group| group.name.clone());
                let names = DataArray::strings(names);
                infos.push(Info::new(
                    key::PMIX_QUERY_GROUP_NAMES,
                    Value::DataArray(names),
                ));
            // Without a name, the whole state of each group is meant.
            } else if is(key::PMIX_QUERY_GROUP_MEMBERSHIP) && meant.is_none() {
                let all = groups.iter().map(GroupStatus::to_info);
                infos.push(Info::new(
                    key::PMIX_QUERY_GROUP_MEMBERSHIP,
                    Value::DataArray(DataArray::infos(all)),
                ));
            } else if is(key::PMIX_QUERY_GROUP_MEMBERSHIP)
                && let Some(group) = groups
                    .iter()
                    .find(|group| Some(&group.name) == meant.as_ref())
            {
                let members = Value::procs(group.members.iter().cloned());
                infos.push(Info::new(key::PMIX_QUERY_GROUP_MEMBERSHIP, members));
            }
        }
    }
    infos
}
