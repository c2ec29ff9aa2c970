//! The chores of the repository: `cargo xtask demo`, `test`, `codegen` ...
mod codegen;
use anyhow::Result;
use std::path::Path;

fn main() -> Result<()> {
    codegen::write(Path::new("."))
}
