//! JavaScript: `componentize-qjs` puts the engine QuickJS and the module with what it imports into one component.
use crate::{BuildError, Project, Say, Tools, command::run, error::of_file, tools, world};
use std::{fs, path::PathBuf, process::Command};

/// The release that everything here was tried with.
const VERSION: &str = "0.4.5";

/// Builds a component of `module.js`.
pub(crate) fn build(project: &Project, tools: &Tools, say: Say<'_>) -> Result<Vec<u8>, BuildError> {
    let tool = find(tools, say)?;
    let wit = world::write(&project.manifest, &project.contract(), &project.target())?;
    let out = project.target().join("component.wasm");
    say("packing the module with a JavaScript engine (some seconds)");
    let mut command = Command::new(tool);
    command.arg("--wit").arg(&wit).args(["--world", world::WORLD, "--stub-wasi", "--sync"]);
    command.arg("--js").arg(project.dir.join("module.js")).arg("--module-root").arg(project.root());
    run(command.arg("--output").arg(&out))?;
    fs::read(&out).map_err(of_file(&out))
}

/// The tool, installed if it is missing and may be.
pub(crate) fn find(tools: &Tools, say: Say<'_>) -> Result<PathBuf, BuildError> {
    let prefix = tools.dir.join("js");
    let own = prefix.join("node_modules/.bin/componentize-qjs");
    if tools::is_program(&own) {
        return Ok(own);
    }
    if let Some(found) = tools::on_path("componentize-qjs") {
        return Ok(found);
    }
    if !tools.may_install() {
        return Err(missing());
    }
    say(&format!("installing componentize-qjs {VERSION} into {} (once, 40 MB)", prefix.display()));
    fs::create_dir_all(&prefix).map_err(of_file(&prefix))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-fund", "--no-audit", "--loglevel", "error", "--prefix"]).arg(&prefix);
    run(npm.arg(format!("componentize-qjs@{VERSION}")))?;
    if tools::is_program(&own) { Ok(own) } else { Err(missing()) }
}

fn missing() -> BuildError {
    BuildError::Missing {
        what: "componentize-qjs".to_owned(),
        install: format!(
            "say `peal module build --install` (it needs npm), or `npm install -g componentize-qjs@{VERSION}` so that it is on PATH"
        ),
    }
}
