//! Room on the stack of the calling thread. Programs call the C library on small stacks, such as those
//! of fibers, on which no call of Peal's client may run.
use std::{cell::Cell, ops::Range};

/// Room that a call of the client needs, in bytes, several times what was measured.
const NEEDED: usize = if cfg!(debug_assertions) {
    1 << 20
} else {
    192 << 10
};

thread_local! {
    /// Stack that the system gave the thread; empty if it is not known.
    static STACK: Cell<Option<StackBounds>> = const { Cell::new(None) };
}

/// Addresses of a stack.
#[derive(Debug, Clone, Copy)]
struct StackBounds {
    lowest: usize,
    end: usize,
}

/// Returns true if a call of the client has room on the current stack. A stack that is not the
/// thread's own, as that of a fiber, has none.
pub(crate) fn has_room() -> bool {
    let bounds = STACK.get().unwrap_or_else(|| {
        let bounds = stack_of_thread();
        STACK.set(Some(bounds));
        bounds
    });
    let here = 0_u8;
    has_room_at(&raw const here as usize, bounds.lowest..bounds.end)
}

fn has_room_at(here: usize, stack: Range<usize>) -> bool {
    stack.contains(&here) && here.saturating_sub(stack.start) >= NEEDED
}

/// Returns the stack of this thread; an empty one if the system does not tell.
fn stack_of_thread() -> StackBounds {
    let unknown = StackBounds { lowest: 0, end: 0 };
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the function initializes the attributes if it returns zero.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } != 0 {
        return unknown;
    }
    let mut lowest = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the attributes are initialized, and destroyed once.
    let found = unsafe {
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &mut lowest, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        found
    };
    if found != 0 {
        return unknown;
    }
    StackBounds {
        lowest: lowest.addr(),
        end: lowest.addr().saturating_add(size),
    }
}

/// Calls a function where the stack of a thread has no room left.
#[cfg(test)]
pub(crate) fn without_room<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    #[inline(never)]
    fn deeper<T>(call: impl FnOnce() -> T) -> T {
        let used = std::hint::black_box([0_u8; 4096]);
        let output = if has_room() { deeper(call) } else { call() };
        std::hint::black_box(used);
        output
    }
    let thread = std::thread::Builder::new().stack_size(NEEDED + (256 << 10));
    std::thread::scope(|scope| {
        let called = thread.spawn_scoped(scope, || {
            assert!(has_room(), "there is room at first");
            deeper(call)
        });
        called.unwrap().join().unwrap()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_has_room_until_it_is_used() {
        assert!(without_room(|| !has_room()));
        assert!(!has_room_at(100, 0..0));
        assert!(!has_room_at(NEEDED * 3, 0..NEEDED * 2));
        assert!(has_room_at(NEEDED, 0..NEEDED * 2));
    }
}
