//! Packages of the SDKs: each is installed into a new project without a copy of its SDK, which builds
//! and passes its cases.
use peal_needs::needs;
use peal_tests::{
    projects::{COMPILING, module},
    root, run, run_within,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Version of the packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Copies a package that `cargo xtask packages` has made to another directory.
#[track_caller]
fn copied(package: &str, dir: &Path) -> PathBuf {
    let name = package.replace("VERSION", VERSION);
    let file = dir.join(&name);
    fs::copy(root().join("target/packages").join(name), &file).unwrap();
    file
}

/// Command that installs packages into the current directory, with its arguments before the file.
type Installer = &'static [&'static str];

const TAR: Installer = &["tar", "-xzf"];
const NPM: Installer = &["npm", "install", "--offline", "--no-audit", "--no-fund"];
const PIP: Installer = &[
    "python3",
    "-m",
    "pip",
    "install",
    "--quiet",
    "--no-index",
    "--disable-pip-version-check",
    "--root-user-action",
    "ignore",
    "--no-compile",
    "--target",
    "lib",
];

/// Creates a project that uses the SDK in a directory, installs the package, and builds and tests the
/// project. It imports a capability, too.
#[track_caller]
fn build_with_package(language: &str, sdk: &str, installer: Installer, package: &str) {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("packaged");
    let sdk = sdk.replace("VERSION", VERSION);
    let mut new = module(dir.path(), &["new", "--lang", language, "packaged"]);
    new.args(["--role", "event-handler", "--role", "log-channel"]);
    run(new.args(["--sdk", &sdk])).expect_status(0);
    assert!(!project.join("sdk").exists() && !project.join("wit").exists());
    if language == "rust" {
        // The other crates are compiled there already.
        let target = root().join("target/guests-build");
        std::os::unix::fs::symlink(target, project.join("target")).unwrap();
    }
    let build = || run_within(COMPILING, &mut module(&project, &["build"]));
    let early = build().expect_status(125).stderr;
    assert!(early.contains(&sdk), "{early}");
    let mut install = Command::new(installer[0]);
    install
        .args(&installer[1..])
        .arg(copied(package, dir.path()));
    run(install.current_dir(&project)).expect_status(0);
    build().expect_status(0);
    let tested = run_within(COMPILING, &mut module(&project, &["test"])).expect_status(0);
    assert!(tested.stdout.contains("0 FAILED"), "{}", tested.stdout);
    nothing_refers_to_the_repository(&project);
}

/// Checks that the text files of a project and of what is installed in it name no file of the
/// repository.
#[track_caller]
fn nothing_refers_to_the_repository(dir: &Path) {
    let repository = root().display().to_string();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with("target") {
            continue;
        }
        assert!(!path.is_symlink(), "{}", path.display());
        if path.is_dir() {
            nothing_refers_to_the_repository(&path);
        } else if let Ok(text) = fs::read_to_string(&path) {
            assert!(!text.contains(&repository), "{}", path.display());
        }
    }
}

#[needs(prepared, packages)]
#[test]
fn crate_builds_a_new_module_outside_of_repository() {
    build_with_package("rust", "peal-sdk-VERSION", TAR, "peal-sdk-VERSION.crate");
}

#[needs(prepared, packages, js_tools)]
#[test]
fn npm_package_builds_a_new_module_in_javascript() {
    build_with_package("js", "node_modules/peal-sdk", NPM, "peal-sdk-VERSION.tgz");
}

#[needs(prepared, packages, ts_tools)]
#[test]
fn npm_package_builds_a_new_module_in_typescript() {
    build_with_package("ts", "node_modules/peal-sdk", NPM, "peal-sdk-VERSION.tgz");
}

#[needs(prepared, packages, python_tools)]
#[test]
fn wheel_builds_a_new_module_in_python() {
    build_with_package("python", "lib", PIP, "peal_sdk-VERSION-py3-none-any.whl");
}

#[needs(prepared, packages, go_tools)]
#[test]
fn go_archive_builds_a_new_module() {
    build_with_package(
        "go",
        "peal-sdk-go-VERSION",
        TAR,
        "peal-sdk-go-VERSION.tar.gz",
    );
}

#[needs(prepared, packages, c_tools)]
#[test]
fn c_archive_builds_a_new_module_in_c() {
    build_with_package("c", "peal-sdk-c-VERSION", TAR, "peal-sdk-c-VERSION.tar.gz");
}

#[needs(prepared, packages, cpp_tools)]
#[test]
fn c_archive_builds_a_new_module_in_cpp() {
    build_with_package(
        "cpp",
        "peal-sdk-c-VERSION",
        TAR,
        "peal-sdk-c-VERSION.tar.gz",
    );
}
