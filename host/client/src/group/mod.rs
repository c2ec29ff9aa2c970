//! Groups (`PMIx_Group_construct` and related calls): procs of one or several jobs under a common
//! name.
//!
//! A group is formed by a call of all members ([`Client::group_construct`]), or by a leader that
//! invites the others by events ([`Client::group_invite`], [`Client::group_join`]).
mod construct;
mod contribution;
mod ended;
mod event_waiter;
mod events;
mod failure;
mod invitation;
mod invitation_answer;
mod invite;
mod join;

pub use construct::ConstructOptions;
pub(crate) use contribution::{has_qualifiers, qualified};
pub(crate) use ended::LedInvitations;
pub use events::{AbsenceDecision, Invited};
pub use failure::{Absence, NotFormed};
pub(crate) use invitation_answer::InvitationAnswer;
pub use invite::Invite;
pub use join::Join;

use crate::{Call, Client, ClientError};
use peal_model::{
    CommandCode, GroupResult, IdentError, Info, InfoFlags, Infos, Nspace, Proc, Query, Reply,
    Request, Value, key,
};
use std::sync::Arc;

/// Group of which this proc is a member.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// Members in their order.
    pub members: Vec<Proc>,
    /// Context id, which no other group has; `None` if none was requested.
    pub context_id: Option<u64>,
    /// Infos that members gave about themselves (`PMIX_GROUP_INFO`).
    pub member_infos: Vec<(Proc, Vec<Info>)>,
}

impl Group {
    /// Returns the infos that a member gave about itself.
    pub fn infos_of(&self, member: &Proc) -> &[Info] {
        let infos = self.member_infos.iter().find(|(proc, _)| proc == member);
        infos.map(|(_, infos)| infos.as_slice()).unwrap_or_default()
    }

    /// Returns the proc that stands for all members, by the group's name. A fence accepts it.
    pub fn all(&self) -> Result<Proc, IdentError> {
        Ok(Proc::all(Nspace::new(&self.name)?))
    }

    /// Returns the qualifier that limits a get to the values of this group
    /// (`PMIX_GROUP_CONTEXT_ID`); `None` if the group has no context id.
    pub fn qualifier(&self) -> Option<Info> {
        let value = Value::Size(self.context_id?);
        Some(Info {
            key: key::PMIX_GROUP_CONTEXT_ID.into(),
            value,
            flags: InfoFlags::QUALIFIER,
        })
    }
}

impl Client {
    /// Constructs a group together with the other participants, each of which makes this call
    /// (`PMIx_Group_construct`). The result is the same for all. See [`ConstructOptions`].
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] with the reasons if the group was not formed.
    pub async fn group_construct(
        &self,
        group: &str,
        construct: ConstructOptions,
    ) -> Result<Group, ClientError> {
        let ConstructOptions {
            procs,
            mut directives,
            contributed,
        } = construct;
        directives.extend(self.contribution(contributed));
        let request = Request::GroupConstruct {
            group: Some(group.into()),
            procs: procs.clone(),
            directives,
        };
        let (members, context_id, infos) = match self.ask(request).await? {
            Reply::Group(result) => {
                let GroupResult {
                    members,
                    context_id,
                    infos,
                    ..
                } = Arc::unwrap_or_clone(result);
                (members, context_id, infos)
            }
            // Some servers answer a construct with the status alone.
            Reply::Status(_) => (Vec::new(), None, Vec::new()),
            _ => {
                return Err(ClientError::UnfitAnswer {
                    call: Call(CommandCode::GroupConstruct),
                });
            }
        };
        // Servers of early releases do not return the members: then they are the procs that were
        // named.
        let members = if members.is_empty() { procs } else { members };
        // A wildcard rank that a participant named is resolved here. The group exists, so a job of
        // unknown size must not make the call fail.
        let members = self.resolve_wildcards(&members).await.unwrap_or(members);
        let member_infos = contribution::member_infos(&members, &infos);
        let group = Group {
            name: group.to_owned(),
            members,
            context_id,
            member_infos,
        };
        self.known().learn_group(&group);
        Ok(group)
    }

    /// Destructs a group together with its remaining members, each of which makes this call
    /// (`PMIx_Group_destruct`).
    pub async fn group_destruct(
        &self,
        group: &str,
        directives: &[Info],
    ) -> Result<(), ClientError> {
        // Requests of releases from 4.2.4 on name the members.
        let members = self.known().members_of(group);
        let request = Request::GroupDestruct {
            group: Some(group.into()),
            members,
            directives: directives.to_vec(),
        };
        self.ask(request).await?;
        self.known().forget_group(group);
        Ok(())
    }

    /// Leaves a group (`PMIx_Group_leave`); its other members receive an event.
    pub async fn group_leave(&self, group: &str, directives: &[Info]) -> Result<(), ClientError> {
        self.ask(Request::GroupLeave {
            group: Some(group.into()),
            directives: directives.to_vec(),
        })
        .await?;
        self.known().forget_group(group);
        Ok(())
    }

    /// Returns the present members of a group in their order (`PMIX_QUERY_GROUP_MEMBERSHIP`).
    pub async fn group_members(&self, group: &str) -> Result<Vec<Proc>, ClientError> {
        let query = Query {
            keys: vec![Some(key::PMIX_QUERY_GROUP_MEMBERSHIP.0.into())],
            qualifiers: vec![Info::new(key::PMIX_GROUP_ID, Value::string(group))],
        };
        let infos = self.query(&[query]).await?.infos;
        let members = infos
            .value_of(key::PMIX_QUERY_GROUP_MEMBERSHIP)
            .and_then(Value::as_procs);
        members.ok_or(ClientError::UnfitAnswer {
            call: Call(CommandCode::Query),
        })
    }
}
