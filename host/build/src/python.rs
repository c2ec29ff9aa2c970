//! Python: `componentize-py` packs the interpreter, the module and its libraries into one
//! component.
use crate::{
    BuildError, BuildTools, ProgressCallback, Project,
    command::{run, run_captured},
    error::of_file,
    tools, world,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The tested release of the tool.
const VERSION: &str = "0.25.1";

/// Builds a component from `module.py`.
pub(crate) fn build(
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let tool = find(tools, progress)?;
    let wit = world::write(&project.manifest, &project.contract()?, &project.target())?;
    let out = project.target().join("component.wasm");
    progress("packing the module with a Python interpreter (some 20 to 60 s)");
    let library = project.library("python");
    let mut command = Command::new(tool);
    command.args(["-d"]).arg(&wit).args([
        "-w",
        world::WORLD,
        "componentize",
        "module",
        "--stub-wasi",
    ]);
    command
        .arg("-p")
        .arg(&project.dir)
        .arg("-p")
        .arg(&library)
        .arg("-o")
        .arg(&out);
    // Otherwise the tool would use packages of the active environment.
    command
        .env_remove("VIRTUAL_ENV")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    run_captured(&mut command)?.map_err(|output_text| {
        explain(
            &project.manifest.roles,
            project.dir.join("module.py"),
            library.strip_prefix(&project.dir).unwrap_or(&library),
            &output_text,
        )
    })?;
    fs::read(&out).map_err(of_file(&out))
}

/// Returns the class that the tool expects for a role: `EventHandler` for `event-handler`.
fn class(role: &str) -> String {
    let initial = |word: &str| word.chars().next().map(|first| first.to_ascii_uppercase());
    role.split('-')
        .map(|word| {
            initial(word)
                .into_iter()
                .chain(word.chars().skip(1))
                .collect::<String>()
        })
        .collect()
}

/// Finds the error of the author's module in the output of the tool: Python's message is between
/// the tool's own message and a list of the tool's functions.
fn explain(roles: &[String], file: PathBuf, library: &Path, output_text: &str) -> BuildError {
    let own = output_text
        .split_once("\nAssertionError: ")
        .map_or(output_text, |(_, own)| own);
    let own = own
        .split("\n\nCaused by:")
        .next()
        .unwrap_or(own)
        .split("\nStack backtrace:")
        .next()
        .unwrap_or(own)
        .trim_end();
    let missing = |role: &&String| {
        own.ends_with(&format!(
            "module 'module' has no attribute '{}'",
            class(role)
        ))
    };
    if let Some(role) = roles.iter().find(missing) {
        let remedy = format!(
            "decorate a function with `@peal.{}`",
            role.replace('-', "_")
        );
        return BuildError::NoExport {
            role: role.clone(),
            file,
            remedy,
        };
    }
    // The tool numbers the module directories: the project's and the SDK's.
    let output_text = own
        .replace("\"/0/", "\"")
        .replace("\"/1/", &format!("\"{}/", library.display()));
    BuildError::Source {
        file,
        output: output_text.trim_start_matches('\n').to_owned(),
    }
}

/// Finds the tool; installs it if allowed.
pub(crate) fn find(
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<PathBuf, BuildError> {
    // The directory of tools precedes `PATH`, because it has the tested release.
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
    progress(&format!(
        "installing componentize-py {VERSION} into {} (once, 50 MB)",
        tools.dir.join("python").display()
    ));
    install(&tools.dir.join("python"))?;
    if tools::is_program(&own) {
        Ok(own)
    } else {
        Err(missing())
    }
}

fn install(into: &Path) -> Result<(), BuildError> {
    run(Command::new("python3").args(["-m", "venv"]).arg(into))?;
    let pip = into.join("bin/pip");
    run(Command::new(pip)
        .args(["install", "--quiet"])
        .arg(format!("componentize-py=={VERSION}")))
}

fn missing() -> BuildError {
    BuildError::Missing {
        tool: "componentize-py".to_owned(),
        install: format!(
            "run `peal module build --install`, or `pip install componentize-py=={VERSION}` with its directory on PATH"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of the tool around an error of the author's module.
    fn output_text(error: &str) -> String {
        format!(
            "Traceback (most recent call last):\n  File \"/tools/componentize-py\", line 8, in <module>\n    sys.exit(script())\n\
             AssertionError: {error}\n\nCaused by:\n    SyntaxError\n\nStack backtrace:\n   0: <anyhow::Error>::msg\n"
        )
    }

    #[test]
    fn syntax_error_is_shown_without_native_functions() {
        let error = output_text(
            "  File \"/0/module.py\", line 5\n    x = = 3\n        ^\nSyntaxError: invalid syntax\n",
        );
        let shown = explain(
            &[],
            PathBuf::from("module.py"),
            Path::new("sdk/python"),
            &error,
        )
        .to_string();
        let own =
            "  File \"module.py\", line 5\n    x = = 3\n        ^\nSyntaxError: invalid syntax";
        assert_eq!(shown, format!("module.py does not build:\n{own}"));
    }

    #[test]
    fn missing_export_names_role_and_remedy() {
        let roles = ["lifecycle".to_owned(), "event-handler".to_owned()];
        let error =
            output_text("AttributeError: module 'module' has no attribute 'EventHandler'\n");
        let shown = explain(
            &roles,
            PathBuf::from("module.py"),
            Path::new("sdk/python"),
            &error,
        )
        .to_string();
        assert!(
            shown.contains("has the role event-handler, and module.py does not export it"),
            "{shown}"
        );
        assert!(shown.contains("`@peal.event_handler`"), "{shown}");
    }
}
