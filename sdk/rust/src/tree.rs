//! Conversion between the tree of values that authors use and the flat form of the contract, where
//! arrays lie beside the infos and values refer to them.
use crate::{
    ChainResult, Info, Value,
    bindings::types::{self, Array, ArrayItems},
};

/// Converts infos to the tree form.
pub fn lift_infos(content: types::FlatInfos) -> Vec<Info> {
    Lift::new(content.arrays).infos(content.infos)
}

/// Converts a value to the tree form.
pub fn lift_value(found: types::FlatValue) -> Value {
    Lift::new(found.arrays).value(found.value)
}

/// Converts chain results to the tree form.
pub fn lift_results(chain: types::ChainResults) -> Vec<ChainResult> {
    let mut lift = Lift::new(chain.arrays);
    let step = |step: types::ChainResult| ChainResult {
        name: step.name,
        status: step.status,
        infos: lift.infos(step.infos),
    };
    chain.results.into_iter().map(step).collect()
}

/// Moves arrays into the values that refer to them. Each array is moved by one reference; a
/// reference to a missing array becomes no value.
struct Lift {
    arrays: Vec<Value>,
}

impl Lift {
    /// Converts the arrays in order: an array refers only to earlier ones.
    fn new(arrays: Vec<Array>) -> Lift {
        let mut lift = Lift {
            arrays: Vec::with_capacity(arrays.len()),
        };
        for array in arrays {
            let array = lift.array(array);
            lift.arrays.push(array);
        }
        lift
    }

    fn array(&mut self, array: Array) -> Value {
        match array.items {
            ArrayItems::Infos(infos) => Value::Infos(self.infos(infos)),
            ArrayItems::Procs(procs) => Value::Procs(procs),
            ArrayItems::Values(values) => {
                let items = values.into_iter().map(|value| self.value(value)).collect();
                Value::Values {
                    element: array.element,
                    items,
                }
            }
        }
    }

    fn infos(&mut self, infos: Vec<types::Info>) -> Vec<Info> {
        let info = |info: types::Info| Info {
            key: info.key,
            flags: info.flags,
            value: self.value(info.value),
        };
        infos.into_iter().map(info).collect()
    }

    fn taken(&mut self, at: types::ArrayRef) -> Value {
        self.arrays
            .get_mut(at as usize)
            .map_or(Value::Undef, |array| std::mem::replace(array, Value::Undef))
    }

    fn value(&mut self, flat: types::Value) -> Value {
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
            Flat::Timeval((seconds, microseconds)) => Value::Timeval {
                seconds,
                microseconds,
            },
            Flat::Time(n) => Value::Time(n),
            Flat::Status(n) => Value::Status(n),
            Flat::Proc(proc) => Value::Proc(proc),
            Flat::Nspace(text) => Value::Nspace(text),
            Flat::Rank(n) => Value::Rank(n),
            Flat::Range(range) => Value::Range(range),
            Flat::Bytes(bytes) => Value::Bytes(bytes),
            Flat::Array(at) => self.taken(at),
            Flat::Other(opaque) => Value::Other(opaque),
        }
    }
}

/// Converts infos to the flat form.
pub fn lower_infos(infos: impl IntoIterator<Item = Info>) -> types::FlatInfos {
    let mut arrays = Vec::new();
    types::FlatInfos {
        infos: infos_beside(infos, &mut arrays),
        arrays,
    }
}

/// Converts an info to the flat form, with its arrays.
pub fn lower_info(info: Info) -> (types::Info, Vec<Array>) {
    let mut arrays = Vec::new();
    (info_beside(info, &mut arrays), arrays)
}

/// Data types of the elements that have a case of their own in `array-items`.
const PMIX_PROC: u16 = 22;
const PMIX_INFO: u16 = 24;

fn infos_beside(
    infos: impl IntoIterator<Item = Info>,
    arrays: &mut Vec<Array>,
) -> Vec<types::Info> {
    infos
        .into_iter()
        .map(|info| info_beside(info, arrays))
        .collect()
}

fn info_beside(info: Info, arrays: &mut Vec<Array>) -> types::Info {
    types::Info {
        key: info.key,
        flags: info.flags,
        value: lower_value(info.value, arrays),
    }
}

/// Appends an array, after the arrays that it refers to, and returns the reference to it.
fn pushed(arrays: &mut Vec<Array>, element: u16, items: ArrayItems) -> types::Value {
    arrays.push(Array { element, items });
    types::Value::Array(arrays.len() as u32 - 1)
}

fn lower_value(value: Value, arrays: &mut Vec<Array>) -> types::Value {
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
        Value::Timeval {
            seconds,
            microseconds,
        } => Flat::Timeval((seconds, microseconds)),
        Value::Time(n) => Flat::Time(n),
        Value::Status(n) => Flat::Status(n),
        Value::Proc(proc) => Flat::Proc(proc),
        Value::Nspace(text) => Flat::Nspace(text),
        Value::Rank(n) => Flat::Rank(n),
        Value::Range(range) => Flat::Range(range),
        Value::Bytes(bytes) => Flat::Bytes(bytes),
        Value::Infos(infos) => {
            let infos = infos_beside(infos, arrays);
            pushed(arrays, PMIX_INFO, ArrayItems::Infos(infos))
        }
        Value::Procs(procs) => pushed(arrays, PMIX_PROC, ArrayItems::Procs(procs)),
        Value::Values { element, items } => {
            let values = items
                .into_iter()
                .map(|value| lower_value(value, arrays))
                .collect();
            pushed(arrays, element, ArrayItems::Values(values))
        }
        Value::Other(opaque) => Flat::Other(opaque),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Opaque, Proc, Range};

    fn there_and_back(value: Value) -> Value {
        let mut arrays = Vec::new();
        let value = lower_value(value, &mut arrays);
        lift_value(types::FlatValue { value, arrays })
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
            Value::Timeval {
                seconds: 14,
                microseconds: 15,
            },
            Value::Time(16),
            Value::Status(-17),
            Value::Proc(Proc::new("job", 18)),
            Value::Nspace("job".into()),
            Value::Rank(19),
            Value::Range(Range::Session),
            Value::Bytes(vec![20, 21]),
            Value::Other(Opaque {
                data_type: 22,
                handle: 23,
            }),
        ];
        for scalar in scalars {
            assert_eq!(there_and_back(scalar.clone()), scalar);
        }
    }

    #[test]
    fn arrays_nest() {
        let procs = Value::from(vec![Proc::new("job", 0), Proc::new("job", 1)]);
        let values = Value::from(vec![Value::from("a"), Value::from(vec![Value::from(1u32)])]);
        let tree = Value::from(vec![
            Info::new("procs", procs),
            Info::new("values", values),
            Info::new("n", 7u64),
        ]);
        assert_eq!(there_and_back(tree.clone()), tree);
    }

    #[test]
    fn the_steps_of_a_chain_share_their_arrays() {
        let step = |name: &str| ChainResult {
            name: name.into(),
            status: -1,
            infos: vec![
                Info::new("a", vec![Value::from(name)]),
                Info::new("b", vec![Info::new("c", true)]),
            ],
        };
        let mut arrays = Vec::new();
        let flat = ["first", "second"].map(|name| {
            let ChainResult {
                name,
                status,
                infos,
            } = step(name);
            types::ChainResult {
                name,
                status,
                infos: infos_beside(infos, &mut arrays),
            }
        });
        let chain = types::ChainResults {
            results: flat.into(),
            arrays,
        };
        assert_eq!(lift_results(chain), [step("first"), step("second")]);
    }

    #[test]
    fn an_array_keeps_the_type_of_its_elements() {
        assert_eq!(
            Value::from(vec![Value::Undef, Value::from("a")]).data_type(),
            39
        );
        for array in [
            Value::Values {
                element: 15,
                items: Vec::new(),
            },
            Value::Values {
                element: 3,
                items: vec![Value::Undef],
            },
            Value::Infos(Vec::new()),
            Value::Procs(Vec::new()),
        ] {
            assert_eq!(there_and_back(array.clone()), array);
        }
        let Value::Values { element, .. } = Value::from(vec![Value::Undef, Value::from("a")])
        else {
            panic!("an array")
        };
        assert_eq!(element, 3, "a NULL string among strings");
    }

    #[test]
    fn an_array_that_is_not_there_reads_as_no_value() {
        let itself = Array {
            element: 39,
            items: ArrayItems::Values(vec![types::Value::Array(0)]),
        };
        let found = |at| {
            lift_value(types::FlatValue {
                value: types::Value::Array(at),
                arrays: vec![itself.clone()],
            })
        };
        assert_eq!(found(5), Value::Undef);
        assert_eq!(
            found(0),
            Value::Values {
                element: 39,
                items: vec![Value::Undef]
            }
        );
    }
}
