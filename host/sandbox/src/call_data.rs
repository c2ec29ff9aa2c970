//! Subject of a call, and the numbers by which a guest refers to values that the contract has no
//! form for. Such a value is not copied into the guest: its number stands for a position in the
//! subject.
use crate::{ChannelCall, EventCall, PolicyCall};
use peal_model::{
    ChainResult, Info, PeerInfo, PolicySubject, Proc, Range, TargetProc, UnixGroup, UserIdentity,
    Value,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Subject of a call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum CallSubject {
    /// No subject: a start function, or `lifecycle.stop`.
    #[default]
    None,
    /// Settings that `lifecycle.init` receives.
    Settings(Arc<Vec<Info>>),
    /// An event for a handler.
    Event(EventCall),
    /// A request for a policy.
    Policy(PolicyCall),
    /// A request for a log channel.
    Log(ChannelCall),
}

/// Call of a module in one of its roles.
pub(crate) trait RoleCall: Into<CallSubject> {
    /// Returns the proc that caused the call.
    fn source(&self) -> Option<&Proc>;
}

impl RoleCall for EventCall {
    fn source(&self) -> Option<&Proc> {
        self.event.source.as_ref()
    }
}

impl RoleCall for PolicyCall {
    fn source(&self) -> Option<&Proc> {
        self.request.requester.as_ref()
    }
}

impl RoleCall for ChannelCall {
    fn source(&self) -> Option<&Proc> {
        self.request.source.as_ref()
    }
}

impl From<EventCall> for CallSubject {
    fn from(call: EventCall) -> CallSubject {
        CallSubject::Event(call)
    }
}

impl From<PolicyCall> for CallSubject {
    fn from(call: PolicyCall) -> CallSubject {
        CallSubject::Policy(call)
    }
}

impl From<ChannelCall> for CallSubject {
    fn from(call: ChannelCall) -> CallSubject {
        CallSubject::Log(call)
    }
}

impl CallSubject {
    /// Returns the proc that caused the call.
    pub(crate) fn source(&self) -> Option<&Proc> {
        match self {
            CallSubject::None | CallSubject::Settings(_) => None,
            CallSubject::Event(call) => call.source(),
            CallSubject::Policy(call) => call.source(),
            CallSubject::Log(call) => call.source(),
        }
    }

    /// Returns the user and group of the source.
    pub(crate) fn identity(&self) -> Option<UserIdentity> {
        match self {
            CallSubject::None | CallSubject::Settings(_) => None,
            CallSubject::Event(call) => call.identity,
            CallSubject::Policy(call) => call.request.identity,
            CallSubject::Log(call) => call.request.identity,
        }
    }

    /// Returns the Unix groups of the requester; empty unless the call is one of a policy.
    pub(crate) fn groups(&self) -> &[UnixGroup] {
        match self {
            CallSubject::Policy(call) => &call.request.groups,
            _ => &[],
        }
    }

    /// Returns the user and group of the server; `None` unless the call is one of a policy.
    pub(crate) fn server(&self) -> Option<UserIdentity> {
        match self {
            CallSubject::Policy(call) => Some(call.request.server),
            _ => None,
        }
    }

    /// Returns the peer of the connection that a policy decides about.
    pub(crate) fn peer(&self) -> Option<&PeerInfo> {
        match self {
            CallSubject::Policy(call) => match &call.request.subject {
                PolicySubject::Connection(subject) => Some(&subject.peer),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the target procs.
    pub(crate) fn targets(&self) -> Vec<Proc> {
        match self {
            CallSubject::Event(call) => call.event.custom_targets().unwrap_or_default(),
            subject => subject
                .owned_targets()
                .iter()
                .map(|target| target.proc.clone())
                .collect(),
        }
    }

    /// Returns the target procs with their owners; empty unless the call is one of a policy.
    pub(crate) fn owned_targets(&self) -> &[TargetProc] {
        match self {
            CallSubject::Policy(call) => &call.request.targets,
            _ => &[],
        }
    }

    /// Returns the range of the event that a policy decides about.
    pub(crate) fn requested_range(&self) -> Option<Range> {
        match self {
            CallSubject::Policy(call) => call.request.subject.range(),
            _ => None,
        }
    }

    /// Returns true if a log policy is called.
    pub(crate) fn is_log_request(&self) -> bool {
        matches!(
            self,
            CallSubject::Policy(call) if matches!(call.request.subject, PolicySubject::Log(_))
        )
    }

    pub(crate) fn infos(&self) -> &[Info] {
        match self {
            CallSubject::None | CallSubject::Settings(_) => &[],
            CallSubject::Event(call) => &call.event.infos,
            CallSubject::Policy(call) => call.request.subject.infos(),
            CallSubject::Log(call) => &call.request.data,
        }
    }

    pub(crate) fn directives(&self) -> &[Info] {
        match self {
            CallSubject::None | CallSubject::Settings(_) | CallSubject::Event(_) => &[],
            CallSubject::Policy(call) => call.request.subject.directives(),
            CallSubject::Log(call) => &call.request.directives,
        }
    }

    pub(crate) fn steps(&self) -> &[ChainResult] {
        match self {
            CallSubject::None | CallSubject::Settings(_) => &[],
            CallSubject::Event(call) => &call.steps,
            CallSubject::Policy(call) => &call.steps,
            CallSubject::Log(call) => &call.steps,
        }
    }

    /// Returns the value of a key with its path. The last info with that key counts.
    pub(crate) fn find(&self, key: &str) -> Option<(ValuePath, &Value)> {
        let lists = [
            (InfoList::Infos, self.infos()),
            (InfoList::Directives, self.directives()),
        ];
        lists.into_iter().find_map(|(list, infos)| {
            let (at, info) = infos
                .iter()
                .enumerate()
                .rfind(|(_, info)| info.key.as_str() == key)?;
            Some((
                ValuePath {
                    list,
                    path: vec![at],
                },
                &info.value,
            ))
        })
    }

    fn list(&self, list: InfoList) -> Option<&[Info]> {
        match (list, self) {
            (InfoList::Infos, CallSubject::Settings(settings)) => Some(settings),
            (InfoList::Infos, _) => Some(self.infos()),
            (InfoList::Directives, _) => Some(self.directives()),
            (InfoList::Step(at), _) => Some(&self.steps().get(at)?.infos),
            (InfoList::Answer(_), _) => None,
        }
    }

    /// Returns the value that a number stands for.
    pub(crate) fn opaque<'a>(&'a self, opaques: &'a OpaqueTable, number: u32) -> Option<&'a Value> {
        let place = opaques.places.get(usize::try_from(number).ok()?)?;
        let infos = match place.list {
            InfoList::Answer(at) => opaques.answers.get(at)?,
            list => self.list(list)?,
        };
        value_at(infos, &place.path)
    }
}

/// Returns the value at the end of a path.
fn value_at<'a>(infos: &'a [Info], path: &[usize]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(&infos.get(*first)?.value, |value, at| match value {
            Value::DataArray(array) => match array.items().get(*at)? {
                // An info in an array has no step of its own in the path.
                Value::Info(info) => Some(&info.value),
                item => Some(item),
            },
            _ => None,
        })
}

/// A list of infos that a guest can read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InfoList {
    /// The infos of the subject, or the settings.
    Infos,
    /// The directives of the subject.
    Directives,
    /// The infos of the chain result at this index.
    Step(usize),
    /// The kept answer at this index: infos that a host call returned.
    Answer(usize),
}

/// Position of a value: its list, the index of the info, then the index of the element in each
/// nested array.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ValuePath {
    pub(crate) list: InfoList,
    pub(crate) path: Vec<usize>,
}

/// Numbers given out during a call. A position has one number, so there are never more than the
/// subject has values.
#[derive(Default)]
pub(crate) struct OpaqueTable {
    places: Vec<ValuePath>,
    known: BTreeMap<ValuePath, u32>,
    /// Answers of host calls to which some positions refer.
    answers: Vec<Vec<Info>>,
}

impl OpaqueTable {
    /// Removes all numbers and answers.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.known.clear();
        self.answers.clear();
    }

    /// Returns the list that the next kept answer will be.
    pub(crate) fn next_answer(&self) -> InfoList {
        InfoList::Answer(self.answers.len())
    }

    /// Returns true if the last number refers to this list. Only valid for the list that was
    /// lowered last.
    pub(crate) fn has_any_of(&self, list: InfoList) -> bool {
        self.places.last().is_some_and(|place| place.list == list)
    }

    /// Keeps an answer of a host call until the call has returned.
    pub(crate) fn keep_answer(&mut self, infos: Vec<Info>) {
        self.answers.push(infos);
    }

    /// Returns the number of a position and assigns one if needed.
    pub(crate) fn number(&mut self, place: &ValuePath) -> u32 {
        if let Some(number) = self.known.get(place) {
            return *number;
        }
        let number = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(place.clone());
        self.known.insert(place.clone(), number);
        number
    }
}
