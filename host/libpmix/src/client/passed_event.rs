//! Arguments of the handlers of one event. They are converted once, and extended from handler to
//! handler: a chain of many handlers would otherwise convert all earlier results for each.
use super::operations::ProgramData;
use crate::{
    abi::{CDataArray, CInfo, CKey, CProc, CValue, CValueData},
    convert::{ConvertError, ToC},
    destruct::Destruct,
    heap_array::HeapArray,
    memory,
};
use peal_client::HandlerCall;
use peal_model::{ChainResult, Event, Info, Proc, data_type, key, rank};
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
            infos.add(|place| write_name(place, call.name()));
        }
        match (object, call.object()) {
            (Some(object), _) => infos.add(|place| {
                write_object(place, object);
                Ok(())
            }),
            (None, Some(object)) => {
                infos.push(&Info::new(key::PMIX_EVENT_RETURN_OBJECT, object.clone()));
            }
            (None, None) => {}
        }
        let steps = call.steps();
        let new = steps.get(*handlers..).unwrap_or_default();
        for step in new {
            results.add(|place| write_result(place, step));
        }
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

/// Writes the name of a registration to a zeroed info.
fn write_name(info: &mut CInfo, name: &str) -> Result<(), ConvertError> {
    write_key(&mut info.key, key::PMIX_EVENT_HDLR_NAME.0);
    info.value = CValue {
        r#type: data_type::PMIX_STRING.0,
        data: CValueData {
            string: memory::copy_string(name.as_bytes())?,
        },
    };
    Ok(())
}

/// Writes the result of a handler to a zeroed info, in the form of [`ChainResult::as_info`]. Long
/// chains make many of them, so that none is made as a model first.
fn write_result(info: &mut CInfo, result: &ChainResult) -> Result<(), ConvertError> {
    write_key(&mut info.key, &result.name);
    let mut infos = HeapArray::<CInfo>::zeroed(result.infos.len().saturating_add(1))?;
    if let Some((first, others)) = infos.as_mut_slice().split_first_mut() {
        write_key(&mut first.key, &result.name);
        first.value = CValue {
            r#type: data_type::PMIX_STATUS.0,
            data: CValueData {
                status: result.status.0,
            },
        };
        for (info, place) in result.infos.iter().zip(others) {
            info.fill(place)?;
        }
    }
    let array: *mut CDataArray = memory::allocate(1)?;
    let (first, size) = infos.into_raw();
    // SAFETY: the array is new, and has room for one structure.
    unsafe {
        array.write(CDataArray {
            r#type: data_type::PMIX_INFO.0,
            size,
            array: first.cast(),
        });
    }
    info.value = CValue {
        r#type: data_type::PMIX_DATA_ARRAY.0,
        data: CValueData { darray: array },
    };
    Ok(())
}

/// Writes the object of a registration to a zeroed info.
fn write_object(info: &mut CInfo, object: ProgramData) {
    write_key(&mut info.key, key::PMIX_EVENT_RETURN_OBJECT.0);
    info.value = CValue {
        r#type: data_type::PMIX_POINTER.0,
        data: CValueData { ptr: object.get() },
    };
}

/// Writes a key to a zeroed one, which stays empty if there are too many bytes.
fn write_key(key: &mut CKey, name: &str) {
    if name.len() < key.len() {
        for (place, byte) in key.iter_mut().zip(name.bytes()) {
            *place = byte.cast_signed();
        }
    }
}

/// Array of infos with room for more, in the C heap.
#[derive(Debug)]
struct GrowingArray {
    first: *mut CInfo,
    len: usize,
    room: usize,
}

// SAFETY: the array and all that it owns belong to this value alone, and the C heap has no threads.
unsafe impl Send for GrowingArray {}

impl Default for GrowingArray {
    fn default() -> GrowingArray {
        GrowingArray {
            first: std::ptr::null_mut(),
            len: 0,
            room: 0,
        }
    }
}

impl GrowingArray {
    /// Adds an info. One without a C form is left out: the handler must learn of the event all the
    /// same.
    fn push(&mut self, info: &Info) {
        self.add(|place| info.fill(place));
    }

    /// Adds an info that `write` writes to its place. One that cannot be written is left out. `write`
    /// leaves an info that can be destructed, whatever it returns.
    fn add(&mut self, write: impl FnOnce(&mut CInfo) -> Result<(), ConvertError>) {
        if let Err(error) = self.try_add(write) {
            tracing::warn!(%error, "part of an event left out");
        }
    }

    fn try_add(
        &mut self,
        write: impl FnOnce(&mut CInfo) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        if self.len == self.room {
            let room = self.room.saturating_mul(2).max(FIRST_ROOM);
            // SAFETY: the array is this value's own, and infos may be moved.
            self.first = unsafe { memory::reallocate(self.first, room) }?;
            self.room = room;
        }
        // SAFETY: the array has room for more than `len` infos, and the place is initialized first.
        let place = unsafe {
            let place = self.first.add(self.len);
            place.write(CInfo::zeroed());
            &mut *place
        };
        if let Err(error) = write(place) {
            // SAFETY: `write` leaves an info that can be destructed; the array owns it.
            unsafe { place.destruct() };
            return Err(error);
        }
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Removes all infos from the `len`th on.
    fn truncate(&mut self, len: usize) {
        while self.len > len {
            self.len = self.len.saturating_sub(1);
            // SAFETY: the info was initialized, and is used no more.
            unsafe { (*self.first.add(self.len)).destruct() };
        }
    }

    /// Returns the pointer for a C function; null if there are no infos.
    fn as_mut_ptr(&mut self) -> *mut CInfo {
        if self.len == 0 {
            return std::ptr::null_mut();
        }
        self.first
    }
}

impl Drop for GrowingArray {
    fn drop(&mut self) {
        self.truncate(0);
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
    use peal_model::{Status, Value};

    #[test]
    fn results_are_those_of_their_models() {
        let before = counter::live();
        let long = "n".repeat(600);
        for name in ["a handler", "", &long] {
            let result = ChainResult {
                name: name.into(),
                status: Status(-47),
                infos: vec![Info::new(
                    key::PMIX_EVENT_TEXT_MESSAGE,
                    Value::string("text"),
                )],
            };
            let mut info = CInfo::zeroed();
            write_result(&mut info, &result).unwrap();
            // SAFETY: the info was made above, and owns what it points to.
            let read: Info = unsafe { read_array(&raw const info, 1, "infos") }
                .unwrap()
                .remove(0);
            assert_eq!(read, result.as_info());
            // SAFETY: as above; it is used no more.
            unsafe { info.destruct() };
        }
        assert_eq!(counter::live(), before);
    }

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
