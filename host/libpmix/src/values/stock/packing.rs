//! Packed data in both directions between the C library and this one.
use super::library::stock;
use crate::{
    abi::{CDataBuffer, CProcStats, CValue},
    convert::{FromC, ReadBounds, element, round_trip, write_into},
    destruct::{Destruct, destruct_element},
    values::{compare, compress, pack},
};
use peal_model::{DataArray, DataType, Status, Value, data_type as dt};
use peal_needs::needs;
use proptest::{strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use std::{collections::BTreeMap, ffi::c_void, ptr, slice};

/// Types of which 4.2.2 unpacks no arrays.
const NO_ARRAYS: [DataType; 11] = [
    dt::PMIX_DATA_ARRAY,
    dt::PMIX_COMMAND,
    dt::PMIX_JOB_STATE,
    dt::PMIX_LOCTYPE,
    dt::PMIX_DEVTYPE,
    dt::PMIX_COMPRESSED_BYTE_OBJECT,
    dt::PMIX_DATA_BUFFER,
    dt::PMIX_STOR_MEDIUM,
    dt::PMIX_STOR_ACCESS,
    dt::PMIX_STOR_PERSIST,
    dt::PMIX_STOR_ACCESS_TYPE,
];

/// Ways in which 4.2.2 carries values of a type unharmed.
#[derive(Clone, Copy, PartialEq)]
struct CarriedWays {
    to_c: bool,
    from_c: bool,
}

impl CarriedWays {
    const BOTH: CarriedWays = CarriedWays {
        to_c: true,
        from_c: true,
    };
    const NONE: CarriedWays = CarriedWays {
        to_c: false,
        from_c: false,
    };
    const TO_C: CarriedWays = CarriedWays {
        to_c: true,
        from_c: false,
    };
    const FROM_C: CarriedWays = CarriedWays {
        to_c: false,
        from_c: true,
    };

    /// Returns the ways in which both are carried.
    fn and(self, other: CarriedWays) -> CarriedWays {
        CarriedWays {
            to_c: self.to_c && other.to_c,
            from_c: self.from_c && other.from_c,
        }
    }

    /// Returns the ways of values that are carried together.
    fn of_all<'a>(values: impl IntoIterator<Item = &'a Value>) -> CarriedWays {
        let ways = values.into_iter().map(CarriedWays::of);
        ways.fold(CarriedWays::BOTH, CarriedWays::and)
    }

    fn of(value: &Value) -> CarriedWays {
        match value {
            // It makes no arrays of some types, and says that it has no memory.
            Value::DataArray(array) => {
                let elements = CarriedWays::of_all(array.items());
                let to_c = array.items().is_empty() || !NO_ARRAYS.contains(&array.element());
                elements.and(CarriedWays { to_c, from_c: true })
            }
            Value::Info(info) => CarriedWays::of(&info.value),
            Value::Value(value) => CarriedWays::of(value),
            Value::Pdata(data) => CarriedWays::of(&data.value),
            Value::App(app) => CarriedWays::of_all(app.infos.iter().map(|info| &info.value)),
            Value::Query(query) => {
                CarriedWays::of_all(query.qualifiers.iter().map(|info| &info.value))
            }
            // It writes six decimals.
            Value::Float(_) | Value::Double(_) | Value::NodeStats(_) => CarriedWays::TO_C,
            // It refuses every list of processors that is not empty.
            Value::Cpuset(Some(_)) => CarriedWays::TO_C,
            // In a value it writes the buffer's pointer in the place of the buffer.
            Value::DataBuffer(_) => CarriedWays::TO_C,
            // It writes a type as an unsigned number and reads it as a signed one.
            Value::DataType(_) | Value::Regattr(_) => CarriedWays::FROM_C,
            // It follows the null pointer of an absent topology.
            Value::Topology(_) => CarriedWays::NONE,
            other if other.data_type() < dt::PMIX_DEVICE => CarriedWays::BOTH,
            _ => CarriedWays::NONE,
        }
    }

    /// Returns the libraries that pack and unpack, in the ways that are open.
    fn pairs(self) -> Vec<(&'static str, Packer, Packer)> {
        let (ours, theirs) = packers();
        let mut pairs = Vec::new();
        if self.to_c {
            pairs.push(("to C", ours, theirs));
        }
        if self.from_c {
            pairs.push(("from C", theirs, ours));
        }
        pairs
    }
}

/// Functions that pack and unpack.
#[derive(Clone, Copy)]
struct Packer {
    pack: unsafe extern "C" fn(
        *const crate::abi::CProc,
        *mut CDataBuffer,
        *const c_void,
        i32,
        u16,
    ) -> i32,
    unpack: unsafe extern "C" fn(
        *const crate::abi::CProc,
        *mut CDataBuffer,
        *mut c_void,
        *mut i32,
        u16,
    ) -> i32,
}

fn packers() -> (Packer, Packer) {
    let library = stock();
    let ours = Packer {
        pack: pack::data_pack,
        unpack: pack::data_unpack,
    };
    let theirs = Packer {
        pack: library.data_pack,
        unpack: library.data_unpack,
    };
    (ours, theirs)
}

/// Packs a value by one library and unpacks it by the other.
fn carried(from: Packer, to: Packer, model: &Value) -> Result<Value, Status> {
    let (mut value, mut copy) = (CValue::zeroed(), CValue::zeroed());
    let (mut buffer, mut count) = (CDataBuffer::zeroed(), 1);
    write_into(model, &mut value)?;
    // SAFETY: the value was written here; there is memory for a copy; all is freed once.
    unsafe {
        let data_type = dt::PMIX_VALUE.0;
        let packed = (from.pack)(
            ptr::null(),
            &mut buffer,
            (&raw const value).cast(),
            1,
            data_type,
        );
        value.destruct();
        if packed != 0 {
            return Err(Status(packed));
        }
        let at = (&raw mut copy).cast();
        let unpacked = (to.unpack)(ptr::null(), &mut buffer, at, &mut count, data_type);
        let rest = buffer.bytes_used - (buffer.unpack_ptr.addr() - buffer.base_ptr.addr());
        buffer.destruct();
        if unpacked != 0 {
            return Err(Status(unpacked));
        }
        assert_eq!((count, rest), (1, 0));
        let back = Value::from_c(&copy, &mut ReadBounds::default())?;
        copy.destruct();
        Ok(back)
    }
}

/// Compares values of a strategy after both ways, and adds what differs.
fn exchange(
    strategy: &impl Strategy<Value = Value>,
    rounds: usize,
    differences: &mut BTreeMap<DataType, String>,
) -> usize {
    let mut runner = TestRunner::deterministic();
    let mut compared = 0;
    for _ in 0..rounds {
        let model = strategy.new_tree(&mut runner).unwrap().current();
        for (way, from, to) in CarriedWays::of(&model).pairs() {
            compared += 1;
            let back = carried(from, to, &model);
            if back.as_ref() != Ok(&model) {
                let text = format!("{way}: {model:?} is {back:?}");
                differences.entry(model.data_type()).or_insert(text);
            }
        }
    }
    compared
}

#[needs(libpmix)]
#[test]
fn values_of_all_types_are_exchanged_with_the_c_library() {
    let mut differences = BTreeMap::new();
    let mut compared = 0;
    for kind in 0..=round_trip::KINDS {
        compared += exchange(&round_trip::plain(kind), 20, &mut differences);
    }
    assert!(differences.is_empty(), "{compared} {differences:#?}");
    assert!(compared > 900, "{compared}");
}

#[needs(libpmix)]
#[test]
fn nested_values_are_exchanged_with_the_c_library() {
    let mut differences = BTreeMap::new();
    let compared = exchange(&round_trip::value(), 400, &mut differences);
    assert!(differences.is_empty(), "{compared} {differences:#?}");
    assert!(compared > 100, "{compared}");
}

/// Packs elements of one type by one library, and unpacks them by the other.
fn carried_elements(from: Packer, to: Packer, array: &DataArray) -> Result<Vec<Value>, Status> {
    let data_type = array.element();
    let size = element::layout(data_type).unwrap().size;
    let len = array.items().len();
    let mut written = crate::abi::CDataArray::zeroed();
    write_into(array, &mut written)?;
    let mut buffer = CDataBuffer::zeroed();
    let mut copy = crate::abi::CDataArray {
        r#type: data_type.0,
        size: len,
        array: crate::memory::allocate_bytes(len, size)?,
    };
    let mut count = i32::try_from(len).unwrap();
    // SAFETY: the array was written here; there is memory for a copy; all is freed once.
    unsafe {
        let packed = (from.pack)(ptr::null(), &mut buffer, written.array, count, data_type.0);
        written.destruct();
        if packed != 0 {
            return Err(Status(packed));
        }
        let status = (to.unpack)(
            ptr::null(),
            &mut buffer,
            copy.array,
            &mut count,
            data_type.0,
        );
        buffer.destruct();
        if status != 0 {
            return Err(Status(status));
        }
        let back = DataArray::from_c(&copy, &mut ReadBounds::default())?;
        for at in 0..len {
            destruct_element(data_type, copy.array.byte_add(at * size));
        }
        copy.size = 0;
        crate::memory::free(copy.array);
        Ok(back.items().to_vec())
    }
}

#[needs(libpmix)]
#[test]
fn elements_of_all_types_are_exchanged_with_the_c_library() {
    let mut runner = TestRunner::deterministic();
    let mut differences: BTreeMap<DataType, String> = BTreeMap::new();
    let mut compared = 0;
    for kind in 1..=round_trip::KINDS {
        let strategy = proptest::collection::vec(round_trip::plain(kind), 1..4);
        for _ in 0..10 {
            let items = strategy.new_tree(&mut runner).unwrap().current();
            let data_type = items[0].data_type();
            let items: Vec<Value> = items
                .into_iter()
                .filter(|item| item.data_type() == data_type)
                .collect();
            let array = DataArray::new(data_type, items).unwrap();
            for (way, from, to) in CarriedWays::of_all(array.items()).pairs() {
                compared += 1;
                let back = carried_elements(from, to, &array);
                if back.as_deref() != Ok(array.items()) {
                    let text = format!("{way}: {array:?} is {back:?}");
                    differences.entry(data_type).or_insert(text);
                }
            }
        }
    }
    assert!(differences.is_empty(), "{compared} {differences:#?}");
    assert!(compared > 400, "{compared}");
}

/// The C library reads a member of the statistics of procs that it does not write, so that only this
/// way is open.
#[needs(libpmix)]
#[test]
fn statistics_of_procs_are_unpacked_by_the_c_library() {
    let (ours, theirs) = packers();
    let mut packed = CProcStats::zeroed();
    packed.cmd = crate::memory::copy_string(b"./app").unwrap();
    (packed.pid, packed.num_threads, packed.processor) = (4711, 3, 5);
    (packed.rss, packed.peak_vsize) = (1.5, 2.5);
    packed.sample_time.tv_usec = 7;
    let mut read = CProcStats::zeroed();
    let (mut buffer, mut count) = (CDataBuffer::zeroed(), 1);
    let data_type = element::PROC_STATS.0;
    // SAFETY: there is one structure, and memory for another one; all is freed once.
    unsafe {
        let (from, to) = ((&raw const packed).cast(), (&raw mut read).cast());
        assert_eq!((ours.pack)(ptr::null(), &mut buffer, from, 1, data_type), 0);
        let status = (theirs.unpack)(ptr::null(), &mut buffer, to, &mut count, data_type);
        assert_eq!((status, count), (0, 1));
        let rest = buffer.bytes_used - (buffer.unpack_ptr.addr() - buffer.base_ptr.addr());
        assert_eq!(rest, 0);
        assert_eq!(std::ffi::CStr::from_ptr(read.cmd), c"./app");
        let numbers = |stats: &CProcStats| {
            let reals = [stats.rss, stats.peak_vsize].map(f32::to_bits);
            (
                reals,
                stats.pid,
                stats.num_threads,
                stats.processor,
                stats.sample_time.tv_usec,
            )
        };
        assert_eq!(numbers(&read), numbers(&packed));
        packed.destruct();
        read.destruct();
        buffer.destruct();
    }
}

#[needs(libpmix)]
#[test]
fn compressed_bytes_are_decompressed_by_the_c_library() {
    let library = stock();
    let bytes: Vec<u8> = (0..20_000u32).map(|n| (n / 50) as u8).collect();
    let (mut packed, mut size) = (ptr::null_mut(), 0);
    let (mut plain, mut plain_size) = (ptr::null_mut(), 0);
    // SAFETY: the bytes and variables are there; what the functions make is freed once.
    unsafe {
        assert_eq!(
            compress::data_compress(bytes.as_ptr(), bytes.len(), &mut packed, &mut size),
            1
        );
        assert!((library.data_decompress)(
            packed,
            size,
            &mut plain,
            &mut plain_size
        ));
        assert_eq!(slice::from_raw_parts(plain, plain_size), bytes);
        libc::free(plain.cast());
        libc::free(packed.cast());
    }
}

#[needs(libpmix)]
#[test]
fn comparisons_agree_but_for_the_order_of_numbers() {
    let library = stock();
    let mut runner = TestRunner::deterministic();
    let mut differences = Vec::new();
    for kind in [0, 1, 2, 3, 12, 22, 25, 26, 30, 34, 39, 40, 43, 44] {
        let strategy = round_trip::plain(kind);
        for _ in 0..20 {
            let (mut first, mut second) = (CValue::zeroed(), CValue::zeroed());
            let models = [(); 2].map(|()| strategy.new_tree(&mut runner).unwrap().current());
            write_into(&models[0], &mut first).unwrap();
            write_into(&models[1], &mut second).unwrap();
            // SAFETY: the values were written here.
            unsafe {
                let ours = compare::value_compare(&first, &second);
                let theirs = (library.value_compare)(&first, &second);
                if ours != theirs {
                    differences.push((models, ours, theirs));
                }
                assert_eq!(compare::value_compare(&first, &first), 0);
                first.destruct();
                second.destruct();
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
