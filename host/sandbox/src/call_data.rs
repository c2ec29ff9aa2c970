//! What a call is about, and the numbers under which a guest knows values that have no shape in the contract. Such a value is
//! never copied into the guest: its number stands for a place in the data.
use crate::{ChannelCall, EventCall, PolicyCall};
use peal_model::{
    ChainResult, Info, PeerInfo, PolicySubject, Proc, Range, TargetProc, UnixGroup, UserIdentity,
    Value,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a call is about.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum CallSubject {
    /// Nothing: a start function, or `lifecycle.stop`.
    #[default]
    None,
    /// The settings of `lifecycle.init`, which the guest is handed.
    Settings(Arc<Vec<Info>>),
    /// An event to be handled.
    Event(EventCall),
    /// A request to be decided about.
    Policy(PolicyCall),
    /// A request to be logged.
    Log(ChannelCall),
}

impl CallSubject {
    /// Who caused it.
    pub(crate) fn source(&self) -> Option<&Proc> {
        match self {
            CallSubject::None | CallSubject::Settings(_) => None,
            CallSubject::Event(call) => call.event.source.as_ref(),
            CallSubject::Policy(call) => call.request.requester.as_ref(),
            CallSubject::Log(call) => call.request.source.as_ref(),
        }
    }

    /// As whom.
    pub(crate) fn identity(&self) -> Option<UserIdentity> {
        match self {
            CallSubject::None | CallSubject::Settings(_) => None,
            CallSubject::Event(call) => call.identity,
            CallSubject::Policy(call) => call.request.identity,
            CallSubject::Log(call) => call.request.identity,
        }
    }

    /// In which groups, where a policy is to know.
    pub(crate) fn groups(&self) -> &[UnixGroup] {
        match self {
            CallSubject::Policy(call) => &call.request.groups,
            _ => &[],
        }
    }

    /// As whom the server runs, where a policy is to know.
    pub(crate) fn server(&self) -> Option<UserIdentity> {
        match self {
            CallSubject::Policy(call) => Some(call.request.server),
            _ => None,
        }
    }

    /// What is at the other end of the connection that a policy is asked about.
    pub(crate) fn peer(&self) -> Option<&PeerInfo> {
        match self {
            CallSubject::Policy(call) => call.request.peer.as_ref(),
            _ => None,
        }
    }

    /// The procs that it is aimed at.
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

    /// The procs that it is aimed at with their owners, where a policy is to know.
    pub(crate) fn owned_targets(&self) -> &[TargetProc] {
        match self {
            CallSubject::Policy(call) => &call.request.targets,
            _ => &[],
        }
    }

    /// The range of the event that a policy is asked about.
    pub(crate) fn range_to_decide_about(&self) -> Option<Range> {
        match self {
            CallSubject::Policy(call) => match call.request.matter {
                PolicySubject::Event { range, .. } => Some(range),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a policy is asked what may be logged.
    pub(crate) fn is_to_be_logged(&self) -> bool {
        matches!(self, CallSubject::Policy(call) if call.request.matter == PolicySubject::Log)
    }

    pub(crate) fn infos(&self) -> &[Info] {
        match self {
            CallSubject::None | CallSubject::Settings(_) => &[],
            CallSubject::Event(call) => &call.event.infos,
            CallSubject::Policy(call) => &call.request.infos,
            CallSubject::Log(call) => &call.request.data,
        }
    }

    pub(crate) fn directives(&self) -> &[Info] {
        match self {
            CallSubject::None | CallSubject::Settings(_) | CallSubject::Event(_) => &[],
            CallSubject::Policy(call) => &call.request.directives,
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

    /// The value of this key and the info that it is in: the last of that key.
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
            (InfoList::Lent(_), _) => None,
        }
    }

    /// The value that this number stands for.
    pub(crate) fn opaque<'a>(&'a self, opaques: &'a OpaqueTable, number: u32) -> Option<&'a Value> {
        let place = opaques.places.get(usize::try_from(number).ok()?)?;
        let infos = match place.list {
            InfoList::Lent(at) => opaques.lent.get(at)?,
            list => self.list(list)?,
        };
        value_at(infos, &place.path)
    }
}

/// The value at the end of this path.
fn value_at<'a>(infos: &'a [Info], path: &[usize]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(&infos.get(*first)?.value, |value, at| match value {
            Value::DataArray(array) => match array.items().get(*at)? {
                Value::Info(info) => Some(&info.value),
                item => Some(item),
            },
            _ => None,
        })
}

/// A list of infos that a guest can read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InfoList {
    /// The infos, or the settings.
    Infos,
    /// The directives.
    Directives,
    /// The infos of this step.
    Step(usize),
    /// What the guest was told in answer to this question of those that are kept.
    Lent(usize),
}

/// Where a value lies: in which list, at which info, then at which element of each array on the way down.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ValuePath {
    pub(crate) list: InfoList,
    pub(crate) path: Vec<usize>,
}

/// The numbers given so far. Each place has one, so there are never more than the call has values.
#[derive(Default)]
pub(crate) struct OpaqueTable {
    places: Vec<ValuePath>,
    known: BTreeMap<ValuePath, u32>,
    /// Answers from elsewhere in which some of them lie.
    lent: Vec<Vec<Info>>,
}

impl OpaqueTable {
    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.known.clear();
        self.lent.clear();
    }

    /// Where the next answer from elsewhere will lie, if it is kept.
    pub(crate) fn next_lent(&self) -> InfoList {
        InfoList::Lent(self.lent.len())
    }

    /// Whether any number stands for something in this list, which was looked at last.
    pub(crate) fn has_any_of(&self, list: InfoList) -> bool {
        self.places.last().is_some_and(|place| place.list == list)
    }

    /// Keeps an answer until the call has returned.
    pub(crate) fn keep(&mut self, infos: Vec<Info>) {
        self.lent.push(infos);
    }

    /// The number of a place.
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
