//! Arguments of the handlers of one event. They are converted once, and extended from handler to
//! handler: a chain of many handlers would otherwise convert all earlier results for each.
use super::operations::ProgramData;
use crate::{
    abi::{CInfo, CProc, CValue, CValueData},
    convert::{ConvertError, ToC, key_array},
    destruct::Destruct,
    heap_array::HeapArray,
};
use peal_client::HandlerCall;
use peal_model::{Event, Info, Proc, Value, data_type, key, rank};
use std::{
    slice,
    sync::{Mutex, PoisonError},
};

/// Event in its C form, for the handlers of a chain.
pub(crate) struct PassedEvent(Mutex<PassedArrays>);

struct PassedArrays {
    source: HeapArray<CProc>,
    infos: GrowingArray,
    /// Number of infos of the event itself; those of a registration follow.
    of_event: usize,
    results: GrowingArray,
    /// Number of handlers whose results are among them.
    handlers: usize,
}

/// Arguments of a call. They are valid until the next call for the same event, and as long as the
/// [`PassedEvent`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandlerArguments {
    pub(crate) source: *const CProc,
    pub(crate) infos: *mut CInfo,
    pub(crate) ninfos: usize,
    pub(crate) results: *mut CInfo,
    pub(crate) nresults: usize,
}

impl PassedEvent {
    /// Converts an event.
    pub(crate) fn new(event: &Event) -> PassedEvent {
        let nowhere = || Proc::new(Default::default(), rank::PMIX_RANK_UNDEF);
        let source = event.source.clone().unwrap_or_else(nowhere);
        let source = HeapArray::from_models(slice::from_ref(&source)).unwrap_or_else(|error| {
            tracing::warn!(%error, "event passed without its source");
            HeapArray::default()
        });
        let mut infos = GrowingArray::default();
        event.infos.iter().for_each(|info| infos.push(info));
        PassedEvent(Mutex::new(PassedArrays {
            source,
            of_event: infos.len,
            infos,
            results: GrowingArray::default(),
            handlers: 0,
        }))
    }

    /// Returns the arguments of a call: the event with the name and the object of the registration
    /// behind its infos, and the results of earlier handlers.
    pub(crate) fn arguments(
        &self,
        call: &HandlerCall<'_>,
        object: Option<ProgramData>,
    ) -> HandlerArguments {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let PassedArrays {
            source,
            infos,
            of_event,
            results,
            handlers,
        } = &mut *arrays;
        infos.truncate(*of_event);
        if !call.name().is_empty() {
            let name = Value::string(call.name());
            infos.push(&Info::new(key::PMIX_EVENT_HDLR_NAME, name));
        }
        match (object, call.object()) {
            (Some(object), _) => infos.push_structure(object_info(object)),
            (None, Some(object)) => {
                infos.push(&Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone()));
            }
            (None, None) => {}
        }
        let steps = call.steps();
        let new = steps.get(*handlers..).unwrap_or_default();
        new.iter().for_each(|step| results.push(&step.as_info()));
        *handlers = steps.len();
        HandlerArguments {
            source: source.as_mut_ptr(),
            infos: infos.as_mut_ptr(),
            ninfos: infos.len,
            results: results.as_mut_ptr(),
            nresults: results.len,
        }
    }
}

/// Returns the info with the object of a registration.
fn object_info(object: ProgramData) -> CInfo {
    let mut info = CInfo::zeroed();
    info.key = key_array(&key::PMIX_EVENT_RETURN_OBJECT.into());
    info.value = CValue {
        r#type: data_type::PMIX_POINTER.0,
        data: CValueData { ptr: object.get() },
    };
    info
}

/// Array of infos with room for more.
#[derive(Debug, Default)]
struct GrowingArray {
    /// Infos, and zeroed structures behind them.
    array: HeapArray<CInfo>,
    len: usize,
}

impl GrowingArray {
    /// Adds an info. One without a C form is left out: the handler must learn of the event all the
    /// same.
    fn push(&mut self, info: &Info) {
        let mut structure = CInfo::zeroed();
        match info.fill(&mut structure) {
            Ok(()) => self.push_structure(structure),
            Err(error) => {
                tracing::warn!(?info, %error, "part of an event left out");
                // SAFETY: `fill` leaves a structure that can be destructed, and nothing else has it.
                unsafe { structure.destruct() };
            }
        }
    }

    /// Adds a structure, and owns it from now on.
    fn push_structure(&mut self, mut structure: CInfo) {
        match self.next_place() {
            Ok(place) => *place = structure,
            Err(error) => {
                tracing::warn!(%error, "part of an event left out");
                // SAFETY: nothing else has the structure.
                unsafe { structure.destruct() };
            }
        }
    }

    fn next_place(&mut self) -> Result<&mut CInfo, ConvertError> {
        if self.len == self.array.len() {
            self.array.grow(self.len.saturating_mul(2).max(FIRST_ROOM))?;
        }
        let bytes = size_of::<CInfo>();
        let place = self.array.as_mut_slice().get_mut(self.len);
        self.len = self.len.saturating_add(1);
        place.ok_or(ConvertError::NoMemory { bytes })
    }

    /// Removes all infos from the `len`th on.
    fn truncate(&mut self, len: usize) {
        for info in self.array.as_mut_slice().iter_mut().take(self.len).skip(len) {
            // SAFETY: the array owns its infos; a destructed one is never used again.
            unsafe { info.destruct() };
            *info = CInfo::zeroed();
        }
        self.len = self.len.min(len);
    }

    /// Returns the pointer for a C function; null if there are no infos.
    fn as_mut_ptr(&mut self) -> *mut CInfo {
        if self.len == 0 {
            return std::ptr::null_mut();
        }
        self.array.as_mut_ptr()
    }
}

/// Number of infos for which an array has room at first: most events have fewer.
const FIRST_ROOM: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::counter;

    #[test]
    fn infos_are_added_and_removed_without_a_leak() {
        let before = counter::live();
        let mut array = GrowingArray::default();
        assert!(array.as_mut_ptr().is_null());
        let info = Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string("text"));
        (0..20).for_each(|_| array.push(&info));
        assert_eq!((array.len, counter::live()), (20, before + 21));
        array.truncate(3);
        assert_eq!((array.len, counter::live()), (3, before + 4));
        array.truncate(5);
        assert_eq!(array.len, 3);
        drop(array);
        assert_eq!(counter::live(), before);
    }
}
