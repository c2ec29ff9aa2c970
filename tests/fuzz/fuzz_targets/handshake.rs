//! Fuzz target for the first bytes of a connection; see `peal_wire::fuzz::handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = peal_wire::fuzz::handshake(data) {
        panic!("{broken}");
    }
});
