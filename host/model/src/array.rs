//! Arrays of values of one type.
use crate::{DataType, Info, Proc, ProcInfo, Regattr, Text, Value, data_type as dt};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A value of another type than the array it was offered to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("element {at} is a {found}, the array holds {wanted}")]
pub struct MixedArray {
    /// Which element, from 0.
    pub at: usize,
    /// Its type.
    pub found: DataType,
    /// The array's type.
    pub wanted: DataType,
}

/// An array of values that all have the same type (`pmix_data_array_t`). It may be empty and still has a type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct DataArray {
    element: DataType,
    items: Vec<Value>,
}

/// What arrays are made of, before it is known that they are arrays.
#[derive(Deserialize)]
struct Parts {
    element: DataType,
    items: Vec<Value>,
}

impl TryFrom<Parts> for DataArray {
    type Error = MixedArray;
    fn try_from(Parts { element, items }: Parts) -> Result<DataArray, MixedArray> {
        DataArray::new(element, items)
    }
}

impl DataArray {
    /// An array of that type; an error if an item has another one.
    pub fn new(element: DataType, items: Vec<Value>) -> Result<DataArray, MixedArray> {
        match items
            .iter()
            .enumerate()
            .find(|(_, item)| item.data_type() != element)
        {
            Some((at, item)) => Err(MixedArray {
                at,
                found: item.data_type(),
                wanted: element,
            }),
            None => Ok(DataArray { element, items }),
        }
    }

    /// An array of procs.
    pub fn procs(procs: impl IntoIterator<Item = Proc>) -> DataArray {
        DataArray {
            element: dt::PMIX_PROC,
            items: procs.into_iter().map(Value::Proc).collect(),
        }
    }

    /// An array of texts.
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

    /// An array of infos.
    pub fn infos(infos: impl IntoIterator<Item = Info>) -> DataArray {
        DataArray {
            element: dt::PMIX_INFO,
            items: infos
                .into_iter()
                .map(|info| Value::Info(Box::new(info)))
                .collect(),
        }
    }

    /// An array of what is known of procs.
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

    /// An array of what attributes are.
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

    /// The type of its elements.
    pub fn element(&self) -> DataType {
        self.element
    }

    /// Its elements.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Its elements as procs, if it is an array of procs.
    pub fn as_procs(&self) -> Option<Vec<Proc>> {
        let proc = |value: &Value| {
            if let Value::Proc(proc) = value {
                Some(proc.clone())
            } else {
                None
            }
        };
        (self.element == dt::PMIX_PROC).then(|| self.items.iter().filter_map(proc).collect())
    }

    /// Its elements as infos, if it is an array of infos.
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
