//! Fuzz target for both streams of a relayed connection; see `peal_proxy::fuzz::streams`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = peal_proxy::fuzz::streams(data) {
        panic!("{broken}");
    }
});
