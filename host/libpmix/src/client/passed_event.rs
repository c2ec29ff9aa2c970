//! Arguments of the handlers of one event. They are converted once, and extended from handler to
//! handler: a chain of many handlers would otherwise convert all earlier results for each.
use super::{operations::ProgramData, passed_results::PassedResults};
use crate::{
    abi::{CInfo, CKey, CProc, CValue, CValueData},
    convert::{ConvertError, ToC, copy_characters},
    destruct::Destruct,
    heap_array::HeapArray,
    memory,
};
use peal_client::HandlerCall;
use peal_model::{Event, Info, data_type, key, rank};
use std::{
    ffi::c_char,
    sync::{Mutex, PoisonError},
};

/// Event in its C form, for the handlers of a chain.
pub(crate) struct PassedEvent {
    /// Present until the drop.
    arrays: Mutex<Option<Box<PassedArrays>>>,
}

/// Arrays that no event uses. The next event is written to the same memory: that is likelier to be in
/// a cache of the processor than other memory.
static SPARE: Mutex<Option<Box<PassedArrays>>> = Mutex::new(None);

struct PassedArrays {
    source: CProc,
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
        let mut arrays = PassedArrays::spare();
        arrays.set_event(event);
        PassedEvent {
            arrays: Mutex::new(Some(arrays)),
        }
    }

    /// Returns the arguments of a call: the event with the name and the object of the registration
    /// behind its infos, and the results of earlier handlers.
    pub(crate) fn arguments(
        &self,
        call: &HandlerCall<'_>,
        object: Option<ProgramData>,
    ) -> HandlerArguments {
        let mut arrays = self.arrays.lock().unwrap_or_else(PoisonError::into_inner);
        let arrays = arrays.get_or_insert_default();
        arrays.set_registration(call, object);
        let PassedArrays {
            source,
            infos,
            results,
            ..
        } = &mut **arrays;
        results.add_new(call.steps(), call.handlers());
        HandlerArguments {
            source,
            infos: infos.as_mut_ptr(),
            ninfos: infos.len(),
            results: results.as_mut_ptr(),
            nresults: results.len(),
        }
    }
}

impl Drop for PassedEvent {
    /// Keeps the arrays for the next event, unless they are large.
    fn drop(&mut self) {
        let arrays = self.arrays.get_mut();
        let arrays = arrays.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut arrays) = arrays
            && arrays.infos.room <= FIRST_ROOM
        {
            arrays.clear();
            if let Ok(mut spare) = SPARE.try_lock() {
                *spare = Some(arrays);
            }
        }
    }
}

impl Default for PassedArrays {
    fn default() -> PassedArrays {
        PassedArrays {
            source: CProc {
                nspace: [0; _],
                rank: 0,
            },
            infos: GrowingArray::default(),
            name: Vec::new(),
            object: HeapArray::default(),
            results: PassedResults::default(),
        }
    }
}

impl PassedArrays {
    /// Returns the spare arrays, or new ones.
    fn spare() -> Box<PassedArrays> {
        // In a forked child, another thread of the parent may have held the lock.
        let spare = SPARE.try_lock().ok();
        spare.and_then(|mut spare| spare.take()).unwrap_or_default()
    }

    /// Removes what belongs to an event.
    fn clear(&mut self) {
        self.infos.clear();
        self.object = HeapArray::default();
        self.results = PassedResults::default();
    }

    /// Writes an event.
    fn set_event(&mut self, event: &Event) {
        let (nspace, rank) = match &event.source {
            Some(source) => (source.nspace.as_str(), source.rank),
            None => ("", rank::PMIX_RANK_UNDEF),
        };
        copy_characters(&mut self.source.nspace, nspace.as_bytes());
        self.source.rank = rank.0;
        event.infos.iter().for_each(|info| self.infos.push(info));
    }

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

/// Writes a key, which is empty if there are too many bytes.
pub(super) fn write_key(key: &mut CKey, name: &str) {
    let name = if name.len() < key.len() { name } else { "" };
    copy_characters(key, name.as_bytes());
}

/// Reports a part of an event that has no C form. The handler must learn of the event all the same.
pub(super) fn left_out(error: &ConvertError) {
    tracing::warn!(%error, "part of an event left out");
}

/// Array of infos with room for more, in the C heap. Behind infos of its own are some that it does not
/// own. Infos are long, so that each is written where it stays, and only as far as its key reaches.
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
    /// Removes all infos.
    fn clear(&mut self) {
        self.take_back();
        for at in 0..self.len {
            // SAFETY: the info was written, and is used no more.
            unsafe { (*self.first.add(at)).destruct() };
        }
        self.len = 0;
    }

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
            // SAFETY: the array is this value's own, and infos may be moved. The new places are behind
            // the old ones, and zero is a valid info.
            unsafe {
                self.first = memory::reallocate(self.first, room)?;
                let new = room.saturating_sub(self.room);
                self.first.add(self.room).write_bytes(0, new);
            }
            self.room = room;
        }
        Ok(())
    }

    /// Returns the place behind the last info, with neither flags nor value. It has yet to get a key.
    fn next(&mut self) -> Result<&mut CInfo, ConvertError> {
        if self.len == self.room {
            self.reserve(self.room.saturating_mul(2).max(FIRST_ROOM))?;
        }
        // SAFETY: the array has room for more than `len` infos, and all places in it are valid infos.
        let place = unsafe { &mut *self.first.add(self.len) };
        place.flags = 0;
        place.value = CValue::zeroed();
        Ok(place)
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
        self.clear();
        // SAFETY: the array came from `memory`, and is used no more.
        unsafe { memory::free(self.first) };
    }
}

/// Number of infos for which an array has room at first: most events have fewer.
const FIRST_ROOM: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        convert::{read_array, read_one},
        memory::counter,
    };
    use peal_model::{InfoFlags, Key, Nspace, Proc, Range, Rank, Status, Value};

    #[test]
    fn arrays_of_an_earlier_event_hold_the_next_one() {
        let before = counter::live();
        let event = |source: Option<&str>, infos: &[Info]| Event {
            code: Status(-3001),
            source: source.map(|nspace| Proc::new(Nspace::new(nspace).unwrap(), Rank(7))),
            range: Range::Session,
            infos: infos.to_vec(),
        };
        let long = Key::new(&"k".repeat(Key::MAX)).unwrap();
        let text = Info::new(long, Value::string("text"));
        let number = Info {
            flags: InfoFlags::REQUIRED,
            ..Info::new(key::PMIX_EVENT_HDLR_NAME, Value::Uint8(1))
        };
        let events = [
            event(
                Some("a-long-namespace"),
                &[text.clone(), text, number.clone()],
            ),
            event(Some("job"), &[number]),
            event(None, &[]),
        ];
        let mut arrays = PassedArrays::default();
        for event in events {
            arrays.set_event(&event);
            // SAFETY: the infos and the source are those that were written.
            let (infos, source): (Vec<Info>, Proc) = unsafe {
                let infos = read_array(arrays.infos.as_mut_ptr(), arrays.infos.len(), "infos");
                (
                    infos.unwrap(),
                    read_one(&raw const arrays.source, "source").unwrap(),
                )
            };
            let nowhere = Proc::new(Default::default(), rank::PMIX_RANK_UNDEF);
            assert_eq!(
                (infos, source),
                (event.infos, event.source.unwrap_or(nowhere))
            );
            arrays.clear();
        }
        drop(arrays);
        assert_eq!(counter::live(), before);
    }

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
