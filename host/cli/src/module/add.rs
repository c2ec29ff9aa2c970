//! `peal module add`: writes the configuration of a module into a directory of modules.
use crate::{
    args::{ConfigArgs, ModuleAdd},
    config,
    module::available::grants,
    usage_error,
};
use anyhow::{Context, Result, anyhow, bail};
use peal_declaration::{ModuleDeclaration, ModuleFile, SettingValues};
use peal_modules::{AvailableModule, SettingMismatch, shipped_dir, unknown_setting};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Sinks that need no `[[sink]]`.
const OPEN_SINKS: [&str; 3] = ["stdout", "stderr", "job-record"];

/// Writes the file, and prints the next steps.
pub fn add(args: ModuleAdd) -> Result<ExitCode> {
    let module = find(&args)?;
    let declaration = module.declaration();
    let values = values(&declaration, &args.set)
        .map_err(|error| usage_error(format!("module {}: {error}", declaration.name)))?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| declaration.name.clone());
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        return Err(usage_error(format!(
            "--name is {name:?}; it should be the name of a file without a directory"
        )));
    }
    let path = module.path.to_str().with_context(|| {
        format!(
            "{} is not UTF-8, as a configuration must be",
            module.path.display()
        )
    })?;
    let grants: Vec<&str> = grants(&module).collect();
    let text = ModuleFile {
        declaration: &declaration,
        name: &name,
        path,
        grants: &grants,
        values: &values,
    }
    .full();
    let mut out = crate::output::stdout();
    if args.print {
        write!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = directory(&args)?.join(format!("{name}.toml"));
    create(&file, &text)?;
    writeln!(out, "wrote {}; next:", file.display())?;
    for step in steps(&declaration, &grants) {
        writeln!(out, "  {step}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the component: a path, or a name among the available ones.
fn find(args: &ModuleAdd) -> Result<AvailableModule> {
    let is_path = args.module.contains('/') || args.module.ends_with(".wasm");
    if is_path {
        return Ok(AvailableModule::read(Path::new(&args.module))?);
    }
    let dir = match &args.from {
        Some(dir) => dir.clone(),
        None => shipped_dir()?,
    };
    let file = dir.join(format!("{}.wasm", args.module));
    if !file.exists() {
        bail!(
            "there is no module {:?} in {}; `peal module list --available` lists them",
            args.module,
            dir.display()
        );
    }
    Ok(AvailableModule::read(&file)?)
}

/// Returns the values of the settings: those of the command line, and those without which the module
/// does nothing.
fn values(
    declaration: &ModuleDeclaration,
    given: &[(String, String)],
) -> Result<SettingValues, SettingMismatch> {
    let presets = declaration
        .settings()
        .iter()
        .filter(|setting| setting.preset);
    let mut values: SettingValues = presets
        .filter_map(|setting| Some((setting.name.clone(), setting.example.clone()?)))
        .collect();
    for (name, word) in given {
        let setting = declaration
            .setting(name)
            .ok_or_else(|| unknown_setting(declaration, name))?;
        values.insert(name.clone(), setting.parse(word)?);
    }
    let mut required = declaration
        .settings()
        .iter()
        .filter(|setting| setting.required);
    match required.find(|setting| !values.contains_key(&setting.name)) {
        None => Ok(values),
        Some(setting) => Err(SettingMismatch::Missing {
            name: setting.name.clone(),
            wanted: setting.wanted(),
            description: format!("{} Use --set {}=VALUE", setting.description, setting.name),
        }),
    }
}

/// Returns the directory of modules.
fn directory(args: &ModuleAdd) -> Result<PathBuf> {
    if let Some(dir) = &args.dir {
        return Ok(dir.clone());
    }
    let config = ConfigArgs {
        config: args.config.clone(),
        ..ConfigArgs::default()
    };
    let file = config::sources(config, []).main_file();
    let file =
        file.ok_or_else(|| anyhow!("there is no configuration: name a directory with --dir"))?;
    Ok(file.parent().unwrap_or(Path::new(".")).join("modules.d"))
}

/// Creates a file, and its directory if that is missing.
fn create(file: &Path, text: &str) -> Result<()> {
    let named = || file.display().to_string();
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let mut created = match File::create_new(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
            "{} is there already and is not changed; choose another name with --name, or remove the file",
            file.display()
        ),
        created => created.with_context(named)?,
    };
    created.write_all(text.as_bytes()).with_context(named)
}

/// Returns the next steps of the admin.
fn steps(declaration: &ModuleDeclaration, grants: &[&str]) -> Vec<String> {
    let mut steps = Vec::new();
    if grants.contains(&"state") {
        steps.push("set store.path, unless it is set: the module keeps state there".to_owned());
    }
    let sinks = declaration.deployment.sinks.iter();
    for sink in sinks.filter(|sink| !OPEN_SINKS.contains(&sink.as_str())) {
        steps.push(format!(
            "open the sink {sink:?} by a [[sink]], unless there is one"
        ));
    }
    steps.push("peal config check".to_owned());
    steps.push("peal module reload              # a running server takes the module".to_owned());
    steps
}
