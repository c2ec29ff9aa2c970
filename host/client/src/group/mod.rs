//! Groups (`PMIx_Group_construct` and its relatives): procs of one or several jobs that act as one under a name of their own.
//!
//! A group is formed by all at once ([`Client::group_construct`]), or by one who invites the others by events
//! ([`Client::group_invite`], [`Client::group_join`]).
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
pub(crate) use contribution::qualified;
pub(crate) use ended::EndedInvitations;
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

/// A group that is there.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// What it is called.
    pub name: String,
    /// Who is in it, in their order.
    pub members: Vec<Proc>,
    /// The number that no other group has, if one was asked for.
    pub context_id: Option<u64>,
    /// What members say of themselves (`PMIX_GROUP_INFO`).
    pub said: Vec<(Proc, Vec<Info>)>,
}

impl Group {
    /// What a member says of itself.
    pub fn said_by(&self, member: &Proc) -> &[Info] {
        let said = self.said.iter().find(|(proc, _)| proc == member);
        said.map(|(_, infos)| infos.as_slice()).unwrap_or_default()
    }

    /// All members, by the group's name: whom a fence may name.
    pub fn all(&self) -> Result<Proc, IdentError> {
        Ok(Proc::all(Nspace::new(&self.name)?))
    }

    /// With this, a get is for what a member said of itself in this group (`PMIX_GROUP_CONTEXT_ID`); none where the group has no number.
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
    /// Constructs a group with others, each of whom calls (`PMIx_Group_construct`). It ends in the same way for all; where it came to
    /// nothing, [`ClientError::Refused`] says why. See [`ConstructOptions`].
    pub async fn group_construct(
        &self,
        group: &str,
        construct: ConstructOptions,
    ) -> Result<Group, ClientError> {
        let ConstructOptions {
            procs,
            mut directives,
            says,
        } = construct;
        directives.extend(self.contribution(says));
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
            Reply::Status(_) => (Vec::new(), None, Vec::new()),
            _ => {
                return Err(ClientError::UnfitAnswer {
                    call: Call(CommandCode::GroupConstruct),
                });
            }
        };
        // Servers of early releases do not tell who is in it: then it is those who were named.
        let members = if members.is_empty() { procs } else { members };
        // A job that somebody named by the wildcard rank stands as that. The group is there, so that a job of unknown size is no failure.
        let members = self.each(&members).await.unwrap_or(members);
        let said = contribution::all_said(&members, &infos);
        let group = Group {
            name: group.to_owned(),
            members,
            context_id,
            said,
        };
        self.known().learn_group(&group);
        Ok(group)
    }

    /// Dissolves a group with all who are left in it, each of whom calls (`PMIx_Group_destruct`).
    pub async fn group_destruct(
        &self,
        group: &str,
        directives: &[Info],
    ) -> Result<(), ClientError> {
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

    /// Leaves a group (`PMIx_Group_leave`), whose other members hear of it.
    pub async fn group_leave(&self, group: &str, directives: &[Info]) -> Result<(), ClientError> {
        self.ask(Request::GroupLeave {
            group: Some(group.into()),
            directives: directives.to_vec(),
        })
        .await?;
        self.known().forget_group(group);
        Ok(())
    }

    /// Who is in a group now, in their order (`PMIX_QUERY_GROUP_MEMBERSHIP`).
    pub async fn group_members(&self, group: &str) -> Result<Vec<Proc>, ClientError> {
        let query = Query {
            keys: vec![Some(key::PMIX_QUERY_GROUP_MEMBERSHIP.0.into())],
            qualifiers: vec![Info::new(key::PMIX_GROUP_ID, Value::string(group))],
        };
        let told = self.query(&[query]).await?.infos;
        let members = told
            .value_of(key::PMIX_QUERY_GROUP_MEMBERSHIP)
            .and_then(Value::as_procs);
        members.ok_or(ClientError::UnfitAnswer {
            call: Call(CommandCode::Query),
        })
    }
}
