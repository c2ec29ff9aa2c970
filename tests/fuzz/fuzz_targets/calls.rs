//! Fuzz target for functions of `libpmix.so.2` that need no server; see `peal_libpmix::fuzz::calls`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // SAFETY: a mistake of the functions is what the target looks for.
    unsafe { peal_libpmix::fuzz::calls(data) };
});
