//! Files of users' modules: any text is refused or read, and what is read is written and read again.
#![no_main]
use libfuzzer_sys::fuzz_target;
use peal_config::{recalled, saved};
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let base = Path::new("/base");
    if let Ok(modules) = recalled(text, &base.join("user.toml"), base, &["state", "clock"]) {
        let written = saved(&modules);
        let again = recalled(&written, &base.join("user.toml"), base, &["state", "clock"]);
        let again = again.expect(&written);
        let settings = |modules: &[peal_config::ModuleEntry]| {
            modules
                .iter()
                .map(|module| format!("{:?}", module.settings))
                .collect::<Vec<_>>()
        };
        assert_eq!(settings(&modules), settings(&again), "{written}");
    }
});
