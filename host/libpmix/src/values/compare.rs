//! Comparison of values (`PMIx_Value_compare`). Numbers are compared as numbers: the C library
//! compares their bytes, which on most machines begin with the least significant.
use crate::{
    abi::{CValue, CValueComparison},
    border,
    convert::read_one,
};
use peal_model::{
    DataArray, Device, DeviceDistance, Endpoint, Envar, Geometry, Info, NodePid, ProcInfo, Regattr,
    ResourceUnit, Value, data_type as dt,
};
use std::cmp::Ordering;

/// `PMIX_EQUAL` and the other results.
const EQUAL: CValueComparison = 0;
const FIRST_GREATER: CValueComparison = 1;
const SECOND_GREATER: CValueComparison = 2;
const DIFFERENT_TYPES: CValueComparison = 3;
const INCOMPATIBLE: CValueComparison = 4;
const NOT_AVAILABLE: CValueComparison = 5;

/// `PMIx_Value_compare`: returns 0 if two values are equal, 1 if the first is greater, 2 if the
/// second is, 3 if their types differ, 4 if they cannot be compared, 5 if they are compared nowhere,
/// which null pointers are not either. Without an order of their own, structures are compared member
/// by member.
///
/// # Safety
///
/// Each argument is null or points to a value.
#[unsafe(export_name = "PMIx_Value_compare")]
pub unsafe extern "C" fn value_compare(
    first: *const CValue,
    second: *const CValue,
) -> CValueComparison {
    border::value("PMIx_Value_compare", NOT_AVAILABLE, || {
        // SAFETY: the caller guarantees values or null.
        let (Some(first), Some(second)) = (unsafe { (first.as_ref(), second.as_ref()) }) else {
            return NOT_AVAILABLE;
        };
        if first.r#type != second.r#type {
            return DIFFERENT_TYPES;
        }
        if first.r#type == dt::PMIX_POINTER.0 {
            // SAFETY: the type says that the unions are pointers.
            let (first, second) = unsafe { (first.data.ptr, second.data.ptr) };
            return of_ordering(first.addr().cmp(&second.addr()));
        }
        // SAFETY: the caller guarantees that the values are valid.
        match unsafe {
            (
                read_one::<Value>(first, "value"),
                read_one::<Value>(second, "value"),
            )
        } {
            (Ok(first), Ok(second)) => compare(&first, &second),
            _ => NOT_AVAILABLE,
        }
    })
}

/// Returns the result of an order.
fn of_ordering(ordering: Ordering) -> CValueComparison {
    match ordering {
        Ordering::Equal => EQUAL,
        Ordering::Greater => FIRST_GREATER,
        Ordering::Less => SECOND_GREATER,
    }
}

/// Compares two values of the same type.
fn compare(first: &Value, second: &Value) -> CValueComparison {
    /// Compares members of two structures, one after the other.
    macro_rules! members {
        ($first:ident, $second:ident: $($member:ident $(. $inner:tt)*),+) => {
            of_ordering(Ordering::Equal$(
                .then_with(|| $first.$member$(.$inner)*.cmp(&$second.$member$(.$inner)*))
            )+)
        };
    }
    if first == second {
        return EQUAL;
    }
    match (first, second) {
        (Value::DataArray(first), Value::DataArray(second)) => arrays(first, second),
        (Value::Coord(first), Value::Coord(second)) if first.view != second.view => INCOMPATIBLE,
        (Value::Coord(first), Value::Coord(second)) => members!(first, second: coordinates),
        (Value::Geometry(first), Value::Geometry(second)) => geometries(first, second),
        (Value::Float(first), Value::Float(second)) => {
            first.partial_cmp(second).map_or(NOT_AVAILABLE, of_ordering)
        }
        (Value::Double(first), Value::Double(second)) => {
            first.partial_cmp(second).map_or(NOT_AVAILABLE, of_ordering)
        }
        (Value::Proc(first), Value::Proc(second)) => {
            let (first, second) = (
                (first.nspace.as_str(), first.rank.0),
                (second.nspace.as_str(), second.rank.0),
            );
            of_ordering(first.cmp(&second))
        }
        (Value::ProcInfo(first), Value::ProcInfo(second)) => {
            let (first, second): (&ProcInfo, &ProcInfo) = (first, second);
            members!(first, second: proc.nspace, proc.rank.0, hostname, executable, pid, state.0)
        }
        (Value::Envar(first), Value::Envar(second)) => {
            let (first, second): (&Envar, &Envar) = (first, second);
            members!(first, second: name, value, separator)
        }
        (Value::Regattr(first), Value::Regattr(second)) => {
            let (first, second): (&Regattr, &Regattr) = (first, second);
            members!(first, second: name, key, data_type, description)
        }
        (Value::DeviceDistance(first), Value::DeviceDistance(second)) => {
            let (first, second): (&DeviceDistance, &DeviceDistance) = (first, second);
            if first.device_type != second.device_type {
                return INCOMPATIBLE;
            }
            members!(first, second: uuid, osname, min, max)
        }
        (Value::Device(first), Value::Device(second)) => {
            let (first, second): (&Device, &Device) = (first, second);
            if first.device_type != second.device_type {
                return INCOMPATIBLE;
            }
            members!(first, second: uuid, osname)
        }
        (Value::Endpoint(first), Value::Endpoint(second)) => {
            let (first, second): (&Endpoint, &Endpoint) = (first, second);
            members!(first, second: uuid, osname, address)
        }
        (Value::ResourceUnit(first), Value::ResourceUnit(second)) => {
            let (first, second): (&ResourceUnit, &ResourceUnit) = (first, second);
            members!(first, second: device_type, count)
        }
        (Value::NodePid(first), Value::NodePid(second)) => {
            let (first, second): (&NodePid, &NodePid) = (first, second);
            members!(first, second: hostname, node_id, pid)
        }
        (Value::Info(first), Value::Info(second)) => infos(first, second),
        (Value::Value(first), Value::Value(second)) => {
            if first.data_type() == second.data_type() {
                compare(first, second)
            } else {
                DIFFERENT_TYPES
            }
        }
        _ => scalars(first, second),
    }
}

/// Compares values that are numbers, strings or bytes.
fn scalars(first: &Value, second: &Value) -> CValueComparison {
    let signed = |value: &Value| {
        Some(match value {
            Value::Int(n) | Value::Int32(n) => i64::from(*n),
            Value::Int8(n) => i64::from(*n),
            Value::Int16(n) => i64::from(*n),
            Value::Int64(n) => *n,
            Value::Status(status) => i64::from(status.0),
            _ => return None,
        })
    };
    if let (Some(first), Some(second)) = (signed(first), signed(second)) {
        return of_ordering(first.cmp(&second));
    }
    if let (Some(first), Some(second)) = (unsigned(first), unsigned(second)) {
        return of_ordering(first.cmp(&second));
    }
    match (first, second) {
        (Value::String(first), Value::String(second))
        | (Value::Cpuset(first), Value::Cpuset(second)) => of_ordering(first.cmp(second)),
        (Value::Nspace(first), Value::Nspace(second)) => {
            of_ordering(first.as_str().cmp(second.as_str()))
        }
        (
            Value::Timeval {
                seconds: first,
                microseconds: first_micros,
            },
            Value::Timeval {
                seconds: second,
                microseconds: second_micros,
            },
        ) => of_ordering((first, first_micros).cmp(&(second, second_micros))),
        (Value::ByteObject(first), Value::ByteObject(second))
        | (Value::CompressedString(first), Value::CompressedString(second))
        | (Value::CompressedByteObject(first), Value::CompressedByteObject(second))
        | (Value::DataBuffer(first), Value::DataBuffer(second)) => {
            let (first, second) = (first.as_slice(), second.as_slice());
            of_ordering(
                first
                    .len()
                    .cmp(&second.len())
                    .then_with(|| first.cmp(second)),
            )
        }
        _ => NOT_AVAILABLE,
    }
}

/// Returns the number of a value of an unsigned type.
fn unsigned(value: &Value) -> Option<u64> {
    Some(match value {
        Value::Bool(truth) => u64::from(*truth),
        Value::Byte(n)
        | Value::Uint8(n)
        | Value::Command(n)
        | Value::AllocDirective(n)
        | Value::ResourceBlockDirective(n)
        | Value::AllocInheritance(n) => u64::from(*n),
        Value::ProcState(state) => u64::from(state.0),
        Value::JobState(state) => u64::from(state.0),
        Value::LinkState(state) => u64::from(state.0),
        Value::Persistence(persistence) => u64::from(persistence.number()),
        Value::Scope(scope) => u64::from(scope.number()),
        Value::Range(range) => u64::from(range.number()),
        Value::Uint16(n) | Value::Locality(n) | Value::StorageAccessType(n) => u64::from(*n),
        Value::DataType(data_type) => u64::from(data_type.0),
        Value::IofChannel(channels) => u64::from(channels.0),
        Value::Pid(n) | Value::Uint(n) | Value::Uint32(n) | Value::InfoDirectives(n) => {
            u64::from(*n)
        }
        Value::Rank(rank) => u64::from(rank.0),
        Value::Size(n)
        | Value::Uint64(n)
        | Value::Time(n)
        | Value::DeviceType(n)
        | Value::StorageMedium(n)
        | Value::StorageAccess(n)
        | Value::StoragePersistence(n) => *n,
        _ => return None,
    })
}

/// Compares arrays: their types, their lengths, and their elements in order.
fn arrays(first: &DataArray, second: &DataArray) -> CValueComparison {
    if first.element() != second.element() {
        return DIFFERENT_TYPES;
    }
    let lengths = first.items().len().cmp(&second.items().len());
    if lengths.is_ne() {
        return of_ordering(lengths);
    }
    let mut results = first
        .items()
        .iter()
        .zip(second.items())
        .map(|(first, second)| compare(first, second));
    results.find(|result| *result != EQUAL).unwrap_or(EQUAL)
}

/// Compares positions of devices in the same fabric.
fn geometries(first: &Geometry, second: &Geometry) -> CValueComparison {
    if first.fabric != second.fabric {
        return INCOMPATIBLE;
    }
    let names = (&first.uuid, &first.osname).cmp(&(&second.uuid, &second.osname));
    let lengths = first.coordinates.len().cmp(&second.coordinates.len());
    let order = names.then(lengths);
    if order.is_ne() {
        return of_ordering(order);
    }
    let pairs = first.coordinates.iter().zip(&second.coordinates);
    for (first, second) in pairs {
        if first.view != second.view {
            return INCOMPATIBLE;
        }
        let order = first.coordinates.cmp(&second.coordinates);
        if order.is_ne() {
            return of_ordering(order);
        }
    }
    EQUAL
}

/// Compares infos by key and value.
fn infos(first: &Info, second: &Info) -> CValueComparison {
    let keys = first.key.as_str().cmp(second.key.as_str());
    if keys.is_ne() {
        return of_ordering(keys);
    }
    if first.value.data_type() != second.value.data_type() {
        return DIFFERENT_TYPES;
    }
    compare(&first.value, &second.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::round_trip, convert::write_into, destruct::Destruct};
    use proptest::prelude::*;
    use std::ptr;

    #[test]
    fn values_are_compared_by_type_and_meaning() {
        let list = |texts: &[&str]| {
            Value::DataArray(DataArray::strings(texts.iter().map(|text| (*text).into())))
        };
        for (first, second, expected) in [
            (Value::Int(1), Value::Int(256), SECOND_GREATER),
            (Value::Int(-1), Value::Int(1), SECOND_GREATER),
            (Value::Size(256), Value::Size(1), FIRST_GREATER),
            (Value::string("b"), Value::string("a"), FIRST_GREATER),
            (Value::String(None), Value::string("a"), SECOND_GREATER),
            (Value::Double(0.5), Value::Double(0.25), FIRST_GREATER),
            (list(&["a", "b"]), list(&["a", "c"]), SECOND_GREATER),
            (list(&["z"]), list(&["a", "c"]), SECOND_GREATER),
            (Value::Undef, Value::Undef, EQUAL),
        ] {
            assert_eq!(compare(&first, &second), expected, "{first} {second}");
        }
        let (mut number, mut text) = (CValue::zeroed(), CValue::zeroed());
        write_into(&Value::Int(1), &mut number).unwrap();
        write_into(&Value::string("1"), &mut text).unwrap();
        // SAFETY: the values were written here; null is allowed.
        unsafe {
            assert_eq!(value_compare(&number, &text), DIFFERENT_TYPES);
            assert_eq!(value_compare(&number, ptr::null()), NOT_AVAILABLE);
            text.destruct();
        }
    }

    proptest! {
        #[test]
        fn equal_values_are_equal_and_others_have_an_order(first in round_trip::value(), second in round_trip::value()) {
            prop_assert_eq!(compare(&first, &first.clone()), EQUAL);
            if first.data_type() == second.data_type() {
                let mirrored = match compare(&first, &second) {
                    FIRST_GREATER => SECOND_GREATER,
                    SECOND_GREATER => FIRST_GREATER,
                    other => other,
                };
                prop_assert_eq!(compare(&second, &first), mirrored);
            }
        }
    }
}
