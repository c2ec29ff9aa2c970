//! Environments: lists of `NAME=value` (`PMIx_Setenv`).
use super::argv::{CArgv, arguments, insert, strings};
use crate::{
    abi::{CBool, CStatus},
    border, memory,
};
use peal_model::code;
use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    /// The environment of the process.
    static mut environ: CArgv;
}

/// `PMIx_Setenv`: sets a variable of an environment, which may be that of the process. A null value
/// removes the variable from that of the process, and is empty in any other.
///
/// # Safety
///
/// `name` and `value` are null or strings; `env` is null, or points to null, a list from `malloc`, or
/// `environ`. No other thread reads or changes the environment.
#[unsafe(export_name = "PMIx_Setenv")]
pub unsafe extern "C" fn setenv(
    name: *const c_char,
    value: *const c_char,
    overwrite: CBool,
    env: *mut CArgv,
) -> CStatus {
    border::status("PMIx_Setenv", || {
        // SAFETY: the caller guarantees what these demand.
        unsafe {
            let (env, name_bytes) = arguments(env, name)?;
            if name_bytes.is_empty() || name_bytes.contains(&b'=') {
                return Err(code::PMIX_ERR_BAD_PARAM);
            }
            if !env.is_null() && *env == environ {
                if value.is_null() {
                    libc::unsetenv(name);
                } else {
                    libc::setenv(name, value, c_int::from(overwrite != 0));
                }
                return Ok(());
            }
            let value = if value.is_null() { c"".as_ptr() } else { value };
            let prefix = [name_bytes, b"="].concat();
            let text = [&prefix, CStr::from_ptr(value).to_bytes()].concat();
            let found = strings(*env)
                .iter()
                .position(|old| old.starts_with(&prefix));
            match found {
                Some(_) if overwrite == 0 => Err(code::PMIX_ERR_EXISTS),
                Some(at) => {
                    let copy = memory::copy_string(&text)?;
                    memory::free(std::mem::replace(&mut *(*env).add(at), copy));
                    Ok(())
                }
                None => Ok(insert(env, usize::MAX, &text)?),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{destruct::free_argv, memory::counter};
    use std::ptr;

    #[test]
    fn variables_are_set_in_a_list_and_in_the_process() {
        let before = counter::live();
        let mut env = ptr::null_mut();
        // SAFETY: the list is made by these functions; no other test has this variable.
        unsafe {
            assert_eq!(setenv(c"A".as_ptr(), c"1".as_ptr(), 0, &mut env), 0);
            assert_eq!(setenv(c"AB".as_ptr(), ptr::null(), 0, &mut env), 0);
            let exists = code::PMIX_ERR_EXISTS.0;
            assert_eq!(setenv(c"A".as_ptr(), c"2".as_ptr(), 0, &mut env), exists);
            assert_eq!(setenv(c"A".as_ptr(), c"3".as_ptr(), 1, &mut env), 0);
            assert_eq!(strings(env), [b"A=3", &b"AB="[..]]);
            free_argv(env);
            let name = c"PEAL_TEST_OF_SETENV";
            assert_eq!(setenv(name.as_ptr(), c"x".as_ptr(), 1, &raw mut environ), 0);
            assert_eq!(CStr::from_ptr(libc::getenv(name.as_ptr())), c"x");
            assert_eq!(setenv(name.as_ptr(), ptr::null(), 1, &raw mut environ), 0);
            assert!(libc::getenv(name.as_ptr()).is_null());
        }
        assert_eq!(counter::live(), before);
    }

    #[test]
    fn null_pointers_and_wrong_names_are_refused() {
        let bad = code::PMIX_ERR_BAD_PARAM.0;
        let mut list = ptr::null_mut();
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(setenv(c"A".as_ptr(), ptr::null(), 0, ptr::null_mut()), bad);
            assert_eq!(setenv(ptr::null(), ptr::null(), 0, &mut list), bad);
            assert_eq!(setenv(c"".as_ptr(), ptr::null(), 0, &mut list), bad);
            assert_eq!(setenv(c"A=".as_ptr(), ptr::null(), 0, &mut list), bad);
        }
    }
}
