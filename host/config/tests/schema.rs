//! JSON Schemas of configuration files: they accept what the reader accepts, and refuse common errors.
#![allow(clippy::unwrap_used, reason = "this is test code")]
use jsonschema::Validator;
use peal_config::{docs, schema};
use serde_json::Value;

/// Returns the errors of a document by its schema.
fn errors(schema: &Value, text: &str) -> Vec<String> {
    let document: toml::Table = text.parse().unwrap();
    let document = serde_json::to_value(document).unwrap();
    let validator: Validator = jsonschema::draft7::new(schema).unwrap();
    validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn every_key_of_the_example_file_fits_the_schema() {
    // Settings follow a `#`, comments follow a `#` and a space.
    let text = docs::example();
    let settings = text.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest,
        _ => line,
    });
    let text = settings.collect::<Vec<_>>().join("\n");
    assert_eq!(errors(&schema::config(), &text), [""; 0]);
    assert!(text.contains("[[module]]") && text.contains("[[sink]]"));
}

#[test]
fn errors_in_a_configuration_do_not_fit_the_schema() {
    let wrong = |text: &str| errors(&schema::config(), text).join(", ");
    for (text, place) in [
        ("[events]\nring_sizes = 5", "ring_sizes"),
        ("[events]\nring_size = \"5\"", "/events/ring_size"),
        ("[events]\nring_size = -1", "/events/ring_size"),
        ("[deploy]\nwatch = 1", "/deploy/watch"),
        ("[[module]]\nname = \"a\"", "path"),
        (
            "[[module]]\nname = \"a\"\npath = \"b\"\nmode = \"shade\"",
            "/module/0/mode",
        ),
    ] {
        let told = wrong(text);
        assert!(told.contains(place), "{text}: {told}");
    }
}

#[test]
fn drop_in_fits_the_schema_with_and_without_its_header() {
    let plain = "name = \"a\"\npath = \"b.wasm\"\ncodes = [-3001, \"PMIX_ERR_PROC_ABORTED\"]\nconfig = { most = 3 }\n";
    let headed = format!("[[module]]\n{plain}");
    for text in [plain, &headed] {
        assert_eq!(errors(&schema::module(), text), [""; 0]);
        let wrong = text.replace("codes", "code");
        assert_eq!(errors(&schema::module(), &wrong).len(), 1, "{wrong}");
    }
}
