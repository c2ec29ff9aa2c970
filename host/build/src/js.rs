//! JavaScript: `componentize-qjs` packs the QuickJS engine and the module with its imports into one
//! component. A module in TypeScript is packed the same way, once its types are removed (ts.rs).
use crate::{
    BuildError, BuildTools, ProgressCallback, Project,
    command::{run, run_captured},
    error::of_file,
    tools, world,
};
use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The tested release of the tool.
const VERSION: &str = "0.4.5";

/// Builds a component from `module.js`.
pub(crate) fn build(
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    // `relative` needs two paths without links: the directory of the project is resolved, too.
    let target = project
        .target()
        .canonicalize()
        .map_err(of_file(&project.target()))?;
    let packing = Packing {
        source: "module.js",
        module: project.dir.join("module.js"),
        entry: target.join("entry.js"),
        // The root has to contain the module, the entry and the SDK that the module imports.
        root: project.root(),
    };
    pack(project, &packing, tools, progress)
}

/// Files that become a component.
pub(crate) struct Packing<'a> {
    /// Name of the author's file, in the project.
    pub(crate) source: &'a str,
    /// The author's module, in JavaScript.
    pub(crate) module: PathBuf,
    /// The entry module, which is written.
    pub(crate) entry: PathBuf,
    /// Directory that contains all modules.
    pub(crate) root: PathBuf,
}

/// Packs a module and the engine into a component.
pub(crate) fn pack(
    project: &Project,
    packing: &Packing<'_>,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let tool = find(tools, progress)?;
    let wit = world::write(&project.manifest, &project.contract()?, &project.target())?;
    let out = project.target().join("component.wasm");
    let Packing {
        source,
        module,
        entry,
        root,
    } = packing;
    let from = entry.parent().unwrap_or(root);
    let roles = &project.manifest.roles;
    fs::write(entry, entry_text(roles, &relative(module, from))).map_err(of_file(entry))?;
    progress("packing the module with a JavaScript engine (some seconds)");
    let mut command = Command::new(tool);
    command
        .arg("--wit")
        .arg(&wit)
        .args(["--world", world::WORLD, "--stub-wasi", "--sync"]);
    command
        .arg("--js")
        .arg(entry)
        .arg("--module-root")
        .arg(root);
    run_captured(command.arg("--output").arg(&out))?
        .map_err(|output_text| explain(roles, project.dir.join(source), &output_text))?;
    fs::read(&out).map_err(of_file(&out))
}

/// Returns an entry module that exports the roles of the module at `path`. Its evaluation fails if
/// an export is missing; without this the engine would build a component whose calls fail.
fn entry_text(roles: &[String], path: &str) -> String {
    let exports = roles
        .iter()
        .map(|role| format!("export const {0} = filled({0:?});\n", export(role)));
    format!(
        "import * as module from {path:?};\n\n\
         const filled = (name) => {{\n  \
           if (module[name] === null || typeof module[name] !== \"object\") throw new Error(`{MISSING}${{name}}.`);\n  \
           return module[name];\n\
         }};\n\n{}",
        exports.collect::<String>()
    )
}

/// Prefix of the entry module's error for a missing export.
const MISSING: &str = "there is no export ";

/// Returns the name of a role's export: `eventHandler` for `event-handler`.
fn export(role: &str) -> String {
    let mut words = role.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        name + &initial.to_uppercase() + rest
    })
}

/// Returns the path of a file relative to a directory, both absolute.
fn relative(file: &Path, from: &Path) -> String {
    let common = file
        .components()
        .zip(from.components())
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.components().skip(common).map(|_| "..".into());
    let down = file
        .components()
        .skip(common)
        .map(|part| part.as_os_str().to_string_lossy());
    let path: Vec<Cow<'_, str>> = up.chain(down).collect();
    format!("./{}", path.join("/"))
}

/// Finds the error of the author's module in the output of the tool.
fn explain(roles: &[String], file: PathBuf, output_text: &str) -> BuildError {
    let missing = output_text
        .split_once(MISSING)
        .and_then(|(_, rest)| rest.split_once('.'));
    let role = missing.and_then(|(name, _)| roles.iter().find(|role| export(role) == name));
    if let Some(role) = role {
        let name = export(role);
        return BuildError::NoExport {
            role: role.clone(),
            file,
            remedy: format!("write `export const {name} = peal.{name}(...)`"),
        };
    }
    // The tool's own steps precede the error in several layers, with its name for an exception.
    let errors = output_text
        .lines()
        .skip_while(|line| !line.starts_with("Error: "));
    let text = errors.collect::<Vec<_>>().join("\n");
    let own = text
        .split_once(" JavaScript module: Error: ")
        .or_else(|| text.split_once(" module evaluation: Error: "));
    let own = own.map_or(
        if text.is_empty() { output_text } else { &text },
        |(_, own)| own,
    );
    // The engine names files relative to the root of modules.
    BuildError::Source {
        file,
        output: own
            .replace("(/", "(")
            .replace("at /", "at ")
            .trim()
            .to_owned(),
    }
}

/// Finds the tool; installs it if allowed.
pub(crate) fn find(
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<PathBuf, BuildError> {
    // The directory of tools precedes `PATH`, because it has the tested release.
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
    progress(&format!(
        "installing componentize-qjs {VERSION} into {} (once, 40 MB)",
        prefix.display()
    ));
    fs::create_dir_all(&prefix).map_err(of_file(&prefix))?;
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--no-fund",
        "--no-audit",
        "--loglevel",
        "error",
        "--prefix",
    ])
    .arg(&prefix);
    run(npm.arg(format!("componentize-qjs@{VERSION}")))?;
    if tools::is_program(&own) {
        Ok(own)
    } else {
        Err(missing())
    }
}

fn missing() -> BuildError {
    BuildError::Missing {
        tool: "componentize-qjs".to_owned(),
        install: format!(
            "run `peal module build --install` (needs npm), or `npm install -g componentize-qjs@{VERSION}` with its directory on PATH"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_error_is_shown_without_the_tools_layers() {
        let output_text = "Error: : Failed to evaluate user JavaScript module: Failed to declare JavaScript module: Error: unexpected \
                    token in expression: ';'\n    at /module.js:3:13\n";
        let error = explain(&[], PathBuf::from("module.js"), output_text).to_string();
        assert_eq!(
            error,
            "module.js does not build:\nunexpected token in expression: ';'\n    at module.js:3:13"
        );
    }

    #[test]
    fn exception_while_building_keeps_its_stack() {
        let output_text = "Error: : Failed to evaluate user JavaScript module: Failed to finish JavaScript module evaluation: Error: \
                    nosuch is not defined\n    at helper (/module.js:2:24)\n    at <anonymous> (/module.js:3:1)\n";
        let error = explain(&[], PathBuf::from("module.js"), output_text).to_string();
        let stack = "nosuch is not defined\n    at helper (module.js:2:24)\n    at <anonymous> (module.js:3:1)";
        assert_eq!(error, format!("module.js does not build:\n{stack}"));
    }

    #[test]
    fn missing_export_names_role_and_remedy() {
        let roles = ["event-handler".to_owned(), "log-channel".to_owned()];
        let output_text = format!(
            "Error: : Failed to evaluate: Error: {MISSING}logChannel.\n    at filled (/target/entry.js:5:81)\n"
        );
        let error = explain(&roles, PathBuf::from("module.js"), &output_text).to_string();
        assert!(
            error.contains("has the role log-channel, and module.js does not export it"),
            "{error}"
        );
        assert!(
            error.contains("`export const logChannel = peal.logChannel(...)`"),
            "{error}"
        );
    }

    #[test]
    fn path_of_the_module_is_relative_to_the_entry() {
        let from_target = relative(Path::new("/a/mine/module.js"), Path::new("/a/mine/target"));
        assert_eq!(from_target, "./../module.js");
        let from_afar = relative(
            Path::new("/a/guests/js/echo/module.js"),
            Path::new("/a/target/work/echo"),
        );
        assert_eq!(from_afar, "./../../../guests/js/echo/module.js");
    }
}
