//! Border between C and Rust. Every exported function runs its body here, so that no panic unwinds
//! into C.
use crate::abi::CStatus;
use peal_model::{Status, code};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs the body of an exported function that returns a status. `function` is its C name.
///
/// A panic becomes `PMIX_ERROR` and an error in the trace. Errors of conversions become their
/// statuses by `?`.
///
/// ```
/// # use peal_libpmix::{abi::{CProc, CStatus}, border, convert::read_one};
/// # use peal_model::Proc;
/// /// # Safety
/// ///
/// /// `proc` is null or points to a proc.
/// unsafe extern "C" fn example(proc: *const CProc) -> CStatus {
///     border::status("PMIx_Example", || {
///         // SAFETY: the caller guarantees a proc or null.
///         let proc: Proc = unsafe { read_one(proc, "proc") }?;
///         # let _ = proc;
///         Ok(())
///     })
/// }
/// # // SAFETY: null is allowed.
/// assert_eq!(unsafe { example(std::ptr::null()) }, -27);
/// ```
pub fn status(function: &'static str, body: impl FnOnce() -> Result<(), Status>) -> CStatus {
    let outcome = value(function, Err(code::PMIX_ERROR), body);
    outcome.map_or_else(|status| status.0, |()| code::PMIX_SUCCESS.0)
}

/// Runs the body of an exported function that returns anything else, such as a pointer or nothing.
/// `function` is its C name, `otherwise` the result of a panic.
pub fn value<T>(function: &'static str, otherwise: T, body: impl FnOnce() -> T) -> T {
    // What the body may have left half done belongs to the caller, who learns of the failure; locks
    // of this library are taken also when they are poisoned.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        panics::add();
        tracing::error!(
            function,
            panic = message(&*panic),
            "panic in a function of the library"
        );
        otherwise
    })
}

/// Returns the message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Count of the panics of a thread, for tests that look for them.
#[cfg(test)]
pub(crate) mod panics {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        COUNT.set(COUNT.get() + 1);
    }

    pub(crate) fn count() -> usize {
        COUNT.get()
    }
}

#[cfg(not(test))]
mod panics {
    pub(super) fn add() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::ConvertError;

    #[test]
    fn results_become_statuses() {
        assert_eq!(status("test", || Ok(())), 0);
        assert_eq!(
            status("test", || Err(code::PMIX_ERR_NOT_FOUND)),
            code::PMIX_ERR_NOT_FOUND.0
        );
        let refused = || Ok(Err::<(), _>(ConvertError::NullPointer { what: "key" })?);
        assert_eq!(status("test", refused), code::PMIX_ERR_BAD_PARAM.0);
        assert_eq!(value("test", 1, || 2), 2);
    }

    #[test]
    fn panic_becomes_an_error_with_its_message() {
        assert_eq!(status("test", || panic!("message")), code::PMIX_ERROR.0);
        assert_eq!(value("test", 1, || panic!("{}", "message")), 1);
        let panic = catch_unwind(|| panic!("{} {}", "a", "b")).unwrap_err();
        assert_eq!(message(&*panic), "a b");
    }
}
