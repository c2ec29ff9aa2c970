//! `peal compile`: compiles one component, within limits that it sets for itself before it reads
//! any input.
use super::{CompileReply, MAX_LINE, line};
use crate::{args::CompileArgs, confinement::refused_calls, process_setup};
use anyhow::{Context, Result};
use peal_confinement::{Confinement, ProcessRole};
use peal_sandbox::MAX_COMPONENT_BYTES;
use rustix::process::Resource;
use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    process::ExitCode,
};

/// Longest reason of a refusal, in characters.
const MAX_REASON: usize = 1000;

/// Compiles the component on standard input, and writes the result to standard output.
pub fn compile(args: CompileArgs) -> Result<ExitCode> {
    confine(&args)?;
    let mut component = Vec::new();
    io::stdin()
        .take(MAX_COMPONENT_BYTES as u64)
        .read_to_end(&mut component)?;
    let reply =
        match peal_sandbox::compile(&args.at.cache_dir, args.readers, args.target, &component) {
            Ok(()) => CompileReply::Compiled,
            // The parent reads lines of bounded length.
            Err(error) => {
                CompileReply::Refused(error.to_string().chars().take(MAX_REASON).collect())
            }
        };
    let reply = line(&reply)?;
    debug_assert!(reply.len() as u64 <= MAX_LINE);
    io::stdout().write_all(&reply)?;
    Ok(ExitCode::SUCCESS)
}

fn confine(args: &CompileArgs) -> Result<()> {
    process_setup::end_with_parent()?;
    let at = &args.at;
    let limits = [
        (Resource::Data, at.memory_bytes),
        // The parent kills this process at the time-out; this limit holds if the parent is gone.
        (
            Resource::Cpu,
            at.timeout_ms.div_ceil(1000).saturating_add(1),
        ),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        process_setup::limit(resource, most).context("cannot limit resources")?;
    }
    process_setup::take_low_priority().context("cannot lower the priority")?;
    if let Some(refused) = refused_calls(at.confinement) {
        Confinement {
            refused,
            write: BTreeSet::from([at.cache_dir.clone()]),
            ..Confinement::of(ProcessRole::Compilation)
        }
        .enforce()
        .context("cannot confine the compilation")?;
    }
    Ok(())
}
