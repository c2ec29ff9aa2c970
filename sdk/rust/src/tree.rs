//! Between the tree that authors handle and the flat form of the contract, where an array lies beside the call and its
//! value only refers to it.
use crate::{
    Info, Step, Value,
    bindings::{
        call,
        types::{self, Array},
    },
};

/// How deep arrays are read; what lies deeper reads as [`Value::Undef`]. The stack of a guest is small.
const MAX_DEPTH: u32 = 32;

/// Where the nested arrays of the call at hand lie.
pub trait Arrays {
    /// The array of this number, if there is one.
    fn at(&self, at: types::ArrayRef) -> Option<Array>;
    /// Adds one and returns its number.
    fn push(&mut self, array: &Array) -> types::ArrayRef;
}

/// The arrays that the host keeps.
pub struct Host;

impl Arrays for Host {
    fn at(&self, at: types::ArrayRef) -> Option<Array> {
        call::array_at(at)
    }

    fn push(&mut self, array: &Array) -> types::ArrayRef {
        call::push_array(array)
    }
}

/// An info as an author handles it.
pub fn lift_info(flat: types::Info, arrays: &impl Arrays) -> Info {
    info_within(flat, arrays, MAX_DEPTH)
}

/// A value as an author handles it.
pub fn lift_value(flat: types::Value, arrays: &impl Arrays) -> Value {
    value_within(flat, arrays, MAX_DEPTH)
}

/// A step as an author handles it.
pub fn lift_step(flat: types::Step, arrays: &impl Arrays) -> Step {
    let infos = flat.infos.into_iter().map(|info| lift_info(info, arrays)).collect();
    Step { name: flat.name, status: flat.status, infos }
}

fn info_within(flat: types::Info, arrays: &impl Arrays, depth: u32) -> Info {
    Info { key: flat.key, flags: flat.flags, value: value_within(flat.value, arrays, depth) }
}

fn value_within(flat: types::Value, arrays: &impl Arrays, depth: u32) -> Value {
    use types::Value as Flat;
    match flat {
        Flat::Undef => Value::Undef,
        Flat::Boolean(truth) => Value::Boolean(truth),
        Flat::Byte(n) => Value::Byte(n),
        Flat::Text(text) => Value::Text(text),
        Flat::Size(n) => Value::Size(n),
        Flat::Pid(n) => Value::Pid(n),
        Flat::Int(n) => Value::Int(n),
        Flat::Int8(n) => Value::Int8(n),
        Flat::Int16(n) => Value::Int16(n),
        Flat::Int32(n) => Value::Int32(n),
        Flat::Int64(n) => Value::Int64(n),
        Flat::Uint(n) => Value::Uint(n),
        Flat::Uint8(n) => Value::Uint8(n),
        Flat::Uint16(n) => Value::Uint16(n),
        Flat::Uint32(n) => Value::Uint32(n),
        Flat::Uint64(n) => Value::Uint64(n),
        Flat::Float32(n) => Value::Float32(n),
        Flat::Float64(n) => Value::Float64(n),
        Flat::Timeval((seconds, microseconds)) => Value::Timeval { seconds, microseconds },
        Flat::Time(n) => Value::Time(n),
        Flat::Status(n) => Value::Status(n),
        Flat::Proc(proc) => Value::Proc(proc),
        Flat::Nspace(text) => Value::Nspace(text),
        Flat::Rank(n) => Value::Rank(n),
        Flat::Range(range) => Value::Range(range),
        Flat::Bytes(bytes) => Value::Bytes(bytes),
        Flat::Array(at) => array_within(at, arrays, depth),
        Flat::Other(opaque) => Value::Other(opaque),
    }
}

fn array_within(at: types::ArrayRef, arrays: &impl Arrays, depth: u32) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Undef };
    match arrays.at(at) {
        Some(Array::Infos(infos)) => {
            Value::Infos(infos.into_iter().map(|info| info_within(info, arrays, depth)).collect())
        }
        Some(Array::Procs(procs)) => Value::Procs(procs),
        Some(Array::Values(values)) => {
            Value::Values(values.into_iter().map(|value| value_within(value, arrays, depth)).collect())
        }
        None => Value::Undef,
    }
}

/// An info as the contract has it; its arrays go beside the call.
pub fn lower_info(info: Info, arrays: &mut impl Arrays) -> types::Info {
    types::Info { key: info.key, flags: info.flags, value: lower_value(info.value, arrays) }
}

fn lower_value(value: Value, arrays: &mut impl Arrays) -> types::Value {
    use types::Value as Flat;
    match value {
        Value::Undef => Flat::Undef,
        Value::Boolean(truth) => Flat::Boolean(truth),
        Value::Byte(n) => Flat::Byte(n),
        Value::Text(text) => Flat::Text(text),
        Value::Size(n) => Flat::Size(n),
        Value::Pid(n) => Flat::Pid(n),
        Value::Int(n) => Flat::Int(n),
        Value::Int8(n) => Flat::Int8(n),
        Value::Int16(n) => Flat::Int16(n),
        Value::Int32(n) => Flat::Int32(n),
        Value::Int64(n) => Flat::Int64(n),
        Value::Uint(n) => Flat::Uint(n),
        Value::Uint8(n) => Flat::Uint8(n),
        Value::Uint16(n) => Flat::Uint16(n),
        Value::Uint32(n) => Flat::Uint32(n),
        Value::Uint64(n) => Flat::Uint64(n),
        Value::Float32(n) => Flat::Float32(n),
        Value::Float64(n) => Flat::Float64(n),
        Value::Timeval { seconds, microseconds } => Flat::Timeval((seconds, microseconds)),
        Value::Time(n) => Flat::Time(n),
        Value::Status(n) => Flat::Status(n),
        Value::Proc(proc) => Flat::Proc(proc),
        Value::Nspace(text) => Flat::Nspace(text),
        Value::Rank(n) => Flat::Rank(n),
        Value::Range(range) => Flat::Range(range),
        Value::Bytes(bytes) => Flat::Bytes(bytes),
        Value::Infos(infos) => {
            let array = Array::Infos(infos.into_iter().map(|info| lower_info(info, arrays)).collect());
            Flat::Array(arrays.push(&array))
        }
        Value::Procs(procs) => Flat::Array(arrays.push(&Array::Procs(procs))),
        Value::Values(values) => {
            let array = Array::Values(values.into_iter().map(|value| lower_value(value, arrays)).collect());
            Flat::Array(arrays.push(&array))
        }
        Value::Other(opaque) => Flat::Other(opaque),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Opaque, Proc, Range};

    impl Arrays for Vec<Array> {
        fn at(&self, at: types::ArrayRef) -> Option<Array> {
            self.get(at as usize).cloned()
        }

        fn push(&mut self, array: &Array) -> types::ArrayRef {
            Vec::push(self, array.clone());
            self.len() as u32 - 1
        }
    }

    fn there_and_back(value: Value) -> Value {
        let mut arrays = Vec::new();
        let flat = lower_value(value, &mut arrays);
        lift_value(flat, &arrays)
    }

    #[test]
    fn every_scalar_keeps_its_type_and_value() {
        let scalars = [
            Value::Undef,
            Value::Boolean(true),
            Value::Byte(1),
            Value::Text("a".into()),
            Value::Size(2),
            Value::Pid(3),
            Value::Int(-4),
            Value::Int8(-5),
            Value::Int16(-6),
            Value::Int32(-7),
            Value::Int64(-8),
            Value::Uint(9),
            Value::Uint8(10),
            Value::Uint16(11),
            Value::Uint32(12),
            Value::Uint64(13),
            Value::Float32(1.5),
            Value::Float64(2.5),
            Value::Timeval { seconds: 14, microseconds: 15 },
            Value::Time(16),
            Value::Status(-17),
            Value::Proc(Proc::new("job", 18)),
            Value::Nspace("job".into()),
            Value::Rank(19),
            Value::Range(Range::Session),
            Value::Bytes(vec![20, 21]),
            Value::Other(Opaque { data_type: 22, at: 23 }),
        ];
        for scalar in scalars {
            assert_eq!(there_and_back(scalar.clone()), scalar);
        }
    }

    #[test]
    fn arrays_nest() {
        let procs = Value::from(vec![Proc::new("job", 0), Proc::new("job", 1)]);
        let values = Value::from(vec![Value::from("a"), Value::from(vec![Value::from(1u32)])]);
        let tree = Value::from(vec![Info::new("procs", procs), Info::new("values", values), Info::new("n", 7u64)]);
        assert_eq!(there_and_back(tree.clone()), tree);
    }

    #[test]
    fn an_array_that_is_not_there_reads_as_no_value() {
        assert_eq!(lift_value(types::Value::Array(5), &Vec::new()), Value::Undef);
    }

    #[test]
    fn an_array_that_holds_itself_ends_at_the_greatest_depth() {
        let arrays = vec![Array::Values(vec![types::Value::Array(0)])];
        let mut value = lift_value(types::Value::Array(0), &arrays);
        let mut depth = 0;
        while let Value::Values(mut inner) = value {
            value = inner.remove(0);
            depth += 1;
        }
        assert_eq!((depth, value), (MAX_DEPTH, Value::Undef));
    }
}
