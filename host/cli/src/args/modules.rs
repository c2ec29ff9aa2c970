//! What can be said of modules: `peal module`.
use super::{
    ConfigArgs, QueryArgs, ServerArgs,
    control::time,
    number::whole,
    signing::{KEYGEN_HELP, Keygen, SIGN_HELP, Sign, VERIFY_HELP, Verify},
};
use clap::{
    Args as ClapArgs, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use peal_build::Language;
use peal_config::{Keyword, ModuleOwner};
use peal_devtools::project;
use peal_sandbox::Role;
use std::{path::PathBuf, time::Duration};

/// What can be done with modules.
#[derive(Subcommand)]
pub enum ModuleCommand {
    /// Make a project for a new module, in Rust, C, Python or JavaScript
    ///
    /// Everything it needs of Peal is written into it. Nothing is downloaded, and nothing that is there is changed.
    New(New),
    /// Build the component of a project with its language's own tools
    Build(Build),
    /// Show what a component does, what it asks for, and where it comes from
    ///
    /// And on which terms it would run here: as each module of the configuration whose file it is, and as a handler that a job
    /// brings. Nothing is compiled and nothing runs: this is safe with any file.
    #[command(after_help = INSPECT_HELP)]
    Inspect(Inspect),
    /// Make a pair of keys: a secret one that signs components, and a public one by which sites check that
    #[command(after_help = KEYGEN_HELP)]
    Keygen(Keygen),
    /// Sign components: FILE.wasm.minisig is written beside each
    #[command(after_help = SIGN_HELP)]
    Sign(Sign),
    /// Check who signed a component
    #[command(after_help = VERIFY_HELP)]
    Verify(Verify),
    /// Show the modules of a running server, how they are, and the versions that it can return to
    List(QueryArgs),
    /// Have a running server read its configuration and its modules again
    ///
    /// It does so by itself when files change, unless deploy.watch is false. A set in which anything is wrong is refused as a
    /// whole, with the reasons, and the one that runs goes on.
    Reload(ServerArgs),
    /// Have a running server call a module no more, until it is enabled again
    Disable(ModuleNameArgs),
    /// Have a running server call a module again that was disabled
    Enable(ModuleNameArgs),
    /// Have a running server call a module again that it quarantined because it failed too often
    Reset(ModuleNameArgs),
    /// Show what a shadow would have done, and where that differs from what happened
    ///
    /// A shadow is a module whose [[module]] says mode = "shadow": it is called for live traffic, beside those that act, and what it
    /// says changes nothing.
    Diff(ModuleDiff),
    /// Have a shadow of a running server take part from now on
    ///
    /// This holds for this component, also after a restart where there is a store; write mode = "active" into its [[module]] to
    /// have it there as well.
    Promote(ModuleNameArgs),
    /// Have a running server run the modules of an earlier version again
    ///
    /// Their components are those of then, whatever the files hold now. The files themselves are left alone: what changes there
    /// next, `peal reload` or a restart takes them again.
    Rollback(ModuleRollback),
    /// Try a component offline with cases, or with events that were recorded
    ///
    /// Each case is run in a fresh module, with a clock that stands still, state in memory and sinks that are read afterwards;
    /// what comes out is compared with what the case expects. Nothing else is there: no server, no files, no network. Calls have
    /// the limits that they have in a server whose configuration says nothing else.
    #[command(after_help = TEST_HELP)]
    Test(ModuleTest),
    /// Measure what a component's calls take: time, instructions, memory
    ///
    /// Calls the component with each case again and again, one after the other, as a server does that has nothing else to do.
    /// Without cases it is called with something usual for each of its roles.
    Bench(ModuleBench),
}

/// `peal module disable`, `enable`, `reset` and `promote`.
#[derive(ClapArgs)]
pub struct ModuleNameArgs {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// What the module is called
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// `peal module diff`.
#[derive(ClapArgs)]
pub struct ModuleDiff {
    /// Which server is meant.
    #[command(flatten)]
    pub named: ModuleNameArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const TEST_HELP: &str = "\
A file of cases:
  config = { per_minute = 3 }              # what the module's init is given; for all cases
  [[case]]
  name = \"an abort is reported\"
  event = { code = \"PMIX_ERR_PROC_ABORTED\", source = \"solver:0\", infos = [\"site.load=5\"] }
  expect = { status = \"PMIX_EVENT_ACTION_COMPLETE\", includes = [\"site.seen=true\"] }
  [[case]]
  name = \"others may not control a job\"
  request = { hook = \"job-control\", user = 1001, targets = [{ proc = \"solver:*\", owner = 1000 }] }
  expect = { outcome = \"deny\", status = \"PMIX_ERR_NO_PERMISSIONS\" }
docs/src/modules/module-tests.md has all of it.

Examples:
  peal module test                         # in a project, after `peal module build`
  peal module test mine.wasm tests/*.toml
  peal event watch --json --count 100 > night.jsonl; peal module test mine.wasm night.jsonl
  peal module test mine.wasm night.jsonl --write tests/night.toml

A case without `expect` is not checked: it fails only if the module does.

Exit status: 0 if all came out as expected, 1 if not, 125 if the component or the cases cannot be read, or there is no case.";

/// `peal module test`.
#[derive(ClapArgs)]
pub struct ModuleTest {
    /// The component, or the directory of a project that has one
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".", value_hint = clap::ValueHint::AnyPath)]
    pub component: PathBuf,
    /// Files of cases, or what `peal event watch --json` printed; without any, tests/*.toml beside the component
    #[arg(value_name = "CASES", value_hint = clap::ValueHint::FilePath)]
    pub cases: Vec<PathBuf>,
    /// What the component is called, as in its [[module]]; else its file's name. In a recording, its answers are under this
    #[arg(long)]
    pub name: Option<String>,
    /// End a call that takes more processor time than this, as in 20ms or 2s, from 1ms to 10m
    #[arg(long, value_name = "TIME", value_parser = call_time, default_value = "100ms")]
    pub call_time: Duration,
    /// A sink that it may write to, by its name; stdout and stderr if none is given
    #[arg(long = "sink", value_name = "NAME")]
    pub sinks: Vec<String>,
    /// Write a file with the same cases that expects what came out; comments are lost
    #[arg(long, value_name = "FILE.toml", value_hint = clap::ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal module rollback`.
#[derive(ClapArgs)]
pub struct ModuleRollback {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The version, as `peal module list` shows it; the one before, if none is given
    #[arg(value_name = "VERSION", value_parser = whole(1..=u64::MAX))]
    pub to: Option<u64>,
}

/// `peal module bench`.
#[derive(ClapArgs)]
pub struct ModuleBench {
    /// The component, or the directory of a project that has one
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".", value_hint = clap::ValueHint::AnyPath)]
    pub component: PathBuf,
    /// A file of cases
    #[arg(value_name = "CASES", value_hint = clap::ValueHint::FilePath)]
    pub cases: Option<PathBuf>,
    /// The most calls of each case that are measured
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole(1..=10_000_000_u32))]
    pub calls: u32,
    /// End a call that takes more processor time than this, as in 20ms or 2s, from 1ms to 10m
    #[arg(long, value_name = "TIME", value_parser = call_time, default_value = "100ms")]
    pub call_time: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What `limits.call_time_ms` of a module may be.
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
    /// The language
    #[arg(long, value_name = "LANGUAGE", value_parser = PossibleValuesParser::new(Language::ALL.map(Language::name)).try_map(|name| name.parse::<Language>()))]
    pub lang: Language,
    /// What it does; may be given several times
    #[arg(long, value_name = "ROLE", default_value = "event-handler", value_parser = PossibleValuesParser::new(Role::ALL.map(Role::name)).try_map(|name| project::role(&name)))]
    pub role: Vec<Role>,
    /// What it is called
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where it is put, a directory that is not there yet or empty; else one of its name
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `peal module build`.
#[derive(ClapArgs)]
pub struct Build {
    /// The project
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Install tools that are missing: Python and npm packages below the user's cache (or $PEAL_TOOLS), Rust's target by rustup,
    /// Debian's packages where run as root
    #[arg(long)]
    pub install: bool,
}

const INSPECT_HELP: &str = "\
A policy for --policy, in which everything may be left out; what is left out is not restricted:
  roles = [\"event-handler\", \"lifecycle\"]   # the roles that it may fill
  capabilities = [\"logging\", \"wasi\"]       # what it may ask for
  wasi = [\"cli/stdout\", \"io/*\"]            # the interfaces of WASI that it may import
  wit = [\"0.1\"]                            # the versions of peal:pmix that it may be built for
  max_size = 1048576                       # in bytes
  signed_by = [\"RWQf6LRC...\"]              # the public keys of which one must have signed it
docs/src/audit/inspect.md has all of it, and the fields of --json.

Examples:
  peal module inspect quota.wasm
  peal module inspect --scope user quota.wasm
  peal module inspect --policy ci.toml --json quota.wasm

Exit status: 0, with a policy 1 if it asks for more than that allows, 2 if it is no component that Peal can load, 125 if it or the
policy cannot be read.";

/// `peal module inspect`.
#[derive(ClapArgs)]
pub struct Inspect {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    pub file: PathBuf,
    /// The site that is asked what it would grant.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// On which terms it would run as a module that nobody has configured yet: one of the site, one that a user installs, one that
    /// the site gives a job, or one that a job brings
    #[arg(long, value_name = "WHOSE", value_parser = PossibleValuesParser::new(ModuleOwner::ALL.iter().map(|word| word.name())))]
    pub scope: Option<String>,
    /// Say whether this policy accepts it
    #[arg(long, value_name = "FILE.toml", value_hint = clap::ValueHint::FilePath)]
    pub policy: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
