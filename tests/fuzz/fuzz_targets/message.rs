//! A message, its dialect and kind chosen by the first four bytes: see `peal_wire::fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = peal_wire::fuzz::message(data) {
        panic!("{broken}");
    }
});
