//! Command line of `peal module`.
use super::{
    ConfigArgs, DryRunArgs, FactFormats, OutputArgs, ReloadArgs, ServerArgs, SortArgs, StateArgs,
    TableFormats, UserArgs,
    control::time,
    number::whole,
    registry::{PULL_HELP, PUSH_HELP, Pull, Push},
    shipped,
    signing::{KEYGEN_HELP, Keygen, PasswordArgs, SIGN_HELP, Sign, VERIFY_HELP, Verify},
};
use crate::completion;
use clap::{
    Args as ClapArgs, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::ArgValueCandidates;
use peal_build::Language;
use peal_config::{Keyword, ModuleOwner};
use peal_devtools::project;
use peal_sandbox::Role;
use peal_server::admin::ModuleStatus;
use std::{path::PathBuf, time::Duration};

/// `peal module`.
#[derive(Subcommand)]
pub enum ModuleCommand {
    /// Create a project for a new module in Rust, C, C++, Go, Python, JavaScript or TypeScript
    ///
    /// The project contains all files of Peal that it needs. The command downloads nothing and
    /// changes no existing file.
    New(New),
    /// Build the component of a project with the tools of its language
    Build(Build),
    /// Build and test a project again after each change
    ///
    /// Runs the project's cases after each build. Shows what changed in the answers to recordings. With
    /// --shadow, the component also runs as a shadow at a live server.
    #[command(after_help = DEV_HELP)]
    Dev(ModuleDev),
    /// Show roles, imports and origin of a component
    ///
    /// Also shows the grants and limits with which the component would run here: as each configured
    /// module with this file, and as a job-supplied module. The command does not compile or run the
    /// component and is safe for any file.
    #[command(after_help = INSPECT_HELP)]
    Inspect(Inspect),
    /// Generate a key pair: a secret key that signs components, and a public key that verifies
    /// signatures
    #[command(after_help = KEYGEN_HELP)]
    Keygen(Keygen),
    /// Sign components, and write FILE.wasm.minisig beside each
    #[command(after_help = SIGN_HELP)]
    Sign(Sign),
    /// Verify the signature of a component
    #[command(after_help = VERIFY_HELP)]
    Verify(Verify),
    /// Push a component to a registry, with its signature and what it was built from and with
    ///
    /// The artefact has the form that `wkg` reads: one layer, the component. The last line of the
    /// output is the name by which a [[module]] pins it.
    #[command(after_help = PUSH_HELP)]
    Push(Push),
    /// Pull a component and its signature from a registry
    ///
    /// Everything is compared with the digests that name it. The command does not compile or run the
    /// component and is safe for any artefact.
    #[command(after_help = PULL_HELP)]
    Pull(Pull),
    /// Deploy modules to all nodes of the cluster
    ///
    /// Adds the modules of the files to those of the cluster, in the place of modules with the same names.
    /// Every server fetches the set, verifies it with its own keys, compiles it, and says whether it is
    /// ready. When all are, all run it. A server that cannot run it says why and keeps the old set.
    #[command(after_help = DEPLOY_HELP)]
    Deploy(ModuleDeploy),
    /// List the modules of a running server, their states, and the set versions for a rollback
    ///
    /// With --available, lists the components that can be added to a server, without asking one.
    List(ModuleListArgs),
    /// Add an available module to modules.d beside the configuration
    ///
    /// Writes NAME.toml with the grants and all settings of the module. Settings that are not set are
    /// comments with their defaults. The command changes no existing file.
    #[command(after_help = ADD_HELP)]
    Add(ModuleAdd),
    /// Have a running server read its configuration and its modules again
    ///
    /// The server also reloads changed files by itself, unless deploy.watch is false. It refuses a
    /// module set with any error, prints the reasons, and keeps the active set.
    Reload(ReloadArgs),
    /// Disable a module of a running server until it is enabled
    Disable(ModuleChangeArgs),
    /// Enable a disabled module of a running server
    Enable(ModuleChangeArgs),
    /// Release a module of a running server from quarantine
    Reset(ModuleChangeArgs),
    /// Show what a shadow would have done, and where that differs from what happened
    ///
    /// A shadow module has mode = "shadow" in its [[module]]. The server calls it on live traffic
    /// and ignores its outcome.
    Diff(ModuleDiff),
    /// Activate a shadow module of a running server
    ///
    /// This holds for this component, also after a restart where there is a store; write mode =
    /// "active" into its [[module]] to have it there as well.
    Promote(ModuleChangeArgs),
    /// Have a running server run the modules of an earlier version again
    ///
    /// The set contains the components of that version. The command does not change the files; the
    /// next change of a file, `peal reload` or a restart loads them again. With --cluster, all nodes run
    /// an earlier set of the cluster again.
    Rollback(ModuleRollback),
    /// Test a component offline with cases or recorded events
    ///
    /// Runs each case in a new module with a fixed clock, state in memory and captured sinks, and
    /// compares the result with the expected one. The component has no access to servers, files or
    /// networks. Calls have the default limits of a server.
    #[command(after_help = TEST_HELP)]
    Test(ModuleTest),
    /// Measure time, instructions and memory of a component's calls
    ///
    /// Calls the component repeatedly and sequentially with each case, as an idle server does.
    /// Without cases, uses typical input for each of its roles.
    Bench(ModuleBench),
}

/// Module of a running server.
#[derive(ClapArgs)]
pub struct ModuleNameArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the module
    #[arg(add = ArgValueCandidates::new(completion::modules), value_name = "NAME")]
    pub name: String,
}

/// `peal module disable`, `enable`, `reset` and `promote`.
#[derive(ClapArgs)]
pub struct ModuleChangeArgs {
    /// Selection of the module.
    #[command(flatten)]
    pub named: ModuleNameArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal module list`.
#[derive(ClapArgs)]
pub struct ModuleListArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<TableFormats>,
    /// List the modules that can be added, with what they are for
    #[arg(long, conflicts_with_all = ["user", "state", "sort"])]
    pub available: bool,
    /// With --available: list the components in DIR; default: those that ship with Peal
    #[arg(long, value_name = "DIR", requires = "available", value_hint = clap::ValueHint::DirPath)]
    pub from: Option<PathBuf>,
    /// Selection by the user that owns the modules.
    #[command(flatten)]
    pub user: UserArgs,
    /// Selection by state.
    #[command(flatten)]
    pub state: StateArgs<ModuleStatus>,
    /// Order of the modules.
    #[command(flatten)]
    pub order: SortArgs<ModuleStatus>,
}

const ADD_HELP: &str = "\
Examples:
  peal module list --available
  peal module add quota --set per_minute=120 && peal config check && peal module reload
  peal module add ./mine.wasm --print      # a component of one's own, and nothing is written

Exit status: 0 on success, 2 if a setting is unknown, invalid or missing, 125 if the file exists or cannot be written.";

/// `peal module add`.
#[derive(ClapArgs)]
pub struct ModuleAdd {
    /// Name of an available module, or path of a component
    #[arg(value_name = "NAME|FILE.wasm", value_parser = shipped::AvailableNameParser, hide_possible_values = true)]
    pub module: String,
    /// Set a setting of the module. Repeat for more settings
    #[arg(long = "set", value_name = "SETTING=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
    /// Give the module the name NAME in the configuration; default: its own
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Write the file into DIR; default: modules.d beside the configuration
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Use modules.d beside the configuration FILE
    #[arg(long, value_name = "FILE", conflicts_with = "dir", value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Take the component from DIR; default: those that ship with Peal
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub from: Option<PathBuf>,
    /// Print the file and write nothing
    #[arg(long)]
    pub print: bool,
}

/// Parser of a setting and its value.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "{text:?} should be SETTING=VALUE, as in per_minute=60"
        )),
    }
}

/// `peal module diff`.
#[derive(ClapArgs)]
pub struct ModuleDiff {
    /// Selection of the server.
    #[command(flatten)]
    pub named: ModuleNameArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

const TEST_HELP: &str = "\
A file of cases:
  config = { per_minute = 3 }              # passed to the module's init, for all cases
  [[case]]
  name = \"an abort is reported\"
  event = { code = \"PMIX_ERR_PROC_ABORTED\", source = \"solver:0\", infos = [\"site.load=5\"] }
  expect = { status = \"PMIX_EVENT_ACTION_COMPLETE\", includes = [\"site.seen=true\"] }
  [[case]]
  name = \"others may not control a job\"
  request = { hook = \"job-control\", user = 1001, targets = [{ proc = \"solver:*\", owner = 1000 }] }
  expect = { outcome = \"deny\", status = \"PMIX_ERR_NO_PERMISSIONS\" }
docs/src/modules/module-tests.md describes the format.

Examples:
  peal module test                         # in a project, after `peal module build`
  peal module test mine.wasm tests/*.toml
  peal event watch -o json --count 100 > night.jsonl; peal module test mine.wasm night.jsonl
  peal module test mine.wasm night.jsonl --write tests/night.toml
  peal module test --debug \"an abort is reported\"     # each call of the host, in order

A case without `expect` fails only if the module fails.

Exit status: 0 if all cases pass, 1 if a case fails, 125 if the component or the cases cannot be read, or there is no case.";

/// `peal module test`.
#[derive(ClapArgs)]
pub struct ModuleTest {
    /// Component, or directory of a project with one
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".", value_hint = clap::ValueHint::AnyPath)]
    pub component: PathBuf,
    /// Files of cases, or output of `peal event watch -o json`; default: tests/*.toml beside the
    /// component
    #[arg(value_name = "CASES", value_hint = clap::ValueHint::FilePath)]
    pub cases: Vec<PathBuf>,
    /// Give the component the name NAME, under which recordings contain its results; default: the
    /// name of its file
    #[arg(long)]
    pub name: Option<String>,
    /// Abort a call that takes more processor time than TIME (20ms, 2s), from 1ms to 10m
    #[arg(long, value_name = "TIME", value_parser = call_time, default_value = "100ms")]
    pub call_time: Duration,
    /// Let the component write to the sink NAME; default: stdout and stderr
    #[arg(long = "sink", value_name = "NAME")]
    pub sinks: Vec<String>,
    /// Print what the component wrote in each case: its lines to the trace, and texts to sinks
    #[arg(long)]
    pub show_log: bool,
    /// Print only the calls in the case named CASE, with the functions of the host that they called, in
    /// their order
    #[arg(long, value_name = "CASE", conflicts_with_all = ["output", "show_log", "write"])]
    pub debug: Option<String>,
    /// Write the cases to FILE.toml with the results as expectations, without comments
    #[arg(long, value_name = "FILE.toml", value_hint = clap::ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal module rollback`.
#[derive(ClapArgs)]
pub struct ModuleRollback {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Version, as shown by `peal module list`; default: the previous one
    #[arg(value_name = "VERSION", value_parser = whole(1..=u64::MAX))]
    pub to: Option<u64>,
    /// Have all nodes of the cluster run set VERSION again, at once; without VERSION, give up the set on
    /// its way and end its canary, or return to the previous set
    #[arg(long)]
    pub cluster: bool,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

const DEPLOY_HELP: &str = "\
FILE.toml has the form of a file in modules.d: a [[module]] for each module, with its component in
`path`, and the signature of the component beside that. The node must be a deployer, which `peal
cluster init --deployer NODE` says. The command reads its key, which root and the server's user may.

With --canary, a share of the nodes runs the set first. Then --promote has all others run it, and
`peal module rollback --cluster` ends it. `peal module list` shows the set of each node.

Where modules.require_signature has \"site\", nodes run a module only if its component and its settings
are signed. --key signs the settings with the secret key of `peal module keygen`.

Examples:
  peal module add quota --print > quota.toml && peal module deploy quota.toml
  peal module deploy --key site.key --canary 10 quota.toml
  peal module deploy --dry-run --key site.key quota.toml      # verified as here, and stored nowhere
  peal module deploy --promote
  peal module deploy --quota 90 --timeout 10m quota.toml      # runs when 90% of the nodes are ready
  peal module deploy --remove quota

Exit status: 0 if the nodes run the set, or those of the canary do, 1 if the set was given up, 125 if the set was not deployed.";

/// `peal module deploy`.
#[derive(ClapArgs)]
pub struct ModuleDeploy {
    /// Files with the modules
    #[arg(value_name = "FILE.toml", required_unless_present_any = ["remove", "promote"], value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Remove the module NAME from those of the cluster. Repeat for more modules
    #[arg(long, value_name = "NAME")]
    pub remove: Vec<String>,
    /// Refuse to deploy to another cluster than NAME
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Have PERCENT of the nodes run the set first, at least one
    #[arg(long, value_name = "PERCENT", value_parser = whole(1..=99_u8))]
    pub canary: Option<u8>,
    /// Have all nodes run the set of the canary
    #[arg(long, conflicts_with_all = ["files", "remove", "canary", "quota", "timeout", "key"])]
    pub promote: bool,
    /// Run the set when PERCENT of the nodes are ready. Others keep the old set
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = whole(1..=100_u8))]
    pub quota: u8,
    /// Give the set up if too few nodes are ready in TIME (90s, 5m)
    #[arg(long, value_name = "TIME", value_parser = deploy_time, default_value = "5m")]
    pub timeout: Duration,
    /// Sign the settings of the modules with the secret key in FILE.key
    #[arg(long, value_name = "FILE.key", value_hint = clap::ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    /// Source of the password.
    #[command(flatten)]
    pub password: PasswordArgs,
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// Parser of the time of a deployment.
fn deploy_time(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let time = time(text)?;
    if bounds.contains(&time) {
        Ok(time)
    } else {
        Err(format!("{text:?} is not from 1s to 24h"))
    }
}

/// `peal module bench`.
#[derive(ClapArgs)]
pub struct ModuleBench {
    /// Component, or directory of a project with one
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".", value_hint = clap::ValueHint::AnyPath)]
    pub component: PathBuf,
    /// File of cases
    #[arg(value_name = "CASES", value_hint = clap::ValueHint::FilePath)]
    pub cases: Option<PathBuf>,
    /// Measure N calls of each case at most
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole(1..=10_000_000_u32))]
    pub calls: u32,
    /// Abort a call that takes more processor time than TIME (20ms, 2s), from 1ms to 10m
    #[arg(long, value_name = "TIME", value_parser = call_time, default_value = "100ms")]
    pub call_time: Duration,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// Parser with the bounds of `limits.call_time_ms`.
fn call_time(text: &str) -> Result<Duration, String> {
    let bounds = Duration::from_millis(1)..=Duration::from_secs(600);
    let time = time(text)?;
    if bounds.contains(&time) {
        Ok(time)
    } else {
        Err(format!("{text:?} is not from 1ms to 10m"))
    }
}

/// `peal module new`.
#[derive(ClapArgs)]
pub struct New {
    /// Create a project in LANGUAGE
    #[arg(long, value_name = "LANGUAGE", value_parser = PossibleValuesParser::new(Language::ALL.map(Language::name)).try_map(|name| name.parse::<Language>()))]
    pub lang: Language,
    /// Create a module with ROLE. Repeat for more roles
    #[arg(long, value_name = "ROLE", default_value = "event-handler", value_parser = PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(|name| project::role(&name)))]
    pub role: Vec<Role>,
    /// Name of the module
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Use the installed SDK in DIR, relative to the project, instead of a copy: an unpacked or
    /// installed package of the language, such as node_modules/peal-sdk
    #[arg(long, value_name = "DIR")]
    pub sdk: Option<PathBuf>,
    /// Create the project in DIR, which must be new or empty; default: a directory with the name of
    /// the module
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `peal module build`.
#[derive(ClapArgs)]
pub struct Build {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Install missing tools: Python and npm packages below the user's cache (or $PEAL_TOOLS),
    /// Rust's target with rustup, and Debian packages if run as root
    #[arg(long)]
    pub install: bool,
}

const DEV_HELP: &str = "\
Examples:
  peal module dev                          # in a project; Ctrl-C ends
  peal event watch -o json --count 100 > night.jsonl; peal module dev . night.jsonl
  peal module dev --shadow /etc/peal/modules.d; peal module diff NAME

A build that fails or a case that fails does not end the command: the next change is built again.

Exit status: 0; with --once 1 if a case fails, 125 if the build fails.";

/// `peal module dev`.
#[derive(ClapArgs)]
pub struct ModuleDev {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Outputs of `peal event watch -o json`: after each build, shows the answers that changed
    #[arg(value_name = "RECORDING", value_hint = clap::ValueHint::FilePath)]
    pub recordings: Vec<PathBuf>,
    /// Print what the component wrote in each case
    #[arg(long)]
    pub show_log: bool,
    /// Abort a call that takes more processor time than TIME (20ms, 2s), from 1ms to 10m
    #[arg(long, value_name = "TIME", value_parser = call_time, default_value = "100ms")]
    pub call_time: Duration,
    /// Install the component as a shadow in DIR, a directory of modules that a server watches: modules.d
    /// beside its configuration, or one's own directory in deploy.user_modules_dir. Settings that are
    /// there already must have mode = "shadow"; others are written, and removed at the end
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub shadow: Option<PathBuf>,
    /// Selection of the server that runs the shadow.
    #[command(flatten)]
    pub server: ServerArgs,
    /// Build and test once
    #[arg(long)]
    pub once: bool,
}

const INSPECT_HELP: &str = "\
A policy for --policy; all keys are optional, and an absent key restricts nothing:
  roles = [\"event-handler\", \"lifecycle\"]   # allowed roles
  capabilities = [\"logging\", \"wasi\"]       # allowed capabilities
  wasi = [\"cli/stdout\", \"io/*\"]            # allowed interfaces of WASI
  wit = [\"0.1\"]                            # allowed versions of peal:pmix
  max_size = 1048576                       # maximum size in bytes
  signed_by = [\"RWQf6LRC...\"]              # public keys; the component must be signed by one of them
docs/src/audit/inspect.md describes the format and the fields of -o json.

Examples:
  peal module inspect quota.wasm
  peal module inspect --scope user quota.wasm
  peal module inspect --policy ci.toml -o json quota.wasm

Exit status: 0 on success, 1 if the component violates the policy, 2 if it is not a component that Peal can load, 125 if the
component or the policy cannot be read.";

/// `peal module inspect`.
#[derive(ClapArgs)]
pub struct Inspect {
    /// Component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// Configuration that determines the grants.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Show grants and limits for a new module of OWNER: of the site, installed by a user, assigned
    /// by the site to jobs of a namespace, or job-supplied
    #[arg(long, value_name = "OWNER", value_parser = PossibleValuesParser::new(ModuleOwner::ALL.iter().map(|word| word.name())))]
    pub scope: Option<String>,
    /// Check the component against the policy in FILE.toml
    #[arg(long, value_name = "FILE.toml", value_hint = clap::ValueHint::FilePath)]
    pub policy: Option<PathBuf>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}
