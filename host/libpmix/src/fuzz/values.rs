//! Groups of calls, and what they have in common.
use super::choices::Choices;
use crate::{
    abi::{
        CByteObject, CCpuset, CDataArray, CDataBuffer, CInfo, CKey, CNspace, CPdata, CRegattr,
        CRegex2, CTopology, CValue, KEY_SIZE, NSPACE_SIZE,
    },
    convert::element::{self, Storage},
    destruct::{Destruct, destruct_element},
    memory,
    values::{
        argv, attributes, buffer, compare, compress, cpuset, data_array, environment,
        families as of, info, info_list, keys, number, pack, print, records, regex, size, status,
        strings, topology, value,
    },
};
use peal_model::{DataType, code, data_type as dt};
use std::{
    ffi::{c_char, c_void},
    ptr,
};

/// Values of each kind that live at a time.
const LIVE: usize = 4;
/// Memory for what is unpacked, in bytes: more than the elements of any type need.
const ROOM: usize = 16 << 10;
/// Elements for which that memory is said to be.
const MOST_UNPACKED: usize = 8;
/// Bytes of a buffer above which nothing is added to it.
const MAX_BUFFER: usize = 1 << 16;

/// List of strings.
type ArgvPointer = *mut *mut c_char;

/// Values that the calls share. All of them are valid at any time.
pub(super) struct Values {
    values: [CValue; LIVE],
    infos: [CInfo; LIVE],
    buffers: [CDataBuffer; LIVE],
    argvs: [ArgvPointer; LIVE],
    list: *mut c_void,
}

/// Returns the pointer to one of these, or null.
fn chosen<T>(choices: &mut Choices<'_>, all: &mut [T; LIVE]) -> *mut T {
    let at = choices.below(LIVE + 1);
    all.get_mut(at).map_or(ptr::null_mut(), |one| one)
}

/// Returns the pointer to one of these.
fn given<T>(choices: &mut Choices<'_>, all: &mut [T; LIVE]) -> *mut T {
    let at = choices.below(LIVE);
    all.get_mut(at).map_or(ptr::null_mut(), |one| one)
}

/// Returns a pointer, or null in one of ten cases.
fn or_null<T>(choices: &mut Choices<'_>, pointer: *mut T) -> *mut T {
    if choices.once_in(10) {
        ptr::null_mut()
    } else {
        pointer
    }
}

/// Frees an element and its memory.
///
/// # Safety
///
/// `at` is null, or points to an element of the data type from the C heap.
unsafe fn free_element(data_type: DataType, at: *mut c_void) {
    if !at.is_null() {
        // SAFETY: the caller guarantees an element.
        unsafe {
            destruct_element(data_type, at);
            memory::free(at);
        }
    }
}

impl Values {
    /// Creates empty values.
    pub(super) fn new() -> Values {
        Values {
            values: [CValue::zeroed(); LIVE],
            infos: [CInfo::zeroed(); LIVE],
            buffers: [CDataBuffer::zeroed(); LIVE],
            argvs: [ptr::null_mut(); LIVE],
            list: info_list::info_list_start(),
        }
    }

    /// Frees all values.
    ///
    /// # Safety
    ///
    /// The values own what they point to, and are not used afterwards.
    pub(super) unsafe fn free(mut self) {
        // SAFETY: the caller guarantees what the destructors demand.
        unsafe {
            for value in &mut self.values {
                of::value::destruct(value);
            }
            for info in &mut self.infos {
                of::info::destruct(info);
            }
            for buffer in &mut self.buffers {
                of::data_buffer::destruct(buffer);
            }
            for list in self.argvs {
                argv::argv_free(list);
            }
            info_list::info_list_release(self.list);
        }
    }

    /// Gives a value or an info other contents.
    ///
    /// # Safety
    ///
    /// The values are valid, as for all functions here.
    pub(super) unsafe fn change(&mut self, choices: &mut Choices<'_>) {
        // What is loaded as a structure has no contents; a number or a proc has any.
        let mut data = [0_u64; 128];
        let data_type = choices.data_type();
        let layout = element::layout(data_type);
        let is_number = layout.is_some_and(|it| it.storage == Storage::Inline && it.size <= 8);
        if let Some(first) = data.first_mut().filter(|_| is_number) {
            *first = choices.long();
        }
        let text = choices.text();
        let from: *const c_void = match data_type {
            dt::PMIX_STRING | element::REGEX => text.pointer().cast(),
            // A value keeps the pointer to one of another source than hwloc, as in the C library.
            dt::PMIX_PROC_CPUSET | dt::PMIX_TOPO => ptr::null(),
            _ => or_null(choices, data.as_mut_ptr()).cast(),
        };
        let key = choices.text();
        let value = given(choices, &mut self.values);
        let info = given(choices, &mut self.infos);
        // SAFETY: both point to valid structures, which are destructed before they are written; the
        // data are of the type.
        unsafe {
            match choices.below(7) {
                0 => {
                    of::value::destruct(value);
                    value::value_load(value, from, data_type.0);
                }
                1 => {
                    of::info::destruct(info);
                    info::info_load(info, key.pointer(), from, data_type.0);
                }
                2 => {
                    let source = chosen(choices, &mut self.values);
                    let mut copy = CValue::zeroed();
                    value::value_xfer(&mut copy, source);
                    of::value::destruct(value);
                    *value = copy;
                }
                3 => {
                    let source = chosen(choices, &mut self.infos);
                    let mut copy = CInfo::zeroed();
                    info::info_xfer(&mut copy, source);
                    of::info::destruct(info);
                    *info = copy;
                }
                4 => {
                    of::info::destruct(info);
                    *info = choices.info(0);
                }
                _ => {
                    of::value::destruct(value);
                    *value = choices.value(0);
                }
            }
        }
    }

    /// Reads values and infos.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn read(&mut self, choices: &mut Choices<'_>) {
        let first = chosen(choices, &mut self.values);
        let second = chosen(choices, &mut self.values);
        let info = chosen(choices, &mut self.infos);
        let (mut len, mut target) = (0_usize, [0_u64; 4]);
        let len = or_null(choices, &raw mut len);
        let target = or_null(choices, target.as_mut_ptr());
        let data_type = choices.data_type().0;
        // SAFETY: the pointers are null or point to valid structures and variables.
        unsafe {
            match choices.below(8) {
                0 => {
                    compare::value_compare(first, second);
                }
                1 => memory::free(print::value_string(first)),
                2 => memory::free(print::info_string(info)),
                3 => {
                    size::value_get_size(first, len);
                }
                4 => {
                    size::info_get_size(info, len);
                }
                5 => {
                    number::value_get_number(first, target.cast(), data_type);
                }
                6 => {
                    value::value_true(first);
                }
                _ => {
                    info::info_true(info);
                    info::info_is_required(info);
                    info::info_required(info);
                    info::info_optional(info);
                }
            }
        }
    }

    /// Unloads a value.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn unload(&mut self, choices: &mut Choices<'_>) {
        let value = given(choices, &mut self.values);
        let mut room = [0_u64; 128];
        let room: *mut c_void = room.as_mut_ptr().cast();
        let offered = if choices.once_in(2) {
            room
        } else {
            ptr::null_mut()
        };
        let (mut data, mut len) = (offered, 0_usize);
        let len = or_null(choices, &raw mut len);
        // SAFETY: the value is valid, and there is memory for any element.
        unsafe {
            let status = value::value_unload(value, &mut data, len);
            let data_type = DataType((*value).r#type);
            if status != code::PMIX_SUCCESS.0 || data == offered {
                return;
            }
            let of_value = (*value).data.ptr;
            match data_type {
                dt::PMIX_POINTER => {}
                dt::PMIX_STRING
                | dt::PMIX_BYTE_OBJECT
                | DataType::COMPRESSED_STRING
                | dt::PMIX_COMPRESSED_BYTE_OBJECT
                | element::REGEX => memory::free(data),
                // A cpuset or topology of another source stays that of the value.
                _ if data == of_value => {}
                _ => free_element(data_type, data),
            }
        }
    }

    /// Packs elements.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn pack(&mut self, choices: &mut Choices<'_>) {
        let buffer = given(choices, &mut self.buffers);
        // SAFETY: the buffer is valid.
        if unsafe { (*buffer).bytes_used } > MAX_BUFFER {
            return;
        }
        let buffer = or_null(choices, buffer);
        let count = choices.one_of(&[1, 1, 1, 1, 0, -1]);
        let value = given(choices, &mut self.values);
        let text = choices.text();
        let strings = [text.pointer(); 2];
        let mut element = None;
        // SAFETY: the value is valid.
        let (first, data_type): (*const c_void, u16) = unsafe {
            match choices.below(8) {
                0 => (value.cast::<c_void>(), dt::PMIX_VALUE.0),
                1 => (
                    given(choices, &mut self.infos).cast::<c_void>(),
                    dt::PMIX_INFO.0,
                ),
                2 => (strings.as_ptr().cast(), dt::PMIX_STRING.0),
                3 if !text.bytes().is_empty() => (strings.as_ptr().cast(), element::REGEX.0),
                4 => (ptr::null(), choices.data_type().0),
                // The element of a value, as it lies in an array.
                _ => {
                    let data_type = DataType((*value).r#type);
                    match element::layout(data_type).map(|layout| layout.storage) {
                        Some(Storage::Inline) if data_type != element::REGEX => {
                            let data = element.insert((*value).data);
                            (ptr::from_mut(data).cast_const().cast(), data_type.0)
                        }
                        Some(Storage::Pointer) => ((*value).data.ptr.cast_const(), data_type.0),
                        _ => (ptr::null(), data_type.0),
                    }
                }
            }
        };
        let receiver = choices.proc();
        // SAFETY: there is one element of the type, or null.
        unsafe { pack::data_pack(&receiver, buffer, first, count, data_type) };
    }

    /// Unpacks elements, and frees them.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn unpack(&mut self, choices: &mut Choices<'_>) {
        let buffer = given(choices, &mut self.buffers);
        if choices.once_in(4) {
            let bytes = choices.bytes();
            let payload = CByteObject {
                bytes: bytes.as_ptr().cast_mut().cast(),
                size: bytes.len(),
            };
            // SAFETY: the buffer is valid, and the bytes are copied.
            unsafe { buffer::data_embed(buffer, &payload) };
        }
        let data_type = choices.data_type();
        let Ok(room) = memory::allocate_bytes(1, ROOM) else {
            return;
        };
        let mut count = match choices.below(6) {
            0 => 0,
            1 => -1,
            other => i32::try_from(other.min(MOST_UNPACKED)).unwrap_or(1),
        };
        let first = or_null(choices, room);
        // SAFETY: the buffer is valid, there is memory for the elements, and those that were written
        // are freed.
        unsafe {
            pack::data_unpack(ptr::null(), buffer, first, &mut count, data_type.0);
            let layout = element::layout(data_type).filter(|_| !first.is_null());
            for at in 0..usize::try_from(count).unwrap_or(0).min(MOST_UNPACKED) {
                match layout {
                    // Expressions are strings.
                    Some(_) if data_type == element::REGEX => {
                        memory::free(*room.cast::<*mut c_char>().add(at));
                    }
                    Some(layout) => {
                        destruct_element(data_type, room.byte_add(at * layout.size));
                    }
                    None => {}
                }
            }
            memory::free(room);
        }
    }

    /// Loads, unloads and copies buffers.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn buffer(&mut self, choices: &mut Choices<'_>) {
        let buffer = given(choices, &mut self.buffers);
        let other = chosen(choices, &mut self.buffers);
        let bytes = choices.bytes();
        let mut object = CByteObject {
            bytes: memory::copy_bytes(&bytes).unwrap_or(ptr::null_mut()),
            size: bytes.len(),
        };
        let (mut first, mut len) = (ptr::null_mut(), 0);
        // SAFETY: the buffers are valid, and bytes have one owner.
        unsafe {
            match choices.below(6) {
                0 => {
                    buffer::data_load(buffer, &mut object);
                }
                1 => {
                    buffer::data_embed(buffer, &object);
                }
                2 => {
                    object.destruct();
                    buffer::data_unload(other, &mut object);
                }
                3 => {
                    buffer::data_buffer_unload(other, &mut first, &mut len);
                    memory::free(first);
                }
                4 => {
                    let bytes = std::mem::replace(&mut object, CByteObject::zeroed());
                    buffer::data_buffer_load(buffer, bytes.bytes, bytes.size);
                }
                _ if (*buffer).bytes_used < MAX_BUFFER => {
                    buffer::data_copy_payload(buffer, other);
                }
                _ => {}
            }
            object.destruct();
        }
    }

    /// Changes lists of strings.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn argv(&mut self, choices: &mut Choices<'_>) {
        let list = given(choices, &mut self.argvs);
        let place = or_null(choices, list);
        let (text, other) = (choices.text(), choices.text());
        let delimiter = i32::from(choices.one_of(b",,;:\0x\xff"));
        // SAFETY: the list is valid, and replaced by another one only after it is freed.
        unsafe {
            let old = *list;
            match choices.below(10) {
                0 => {
                    argv::argv_append_nosize(place, text.pointer());
                }
                1 => {
                    argv::argv_prepend_nosize(place, text.pointer());
                }
                2 => {
                    argv::argv_append_unique_nosize(place, text.pointer());
                }
                3 => {
                    argv::argv_count(old);
                }
                4 => argv::argv_free(argv::argv_copy(old)),
                5 => memory::free(argv::argv_join(old, delimiter)),
                6 => argv::argv_free(argv::argv_split_with_empty(text.pointer(), delimiter)),
                7 => {
                    let overwrite = choices.byte();
                    environment::setenv(text.pointer(), other.pointer(), overwrite, place);
                }
                8 => argv::argv_free(argv::argv_split_inter(text.pointer(), delimiter, 1)),
                _ => {
                    *list = argv::argv_split(text.pointer(), delimiter);
                    argv::argv_free(old);
                }
            }
        }
    }

    /// Adds to the list of infos, and converts it.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn list(&mut self, choices: &mut Choices<'_>) {
        let list = or_null(choices, self.list);
        let (key, text) = (choices.text(), choices.text());
        let value = chosen(choices, &mut self.values);
        let info = chosen(choices, &mut self.infos);
        let overwrite = choices.byte() & 1;
        let (string, data) = (dt::PMIX_STRING.0, text.pointer().cast::<c_void>());
        // SAFETY: the list is one, and the rest is null or valid.
        unsafe {
            match choices.below(10) {
                0 => {
                    info_list::info_list_add(list, key.pointer(), data, string);
                }
                1 => {
                    info_list::info_list_prepend(list, key.pointer(), data, string);
                }
                2 => {
                    info_list::info_list_add_unique(list, key.pointer(), data, string, overwrite);
                }
                3 => {
                    info_list::info_list_add_value(list, key.pointer(), value);
                }
                4 => {
                    info_list::info_list_add_value_unique(list, key.pointer(), value, overwrite);
                }
                5 => {
                    info_list::info_list_xfer(list, info);
                }
                6 => {
                    info_list::info_list_xfer_unique(list, info, overwrite);
                }
                7 => {
                    info_list::info_list_get_size(list);
                    let mut next = ptr::null_mut();
                    info_list::info_list_get_info(list, ptr::null_mut(), &mut next);
                    info_list::info_list_get_info(list, next, ptr::null_mut());
                }
                8 => {
                    let mut array = CDataArray::zeroed();
                    info_list::info_list_convert(list, &mut array);
                    data_array::data_array_destruct(&mut array);
                }
                _ => {
                    info_list::info_list_release(self.list);
                    self.list = info_list::info_list_start();
                }
            }
        }
    }

    /// Loads and copies records.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn record(&mut self, choices: &mut Choices<'_>) {
        let (first, second) = (choices.text(), choices.text());
        let (mut one, mut two) = (choices.proc(), choices.proc());
        let (one, two) = (
            or_null(choices, &raw mut one),
            or_null(choices, &raw mut two),
        );
        let (mut key, mut nspace): (CKey, CNspace) = ([0; KEY_SIZE], [0; NSPACE_SIZE]);
        let (mut cluster, mut other): (CNspace, CNspace) = ([0; NSPACE_SIZE], [0; NSPACE_SIZE]);
        let rank = choices.one_of(&[0, 1, u32::MAX, u32::MAX - 3]);
        // SAFETY: the pointers are null or point to structures, strings or keys.
        unsafe {
            match choices.below(9) {
                0 => {
                    keys::load_key(&mut key, first.pointer());
                    keys::check_key(key.as_ptr(), second.pointer());
                    keys::check_reserved_key(key.as_ptr());
                }
                1 => {
                    keys::load_nspace(&mut nspace, first.pointer());
                    keys::check_nspace(nspace.as_ptr(), second.pointer());
                    keys::nspace_invalid(first.pointer());
                }
                2 => {
                    keys::load_procid(one, first.pointer(), rank);
                    keys::xfer_procid(two, one);
                    keys::check_procid(one, two);
                }
                3 => {
                    keys::proc_load(one, first.pointer(), rank);
                    keys::procid_invalid(one);
                    memory::free(keys::proc_string(two));
                }
                4 => {
                    keys::multicluster_nspace_construct(
                        &mut nspace,
                        first.pointer(),
                        second.pointer(),
                    );
                    keys::multicluster_nspace_parse(nspace.as_ptr(), &mut cluster, &mut other);
                }
                5 => {
                    let (mut from, mut to) = (CRegattr::zeroed(), CRegattr::zeroed());
                    let data_type = choices.data_type().0;
                    let third = choices.text();
                    records::regattr_load(
                        &mut from,
                        first.pointer(),
                        second.pointer(),
                        data_type,
                        third.pointer(),
                    );
                    records::regattr_xfer(&mut to, &from);
                    of::regattr::destruct(&mut from);
                    of::regattr::destruct(&mut to);
                }
                6 => {
                    let (mut from, mut to) = (CPdata::zeroed(), CPdata::zeroed());
                    let data = second.pointer().cast();
                    records::pdata_load(&mut from, one, first.pointer(), data, dt::PMIX_STRING.0);
                    records::pdata_xfer(&mut to, &from);
                    of::pdata::destruct(&mut from);
                    of::pdata::destruct(&mut to);
                }
                7 => {
                    let (len, data_type) = (choices.count(), choices.data_type().0);
                    data_array::data_array_free(data_array::data_array_create(len, data_type));
                }
                _ => {
                    let (dims, len) = (choices.below(4), choices.below(4));
                    records::coord_free(records::coord_create(dims, len), len);
                }
            }
        }
    }

    /// Copies and prints elements.
    ///
    /// # Safety
    ///
    /// As [`Values::change`].
    pub(super) unsafe fn copy(&mut self, choices: &mut Choices<'_>) {
        let text = choices.text();
        let value = given(choices, &mut self.values);
        // SAFETY: the value is valid.
        let (source, data_type): (*const c_void, DataType) = unsafe {
            match choices.below(6) {
                0 => (value.cast(), dt::PMIX_VALUE),
                1 => (given(choices, &mut self.infos).cast(), dt::PMIX_INFO),
                2 => (text.pointer().cast(), dt::PMIX_STRING),
                3 => (text.pointer().cast(), element::REGEX),
                4 => (ptr::null(), choices.data_type()),
                _ => {
                    let data_type = DataType((*value).r#type);
                    match element::layout(data_type).map(|layout| layout.storage) {
                        Some(Storage::Inline)
                            if ![dt::PMIX_STRING, element::REGEX].contains(&data_type) =>
                        {
                            ((&raw const (*value).data).cast(), data_type)
                        }
                        Some(Storage::Pointer) => ((*value).data.ptr.cast_const(), data_type),
                        _ => (ptr::null(), data_type),
                    }
                }
            }
        };
        let prefix = choices.text();
        let mut output = ptr::null_mut();
        let mut copy = ptr::null_mut();
        // SAFETY: the source is null or of the type.
        unsafe {
            print::data_print(&mut output, prefix.pointer(), source, data_type.0);
            memory::free(output);
            pack::data_copy(&mut copy, source, data_type.0);
            match data_type {
                dt::PMIX_STRING | element::REGEX => memory::free(copy),
                _ => free_element(data_type, copy),
            }
        }
    }
}

/// Calls functions from numbers to texts and back.
///
/// # Safety
///
/// There are no demands.
pub(super) unsafe fn text(choices: &mut Choices<'_>) {
    let number = choices.long();
    let (byte, short) = (choices.byte(), choices.short());
    let name = choices.text();
    status::error_string(number as i32);
    strings::proc_state_string(byte);
    strings::job_state_string(byte);
    strings::scope_string(byte);
    strings::persistence_string(byte);
    strings::data_range_string(byte);
    strings::alloc_directive_string(byte);
    strings::link_state_string(byte);
    strings::data_type_string(short);
    strings::iof_channel_string(short);
    strings::device_type_string(number);
    strings::value_comparison_string(number as u32);
    // SAFETY: the names are strings or null, and the text is the caller's.
    unsafe {
        memory::free(strings::info_directives_string(number as u32));
        status::error_code(name.pointer());
        attributes::get_attribute_name(name.pointer());
        attributes::get_attribute_string(name.pointer());
    }
}

/// Calls functions about expressions, cpusets, topologies and compression.
///
/// # Safety
///
/// There are no demands.
pub(super) unsafe fn expression(choices: &mut Choices<'_>) {
    let (first, second) = (choices.text(), choices.text());
    let mut output: *mut c_char = ptr::null_mut();
    let place = or_null(choices, &raw mut output);
    let (mut packed, mut plain) = (ptr::null_mut(), ptr::null_mut());
    let (mut packed_len, mut plain_len) = (0, 0);
    // SAFETY: the texts are strings or null, and what the functions make is freed once.
    unsafe {
        match choices.below(8) {
            0 => {
                regex::generate_regex(first.pointer(), place);
            }
            1 => {
                regex::generate_ppn(first.pointer(), place);
            }
            2 => {
                let mut expression = CRegex2::zeroed();
                regex::generate_regex2(first.pointer(), ptr::null(), 0, &mut expression);
                regex::parse_regex2(&expression, ptr::null(), 0, place);
                of::regex2::destruct(&mut expression);
            }
            3 => {
                let bytes = choices.bytes();
                let expression = CRegex2 {
                    r#type: first.pointer().cast_mut(),
                    bytes: bytes.as_ptr().cast_mut(),
                    len: bytes.len(),
                };
                regex::parse_regex2(&expression, ptr::null(), 0, place);
            }
            4 => {
                let mut parsed = CCpuset::zeroed();
                // A refused text leaves an empty cpuset.
                let _ = cpuset::parse(first.pointer(), or_null(choices, &raw mut parsed));
                of::cpuset::destruct(&mut parsed);
                let mut locality = 0;
                let _ = cpuset::compare(first.pointer(), second.pointer(), &mut locality);
            }
            5 => {
                let (mut loaded, mut bound) = (CTopology::zeroed(), CCpuset::zeroed());
                // Without hwloc's library both are refused.
                let _ = topology::load(or_null(choices, &raw mut loaded));
                let _ = topology::bound_cpuset(&mut bound, choices.byte() % 3);
                let distances = topology::device_distances(&loaded, &bound, &[]);
                drop(distances);
                of::topology::destruct(&mut loaded);
                of::cpuset::destruct(&mut bound);
            }
            6 => {
                let bytes = choices.bytes().repeat(64);
                compress::data_compress(bytes.as_ptr(), bytes.len(), &mut packed, &mut packed_len);
                compress::data_decompress(packed, packed_len, &mut plain, &mut plain_len);
            }
            _ => {
                let bytes = choices.bytes();
                compress::data_decompress(bytes.as_ptr(), bytes.len(), &mut plain, &mut plain_len);
            }
        }
        memory::free(output);
        memory::free(packed);
        memory::free(plain);
    }
}

/// Constructs, destructs, creates and frees structures.
///
/// # Safety
///
/// There are no demands.
pub(super) unsafe fn families(choices: &mut Choices<'_>) {
    let (len, which) = (choices.count(), choices.byte());
    macro_rules! family {
        ($($number:literal => $module:ident),+) => {
            // SAFETY: the structure and the array were made here.
            unsafe {
                match which % 18 {
                    $($number => {
                        let first = of::$module::create(len);
                        if let Some(structure) = first.as_mut() {
                            of::$module::destruct(structure);
                            of::$module::construct(structure);
                        }
                        of::$module::destruct(ptr::null_mut());
                        of::$module::free(first, if first.is_null() { 0 } else { len });
                    })+
                    _ => {
                        of::data_buffer::construct(ptr::null_mut());
                        of::data_buffer::release(buffer::data_buffer_create());
                    }
                }
            }
        };
    }
    family!(
        0 => app, 1 => byte_object, 2 => cpuset, 3 => device, 4 => device_distance, 5 => disk_stats,
        6 => endpoint, 7 => envar, 8 => geometry, 9 => info, 10 => net_stats, 11 => node_pid,
        12 => node_stats, 13 => proc_info, 14 => proc_stats, 15 => query, 16 => regattr
    );
}
