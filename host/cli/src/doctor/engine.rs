//! WebAssembly engine: whether it starts, and compiles.
use super::Finding;
use peal_config::Sandbox;
use peal_sandbox::{CodeReaders, ModuleLimits, compile};

/// Component without anything in it.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// Examines the engine with these settings. Its usual cache is not used, which belongs to the server.
pub fn examine(settings: &Sandbox) -> Finding {
    let wanted = settings.max_instances;
    let advice = "The engine reserves address space, and runs code that it has compiled. Reasons can be a limit of address\n\
                  space (`ulimit -v`), vm.overcommit_memory = 2, or a rule of the system against executable memory.";
    let engine = match peal_modules::engine_without_cache(settings) {
        Ok(engine) => engine,
        Err(error) => return Finding::failed(error.to_string(), advice),
    };
    let directory = match tempfile::tempdir() {
        Ok(directory) => directory,
        Err(error) => {
            let found = format!(
                "it starts; without a temporary directory it is not known if it compiles: {error}"
            );
            return Finding::skipped(found);
        }
    };
    let compiled = || {
        // A directory that `compile` makes has the permissions that it demands.
        let code = directory.path().join("code");
        let target = engine.code_target(&ModuleLimits::default())?;
        compile(&code, CodeReaders::Owner, target, EMPTY_COMPONENT)?;
        anyhow::Ok(())
    };
    if let Err(error) = compiled() {
        return Finding::failed(crate::error_text(&error), advice);
    }
    let pooled = engine.pooled();
    if pooled < wanted {
        Finding::warning(
            format!(
                "it compiles, and has room for {pooled} instances of {wanted} (sandbox.max_instances)"
            ),
            "Address space is limited. `ulimit -v unlimited` gives all of it.",
        )
    } else {
        Finding::ok(format!("it compiles, with room for {pooled} instances"))
    }
}
