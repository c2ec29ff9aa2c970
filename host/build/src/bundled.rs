//! The SDKs and the contract, as of the build of this crate.

/// Path below the root of the repository, and content.
static CARRIED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/carried.rs"));

/// Returns the files of a language's projects: its SDKs below `sdk/` and the contract below `wit/`.
pub fn carried(language: crate::Language) -> impl Iterator<Item = (&'static str, String)> {
    let is_of_sdk = move |path: &str| {
        let below = path
            .strip_prefix("sdk/")
            .and_then(|path| path.split_once('/'));
        below.is_some_and(|(sdk, _)| language.sdks().contains(&sdk))
    };
    let wanted = move |path: &str| is_of_sdk(path) || path.starts_with("wit/");
    CARRIED
        .iter()
        .filter(move |(path, _)| wanted(path))
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
        for (language, file) in [
            (Language::Rust, "sdk/rust/src/lib.rs"),
            (Language::C, "sdk/c/peal.h"),
            (Language::Cpp, "sdk/cpp/peal.hpp"),
            (Language::Go, "sdk/go/doc.go"),
            (Language::Python, "sdk/python/peal/__init__.py"),
            (Language::Js, "sdk/js/peal.js"),
            (Language::Ts, "sdk/js/peal.d.ts"),
        ] {
            let files: Vec<&str> = carried(language).map(|(path, _)| path).collect();
            assert!(
                files.contains(&file) && files.contains(&"wit/worlds.wit"),
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
