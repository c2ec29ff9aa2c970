//! `PMIx_Get_version`, the shortest way through the library.
use crate::program::{CProgram, library};
use peal_needs::needs;
use std::process::Command;

#[needs(libpmix)]
#[test]
fn program_of_stock_headers_gets_version_of_peal() {
    let program = CProgram::compile(
        "#include <pmix.h>\nint main(void) { puts(PMIx_Get_version()); return 0; }\n",
    );
    let expected = concat!(
        "OpenPMIx 4.2.2, Peal ",
        env!("CARGO_PKG_VERSION"),
        " (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)\n"
    );
    assert_eq!(program.run(), expected);
}

#[needs(libpmix)]
#[test]
fn library_has_the_name_of_the_c_library() {
    let output = Command::new("objdump")
        .arg("-p")
        .arg(library())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let soname = text
        .lines()
        .find(|line| line.contains("SONAME"))
        .unwrap_or_default();
    assert_eq!(
        soname.split_whitespace().last(),
        Some("libpmix.so.2"),
        "{text}"
    );
}
