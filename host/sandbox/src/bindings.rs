//! Rust bindings generated from the contract in `wit/`. The other modules implement the imports.
#![allow(
    missing_docs,
    dead_code,
    unused_variables,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    reason = "generated code: it looks functions up with a type check and then calls them without repeating it, and its \
              binding of the whole world is not used because exports are optional"
)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "all-roles",
    imports: { default: trappable },
});
