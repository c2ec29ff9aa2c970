//! Arrays of C structures in the C heap, owned by this library until a caller gets them.
use crate::{
    convert::{ConvertError, ToC},
    destruct::{Destruct, free_array},
    memory,
};
use std::{mem, ptr};

/// An array of C structures in the C heap. Dropping it frees the array and all that its elements
/// own; [`HeapArray::into_raw`] gives it to the caller instead.
#[derive(Debug)]
pub struct HeapArray<T: Destruct> {
    first: *mut T,
    len: usize,
}

// SAFETY: the array and all that it owns belong to this value alone, and the C heap has no threads.
unsafe impl<T: Destruct> Send for HeapArray<T> {}

impl<T: Destruct> HeapArray<T> {
    /// Makes an array of `len` zeroed structures.
    ///
    /// # Errors
    ///
    /// Fails if the heap has no memory left.
    pub fn zeroed(len: usize) -> Result<HeapArray<T>, ConvertError> {
        Ok(HeapArray {
            first: memory::allocate(len)?,
            len,
        })
    }

    /// Converts values of the model into an array.
    ///
    /// # Errors
    ///
    /// Fails if a value has no C form, or the heap has no memory left.
    pub fn from_models<M: ToC<Target = T>>(models: &[M]) -> Result<HeapArray<T>, ConvertError> {
        let mut array = HeapArray::zeroed(models.len())?;
        for (model, target) in models.iter().zip(array.as_mut_slice()) {
            model.fill(target)?;
        }
        Ok(array)
    }

    /// Takes an array from its C owner.
    ///
    /// # Safety
    ///
    /// `first` is null or begins an array of `len` structures from `malloc`, which only this value
    /// may use from now on. What the structures point to can be destructed.
    pub unsafe fn from_raw(first: *mut T, len: usize) -> HeapArray<T> {
        let len = if first.is_null() { 0 } else { len };
        HeapArray { first, len }
    }

    /// Returns the number of structures.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the array has no structures.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the structures.
    pub fn as_slice(&self) -> &[T] {
        if self.first.is_null() {
            return &[];
        }
        // SAFETY: `first` begins an array of `len` structures, which are valid when zeroed, and
        // which only this value can change.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }

    /// Returns the structures, to change them.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        if self.first.is_null() {
            return &mut [];
        }
        // SAFETY: as in `as_slice`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }

    /// Returns the pointer for a C function; null for an empty array. The array stays here, so the
    /// function may not free it.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first
    }

    /// Returns the pointer and the number of elements, as C functions take them; null for none.
    pub fn as_raw_parts(&mut self) -> (*mut T, usize) {
        (self.as_mut_ptr(), self.len())
    }

    /// Gives the array to a C caller, who frees it with the macro or function of its type.
    pub fn into_raw(self) -> (*mut T, usize) {
        let parts = (self.first, self.len);
        mem::forget(self);
        parts
    }
}

impl<T: Destruct> Default for HeapArray<T> {
    fn default() -> HeapArray<T> {
        HeapArray {
            first: ptr::null_mut(),
            len: 0,
        }
    }
}

impl<T: Destruct> Drop for HeapArray<T> {
    fn drop(&mut self) {
        // SAFETY: this value owns the array, and is gone afterwards.
        unsafe { free_array(self.first, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{abi::CInfo, memory::counter};
    use peal_model::{Info, Value, key};

    #[test]
    fn dropped_array_frees_all_and_released_one_nothing() {
        let before = counter::live();
        let info = Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string("text"));
        let models = [info.clone(), info];
        drop(HeapArray::<CInfo>::from_models(&models).unwrap());
        assert_eq!(counter::live(), before);
        let (first, len) = HeapArray::<CInfo>::from_models(&models).unwrap().into_raw();
        assert_eq!(counter::live(), before + 3);
        // SAFETY: `into_raw` gave the array away.
        let array = unsafe { HeapArray::from_raw(first, len) };
        assert_eq!(array.as_slice().len(), 2);
        drop(array);
        assert_eq!(counter::live(), before);
    }
}
