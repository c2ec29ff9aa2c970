//! Values that the program refers to by a token, which has the form of a pointer. A token that was
//! used already, or that never existed, leads to nothing.
use std::{
    ffi::c_void,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Values by token.
#[derive(Debug)]
pub(crate) struct Tokens<T>(Mutex<TokenTable<T>>);

#[derive(Debug)]
struct TokenTable<T> {
    places: Vec<TokenPlace<T>>,
    /// Places without a value.
    free: Vec<u32>,
}

/// Place for a value. Its uses are counted, so that a token of an earlier use is recognized.
#[derive(Debug)]
struct TokenPlace<T> {
    uses: u32,
    value: Option<T>,
}

/// Number of bits of a token that hold the place, counted from one; the others hold its use.
const PLACE_BITS: u32 = usize::BITS / 2;

impl<T> TokenTable<T> {
    /// Returns a place without a value, which exists afterwards.
    fn free_place(&mut self) -> Option<u32> {
        if let Some(at) = self.free.pop() {
            return Some(at);
        }
        let at = u32::try_from(self.places.len()).ok()?;
        self.places.push(TokenPlace {
            uses: 0,
            value: None,
        });
        Some(at)
    }
}

impl<T> Tokens<T> {
    /// Creates an empty table.
    pub(crate) const fn new() -> Tokens<T> {
        Tokens(Mutex::new(TokenTable {
            places: Vec::new(),
            free: Vec::new(),
        }))
    }

    fn table(&self) -> MutexGuard<'_, TokenTable<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value, and returns its token, which is not null. Without a place left, the value is
    /// dropped, and its token leads to nothing.
    pub(crate) fn keep(&self, value: T) -> *mut c_void {
        let mut table = self.table();
        let at = table.free_place().unwrap_or(u32::MAX);
        let place = table.places.get_mut(at as usize);
        let uses = place.map_or(0, |place| {
            place.uses = place.uses.wrapping_add(1);
            place.value = Some(value);
            place.uses
        });
        let number = (at as usize).saturating_add(1);
        ptr::without_provenance_mut((uses as usize) << PLACE_BITS | number)
    }

    /// Takes the value of a token; `None` if it was taken already.
    pub(crate) fn take(&self, token: *mut c_void) -> Option<T> {
        self.change(token, Option::take)?
    }

    /// Passes the value of a token to `change`, which may take it; `None` if it was taken already.
    pub(crate) fn change<R>(
        &self,
        token: *mut c_void,
        change: impl FnOnce(&mut Option<T>) -> R,
    ) -> Option<R> {
        let number = token.addr() & ((1 << PLACE_BITS) - 1);
        let uses = token.addr() >> PLACE_BITS;
        let at = number.checked_sub(1)?;
        let mut table = self.table();
        let place = table.places.get_mut(at)?;
        if place.uses as usize != uses || place.value.is_none() {
            return None;
        }
        let result = change(&mut place.value);
        if place.value.is_none() {
            table.free.extend(u32::try_from(at));
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_leads_to_its_value_once() {
        let tokens = Tokens::new();
        let (first, second) = (tokens.keep(1), tokens.keep(2));
        assert!(!first.is_null());
        assert_eq!(tokens.take(second), Some(2));
        assert_eq!(tokens.take(first), Some(1));
        assert_eq!(tokens.take(first), None);
        assert_eq!(tokens.take(ptr::null_mut()), None);
        let third = tokens.keep(3);
        assert_eq!(tokens.take(first), None, "the place has another value now");
        assert_eq!(tokens.take(ptr::without_provenance_mut(usize::MAX)), None);
        assert_eq!(tokens.take(third), Some(3));
    }
}
