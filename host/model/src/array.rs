//! Arrays of values of one type.
use crate::{DataType, Info, Proc, ProcInfo, Regattr, Text, Value, data_type as dt};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Error for an element of another type than its array.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("element {at} is a {found}, expected {expected}")]
pub struct MixedArray {
    /// Index of the element, from 0.
    pub at: usize,
    /// Type of the element.
    pub found: DataType,
    /// Type of the array.
    pub expected: DataType,
}

/// An array of values that all have the same type (`pmix_data_array_t`). An empty array has a type,
/// too.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct DataArray {
    element: DataType,
    items: Vec<Value>,
}

/// Deserialized form of an array, before its types are checked.
#[derive(Deserialize)]
struct Parts {
    element: DataType,
    items: Vec<Value>,
}

impl TryFrom<Parts> for DataArray {
    type Error = MixedArray;
    fn try_from(Parts { element, items }: Parts) -> Result<DataArray, MixedArray> {
        // A record could hold an array of mixed types, which `new` refuses.
        DataArray::new(element, items)
    }
}

impl DataArray {
    /// Makes an array of a type. Returns an error if an item has another type.
    pub fn new(element: DataType, items: Vec<Value>) -> Result<DataArray, MixedArray> {
        match items
            .iter()
            .enumerate()
            .find(|(_, item)| item.data_type() != element)
        {
            Some((at, item)) => Err(MixedArray {
                at,
                found: item.data_type(),
                expected: element,
            }),
            None => Ok(DataArray { element, items }),
        }
    }

    /// Makes an array of procs.
    pub fn procs(procs: impl IntoIterator<Item = Proc>) -> DataArray {
        DataArray {
            // The elements are made here, so the check of `new` is not needed.
            element: dt::PMIX_PROC,
            items: procs.into_iter().map(Value::Proc).collect(),
        }
    }

    /// Makes an array of strings.
    pub fn strings(texts: impl IntoIterator<Item = Text>) -> DataArray {
        let items = texts
            .into_iter()
            .map(|text| Value::String(Some(text)))
            .collect();
        DataArray {
            element: dt::PMIX_STRING,
            items,
        }
    }

    /// Makes an array of infos.
    pub fn infos(infos: impl IntoIterator<Item = Info>) -> DataArray {
        DataArray {
            element: dt::PMIX_INFO,
            items: infos
                .into_iter()
                .map(|info| Value::Info(Box::new(info)))
                .collect(),
        }
    }

    /// Makes an array of proc infos.
    pub fn proc_infos(procs: impl IntoIterator<Item = ProcInfo>) -> DataArray {
        let items = procs
            .into_iter()
            .map(|info| Value::ProcInfo(Box::new(info)))
            .collect();
        DataArray {
            element: dt::PMIX_PROC_INFO,
            items,
        }
    }

    /// Makes an array of attribute descriptions.
    pub fn regattrs(attributes: impl IntoIterator<Item = Regattr>) -> DataArray {
        let items = attributes
            .into_iter()
            .map(|attribute| Value::Regattr(Box::new(attribute)))
            .collect();
        DataArray {
            element: dt::PMIX_REGATTR,
            items,
        }
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> DataType {
        self.element
    }

    /// Returns the elements.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Returns the elements of an array of procs, `None` for another array.
    pub fn as_procs(&self) -> Option<Vec<Proc>> {
        let proc = |value: &Value| {
            if let Value::Proc(proc) = value {
                Some(proc.clone())
            } else {
                None
            }
        };
        // The type of the array decides: an empty array of procs names no proc.
        (self.element == dt::PMIX_PROC).then(|| self.items.iter().filter_map(proc).collect())
    }

    /// Returns the elements of an array of infos, `None` for another array.
    pub fn as_infos(&self) -> Option<Vec<&Info>> {
        let info = |value: &'_ Value| -> bool { matches!(value, Value::Info(_)) };
        if self.element != dt::PMIX_INFO || !self.items.iter().all(info) {
            return None;
        }
        Some(
            self.items
                .iter()
                .filter_map(|value| {
                    if let Value::Info(info) = value {
                        Some(&**info)
                    } else {
                        None
                    }
                })
                .collect(),
        )
    }
}
