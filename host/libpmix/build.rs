//! Gives the shared library the name by which programs and launchers load it.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
}
