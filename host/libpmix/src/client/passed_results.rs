//! Results of earlier handlers, as the next ones get them. A chain of many handlers has many results,
//! so that one without infos of its own needs no memory of its own.
use super::passed_event::{GrowingArray, left_out, write_key};
use crate::{
    abi::{CDataArray, CInfo, CValue, CValueData},
    convert::{ConvertError, ToC},
    heap_array::HeapArray,
    memory,
};
use peal_model::{ChainResult, data_type};
use std::ptr;

/// Results in their C form: infos with the name as the key and an array as the value, whose first
/// element is the status ([`ChainResult::as_info`]). They live as long as this value.
#[derive(Debug, Default)]
pub(super) struct PassedResults {
    infos: GrowingArray,
    /// Number of handlers whose results are among them.
    handlers: usize,
    blocks: Vec<ResultBlock>,
    /// Arrays of results that have infos of their own.
    arrays: Vec<HeapArray<CInfo>>,
}

// SAFETY: what the pointers lead to belongs to this value alone.
unsafe impl Send for PassedResults {}

/// Value of a result.
struct ResultValue {
    array: CDataArray,
    /// Only element of the array, if the result has no infos of its own.
    status: CInfo,
}

/// Number of results in a block.
const BLOCK: usize = 16;

/// Values that do not move, in the C heap.
#[derive(Debug)]
struct ResultBlock {
    first: *mut ResultValue,
    len: usize,
}

impl PassedResults {
    /// Adds the results of the handlers that have ended since the last call. The chain has `handlers`
    /// in all.
    pub(super) fn add_new(&mut self, steps: &[ChainResult], handlers: usize) {
        // The first handler of a chain, often the only one, has no results.
        if !steps.is_empty()
            && let Err(error) = self.infos.reserve(handlers.saturating_sub(1))
        {
            left_out(&error);
        }
        for step in steps.get(self.handlers..).unwrap_or_default() {
            if let Err(error) = self.add(step) {
                left_out(&error);
            }
        }
        self.handlers = steps.len();
    }

    fn add(&mut self, result: &ChainResult) -> Result<(), ConvertError> {
        let array = match result.infos.as_slice() {
            [] => None,
            infos => {
                let mut array = HeapArray::<CInfo>::zeroed(infos.len().saturating_add(1))?;
                if let Some((first, others)) = array.as_mut_slice().split_first_mut() {
                    write_status(first, result);
                    for (info, place) in infos.iter().zip(others) {
                        info.fill(place)?;
                    }
                }
                Some(array)
            }
        };
        let value = self.next_value()?;
        let (first, size) = match array {
            Some(mut array) => {
                let elements = array.as_raw_parts();
                self.arrays.push(array);
                elements
            }
            None => {
                // SAFETY: the value is valid, and its block lives as long as `self`.
                let status = unsafe { &mut (*value).status };
                write_status(status, result);
                (&raw mut *status, 1)
            }
        };
        // SAFETY: as above; the status is borrowed no more.
        let darray = unsafe { &raw mut (*value).array };
        // SAFETY: as above. The structure has nothing to drop.
        unsafe {
            darray.write(CDataArray {
                r#type: data_type::PMIX_INFO.0,
                size,
                array: first.cast(),
            });
        }
        let value = CValue {
            r#type: data_type::PMIX_DATA_ARRAY.0,
            data: CValueData { darray },
        };
        self.infos.lend(&result.name, value);
        Ok(())
    }

    /// Returns the next value, which is zeroed, and lives as long as `self`.
    fn next_value(&mut self) -> Result<*mut ResultValue, ConvertError> {
        let has_room = |block: &ResultBlock| block.len < BLOCK;
        if !self.blocks.last().is_some_and(has_room) {
            self.blocks.push(ResultBlock::new()?);
        }
        let no_block = ConvertError::NoMemory {
            bytes: size_of::<ResultValue>(),
        };
        let block = self.blocks.last_mut().ok_or(no_block)?;
        // SAFETY: the block has room for more than `len` values, and zero is a valid one.
        let value = unsafe {
            let value = block.first.add(block.len);
            value.write_bytes(0, 1);
            value
        };
        block.len = block.len.saturating_add(1);
        Ok(value)
    }

    /// Returns the pointer for a C function; null if there are no results. It is valid until the next
    /// result is added.
    pub(super) fn as_mut_ptr(&mut self) -> *mut CInfo {
        self.infos.as_mut_ptr()
    }

    /// Returns the number of results.
    pub(super) fn len(&self) -> usize {
        self.infos.len()
    }
}

/// Writes the first element of a result to a zeroed info.
fn write_status(info: &mut CInfo, result: &ChainResult) {
    write_key(&mut info.key, &result.name);
    info.value = CValue {
        r#type: data_type::PMIX_STATUS.0,
        data: CValueData {
            status: result.status.0,
        },
    };
}

impl ResultBlock {
    fn new() -> Result<ResultBlock, ConvertError> {
        // SAFETY: null is no array.
        let first = unsafe { memory::reallocate(ptr::null_mut(), BLOCK) }?;
        Ok(ResultBlock { first, len: 0 })
    }
}

impl Drop for ResultBlock {
    fn drop(&mut self) {
        // SAFETY: the block came from `memory`, and is used no more.
        unsafe { memory::free(self.first) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{convert::read_array, memory::counter};
    use peal_model::{Info, Status, Value, key};

    #[test]
    fn results_are_those_of_their_models_and_stay() {
        let before = counter::live();
        let long = "n".repeat(600);
        let text = Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string("text"));
        let names = ["a handler", "", &long];
        let steps: Vec<ChainResult> = (0..3 * BLOCK)
            .map(|number| ChainResult {
                name: names[number % names.len()].into(),
                status: Status(-47),
                infos: vec![text.clone(); number % 2],
            })
            .collect();
        let mut results = PassedResults::default();
        assert!(results.as_mut_ptr().is_null());
        for known in [1, 2, 2, BLOCK, BLOCK + 1, steps.len()] {
            results.add_new(&steps[..known], steps.len() / 2);
            // SAFETY: the infos are those that were made above.
            let read: Vec<Info> =
                unsafe { read_array(results.as_mut_ptr(), results.len(), "results") }.unwrap();
            let models = steps[..known].iter().map(ChainResult::as_info);
            assert_eq!(read, models.collect::<Vec<_>>());
        }
        drop(results);
        assert_eq!(counter::live(), before);
    }
}
