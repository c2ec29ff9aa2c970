//! Packages of a release on a Debian system of its own: from the installation to the first denied request,
//! the C library beside that of the distribution, upgrade and removal.
use peal_needs::needs;
use peal_tests::{root, virtual_machine};
use std::fs;

#[needs(virtual_machine, release)]
#[test]
fn packages_install_and_deny_the_first_request() {
    let files = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root().join("target/dist")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            fs::copy(&path, files.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    fs::copy(
        root().join("tests/vm/install.sh"),
        files.path().join("run.sh"),
    )
    .unwrap();
    let printed = virtual_machine::run_script(files.path());
    println!("{printed}");
    assert!(printed.contains("== all is well"), "{printed}");
}
