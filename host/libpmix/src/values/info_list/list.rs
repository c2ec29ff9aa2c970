//! List of infos that a program fills (`PMIx_Info_list_start`).
use crate::{
    abi::{CInfo, KEY_SIZE},
    destruct::{Destruct, PERSISTENT},
    values::keys::bounded,
};
use std::ptr;

/// An info of a list. The pointer that a program has to go through the list is to one of these.
pub(super) struct InfoNode {
    pub(super) info: CInfo,
    pub(super) next: *mut InfoNode,
}

/// A list of infos, which it owns.
pub(super) struct InfoList {
    pub(super) first: *mut InfoNode,
    last: *mut InfoNode,
    pub(super) len: usize,
}

impl InfoList {
    /// Makes an empty list.
    pub(super) fn new() -> InfoList {
        InfoList {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            len: 0,
        }
    }

    /// Adds an info, which belongs to the list from now on.
    pub(super) fn add(&mut self, info: CInfo, at_end: bool) {
        let next = if at_end { ptr::null_mut() } else { self.first };
        let node = Box::into_raw(Box::new(InfoNode { info, next }));
        if !at_end {
            self.first = node;
        } else if let Some(last) = self.last_mut() {
            last.next = node;
        }
        if self.len == 0 {
            self.first = node;
        }
        if at_end || self.len == 0 {
            self.last = node;
        }
        self.len = self.len.saturating_add(1);
    }

    fn last_mut(&mut self) -> Option<&mut InfoNode> {
        // SAFETY: the pointer is null or to a node of this list, which is borrowed exclusively.
        unsafe { self.last.as_mut() }
    }

    /// Returns the infos, in order.
    pub(super) fn infos(&mut self) -> impl Iterator<Item = &mut CInfo> {
        let mut next = self.first;
        std::iter::from_fn(move || {
            // SAFETY: the pointer is null or to a node of this list, which is borrowed exclusively
            // as long as the iterator is, and each node is passed once.
            let node = unsafe { next.as_mut() }?;
            next = node.next;
            Some(&mut node.info)
        })
    }

    /// Returns the value with a key.
    fn find(&mut self, key: &[u8]) -> Option<&mut CInfo> {
        // SAFETY: the keys are arrays of that size.
        self.infos()
            .find(|info| unsafe { bounded(info.key.as_ptr(), KEY_SIZE - 1) } == key)
    }
}

impl Drop for InfoList {
    fn drop(&mut self) {
        let mut next = self.first;
        while !next.is_null() {
            // SAFETY: the nodes were made by `add`, and belong to this list alone.
            let mut node = unsafe { Box::from_raw(next) };
            next = node.next;
            // SAFETY: the list owns the info; a persistent one frees nothing.
            unsafe { node.info.destruct() };
        }
    }
}

/// Adds an info unless the list has its key; then the value is replaced if `overwrite` says so.
pub(super) fn add_unique(list: &mut InfoList, mut info: CInfo, overwrite: bool) {
    // SAFETY: the key is an array of that size.
    let key = unsafe { bounded(info.key.as_ptr(), KEY_SIZE - 1) }.to_vec();
    match list.find(&key) {
        None => list.add(info, true),
        // SAFETY: both infos are owned here; one of the two values is freed.
        Some(old) => unsafe {
            if overwrite {
                old.destruct();
                old.value = info.value;
                // The value is the list's own now, unless the new info says otherwise.
                old.flags = (old.flags & !PERSISTENT.0) | (info.flags & PERSISTENT.0);
            } else {
                info.destruct();
            }
        },
    }
}
