//! What a call is about, and the numbers under which a guest knows values that have no shape in the contract. Such a value is
//! never copied into the guest: its number stands for a place in the data.
use crate::EventCall;
use peal_model::{Info, Proc, Step, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// What a call is about.
#[derive(Default)]
pub(crate) enum Subject {
    /// Nothing: a start function, or `lifecycle.stop`.
    #[default]
    None,
    /// An event.
    Event(EventCall),
    /// The settings of `lifecycle.init`.
    Settings(Arc<Vec<Info>>),
}

impl Subject {
    /// The call, if it is about an event.
    pub(crate) fn event(&self) -> Option<&EventCall> {
        match self {
            Subject::Event(call) => Some(call),
            Subject::None | Subject::Settings(_) => None,
        }
    }

    pub(crate) fn source(&self) -> Option<&Proc> {
        self.event()?.event.source.as_ref()
    }

    /// The infos of the event.
    pub(crate) fn infos(&self) -> &[Info] {
        self.event().map_or(&[], |call| &call.event.infos)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        self.event().map_or(&[], |call| &call.steps)
    }

    fn list(&self, list: List) -> Option<&[Info]> {
        match (list, self) {
            (List::Step(at), _) => Some(&self.steps().get(at)?.infos),
            (List::Infos, Subject::Settings(settings)) => Some(settings),
            (List::Infos, _) => Some(self.infos()),
        }
    }

    /// The value at this place.
    fn value(&self, place: &Place) -> Option<&Value> {
        let (first, rest) = place.path.split_first()?;
        let info = self.list(place.list)?.get(*first)?;
        rest.iter().try_fold(&info.value, |value, at| match value {
            Value::DataArray(array) => match array.items().get(*at)? {
                Value::Info(info) => Some(&info.value),
                item => Some(item),
            },
            _ => None,
        })
    }

    /// The value that this number stands for.
    pub(crate) fn opaque(&self, opaques: &Opaques, number: u32) -> Option<&Value> {
        self.value(opaques.places.get(usize::try_from(number).ok()?)?)
    }
}

/// A list of infos that a guest can read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum List {
    /// That of the event, or the settings.
    Infos,
    /// That of this step.
    Step(usize),
}

/// Where a value lies: in which list, at which info, then at which element of each array on the way down.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) list: List,
    pub(crate) path: Vec<usize>,
}

/// The numbers given so far. Each place has one, so there are never more than the call has values.
#[derive(Default)]
pub(crate) struct Opaques {
    places: Vec<Place>,
    known: HashMap<Place, u32>,
}

impl Opaques {
    /// The number of a place.
    pub(crate) fn number(&mut self, place: &Place) -> u32 {
        if let Some(number) = self.known.get(place) {
            return *number;
        }
        let number = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        self.places.push(place.clone());
        self.known.insert(place.clone(), number);
        number
    }
}
