//! Values that the program refers to by a token, which has the form of a pointer. A token that was
//! used already, or that never existed, leads to nothing.
use std::{
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Values by token.
#[derive(Debug)]
pub(crate) struct Tokens<T>(Mutex<TokenTable<T>>);

#[derive(Debug)]
struct TokenTable<T> {
    last: usize,
    values: HashMap<usize, T>,
}

impl<T> Tokens<T> {
    /// Creates an empty table.
    pub(crate) fn new() -> Tokens<T> {
        Tokens(Mutex::new(TokenTable {
            last: 0,
            values: HashMap::new(),
        }))
    }

    fn table(&self) -> MutexGuard<'_, TokenTable<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a value, and returns its token, which is not null.
    pub(crate) fn keep(&self, value: T) -> *mut c_void {
        let mut table = self.table();
        table.last = table.last.wrapping_add(1).max(1);
        let token = table.last;
        table.values.insert(token, value);
        ptr::without_provenance_mut(token)
    }

    /// Takes the value of a token; `None` if it was taken already.
    pub(crate) fn take(&self, token: *mut c_void) -> Option<T> {
        self.table().values.remove(&token.addr())
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
    }
}
