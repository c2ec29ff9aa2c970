//! Readers of the audit trail: records, journals, checkpoints and exports; see `peal_audit::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Err(broken) = peal_audit::fuzz::readers(data) {
        panic!("{broken}");
    }
});
