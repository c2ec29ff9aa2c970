//! Texts and regular expressions, compared with those of the C library.
use super::library::stock;
use crate::{
    abi::{CInfo, CValue},
    convert::{round_trip, write_into},
    destruct::Destruct,
    values::{attributes, print, regex, status, strings},
};
use peal_model::{DataType, Value, data_type as dt, names::ATTRIBUTES};
use peal_needs::needs;
use proptest::{
    collection::vec, prelude::*, sample::select, strategy::ValueTree, test_runner::TestRunner,
};
use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char, c_int},
};

/// Returns a text that is never freed.
fn fixed(text: *const c_char) -> String {
    // SAFETY: the functions return strings.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Returns a text and frees it.
fn taken(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    let copy = fixed(text);
    // SAFETY: the functions give the text to the caller.
    unsafe { libc::free(text.cast()) };
    Some(copy)
}

#[needs(libpmix)]
#[test]
fn texts_of_numbers_equal_those_of_the_c_library() {
    let library = stock();
    // SAFETY: the functions take any number.
    unsafe {
        for number in -3000..=300 {
            let theirs = fixed((library.error_string)(number));
            // What 4.2.2 has no text for has the name that later releases print.
            if theirs != "ERROR STRING NOT FOUND" {
                assert_eq!(fixed(status::error_string(number)), theirs, "{number}");
            }
        }
        macro_rules! compare {
            ($($name:ident($type:ty) $skip:expr;)+) => {$(
                for number in <$type>::MIN..=<$type>::MAX.min(255) {
                    if !$skip.contains(&number) {
                        let theirs = fixed((library.$name)(number));
                        assert_eq!(fixed(strings::$name(number)), theirs, "{number}");
                    }
                }
            )+};
        }
        // Left out is what later releases add.
        compare! {
            proc_state_string(u8) [];
            job_state_string(u8) [];
            scope_string(u8) 5..=8;
            persistence_string(u8) [];
            data_range_string(u8) [];
            alloc_directive_string(u8) 5..=5;
            link_state_string(u8) [];
            data_type_string(u16) 70..=75;
            iof_channel_string(u16) [];
            value_comparison_string(u32) [];
        }
        for bit in 0..6 {
            let number = 1 << bit;
            let theirs = fixed((library.device_type_string)(number));
            assert_eq!(fixed(strings::device_type_string(number)), theirs);
        }
        for flags in 0..32 {
            let theirs = taken((library.info_directives_string)(flags));
            assert_eq!(taken(strings::info_directives_string(flags)), theirs);
        }
    }
}

#[needs(libpmix)]
#[test]
fn attributes_equal_those_of_the_c_library() {
    let library = stock();
    let (mut same, mut other) = (0, Vec::new());
    for attribute in ATTRIBUTES {
        let name = CString::new(attribute.name).unwrap();
        let key = CString::new(attribute.key).unwrap();
        // SAFETY: the arguments are strings.
        unsafe {
            let theirs = fixed((library.get_attribute_string)(name.as_ptr()));
            // A name that 4.2.2 lacks is returned as it is.
            if theirs == attribute.name {
                continue;
            }
            assert_eq!(
                fixed(attributes::get_attribute_string(name.as_ptr())),
                theirs
            );
            let theirs = fixed((library.get_attribute_name)(key.as_ptr()));
            let ours = fixed(attributes::get_attribute_name(key.as_ptr()));
            if ours == theirs {
                same += 1;
            } else {
                // Names of one key: an older and a newer one.
                let of_key = |name: &str| {
                    ATTRIBUTES
                        .iter()
                        .find(|entry| entry.name == name)
                        .map(|entry| entry.key)
                };
                assert_eq!(of_key(&ours), of_key(&theirs), "{ours} {theirs}");
                other.push((ours, theirs));
            }
        }
    }
    assert!(same > 400 && other.len() < 40, "{same} {other:?}");
}

/// Returns true if the C library prints values of this type as they are. It prints the address of a
/// device type, `CORE` for a package, nothing for a cpuset, follows a null pointer for a time that has no
/// calendar, and lists what 4.2.2 lacks as unknown.
fn is_printed(value: &Value) -> bool {
    match value {
        Value::DataArray(array) => array.items().iter().all(is_printed),
        Value::Info(info) => is_printed(&info.value),
        Value::Value(value) => is_printed(value),
        Value::Time(time) => *time < 1 << 40,
        other => {
            let data_type = other.data_type();
            let differs = [
                dt::PMIX_DEVTYPE,
                dt::PMIX_LOCTYPE,
                dt::PMIX_PROC_CPUSET,
                dt::PMIX_TOPO,
                dt::PMIX_VALUE,
                dt::PMIX_APP,
                dt::PMIX_PDATA,
                dt::PMIX_QUERY,
            ];
            data_type < dt::PMIX_DEVICE && !differs.contains(&data_type)
        }
    }
}

#[needs(libpmix)]
#[test]
fn printed_values_equal_those_of_the_c_library() {
    let library = stock();
    let mut runner = TestRunner::deterministic();
    let mut differences: BTreeMap<DataType, (Option<String>, Option<String>)> = BTreeMap::new();
    let mut compared = 0;
    for kind in 0..=round_trip::KINDS {
        let (single, infos) = (
            round_trip::plain(kind),
            round_trip::info(round_trip::plain(kind)),
        );
        for _ in 0..20 {
            let mut model = single.new_tree(&mut runner).unwrap().current();
            if let Value::Time(time) = &mut model {
                *time >>= 24;
            }
            let info = infos.new_tree(&mut runner).unwrap().current();
            if !is_printed(&model) || !is_printed(&info.value) {
                continue;
            }
            let (mut value, mut c_info) = (CValue::zeroed(), CInfo::zeroed());
            write_into(&model, &mut value).unwrap();
            write_into(&info, &mut c_info).unwrap();
            // SAFETY: the structures were written here.
            unsafe {
                let pairs = [
                    (
                        taken(print::value_string(&value)),
                        taken((library.value_string)(&value)),
                    ),
                    (
                        taken(print::info_string(&c_info)),
                        taken((library.info_string)(&c_info)),
                    ),
                ];
                for pair in pairs {
                    compared += 1;
                    if pair.0 != pair.1 {
                        differences.insert(model.data_type(), pair);
                    }
                }
                value.destruct();
                c_info.destruct();
            }
        }
    }
    assert!(
        differences.is_empty() && compared > 1000,
        "{compared} {differences:#?}"
    );
}

/// Returns what a function of the C library or of this one makes of a list.
unsafe fn generated(
    generate: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
    input: &CStr,
) -> Option<String> {
    let mut output = std::ptr::null_mut();
    // SAFETY: the caller passes a function of this type.
    assert_eq!(unsafe { generate(input.as_ptr(), &mut output) }, 0);
    taken(output)
}

#[needs(libpmix)]
#[test]
fn expressions_equal_those_of_the_c_library() {
    let library = stock();
    let mut runner = TestRunner::deterministic();
    let names = vec(
        select(vec![
            "n1",
            "n2",
            "n3",
            "n01",
            "n02",
            "m1",
            "a1b1",
            "a1b2",
            "a2b1",
            "x",
            "h-1",
            "h.2",
            "7",
            "8",
            "n10",
            "n11",
            "localhost",
            "n2x",
            "n3x",
        ]),
        0..10,
    );
    let ranks = vec(
        vec(select(vec!["0", "1", "2", "3", "4", "5-7", "12"]), 1..9),
        1..5,
    );
    for _ in 0..2000 {
        let input = names.new_tree(&mut runner).unwrap().current().join(",");
        let input = CString::new(input).unwrap();
        // SAFETY: the functions have this type.
        unsafe {
            let ours = generated(regex::generate_regex, &input);
            assert_eq!(ours, generated(library.generate_regex, &input), "{input:?}");
        }
        let nodes = ranks.new_tree(&mut runner).unwrap().current();
        let nodes: Vec<String> = nodes.iter().map(|node| node.join(",")).collect();
        // The C library loses ranks where a range follows the rank before it.
        if nodes.iter().any(|node| node.contains("4,5-7")) {
            continue;
        }
        let input = CString::new(nodes.join(";")).unwrap();
        // SAFETY: as above.
        unsafe {
            let ours = generated(regex::generate_ppn, &input);
            assert_eq!(ours, generated(library.generate_ppn, &input), "{input:?}");
        }
    }
}
