//! Arguments of the handlers of one event. They are converted once, and extended from handler to
//! handler: a chain of many handlers would otherwise convert all earlier results for each.
use super::{operations::ProgramData, passed_results::PassedResults};
use crate::{
    abi::{CInfo, CKey, CProc, CValue, CValueData},
    convert::{ConvertError, ToC},
    destruct::Destruct,
    heap_array::HeapArray,
    memory,
};
use peal_client::HandlerCall;
use peal_model::{Event, Info, Proc, data_type, key, rank};
use std::{
    ffi::c_char,
    slice,
    sync::{Mutex, PoisonError},
};

/// Event in its C form, for the handlers of a chain.
pub(crate) struct PassedEvent(Mutex<PassedArrays>);

struct PassedArrays {
    source: HeapArray<CProc>,
    /// Infos of the event, and behind them those of the registration whose handler is called.
    infos: GrowingArray,
    /// Name of that registration, which ends with a NUL.
    name: Vec<u8>,
    /// Object of that registration, if it has a C form of its own.
    object: HeapArray<CInfo>,
    results: PassedResults,
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
            infos,
            name: Vec::new(),
            object: HeapArray::default(),
            results: PassedResults::default(),
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
        arrays.set_registration(call, object);
        let PassedArrays {
            source,
            infos,
            results,
            ..
        } = &mut *arrays;
        results.add_new(call.steps(), call.handlers());
        HandlerArguments {
            source: source.as_mut_ptr(),
            infos: infos.as_mut_ptr(),
            ninfos: infos.len(),
            results: results.as_mut_ptr(),
            nresults: results.len(),
        }
    }
}

impl PassedArrays {
    /// Puts the name and the object of a registration behind the infos of the event.
    fn set_registration(&mut self, call: &HandlerCall<'_>, object: Option<ProgramData>) {
        self.infos.take_back();
        if !call.name().is_empty() {
            self.name.clear();
            self.name.extend_from_slice(call.name().as_bytes());
            self.name.push(0);
            let string: *mut c_char = self.name.as_mut_ptr().cast();
            let value = CValue {
                r#type: data_type::PMIX_STRING.0,
                data: CValueData { string },
            };
            self.infos.lend(key::PMIX_EVENT_HDLR_NAME.0, value);
        }
        match (object, call.object()) {
            (Some(object), _) => {
                let value = CValue {
                    r#type: data_type::PMIX_POINTER.0,
                    data: CValueData { ptr: object.get() },
                };
                self.infos.lend(key::PMIX_EVENT_RETURN_OBJECT.0, value);
            }
            (None, Some(object)) => {
                let model = Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone());
                match HeapArray::from_models(&[model]) {
                    Ok(object) => self.object = object,
                    Err(error) => return left_out(&error),
                }
                if let [object] = self.object.as_slice() {
                    let key = key::PMIX_EVENT_RETURN_OBJECT.0;
                    self.infos.lend(key, object.value);
                }
            }
            (None, None) => {}
        }
    }
}

/// Writes a key to a zeroed one, which stays empty if there are too many bytes.
pub(super) fn write_key(key: &mut CKey, name: &str) {
    if name.len() < key.len() {
        for (place, byte) in key.iter_mut().zip(name.bytes()) {
            *place = byte.cast_signed();
        }
    }
}

/// Reports a part of an event that has no C form. The handler must learn of the event all the same.
pub(super) fn left_out(error: &ConvertError) {
    tracing::warn!(%error, "part of an event left out");
}

/// Array of infos with room for more, in the C heap. Behind infos of its own are some that it does not
/// own. Infos are long, so that each is written where it stays.
#[derive(Debug)]
pub(super) struct GrowingArray {
    first: *mut CInfo,
    len: usize,
    room: usize,
    /// Number of infos at the end that belong to others.
    lent: usize,
}

// SAFETY: the array and all that it owns belong to this value alone, and the C heap has no threads.
unsafe impl Send for GrowingArray {}

impl Default for GrowingArray {
    fn default() -> GrowingArray {
        GrowingArray {
            first: std::ptr::null_mut(),
            len: 0,
            room: 0,
            lent: 0,
        }
    }
}

impl GrowingArray {
    /// Adds an info in its C form. One without such a form is left out.
    fn push(&mut self, info: &Info) {
        self.take_back();
        let added = self.next().and_then(|place| {
            // SAFETY: `fill` leaves an info that can be destructed, whatever it returns; it is used no
            // more then.
            info.fill(place)
                .inspect_err(|_| unsafe { place.destruct() })
        });
        match added {
            Ok(()) => self.len = self.len.saturating_add(1),
            Err(error) => left_out(&error),
        }
    }

    /// Adds an info whose value belongs to somebody else until it is taken back.
    pub(super) fn lend(&mut self, key: &str, value: CValue) {
        match self.next() {
            Ok(place) => {
                write_key(&mut place.key, key);
                place.value = value;
                self.len = self.len.saturating_add(1);
                self.lent = self.lent.saturating_add(1);
            }
            Err(error) => left_out(&error),
        }
    }

    /// Removes the infos that belong to others.
    fn take_back(&mut self) {
        self.len = self.len.saturating_sub(self.lent);
        self.lent = 0;
    }

    /// Makes room for this number of infos.
    pub(super) fn reserve(&mut self, room: usize) -> Result<(), ConvertError> {
        if room > self.room {
            // SAFETY: the array is this value's own, and infos may be moved.
            self.first = unsafe { memory::reallocate(self.first, room) }?;
            self.room = room;
        }
        Ok(())
    }

    /// Returns the place behind the last info, zeroed.
    fn next(&mut self) -> Result<&mut CInfo, ConvertError> {
        if self.len == self.room {
            self.reserve(self.room.saturating_mul(2).max(FIRST_ROOM))?;
        }
        // SAFETY: the array has room for more than `len` infos, and zero is a valid info.
        unsafe {
            let place = self.first.add(self.len);
            place.write_bytes(0, 1);
            Ok(&mut *place)
        }
    }

    /// Returns the number of infos.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the pointer for a C function; null if there are no infos.
    pub(super) fn as_mut_ptr(&mut self) -> *mut CInfo {
        if self.len == 0 {
            return std::ptr::null_mut();
        }
        self.first
    }
}

impl Drop for GrowingArray {
    fn drop(&mut self) {
        self.take_back();
        for at in 0..self.len {
            // SAFETY: the info was written, and is used no more.
            unsafe { (*self.first.add(at)).destruct() };
        }
        // SAFETY: the array came from `memory`, and is used no more.
        unsafe { memory::free(self.first) };
    }
}

/// Number of infos for which an array has room at first: most events have fewer.
const FIRST_ROOM: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::read_array, memory::counter};
    use peal_model::Value;

    #[test]
    fn infos_of_others_are_behind_and_not_freed() {
        let before = counter::live();
        let mut array = GrowingArray::default();
        assert!(array.as_mut_ptr().is_null());
        let own = Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string("text"));
        (0..20).for_each(|_| array.push(&own));
        assert_eq!((array.len, counter::live()), (20, before + 21));
        let other = Info::new(key::PMIX_EVENT_HDLR_NAME, Value::string("name"));
        let others = HeapArray::<CInfo>::from_models(std::slice::from_ref(&other)).unwrap();
        let live = counter::live();
        for _ in 0..2 {
            array.take_back();
            array.lend(key::PMIX_EVENT_HDLR_NAME.0, others.as_slice()[0].value);
            // SAFETY: the infos are those written above.
            let read: Vec<Info> =
                unsafe { read_array(array.as_mut_ptr(), array.len, "infos") }.unwrap();
            assert_eq!((read.len(), &read[19], &read[20]), (21, &own, &other));
        }
        assert_eq!(counter::live(), live);
        drop(array);
        drop(others);
        assert_eq!(counter::live(), before);
    }
}
