//! The events by which groups are formed without a server's doing, as they are raised and read.
use super::contribution;
use peal_model::{Event, Info, Infos, Proc, Range, Status, Value, code, key};

/// An invitation to a group (`PMIX_GROUP_INVITED`), as a handler hears of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Invited {
    /// To which group.
    pub group: String,
    /// Who leads, and is to be answered.
    pub leader: Proc,
    /// What the leader says of itself (`PMIX_GROUP_INFO`).
    pub said: Vec<Info>,
}

impl Invited {
    /// The invitation that this event is; nothing if it is something else.
    pub fn of(event: &Event) -> Option<Invited> {
        let (leader, group) = (event.source.clone()?, group_of(event)?.to_owned());
        let said = contribution::all_said(std::slice::from_ref(&leader), &event.infos);
        let said = said.into_iter().flat_map(|(_, said)| said).collect();
        (event.code == code::PMIX_GROUP_INVITED).then_some(Invited {
            group,
            leader,
            said,
        })
    }

    /// The event that accepts it.
    pub(crate) fn acceptance(&self) -> (Status, Vec<Info>) {
        (
            code::PMIX_GROUP_INVITE_ACCEPTED,
            answer(&self.group, &self.leader),
        )
    }

    /// The event that declines it.
    pub(crate) fn refusal(&self) -> (Status, Vec<Info>) {
        (
            code::PMIX_GROUP_INVITE_DECLINED,
            answer(&self.group, &self.leader),
        )
    }
}

/// What becomes of an invitation that somebody did not follow (`PMIX_GROUP_INVITE_FAILED`), as whoever leads decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AbsenceDecision {
    /// The group is formed without them (`PMIX_GROUP_MEMBERSHIP_UPDATE`).
    GoOn,
    /// These are invited in their place (the same, with `PMIX_GROUP_ADD_MEMBERS`).
    Replace(Vec<Proc>),
    /// Nothing comes of it (`PMIX_GROUP_CONSTRUCT_ABORT`).
    CallOff,
}

impl AbsenceDecision {
    /// The event that says so. It is for the process itself.
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

/// What an event about a group says to those whom it is for.
pub(super) fn to(targets: &[Proc], group: &str) -> Vec<Info> {
    vec![
        Info::new(
            key::PMIX_EVENT_CUSTOM_RANGE,
            Value::procs(targets.iter().cloned()),
        ),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(key::PMIX_GROUP_ID, Value::string(group)),
    ]
}

/// Infos of an event with those that the caller provided. Keys that the event itself has are not the caller's to give.
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

/// Returns true where the end of a construct is a success. The C library gives no status, and announces successes alone.
pub(super) fn is_formed(event: &Event) -> bool {
    let status = event.infos.value_of(key::PMIX_LOCAL_COLLECTIVE_STATUS);
    status.is_none_or(|status| *status == Value::Status(code::PMIX_SUCCESS))
}

/// The event by which whoever led hears that there is no group. It is for the process itself.
pub(super) fn failure(leader: &Proc, group: &str, why: Status) -> Event {
    let infos = vec![
        Info::new(key::PMIX_GROUP_ID, Value::string(group)),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        status(why),
    ];
    let (code, source) = (code::PMIX_GROUP_CONSTRUCT_COMPLETE, Some(leader.clone()));
    Event {
        code,
        source,
        range: Range::ProcLocal,
        infos,
    }
}

/// The event by which those who were invited hear that there is no group.
pub(super) fn abort(leader: &Proc, group: &str, invited: &[Proc]) -> Event {
    let (code, source) = (code::PMIX_GROUP_CONSTRUCT_ABORT, Some(leader.clone()));
    Event {
        code,
        source,
        range: Range::Custom,
        infos: to(invited, group),
    }
}

/// Releases of the C library take the leader by itself, in no array.
pub(super) fn answer(group: &str, leader: &Proc) -> Vec<Info> {
    vec![
        Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(leader.clone())),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(key::PMIX_GROUP_ID, Value::string(group)),
    ]
}

/// Which group an event names.
pub(super) fn group_of(event: &Event) -> Option<&str> {
    event
        .infos
        .value_of(key::PMIX_GROUP_ID)
        .and_then(Value::as_str)
}

/// Whether an event is about this group. The C library's releases do not say so in their answers to invitations.
pub(super) fn may_be_about(event: &Event, group: &str) -> bool {
    group_of(event).is_none_or(|named| named == group)
}
