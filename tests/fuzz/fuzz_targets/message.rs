//! Fuzz target for a message. The first four bytes choose its dialect and kind; see
//! `peal_wire::fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = peal_wire::fuzz::message(data) {
        panic!("{broken}");
    }
});
