//! `peal config`: checks and shows the configuration and its origins.
use crate::{
    args::{ConfigCheckArgs, ConfigCommand, ConfigShowArgs, DataFormat, OutputFormat, SchemaKind},
    config::{self, Readable},
};
use anyhow::Result;
use peal_build::Manifest;
use peal_config::{ConfigCheck, Problems, Resolved, docs, schema};
use peal_devtools::module_test;
use peal_model::counted;
use peal_modules::AwaitedModule;
use std::{io::Write, process::ExitCode};

/// Exit status if the configuration is invalid.
const WRONG: u8 = 1;

/// Runs the command.
pub fn run(command: ConfigCommand) -> Result<ExitCode> {
    let mut out = crate::output::stdout();
    match command {
        ConfigCommand::Check(args) => return check(&mut out, args),
        ConfigCommand::Show(args) => show(&mut out, args)?,
        ConfigCommand::Example => write!(out, "{}", docs::example())?,
        ConfigCommand::Reference => write!(out, "{}", docs::reference())?,
        ConfigCommand::Schema { kind } => {
            let schema = match kind {
                SchemaKind::Config => schema::config(),
                SchemaKind::Module => schema::module(),
                SchemaKind::Project => Manifest::schema(),
                SchemaKind::Cases => module_test::schema(),
            };
            write!(out, "{}", DataFormat::Json.document(&schema)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all problems.
fn check(out: &mut impl Write, args: ConfigCheckArgs) -> Result<ExitCode> {
    let ConfigCheckArgs {
        file,
        mut config,
        format,
    } = args;
    config.config = file.or(config.config);
    let ConfigCheck { resolved, problems } = config::check(config);
    let is_right = problems.is_empty();
    if let OutputFormat::Data(form) = format.output {
        let files = &resolved.files;
        let modules = resolved.modules.len();
        let checked = serde_json::json!({ "ok": is_right, "files": files, "modules": modules, "problems": problems });
        write!(out, "{}", form.document(&checked)?)?;
    } else if is_right {
        let files = resolved
            .files
            .iter()
            .map(|file| format!(" {}", file.display()))
            .collect::<String>();
        let files = if files.is_empty() {
            " no file was read"
        } else {
            &files
        };
        writeln!(
            out,
            "all is well, {}:{files}",
            counted(resolved.modules.len(), "module")
        )?;
        for AwaitedModule { entry, reference } in unfetched(&resolved) {
            writeln!(
                out,
                "module {} is not checked, since it is not in the store of artefacts: `peal module pull --store {reference}`",
                entry.settings.name
            )?;
        }
    } else {
        crate::print_line(&Problems(problems).to_string());
    }
    Ok(if is_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(WRONG)
    })
}

/// Returns the modules whose artefacts are not in the store. They are no problem: a server starts
/// without them and fetches them.
fn unfetched(resolved: &Resolved) -> Vec<AwaitedModule> {
    let modules = peal_modules::read_components(&resolved.modules, &resolved.config);
    modules.map(|modules| modules.awaited()).unwrap_or_default()
}

/// Prints the settings, and the modules if they are valid.
fn show(out: &mut impl Write, args: ConfigShowArgs) -> Result<()> {
    let Readable { resolved, modules } = config::load_for_server(args.config, [])?;
    let view = resolved.view();
    match args.format.output {
        OutputFormat::Data(form) => write!(out, "{}", form.document(&view)?)?,
        _ => write!(out, "{view}")?,
    }
    if let Err(problems) = modules {
        crate::print_line(&format!(
            "the modules are not shown, since their configuration is invalid:\n{problems}"
        ));
    }
    Ok(())
}
