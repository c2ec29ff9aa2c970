//! The SDKs with the contract, as of the build of this crate.

/// Path below the root of the repository, and content.
static CARRIED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/carried.rs"));

/// Returns the SDKs of a language's projects, below `sdk/`. Each has the contract in its own `wit/`.
pub fn carried(language: crate::Language) -> impl Iterator<Item = (&'static str, String)> {
    let is_of_sdk = move |path: &str| {
        let below = path
            .strip_prefix("sdk/")
            .and_then(|path| path.split_once('/'));
        below.is_some_and(|(sdk, _)| language.sdks().contains(&sdk))
    };
    CARRIED
        .iter()
        .filter(move |(path, _)| is_of_sdk(path))
        .map(|(path, text)| (*path, standing_alone(path, text)))
}

/// Returns the capabilities of the contract that need a grant. WASI is left out: languages import
/// it, not authors.
pub fn capabilities() -> impl Iterator<Item = &'static str> {
    let file = CARRIED
        .iter()
        .find(|(path, _)| *path == "wit/capabilities.wit");
    let lines = file.into_iter().flat_map(|(_, text)| text.lines());
    lines.filter_map(|line| line.strip_prefix("interface ")?.strip_suffix(" {"))
}

/// Removes the workspace from the manifest of the Rust SDK, since only the repository has one.
fn standing_alone(path: &str, text: &str) -> String {
    if path != "sdk/rust/Cargo.toml" {
        return text.to_owned();
    }
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("workspace = \"../"))
        .collect::<Vec<_>>()
        .join("\n");
    // The lints come from the workspace as well. Their table is the last one.
    lines
        .split("\n[lints]")
        .next()
        .unwrap_or_default()
        .to_owned()
        + "\n"
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use crate::Language;

    #[test]
    fn each_language_has_its_sdk_and_the_contract() {
        for (language, file, contract) in [
            (Language::Rust, "sdk/rust/src/lib.rs", "sdk/rust/wit"),
            (Language::C, "sdk/c/peal.h", "sdk/c/wit"),
            (Language::Cpp, "sdk/cpp/peal.hpp", "sdk/c/wit"),
            (Language::Go, "sdk/go/doc.go", "sdk/go/wit"),
            (
                Language::Python,
                "sdk/python/peal/__init__.py",
                "sdk/python/peal/wit",
            ),
            (Language::Js, "sdk/js/peal.js", "sdk/js/wit"),
            (Language::Ts, "sdk/js/peal.d.ts", "sdk/js/wit"),
        ] {
            let files: Vec<&str> = carried(language).map(|(path, _)| path).collect();
            let contract = format!("{contract}/worlds.wit");
            assert!(
                files.contains(&file) && files.contains(&&*contract),
                "{language:?}: {files:?}"
            );
            let sdks = files.iter().filter_map(|path| path.strip_prefix("sdk/"));
            let sdks: std::collections::BTreeSet<&str> =
                sdks.filter_map(|path| path.split('/').next()).collect();
            assert_eq!(sdks, language.sdks().iter().copied().collect());
        }
    }

    #[test]
    fn rust_sdk_has_no_dependency_outside() {
        let manifest = carried(Language::Rust)
            .find(|(path, _)| *path == "sdk/rust/Cargo.toml")
            .unwrap()
            .1;
        assert!(!manifest.contains("workspace"), "{manifest}");
        assert!(manifest.contains("wit-bindgen = {"), "{manifest}");
    }
}
