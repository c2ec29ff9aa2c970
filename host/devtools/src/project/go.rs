//! New project in Go.
use super::SdkOrigin;
use peal_sandbox::Role;
use std::collections::BTreeSet;

const MODULE: &str = "module MODULE\n\ngo 1.24\n\nrequire peal v0.0.0\n\nreplace peal => LIBRARY\n";

/// Returns the import of the packages that a source uses: an unused one is an error.
fn imports(code: &str) -> String {
    // Sorted as gofmt sorts them.
    let packages = [
        ("errors", "errors."),
        ("peal", "peal."),
        ("peal/key", "key.PMIX_"),
        ("peal/status", "status.PMIX_"),
        ("strings", "strings."),
        ("testing", "testing."),
    ];
    let used: Vec<&str> = packages
        .iter()
        .filter(|(_, use_of_it)| code.contains(use_of_it))
        .map(|(path, _)| *path)
        .collect();
    match used.as_slice() {
        [path] => format!("import \"{path}\"\n"),
        paths => {
            let lines: String = paths.iter().map(|path| format!("\t\"{path}\"\n")).collect();
            format!("import (\n{lines})\n")
        }
    }
}

/// Returns the directory of the SDK as `go.mod` takes it: a relative one begins with a dot.
fn library(sdk: SdkOrigin<'_>) -> String {
    let library = sdk.library("go");
    if library.starts_with(['.', '/']) {
        library
    } else {
        format!("./{library}")
    }
}

pub fn files(roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("go", ".txt", role))
        .collect();
    let (code, tests) = super::halves(&parts, "\n");
    let main = "// The compiler wants a main function, which is not called.\nfunc main() {}\n";
    vec![
        ("go.mod", MODULE.replace("LIBRARY", &library(sdk))),
        (
            "module.go",
            format!(
                "// The module MODULE.\npackage main\n\n{}\n{code}\n{main}",
                imports(&code)
            ),
        ),
        (
            "module_test.go",
            format!("package main\n\n{}\n{tests}", imports(&tests)),
        ),
    ]
}
