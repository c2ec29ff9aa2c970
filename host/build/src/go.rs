//! Go: the compiler of Go for WASI, with an adapter that answers its runtime without a host.
use crate::{
    BuildError, BuildTools, ProgressCallback, Project,
    command::{run, run_captured, run_quietly},
    encode,
    error::of_file,
    tools, world,
};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The tested release, as a package for Python, and the hashes of its files for Linux.
const PACKAGE: &str = include_str!("../tools/go/requirements.txt");

/// Answers to the runtime's imports of WASI, of the text beside it.
const ADAPTER: &[u8] = include_bytes!("../tools/go/wasi-deny.wasm");

/// The first release that exports functions of a library, minor number of Go 1.
const OLDEST: u32 = 24;

/// Export of a role: its name in the contract, its parameters, and the function of the SDK that it
/// calls with that of the author and these arguments.
struct Export {
    name: &'static str,
    parameters: &'static str,
    result: &'static str,
    runner: &'static str,
    function: &'static str,
    arguments: &'static str,
}

const POINTER: &str = " unsafe.Pointer";

/// Returns the exports of a role.
fn exports(role: &str) -> Vec<Export> {
    fn policy(
        name: &'static str,
        function: &'static str,
        runner: &'static str,
        parameters: &'static str,
        arguments: &'static str,
    ) -> Export {
        Export {
            name,
            parameters,
            result: POINTER,
            runner,
            function,
            arguments,
        }
    }
    match role {
        "event-handler" => vec![Export {
            name: "handle",
            parameters: "registration int64, tag, code, to, infos, previous int32",
            result: " int32",
            runner: "RunEventHandler",
            function: "EventHandler",
            arguments: "registration, tag, code, to, infos, previous",
        }],
        "connection-policy" => vec![policy(
            "decide",
            "ConnectionPolicy",
            "RunConnectionPolicy",
            "kind, targets, infos, previous int32",
            "kind, targets, infos, previous",
        )],
        "event-policy" => vec![
            policy(
                "decide",
                "EventPolicy",
                "RunEventPolicy",
                "code, to, targets, infos, previous int32",
                "code, to, targets, infos, previous",
            ),
            policy(
                "decide-registration",
                "EventPolicy",
                "RunRegistrationPolicy",
                "codes unsafe.Pointer, count, directives, previous int32",
                "codes, count, directives, previous",
            ),
        ],
        "job-control-policy" => vec![policy(
            "decide",
            "JobControlPolicy",
            "RunJobControlPolicy",
            "targets, directives, previous int32",
            "targets, directives, previous",
        )],
        "monitor-policy" => vec![policy(
            "decide",
            "MonitorPolicy",
            "RunMonitorPolicy",
            "targets, infos, directives, previous int32",
            "targets, infos, directives, previous",
        )],
        "provision-policy" => vec![policy(
            "decide",
            "ProvisionPolicy",
            "RunProvisionPolicy",
            "nodes unsafe.Pointer, count, hasImage int32, image unsafe.Pointer, size, directives, previous int32",
            "nodes, count, hasImage, image, size, directives, previous",
        )],
        "log-policy" => vec![policy(
            "decide",
            "LogPolicy",
            "RunLogPolicy",
            "infos, directives, previous int32",
            "infos, directives, previous",
        )],
        "group-policy" => vec![policy(
            "decide",
            "GroupPolicy",
            "RunGroupPolicy",
            "kind, isNamed int32, name unsafe.Pointer, size, targets, directives, previous int32",
            "kind, isNamed, name, size, targets, directives, previous",
        )],
        "spawn-policy" => vec![policy(
            "decide",
            "SpawnPolicy",
            "RunSpawnPolicy",
            "applications unsafe.Pointer, count, targets, directives, previous int32",
            "applications, count, targets, directives, previous",
        )],
        "log-channel" => vec![Export {
            name: "log",
            parameters: "channel unsafe.Pointer, size int32, timestamp int64, infos, directives, previous int32",
            result: " int32",
            runner: "RunLogChannel",
            function: "LogChannel",
            arguments: "channel, size, timestamp, infos, directives, previous",
        }],
        "lifecycle" => vec![
            policy(
                "init",
                "Init",
                "RunInit",
                "infos unsafe.Pointer, infoCount int32, arrays unsafe.Pointer, arrayCount int32",
                "infos, infoCount, arrays, arrayCount",
            ),
            Export {
                name: "stop",
                parameters: "",
                result: "",
                runner: "RunStop",
                function: "Stop",
                arguments: "",
            },
        ],
        _ => Vec::new(),
    }
}

/// Returns the source of the exports of some roles, a file of the author's package.
fn exports_text(roles: &[String]) -> String {
    let mut text = String::from(
        "// Code generated by `peal module build`; DO NOT EDIT.\n\npackage main\n\nimport (\n\t\"peal\"\n\t\"unsafe\"\n)\n\n\
         var _ unsafe.Pointer\n",
    );
    for role in roles {
        for (at, export) in exports(role).into_iter().enumerate() {
            let Export {
                name,
                parameters,
                result,
                runner,
                function,
                arguments,
            } = export;
            let more = if arguments.is_empty() { "" } else { ", " };
            let call = format!("peal.{runner}({function}{more}{arguments})");
            let body = if result.is_empty() {
                call
            } else {
                format!("return {call}")
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n//go:wasmexport peal:pmix/{role}@{}#{name}\nfunc export{function}{at}({parameters}){result} {{\n\t{body}\n}}\n",
                world::VERSION
            );
        }
    }
    text
}

/// Builds a component from the package of a project.
pub(crate) fn build(
    project: &Project,
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<Vec<u8>, BuildError> {
    let go = find(tools, progress)?;
    let wit = world::write(&project.manifest, &project.contract()?, &project.target())?;
    let core = project.target().join("core.wasm");
    let overlay = overlay(project)?;
    progress("compiling (the first time half a minute)");
    let mut command = Command::new(go);
    command
        .args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-w"])
        .arg("-overlay")
        .arg(&overlay)
        .arg("-o")
        .arg(&core)
        .arg(".")
        .current_dir(&project.dir);
    command
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        // Neither the user's settings nor another release of the tools change what is built.
        .env("GOENV", "off")
        .env("GOTOOLCHAIN", "local")
        .env_remove("GOFLAGS")
        .env_remove("GOROOT")
        .env("GOCACHE", tools.dir.join("go-cache"))
        .env("GOPATH", tools.dir.join("go-path"));
    run_captured(&mut command)?.map_err(|output| {
        explain(
            &project.manifest.roles,
            project.dir.join("module.go"),
            &output,
        )
    })?;
    encode::encode_adapted(&core, &wit, ADAPTER)
}

/// Writes the exports, and the file that makes them part of the author's package.
fn overlay(project: &Project) -> Result<PathBuf, BuildError> {
    let target = project.target();
    let target = target.canonicalize().map_err(of_file(&target))?;
    // With another extension, since the tools of Go would take this directory for a package.
    let exports = target.join("peal_exports.txt");
    fs::write(&exports, exports_text(&project.manifest.roles)).map_err(of_file(&exports))?;
    let overlay = target.join("overlay.json");
    // A path in quotes as Rust shows it is JSON, except for characters that no path needs.
    let text = format!(
        "{{\"Replace\": {{{:?}: {:?}}}}}\n",
        project.dir.join("peal_exports.go"),
        exports
    );
    fs::write(&overlay, text).map_err(of_file(&overlay))?;
    Ok(overlay)
}

/// Finds the error of the author's module in the output of the compiler.
fn explain(roles: &[String], file: PathBuf, output_text: &str) -> BuildError {
    let missing = |function: &str| output_text.contains(&format!("undefined: {function}\n"));
    for role in roles {
        let mut functions = exports(role).into_iter().map(|export| export.function);
        if let Some(function) = functions.find(|function| missing(function)) {
            return BuildError::NoExport {
                role: role.clone(),
                file,
                remedy: format!("write {}", signature(function)),
            };
        }
    }
    // The first line names the package, which is that of the project.
    let own = output_text.lines().filter(|line| !line.starts_with("# "));
    BuildError::Source {
        file,
        output: own.collect::<Vec<_>>().join("\n"),
    }
}

/// Returns how an author's function begins.
fn signature(function: &str) -> String {
    let parameters = match function {
        "EventHandler" => "(event *peal.Event) *peal.Outcome",
        "LogChannel" => "(request *peal.LogRequest) *peal.Outcome",
        "Init" => "(config peal.Config) ([]peal.Registration, error)",
        "Stop" => "()",
        _ => "(request *peal.Request) *peal.PolicyOutcome",
    };
    format!("`func {function}{parameters}`")
}

/// Finds the compiler; installs it if allowed.
pub(crate) fn find(
    tools: &BuildTools,
    progress: ProgressCallback<'_>,
) -> Result<PathBuf, BuildError> {
    // The directory of tools precedes `PATH`, because it has the tested release.
    let own = tools.dir.join("go/bin/go");
    if tools::is_program(&own) {
        return Ok(own);
    }
    if let Some(found) = tools::on_path("go").filter(|found| is_new_enough(found)) {
        return Ok(found);
    }
    if !tools.may_install() {
        return Err(missing());
    }
    progress(&format!(
        "installing Go into {} (once, 280 MB)",
        tools.dir.join("go").display()
    ));
    install(&tools.dir.join("go"))?;
    if tools::is_program(&own) {
        Ok(own)
    } else {
        Err(missing())
    }
}

fn is_new_enough(go: &Path) -> bool {
    let mut version = Command::new(go);
    version
        .args(["env", "GOVERSION"])
        .env("GOTOOLCHAIN", "local");
    let version = run_quietly(&mut version).unwrap_or_default();
    let minor = version.trim().strip_prefix("go1.");
    let minor = minor.and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.is_some_and(|minor: u32| minor >= OLDEST)
}

fn install(into: &Path) -> Result<(), BuildError> {
    run(Command::new("python3").args(["-m", "venv"]).arg(into))?;
    let file = into.join("requirements.txt");
    fs::write(&file, PACKAGE).map_err(of_file(&file))?;
    let pip = into.join("bin/pip");
    run(Command::new(pip)
        .args(["install", "--quiet", "--no-deps", "--require-hashes", "-r"])
        .arg(&file))
}

fn missing() -> BuildError {
    BuildError::Missing {
        tool: format!("Go 1.{OLDEST} or newer"),
        install: "run `peal module build --install`, or put go on PATH".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The binary is in the repository so that builds of components need no parser of the text.
    #[test]
    fn adapter_is_that_of_its_text() {
        let binary = wat::parse_str(include_str!("../tools/go/wasi-deny.wat")).unwrap();
        assert_eq!(ADAPTER, binary, "wasi-deny.wasm should be these bytes");
    }

    #[test]
    fn exports_of_a_role_call_the_function_of_its_name() {
        let text = exports_text(&["event-policy".to_owned(), "lifecycle".to_owned()]);
        for line in [
            "//go:wasmexport peal:pmix/event-policy@0.1.0#decide-registration",
            "\treturn peal.RunRegistrationPolicy(EventPolicy, codes, count, directives, previous)",
            "func exportStop1() {",
            "\tpeal.RunStop(Stop)",
        ] {
            assert!(
                text.lines().any(|own| own == line),
                "{line} is not in {text}"
            );
        }
    }

    #[test]
    fn missing_function_names_role_and_signature() {
        let roles = ["event-handler".to_owned()];
        let output = "# mine\n./peal_exports.go:12:25: undefined: EventHandler\n";
        let error = explain(&roles, PathBuf::from("module.go"), output).to_string();
        assert!(
            error.contains("has the role event-handler, and module.go does not export it"),
            "{error}"
        );
        assert!(
            error.contains("`func EventHandler(event *peal.Event) *peal.Outcome`"),
            "{error}"
        );
    }

    #[test]
    fn compilers_error_is_shown_without_the_package() {
        let output = "# mine\n./module.go:7:2: declared and not used: x\n";
        let error = explain(&[], PathBuf::from("module.go"), output).to_string();
        assert_eq!(
            error,
            "module.go does not build:\n./module.go:7:2: declared and not used: x"
        );
    }
}
