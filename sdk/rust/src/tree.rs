//! Between the tree that authors handle and the flat form of the contract, where an array lies beside the infos and a
//! value only refers to it.
use crate::{
    Info, Step, Value,
    bindings::types::{self, Array, Items},
};

/// Infos as an author handles them.
pub fn lift_content(content: types::Content) -> Vec<Info> {
    Lift::new(content.arrays).infos(content.infos)
}

/// A value as an author handles it.
pub fn lift_found(found: types::Found) -> Value {
    Lift::new(found.arrays).value(found.value)
}

/// Steps as an author handles them.
pub fn lift_chain(chain: types::Chain) -> Vec<Step> {
    let mut lift = Lift::new(chain.arrays);
    let step = |step: types::Step| Step {
        name: step.name,
        status: step.status,
        infos: lift.infos(step.infos),
    };
    chain.steps.into_iter().map(step).collect()
}

/// Puts arrays into the values that refer to them. Each is taken from here by the one value that does; what is not there
/// reads as no value.
struct Lift {
    arrays: Vec<Value>,
}

impl Lift {
    /// An array refers to those before it only, so one after the other is enough.
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
            Items::Infos(infos) => Value::Infos(self.infos(infos)),
            Items::Procs(procs) => Value::Procs(procs),
            Items::Values(values) => {
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

/// Infos as the contract has them.
pub fn lower_content(infos: impl IntoIterator<Item = Info>) -> types::Content {
    let mut arrays = Vec::new();
    types::Content {
        infos: lower_infos(infos, &mut arrays),
        arrays,
    }
}

/// An info as the contract has it, and its arrays.
pub fn lower_info(info: Info) -> (types::Info, Vec<Array>) {
    let mut arrays = Vec::new();
    (info_beside(info, &mut arrays), arrays)
}

/// The data types of the elements that arrays have a case of their own for.
const PMIX_PROC: u16 = 22;
const PMIX_INFO: u16 = 24;

fn lower_infos(infos: impl IntoIterator<Item = Info>, arrays: &mut Vec<Array>) -> Vec<types::Info> {
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

/// Adds an array, whose own arrays are there already, and refers to it.
fn pushed(arrays: &mut Vec<Array>, element: u16, items: Items) -> types::Value {
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
            let infos = lower_infos(infos, arrays);
            pushed(arrays, PMIX_INFO, Items::Infos(infos))
        }
        Value::Procs(procs) => pushed(arrays, PMIX_PROC, Items::Procs(procs)),
        Value::Values { element, items } => {
            let values = items
                .into_iter()
                .map(|value| lower_value(value, arrays))
                .collect();
            pushed(arrays, element, Items::Values(values))
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
        lift_found(types::Found { value, arrays })
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
                at: 23,
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
        let step = |name: &str| Step {
            name: name.into(),
            status: -1,
            infos: vec![
                Info::new("a", vec![Value::from(name)]),
                Info::new("b", vec![Info::new("c", true)]),
            ],
        };
        let mut arrays = Vec::new();
        let flat = ["first", "second"].map(|name| {
            let Step {
                name,
                status,
                infos,
            } = step(name);
            types::Step {
                name,
                status,
                infos: lower_infos(infos, &mut arrays),
            }
        });
        let chain = types::Chain {
            steps: flat.into(),
            arrays,
        };
        assert_eq!(lift_chain(chain), [step("first"), step("second")]);
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
            items: Items::Values(vec![types::Value::Array(0)]),
        };
        let found = |at| {
            lift_found(types::Found {
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
