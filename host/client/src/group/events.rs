//! Events by which procs form a group without a collective of the server, encoded and decoded.
use super::contribution;
use peal_model::{Event, Info, Infos, Proc, Range, Status, Value, code, key};

/// Invitation to a group (`PMIX_GROUP_INVITED`), as a handler receives it.
#[derive(Clone, PartialEq, Debug)]
pub struct Invited {
    /// Name of the group.
    pub group: String,
    /// Leader, to which the answer is sent.
    pub leader: Proc,
    /// Infos that the leader gives about itself (`PMIX_GROUP_INFO`).
    pub leader_infos: Vec<Info>,
}

impl Invited {
    /// Decodes an event as an invitation; `None` if it is another event.
    pub fn of(event: &Event) -> Option<Invited> {
        let leader = event.source.clone()?;
        let group = group_of(event)?.to_owned();
        // Infos about other procs are dropped: a leader speaks for itself alone.
        let infos = contribution::member_infos(std::slice::from_ref(&leader), &event.infos);
        let leader_infos = infos.into_iter().flat_map(|(_, infos)| infos).collect();
        (event.code == code::PMIX_GROUP_INVITED).then_some(Invited {
            group,
            leader,
            leader_infos,
        })
    }

    /// Returns the event that accepts the invitation.
    pub(crate) fn acceptance(&self) -> (Status, Vec<Info>) {
        (
            code::PMIX_GROUP_INVITE_ACCEPTED,
            answer(&self.group, &self.leader),
        )
    }

    /// Returns the event that declines the invitation.
    pub(crate) fn refusal(&self) -> (Status, Vec<Info>) {
        (
            code::PMIX_GROUP_INVITE_DECLINED,
            answer(&self.group, &self.leader),
        )
    }
}

/// Decision of the leader about an invited proc that does not join (`PMIX_GROUP_INVITE_FAILED`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AbsenceDecision {
    /// The group is formed without that proc (`PMIX_GROUP_MEMBERSHIP_UPDATE`).
    GoOn,
    /// These procs are invited instead (`PMIX_GROUP_MEMBERSHIP_UPDATE` with
    /// `PMIX_GROUP_ADD_MEMBERS`).
    Replace(Vec<Proc>),
    /// The group is not formed (`PMIX_GROUP_CONSTRUCT_ABORT`).
    CallOff,
}

impl AbsenceDecision {
    /// Returns the event that announces the decision. It is delivered in this process alone.
    pub(crate) fn event(&self, group: &str) -> (Status, Vec<Info>) {
        let named = Info::new(key::PMIX_GROUP_ID, Value::string(group));
        let hidden = Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true));
        match self {
            AbsenceDecision::GoOn => (code::PMIX_GROUP_MEMBERSHIP_UPDATE, vec![named, hidden]),
            AbsenceDecision::Replace(procs) => {
                let added = Info::new(
                    key::PMIX_GROUP_ADD_MEMBERS,
                    Value::procs(procs.iter().cloned()),
                );
                (
                    code::PMIX_GROUP_MEMBERSHIP_UPDATE,
                    vec![named, hidden, added],
                )
            }
            AbsenceDecision::CallOff => (code::PMIX_GROUP_CONSTRUCT_ABORT, vec![named, hidden]),
        }
    }
}

/// Returns the infos of an event about a group to these targets.
pub(super) fn to(targets: &[Proc], group: &str) -> Vec<Info> {
    // The infos of the C library's events, in its order.
    vec![
        Info::new(
            key::PMIX_EVENT_CUSTOM_RANGE,
            Value::procs(targets.iter().cloned()),
        ),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(key::PMIX_GROUP_ID, Value::string(group)),
    ]
}

/// Adds infos of the caller to those of an event, except keys that the event itself has.
pub(super) fn with_provided(own: Vec<Info>, provided: impl IntoIterator<Item = Info>) -> Vec<Info> {
    let provided = provided
        .into_iter()
        .filter(|info| own.iter().all(|known| known.key != info.key));
    let provided: Vec<Info> = provided.collect();
    [own, provided].concat()
}

/// Status of a construct, for the event that announces its end (`PMIX_GROUP_CONSTRUCT_COMPLETE`).
pub(super) fn status(status: Status) -> Info {
    Info::new(key::PMIX_LOCAL_COLLECTIVE_STATUS, Value::Status(status))
}

/// Returns true if the end of a construct is a success. The C library gives no status, and
/// announces only successes.
pub(super) fn is_formed(event: &Event) -> bool {
    let status = event.infos.value_of(key::PMIX_LOCAL_COLLECTIVE_STATUS);
    status.is_none_or(|status| *status == Value::Status(code::PMIX_SUCCESS))
}

/// Returns the event that notifies the leader's own handlers that the group was not formed. It is
/// delivered in this process alone.
pub(super) fn failure(leader: &Proc, group: &str, why: Status) -> Event {
    let infos = vec![
        Info::new(key::PMIX_GROUP_ID, Value::string(group)),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        status(why),
    ];
    let code = code::PMIX_GROUP_CONSTRUCT_COMPLETE;
    let source = Some(leader.clone());
    Event {
        code,
        source,
        range: Range::ProcLocal,
        infos,
    }
}

/// Returns the event that notifies invited procs that the group was not formed.
pub(super) fn abort(leader: &Proc, group: &str, invited: &[Proc]) -> Event {
    let code = code::PMIX_GROUP_CONSTRUCT_ABORT;
    let source = Some(leader.clone());
    Event {
        code,
        source,
        range: Range::Custom,
        infos: to(invited, group),
    }
}

/// Returns the infos of an answer to an invitation. Releases of the C library accept the leader as
/// a single target only, not in an array.
pub(super) fn answer(group: &str, leader: &Proc) -> Vec<Info> {
    vec![
        Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(leader.clone())),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(key::PMIX_GROUP_ID, Value::string(group)),
    ]
}

/// Returns the name of the group that an event is about.
pub(super) fn group_of(event: &Event) -> Option<&str> {
    event
        .infos
        .value_of(key::PMIX_GROUP_ID)
        .and_then(Value::as_str)
}

/// Reports whether an event may be about this group. Releases of the C library do not name the
/// group in their answers to invitations.
pub(super) fn may_be_about(event: &Event, group: &str) -> bool {
    group_of(event).is_none_or(|named| named == group)
}
