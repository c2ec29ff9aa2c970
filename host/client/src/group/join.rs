//! Answer to an invitation (`PMIx_Group_join`), and the wait for its result.
use super::{
    Group, Invited, NotFormed, contribution,
    event_waiter::EventWaiter,
    events::{is_formed, may_be_about, with_provided},
    invite::DEFAULT_INVITATION_TIMEOUT,
};
use crate::{Client, ClientError, observers::Observer, queued_item::QueuedItem};
use peal_model::{Event, Info, Infos, Proc, Range, Value, code, key};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Accepted invitation whose result is pending.
struct Joining {
    me: Proc,
    group: String,
    leader: Proc,
    outcome: Option<Result<Event, NotFormed>>,
}

impl Joining {
    fn see(&mut self, event: &Event) {
        let by_leader =
            event.source.as_ref() == Some(&self.leader) && may_be_about(event, &self.group);
        let outcome = match event.code {
            code::PMIX_GROUP_CONSTRUCT_COMPLETE
                if by_leader
                    && is_formed(event)
                    && members(event).iter().any(|proc| proc.covers(&self.me)) =>
            {
                Ok(event.clone())
            }
            // The group was not formed, or this proc is not among its members.
            code::PMIX_GROUP_CONSTRUCT_COMPLETE | code::PMIX_GROUP_CONSTRUCT_ABORT if by_leader => {
                Err(NotFormed::CalledOff(self.leader.clone()))
            }
            code::PMIX_PROC_TERMINATED if event.affected().contains(&self.leader) => {
                Err(NotFormed::LeaderEnded(self.leader.clone()))
            }
            _ => return,
        };
        // The first result counts: later events of this leader may be about another invitation.
        self.outcome.get_or_insert(outcome);
    }
}

/// Contribution of a proc that accepts an invitation.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Join {
    contributed: Vec<Info>,
    infos: Vec<Info>,
}

impl Join {
    /// Creates a contribution of the values that the proc put, and nothing else.
    pub fn new() -> Join {
        Join::default()
    }

    /// Adds infos about the caller for the other members (`PMIX_GROUP_INFO`).
    pub fn saying(mut self, infos: impl IntoIterator<Item = Info>) -> Join {
        self.contributed.extend(infos);
        self
    }

    /// Adds an info for the leader, which the answer carries.
    pub fn with(mut self, info: Info) -> Join {
        self.infos.push(info);
        self
    }
}

impl Observer for EventWaiter<Joining> {
    fn observe(&self, arrival: &QueuedItem) {
        self.note(arrival, Joining::see);
    }
}

/// Returns the members of the group that an event announces. Releases of the C library name them as
/// targets only.
fn members(event: &Event) -> Vec<Proc> {
    let named = event
        .infos
        .value_of(key::PMIX_GROUP_MEMBERSHIP)
        .and_then(Value::as_procs);
    named.or_else(|| event.custom_targets()).unwrap_or_default()
}

impl Client {
    /// Accepts an invitation, and waits until the group is formed or has failed
    /// (`PMIx_Group_join`).
    ///
    /// A handler that receives the invitation may spawn a task for this call, or wait for it by
    /// [`tokio::runtime::Handle::block_on`]. Observers note the result of the group, so it does not
    /// depend on the handlers' progress.
    ///
    /// ```no_run
    /// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
    /// use peal_client::{Handler, HandlerOutcome, Invited, Join};
    /// use peal_model::code;
    ///
    /// let (joining, runtime) = (client.clone(), tokio::runtime::Handle::current());
    /// let handler = Handler::native(move |call| {
    ///     let Some(invited) = Invited::of(call.event()) else {
    ///         return HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN);
    ///     };
    ///     match runtime.block_on(joining.group_join(&invited, Join::new())) {
    ///         Ok(group) => println!("{:?}", group.members),
    ///         Err(error) => println!("{error}"),
    ///     }
    ///     HandlerOutcome::status(code::PMIX_EVENT_ACTION_COMPLETE)
    /// });
    /// client.register(&[code::PMIX_GROUP_INVITED], &[], handler).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn group_join(&self, invited: &Invited, join: Join) -> Result<Group, ClientError> {
        let limit = self.limit().unwrap_or(DEFAULT_INVITATION_TIMEOUT);
        let deadline = Instant::now() + limit;
        let Invited { group, leader, .. } = invited;
        let ends = [
            code::PMIX_GROUP_CONSTRUCT_COMPLETE,
            code::PMIX_GROUP_CONSTRUCT_ABORT,
            code::PMIX_PROC_TERMINATED,
        ];
        // Before the acceptance: the result may come before the call that accepts returns.
        self.register_codes(&ends).await?;
        let me = self.me().clone();
        let group = group.clone();
        let leader = leader.clone();
        let joining = Arc::new(EventWaiter::new(
            Joining {
                me,
                group: group.clone(),
                leader,
                outcome: None,
            },
            self.server(),
        ));
        self.session().queue.observers.add(&joining);
        let Join {
            contributed,
            infos: provided,
        } = join;
        let (code, infos) = invited.acceptance();
        let infos = with_provided(infos, [provided, self.contribution(contributed)].concat());
        self.notify(code, Range::Custom, infos).await?;
        let event = loop {
            match joining.with_state(|joining| joining.outcome.take())? {
                Some(Ok(event)) => break event,
                Some(Err(reason)) => return Err(ClientError::NotFormed { group, reason }),
                None => {}
            }
            if timeout_at(deadline, joining.changed()).await.is_err() {
                // The leader must not form the group with a member that no longer waits.
                if let Err(error) = self.group_decline(invited).await {
                    tracing::warn!(%error, "decline of an invitation not sent to its leader");
                }
                return Err(ClientError::NotJoined {
                    group,
                    leader: invited.leader.clone(),
                    limit,
                });
            }
        };
        let context_id = event
            .infos
            .value_of(key::PMIX_GROUP_CONTEXT_ID)
            .and_then(Value::as_u64);
        let members = members(&event);
        let member_infos = contribution::member_infos(&members, &event.infos);
        Ok(self.joined(
            Group {
                name: group,
                members,
                context_id,
                member_infos,
            },
            &event.infos,
        ))
    }

    /// Declines an invitation (`PMIx_Group_join`). A handler does so by [`crate::HandlerCall::decline`].
    pub async fn group_decline(&self, invited: &Invited) -> Result<(), ClientError> {
        let (code, infos) = invited.refusal();
        self.notify(code, Range::Custom, infos).await
    }

    /// Stores a group formed by invitation. The server does not know the values that its members
    /// contributed, so the client keeps them.
    pub(super) fn joined(&self, group: Group, infos: &[Info]) -> Group {
        let mut known = self.known();
        contribution::member_values(&group.members, infos)
            .into_iter()
            .for_each(|data| known.learn(data));
        known.learn_group(&group);
        group
    }
}
