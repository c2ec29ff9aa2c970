//! Bytes that choose calls and their arguments.
use crate::{
    abi::{CByteObject, CDataArray, CEnvar, CInfo, CProc, CValue, CValueData, KEY_SIZE},
    convert::element::{self, Storage},
    memory,
};
use peal_model::{DataType, data_type as dt};
use std::{
    ffi::{CString, c_char, c_void},
    ptr,
};

/// Levels of arrays inside of arrays.
const MAX_DEPTH: usize = 3;

/// Bytes that are used up from the front. Zeros follow them.
pub(super) struct Choices<'a>(pub(super) &'a [u8]);

impl Choices<'_> {
    /// Returns true if all bytes are used up.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte.
    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// Returns a number of two bytes.
    pub(super) fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Returns a number of eight bytes.
    pub(super) fn long(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Returns a number below `end`, which is at most 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()).checked_rem(end).unwrap_or(0)
    }

    /// Returns true once in this number of times.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }

    /// Returns one of these, or the default of its type if there are none.
    pub(super) fn one_of<T: Copy + Default>(&mut self, all: &[T]) -> T {
        let at = self.below(all.len());
        all.get(at).copied().unwrap_or_default()
    }

    /// Returns a data type: mostly one that exists.
    pub(super) fn data_type(&mut self) -> DataType {
        match self.byte() {
            number @ 0..=240 => DataType(u16::from(number % 80)),
            _ => DataType(self.short()),
        }
    }

    /// Returns a number of elements: mostly a small one.
    pub(super) fn count(&mut self) -> usize {
        // AddressSanitizer takes an array that no heap could hold for an error of its program.
        let most = if cfg!(test) { usize::MAX } else { 4 };
        self.one_of(&[0, 1, 2, 3, 3, 2, 1, most])
    }

    /// Returns a string or null.
    pub(super) fn text(&mut self) -> ChosenText {
        let text = match self.below(12) {
            0 => return ChosenText(None),
            1 => Vec::new(),
            2 => b"hwloc:0-3,8".to_vec(),
            3 => b"node001,node002,node10,other".to_vec(),
            4 => b"0,1,2;3-5;7".to_vec(),
            5 => b"pmix.rank".to_vec(),
            6 => b"PMIX_RANK".to_vec(),
            7 => b"pmix[node[3:1-10]]".to_vec(),
            8 => vec![b'x'; 600],
            9 => b"true".to_vec(),
            _ => {
                let len = self.below(24);
                (0..len).map(|_| self.byte()).collect()
            }
        };
        let text: Vec<u8> = text.into_iter().filter(|byte| *byte != 0).collect();
        ChosenText(CString::new(text).ok())
    }

    /// Returns at most 255 bytes.
    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let len = usize::from(self.byte());
        (0..len).map(|_| self.byte()).collect()
    }

    /// Returns a proc, whose namespace may have no end.
    pub(super) fn proc(&mut self) -> CProc {
        // SAFETY: zero is valid for characters and a number.
        let mut proc: CProc = unsafe { std::mem::zeroed() };
        match self.below(3) {
            0 => {}
            1 => proc.nspace.fill(b'n'.cast_signed() as c_char),
            _ => {
                for (to, from) in proc.nspace.iter_mut().zip(b"job") {
                    *to = from.cast_signed() as c_char;
                }
            }
        }
        proc.rank = self.one_of(&[0, 1, u32::MAX, u32::MAX - 1, u32::MAX - 2, 4711]);
        proc
    }

    /// Returns a value from the C heap. Its pointers may be null, whatever is counted beside them.
    pub(super) fn value(&mut self, depth: usize) -> CValue {
        let data_type = self.data_type();
        // SAFETY: zero is valid for a value.
        let mut value: CValue = unsafe { std::mem::zeroed() };
        value.r#type = data_type.0;
        match element::layout(data_type) {
            Some(layout) if layout.storage == Storage::Pointer => {
                if self.once_in(6) {
                    return value;
                }
                let at = memory::allocate_bytes(1, layout.size).unwrap_or(ptr::null_mut());
                value.data.ptr = at;
                if !at.is_null() {
                    // SAFETY: the memory has the size of an element.
                    unsafe { self.fill(data_type, at, depth) };
                }
            }
            Some(layout) if layout.storage == Storage::Inline => {
                let at = (&raw mut value.data).cast();
                // SAFETY: the union has room for an element that lies in it.
                unsafe { self.fill(data_type, at, depth) };
            }
            // Nothing follows a pointer here.
            _ => {
                value.data = CValueData {
                    uint64: self.long(),
                }
            }
        }
        value
    }

    /// Returns an info, whose key may have no end.
    pub(super) fn info(&mut self, depth: usize) -> CInfo {
        // SAFETY: zero is valid for an info.
        let mut info: CInfo = unsafe { std::mem::zeroed() };
        if self.once_in(6) {
            info.key.fill(b'k'.cast_signed() as c_char);
        } else {
            let text = self.text();
            let text = text.0.as_deref().map_or(&[][..], |text| text.to_bytes());
            for (to, from) in info.key.iter_mut().zip(text.iter().take(KEY_SIZE - 1)) {
                *to = from.cast_signed() as c_char;
            }
        }
        // Not `PMIX_INFO_PERSISTENT`, with which the value is the caller's.
        info.flags = u32::from(self.byte()) & 0x7;
        info.value = self.value(depth);
        info
    }

    /// Fills an element of a data type. One that has pointers gets null or what the C heap owns.
    ///
    /// # Safety
    ///
    /// `at` points to zeroed memory for an element.
    unsafe fn fill(&mut self, data_type: DataType, at: *mut c_void, depth: usize) {
        let size = element::layout(data_type).map_or(0, |layout| layout.size);
        // SAFETY: the caller guarantees an element of the data type, which is this C type.
        unsafe {
            match data_type {
                dt::PMIX_STRING => {
                    at.cast::<*mut c_char>().write(self.text().copied());
                }
                dt::PMIX_BYTE_OBJECT
                | DataType::COMPRESSED_STRING
                | dt::PMIX_COMPRESSED_BYTE_OBJECT
                | element::REGEX => at.cast::<CByteObject>().write(self.byte_object(data_type)),
                dt::PMIX_ENVAR => at.cast::<CEnvar>().write(CEnvar {
                    envar: self.text().copied(),
                    value: self.text().copied(),
                    separator: self.byte().cast_signed() as c_char,
                }),
                dt::PMIX_PROC => at.cast::<CProc>().write(self.proc()),
                dt::PMIX_VALUE => at.cast::<CValue>().write(self.value(depth)),
                dt::PMIX_INFO => at.cast::<CInfo>().write(self.info(depth)),
                // The source says that a value owns them. Both begin with it.
                dt::PMIX_PROC_CPUSET | dt::PMIX_TOPO => {
                    let source = memory::copy_string(b"hwloc:2");
                    at.cast::<*mut c_char>()
                        .write(source.unwrap_or(ptr::null_mut()));
                }
                dt::PMIX_DATA_ARRAY => {
                    at.cast::<CDataArray>().write(self.array(depth + 1));
                }
                other if is_plain(other) => {
                    for byte in 0..size {
                        at.cast::<u8>().add(byte).write(self.byte());
                    }
                }
                // A structure without contents.
                _ => {}
            }
        }
    }

    /// Returns bytes from the C heap, or null with a length.
    fn byte_object(&mut self, data_type: DataType) -> CByteObject {
        let mut bytes = self.bytes();
        if data_type == element::REGEX {
            // An expression ends with a NUL, and has no other.
            bytes.retain(|byte| *byte != 0);
            bytes.push(0);
        }
        let copy = if self.once_in(6) {
            Ok(ptr::null_mut())
        } else {
            memory::copy_bytes(&bytes)
        };
        CByteObject {
            bytes: copy.unwrap_or(ptr::null_mut()),
            size: bytes.len(),
        }
    }

    /// Returns an array from the C heap, or null with a length.
    fn array(&mut self, depth: usize) -> CDataArray {
        let data_type = self.data_type();
        let size = self.below(4);
        let layout = element::layout(data_type).filter(|_| depth < MAX_DEPTH);
        let first = match layout {
            Some(layout) if !self.once_in(6) => {
                memory::allocate_bytes(size, layout.size).unwrap_or(ptr::null_mut())
            }
            _ => ptr::null_mut(),
        };
        if let Some(layout) = layout.filter(|_| !first.is_null()) {
            for at in 0..size {
                // SAFETY: the memory has as many zeroed elements.
                unsafe { self.fill(data_type, first.byte_add(at * layout.size), depth) };
            }
        }
        CDataArray {
            r#type: data_type.0,
            size,
            array: first,
        }
    }
}

/// Returns true for types whose elements have no pointers that are followed.
fn is_plain(data_type: DataType) -> bool {
    let inline = element::layout(data_type).is_some_and(|it| it.storage == Storage::Inline);
    inline || data_type == dt::PMIX_RESOURCE_UNIT || data_type == dt::PMIX_PROC_NSPACE
}

/// String or null.
pub(super) struct ChosenText(Option<CString>);

impl ChosenText {
    /// Returns the string as an argument.
    pub(super) fn pointer(&self) -> *const c_char {
        self.0.as_ref().map_or(ptr::null(), |text| text.as_ptr())
    }

    /// Returns a copy in the C heap.
    pub(super) fn copied(&self) -> *mut c_char {
        let copy = self
            .0
            .as_ref()
            .map(|text| memory::copy_string(text.to_bytes()));
        copy.and_then(Result::ok).unwrap_or(ptr::null_mut())
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |text| text.to_bytes())
    }
}
