//! Python: `componentize-py` puts the interpreter, the module and its libraries into one component.
use crate::{BuildError, Project, Say, Tools, command::run, error::of_file, tools, world};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The release that everything here was tried with.
const VERSION: &str = "0.25.1";

/// Builds a component of `module.py`.
pub(crate) fn build(project: &Project, tools: &Tools, say: Say<'_>) -> Result<Vec<u8>, BuildError> {
    let tool = find(tools, say)?;
    let wit = world::write(&project.manifest, &project.contract(), &project.target())?;
    let out = project.target().join("component.wasm");
    say("packing the module with a Python interpreter (some 20 to 60 s)");
    let mut command = Command::new(tool);
    command.args(["-d"]).arg(&wit).args(["-w", world::WORLD, "componentize", "module", "--stub-wasi"]);
    command.arg("-p").arg(&project.dir).arg("-p").arg(project.sdk().join("python")).arg("-o").arg(&out);
    // Else it looks for packages of whatever environment it is called from.
    run(command.env_remove("VIRTUAL_ENV").env("PYTHONDONTWRITEBYTECODE", "1"))?;
    fs::read(&out).map_err(of_file(&out))
}

/// The tool, installed if it is missing and may be.
pub(crate) fn find(tools: &Tools, say: Say<'_>) -> Result<PathBuf, BuildError> {
    let own = tools.dir.join("python/bin/componentize-py");
    if tools::is_program(&own) {
        return Ok(own);
    }
    if let Some(found) = tools::on_path("componentize-py") {
        return Ok(found);
    }
    if !tools.may_install() {
        return Err(missing());
    }
    say(&format!("installing componentize-py {VERSION} into {} (once, 50 MB)", tools.dir.join("python").display()));
    install(&tools.dir.join("python"))?;
    if tools::is_program(&own) { Ok(own) } else { Err(missing()) }
}

fn install(into: &Path) -> Result<(), BuildError> {
    run(Command::new("python3").args(["-m", "venv"]).arg(into))?;
    let pip = into.join("bin/pip");
    run(Command::new(pip).args(["install", "--quiet"]).arg(format!("componentize-py=={VERSION}")))
}

fn missing() -> BuildError {
    BuildError::Missing {
        what: "componentize-py".to_owned(),
        install: format!(
            "say `peal module build --install`, or `pip install componentize-py=={VERSION}` so that it is on PATH"
        ),
    }
}
