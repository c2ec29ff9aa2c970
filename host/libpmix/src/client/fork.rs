//! Number of forks between the first use of the library in the program and this process. A process id
//! would tell a child from its parent too, but takes a system call.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static FORKS: AtomicUsize = AtomicUsize::new(0);
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Process, as the number of forks before it. Only a process and its ancestors are compared, so that
/// the number is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForkNumber(usize);

impl ForkNumber {
    /// Returns the number of this process.
    pub(crate) fn current() -> ForkNumber {
        if !IS_WATCHED.load(Ordering::Relaxed) && !IS_WATCHED.swap(true, Ordering::Relaxed) {
            // It fails only without memory. Children are then taken for their parent.
            // SAFETY: the function is one of this library, and does nothing but count. The C library
            // forgets it when this library is unloaded.
            unsafe { pthread_atfork(None, None, Some(count_fork)) };
        }
        ForkNumber(FORKS.load(Ordering::Relaxed))
    }
}

/// Runs in a forked child, where it may only do what a signal handler may.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_has_another_number_than_its_parent() {
        let parent = ForkNumber::current();
        // SAFETY: the child only compares numbers and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_other = ForkNumber::current() != parent;
            // SAFETY: `_exit` may be called at any time.
            unsafe { libc::_exit(libc::c_int::from(is_other)) };
        }
        let mut status = 0;
        // SAFETY: the child is one of this process, and the status is a place for its end.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!((waited, libc::WEXITSTATUS(status)), (child, 1));
        assert_eq!(ForkNumber::current(), parent);
    }
}
