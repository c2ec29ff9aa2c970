//! Values that a guest pushes; see `peal_sandbox::fuzz::lift`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = peal_sandbox::fuzz::lift(data) {
        panic!("{broken}");
    }
});
