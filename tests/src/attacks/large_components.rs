//! Components that take long to compile, for a user who installs several of them.
use anyhow::{Context, Result};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// Number of functions in a component that takes some seconds to compile.
pub const LARGE: u32 = 8_000;

/// Opcode of `i32.add`, one of three instructions on 32-bit numbers.
const ADD: u8 = 0x6a;
const MUL: u8 = 0x6c;
const XOR: u8 = 0x73;

/// Number of steps of each function.
const STEPS: u32 = 100;

/// Returns a component that behaves as `base`, and takes long to compile. A core module with this
/// number of functions is at its end, and is never instantiated. Components of different seeds have
/// different bytes.
pub fn component(base: &[u8], seed: u32, functions: u32) -> Vec<u8> {
    let module = module(seed, functions);
    let mut component = base.to_vec();
    section(&mut component, 1, &module);
    component
}

/// Installs this number of modules in a directory that belongs to the current user.
pub fn install(directory: &Path, base: &Path, count: u32) -> Result<()> {
    let base = fs::read(base).context("BASE")?;
    for number in 0..count {
        put(
            &directory.join(format!("large{number}.wasm")),
            &component(&base, number, LARGE),
        )?;
        let toml = format!("name = \"large{number}\"\npath = \"large{number}.wasm\"\n");
        put(
            &directory.join(format!("large{number}.toml")),
            toml.as_bytes(),
        )?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::set_permissions(&new, Permissions::from_mode(0o644))?;
    Ok(fs::rename(new, path)?)
}

/// Returns a core module. Its functions take and return a number, each by a long chain of
/// operations.
fn module(seed: u32, functions: u32) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // One type: (i32) -> i32.
    section(&mut module, 1, &[1, 0x60, 1, 0x7f, 1, 0x7f]);
    let mut types = Vec::new();
    unsigned(&mut types, functions);
    types.extend((0..functions).map(|_| 0));
    section(&mut module, 3, &types);
    let mut bodies = Vec::new();
    unsigned(&mut bodies, functions);
    for function in 0..functions {
        // No locals; local.get 0.
        let mut body = vec![0, 0x20, 0];
        for step in 0..STEPS {
            let operation = match step % 3 {
                0 => MUL,
                1 => ADD,
                _ => XOR,
            };
            // i32.const, one of the operations, local.get 0, i32.add.
            body.push(0x41);
            unsigned(&mut body, (seed + function * STEPS + step) & 0x1f_ffff);
            body.extend([operation, 0x20, 0, ADD]);
        }
        body.push(0x0b);
        unsigned(&mut bodies, u32::try_from(body.len()).unwrap_or_default());
        bodies.extend(body);
    }
    section(&mut module, 10, &bodies);
    module
}

fn section(to: &mut Vec<u8>, id: u8, bytes: &[u8]) {
    to.push(id);
    unsigned(to, u32::try_from(bytes.len()).unwrap_or_default());
    to.extend(bytes);
}

/// Appends a number as LEB128. If the sixth bit of its last byte is set, a signed number reads as
/// negative, which is valid.
fn unsigned(to: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        to.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    to.push(u8::try_from(number).unwrap_or_default());
}
