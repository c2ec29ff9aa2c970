//! The data of the call being made, and the numbers under which a guest knows its nested values. Nothing is copied until a
//! guest reads it: a number stands for a place in the data.
use crate::EventCall;
use peal_model::{DataArray, Info, Proc, Step, Value};
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

/// What a guest can read in a call, and the arrays that it made there.
#[derive(Default)]
pub(crate) struct Data {
    pub(crate) subject: Subject,
    pub(crate) pushed: Vec<Value>,
}

impl Data {
    /// The call, if it is about an event.
    pub(crate) fn event(&self) -> Option<&EventCall> {
        match &self.subject {
            Subject::Event(call) => Some(call),
            Subject::None | Subject::Settings(_) => None,
        }
    }

    pub(crate) fn source(&self) -> Option<&Proc> {
        self.event()?.event.source.as_ref()
    }

    pub(crate) fn infos(&self) -> &[Info] {
        match &self.subject {
            Subject::Event(call) => &call.event.infos,
            Subject::Settings(infos) => infos,
            Subject::None => &[],
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        self.event().map_or(&[], |call| &call.steps)
    }

    /// The value that this number stands for. Arrays nest a few levels at most, so walking to it is cheap.
    pub(crate) fn value(&self, numbers: &Numbers, number: u32) -> Option<&Value> {
        match numbers.place(number)? {
            Place::Info(info) => Some(&self.infos().get(info)?.value),
            Place::Step { step, info } => Some(&self.steps().get(step)?.infos.get(info)?.value),
            Place::Pushed(at) => self.pushed.get(at),
            Place::Within { array, at } => match self.array(numbers, array)?.items().get(at)? {
                Value::Info(info) => Some(&info.value),
                value => Some(value),
            },
        }
    }

    /// The array that this number stands for; nothing if it stands for another value or for none.
    pub(crate) fn array(&self, numbers: &Numbers, number: u32) -> Option<&DataArray> {
        match self.value(numbers, number)? {
            Value::DataArray(array) => Some(array),
            _ => None,
        }
    }
}

/// Where a nested value lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    /// The value of an info of the call.
    Info(usize),
    /// The value of an info that a step returned.
    Step { step: usize, info: usize },
    /// An element of another array, or the value of the info that is the element.
    Within { array: u32, at: usize },
    /// An array that the guest made.
    Pushed(usize),
}

/// The numbers given so far. Each place has one, so there are never more than the call has nested values.
#[derive(Default)]
pub(crate) struct Numbers {
    places: Vec<Place>,
    known: HashMap<Place, u32>,
}

impl Numbers {
    /// The number of a place.
    pub(crate) fn number(&mut self, place: Place) -> u32 {
        let Numbers { places, known } = self;
        *known.entry(place).or_insert_with(|| {
            places.push(place);
            u32::try_from(places.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn place(&self, number: u32) -> Option<Place> {
        self.places.get(usize::try_from(number).ok()?).copied()
    }
}
