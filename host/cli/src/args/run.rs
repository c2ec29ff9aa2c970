//! Command line of `peal run`.
use super::{Args, ConfigArgs, TraceArgs, log, number::whole, placement::options_behind_verb};
use clap::{
    Args as ClapArgs, Command, CommandFactory, Parser,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParserFactory},
    error::ErrorKind,
};
use peal_config::Keyword;
use peal_core::choice::{BindTo, OnAbort, ProcessorUnit};
use peal_launcher::{OutputFiles, Reported, StdinTarget};
use peal_model::{Key, Rank};
use peal_server::admin::MAX_JOB_SIZE;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    time::Duration,
};

/// Keyword of a package of processors.
const PACKAGE: &str = "package";

pub(super) const RUN_EXAMPLES: &str = "\
A job can have several applications, separated by `:`. Ranks are assigned in this order. Place the options of an application
(-n, -x, --wdir, --pset) before its program, and all other options before the first application.

Exit status: the status of the first proc that ends abnormally, or of PMIx_Abort or MPI_Abort (128 + N: killed by signal N); 124 if
--timeout terminated the job; 125 to 127 as for `peal`.

Examples:
  peal run -n 4 -- ./app
  peal run -n 1 ./master : -n 8 --wdir /scratch ./worker --fast
  peal run -n 4 -x OMP_NUM_THREADS=2 --tag-output --output logs:nocopy --timeout 10m -- ./app < input
  peal run -n 4 --events --handler report.wasm -- ./app --fast
  peal run -n 4 --config peal.toml --on-abort continue -- ./app
  peal run -n 8 --map-by numa --bind-to core --report-bindings -- ./app
  peal run -n 4 --set events.ring_size=2048 -- ./app";

/// `peal run`.
#[derive(ClapArgs)]
pub struct Run {
    /// First application, followed by the words of the others.
    #[command(flatten)]
    pub first: AppArgs,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Handle events of the job with the component FILE.wasm. Repeat for a chain in the given order
    #[arg(long = "handler", value_name = "FILE.wasm")]
    pub handlers: Vec<PathBuf>,
    /// Print starts and ends of procs, events, and the result of each handler on standard error
    #[arg(long)]
    pub events: bool,
    /// Apply ACTION after an abnormal end of a proc: terminate the job, or let the other procs
    /// continue
    #[arg(long, value_name = "ACTION", value_parser = PossibleValuesParser::new(OnAbort::ALL.iter().map(|word| word.name())))]
    pub on_abort: Option<String>,
    /// Bind each proc to the processors of one UNIT: hwthread, core, l3cache, numa, package (or socket), or
    /// none
    #[arg(long, value_name = "UNIT", value_parser = unit_parser::<BindTo>())]
    pub bind_to: Option<String>,
    /// Place bound procs on UNITs by turns: on hwthread, core, l3cache, numa, or package (or socket). Within
    /// it each gets the next unit of --bind-to [default: the unit of --bind-to]
    #[arg(long, value_name = "UNIT", value_parser = unit_parser::<ProcessorUnit>())]
    pub map_by: Option<String>,
    /// Print the processors of each rank on standard error
    #[arg(long)]
    pub report_bindings: bool,
    /// Terminate the job after TIME, in seconds or as in 90s, 10m, 1h30m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    /// Forward standard input to RANK: a rank, all, or none. Other procs read nothing
    #[arg(long, value_name = "RANK", default_value = "0")]
    pub stdin: StdinReader,
    /// Prefix each line of output with the rank
    #[arg(long)]
    pub tag_output: bool,
    /// Write the output of each proc to DIR/rank.N/stdout and DIR/rank.N/stderr. With :nocopy, do
    /// not print it
    #[arg(long, value_name = "DIR[:nocopy]", value_hint = clap::ValueHint::DirPath)]
    pub output: Option<OutputDir>,
    /// Log EVENTS: start and end of the job (job), its end (completion), the end of each proc
    /// (procs), or abnormal ends of procs (failures). Repeat for more
    #[arg(long = "log", value_name = "EVENTS", value_parser = PossibleValuesParser::new(Reported::ALL.map(|(_, word)| word)))]
    pub log: Vec<String>,
    /// Log to CHANNEL, as for `peal log --channel`. Repeat for more channels; default: the channels
    /// of log.order
    #[arg(long = "log-channel", value_name = "CHANNEL", requires = "log", value_parser = log::channel)]
    pub log_channels: Vec<Key>,
}

/// Options of one application of a job.
#[derive(ClapArgs, Clone)]
pub struct AppArgs {
    /// Start N procs (-np and --procs are equivalent)
    #[arg(short = 'n', long = "np", alias = "procs", value_name = "N", default_value_t = 1, value_parser = whole(1..=MAX_JOB_SIZE))]
    pub procs: u32,
    /// Set the environment variable NAME for the procs; without a value, copy it from this
    /// environment. Repeat for more
    #[arg(short = 'x', value_name = "NAME[=VALUE]")]
    pub variables: Vec<Variable>,
    /// Start the procs in the directory DIR
    #[arg(long, alias = "wd", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub wdir: Option<PathBuf>,
    /// Name the set of the procs NAME (PMIX_PSET_NAME)
    #[arg(long, value_name = "NAME")]
    pub pset: Option<String>,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// Application after the first.
#[derive(Parser)]
#[command(name = "peal run ... :", no_binary_name = true)]
struct Another {
    #[command(flatten)]
    app: AppArgs,
}

impl Run {
    /// Returns all applications of the job.
    ///
    /// # Errors
    /// The problem of an application after the first. Clap takes their options for arguments of the
    /// first program, so they are parsed here.
    pub fn apps(&self) -> Result<Vec<AppArgs>, clap::Error> {
        let mut parts = self.first.program.split(|word| word == ":");
        let program = parts.next().unwrap_or_default().to_vec();
        if program.is_empty() {
            return Err(missing("before the first `:`"));
        }
        let first = AppArgs {
            program,
            ..self.first.clone()
        };
        std::iter::once(Ok(first))
            .chain(parts.map(another))
            .collect()
    }
}

/// Parses the keyword of a unit of processors. A package may be called socket, as `mpirun` does.
fn unit_parser<T: Keyword + Send + Sync>() -> impl TypedValueParser<Value = String> {
    let values = T::ALL.iter().map(|unit| match unit.name() {
        PACKAGE => PossibleValue::new(PACKAGE).alias("socket"),
        name => PossibleValue::new(name),
    });
    PossibleValuesParser::new(values).map(|word| match word.as_str() {
        "socket" => PACKAGE.to_owned(),
        _ => word,
    })
}

fn another(words: &[OsString]) -> Result<AppArgs, clap::Error> {
    if words.is_empty() {
        return Err(missing("behind `:`"));
    }
    Ok(Another::try_parse_from(as_options(&Another::command(), words.iter().cloned()))?.app)
}

fn missing(place: &str) -> clap::Error {
    let wrong =
        format!("a program is needed {place}, as in `peal run -n 1 ./master : -n 8 ./worker`\n");
    Args::command().error(ErrorKind::MissingRequiredArgument, wrong)
}

/// Normalizes a command line for its parser. Options before the command move after it, and `-np`,
/// which `mpirun` accepts, becomes `--np`.
pub fn normalize_np(args: &Command, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words = options_behind_verb(args, words);
    if words.get(1).is_some_and(|verb| verb == "run")
        && let Some(run) = args.find_subcommand("run")
    {
        // The options that all commands share are added when clap parses.
        let run = TraceArgs::augment_args(run.clone());
        let rest = words.split_off(2);
        words.extend(as_options(&run, rest.into_iter()));
    }
    words
}

/// Normalizes the words after the command, up to the program. Its arguments are unchanged.
fn as_options(command: &Command, mut words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut spelled = Vec::new();
    while let Some(word) = words.next() {
        // clap would read this as `-n` with the value `p`.
        if word == "-np" {
            spelled.push("--np".into());
            spelled.extend(words.next());
        } else if word.as_bytes().starts_with(b"-") && word != "--" {
            let takes_next = takes_next(command, &word);
            spelled.push(word);
            spelled.extend(takes_next.then(|| words.next()).flatten());
        } else {
            spelled.push(word);
            break;
        }
    }
    spelled.extend(words);
    spelled
}

/// Returns true if the value of an option is the next word.
pub(super) fn takes_next(command: &Command, word: &OsStr) -> bool {
    // The names of options are ASCII.
    let Some(text) = word.to_str() else {
        return false;
    };
    let is_it = |arg: &&clap::Arg| match text.strip_prefix("--") {
        // `--option=VALUE` equals no name, and has its value in the same word.
        Some(long) => {
            arg.get_long_and_visible_aliases()
                .unwrap_or_default()
                .contains(&long)
                || arg.get_all_aliases().unwrap_or_default().contains(&long)
        }
        None => arg.get_short().is_some_and(|short| {
            // A short option alone: in `-nVALUE` the value is in the same word.
            text.strip_prefix('-')
                .is_some_and(|rest| rest.chars().eq([short]))
        }),
    };
    command
        .get_arguments()
        .find(is_it)
        .is_some_and(|arg| arg.get_action().takes_values())
}

/// Environment variable for the procs.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Name of the variable.
    pub name: OsString,
    /// Value. None means that of this process.
    pub value: Option<OsString>,
}

impl ValueParserFactory for Variable {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> clap::builder::ValueParser {
        clap::builder::ValueParser::new(|text: &str| -> Result<Variable, String> {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.into())),
                None => (text, None),
            };
            match name {
                "" => Err("it should be a name, as in -x NAME or -x NAME=VALUE".to_owned()),
                name => Ok(Variable {
                    name: name.into(),
                    value,
                }),
            }
        })
    }
}

/// Procs that receive the standard input of `peal`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StdinReader(pub StdinTarget);

impl std::str::FromStr for StdinReader {
    type Err = String;

    fn from_str(text: &str) -> Result<StdinReader, String> {
        match text {
            "all" => Ok(StdinReader(StdinTarget::All)),
            "none" => Ok(StdinReader(StdinTarget::NoRank)),
            rank => match rank.parse() {
                Ok(rank) => Ok(StdinReader(StdinTarget::Rank(Rank(rank)))),
                Err(_) => Err("it should be a rank, all or none".to_owned()),
            },
        }
    }
}

/// Directory for output files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputDir(pub OutputFiles);

impl std::str::FromStr for OutputDir {
    type Err = String;

    fn from_str(text: &str) -> Result<OutputDir, String> {
        let (dir, kept): (&str, fn(PathBuf) -> OutputFiles) = match text.strip_suffix(":nocopy") {
            Some(dir) => (dir, OutputFiles::Only),
            None => (text, OutputFiles::Too),
        };
        if dir.is_empty() {
            Err("it should be a directory".to_owned())
        } else {
            Ok(OutputDir(kept(dir.into())))
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    let time = seconds.or_else(|| humantime::parse_duration(text).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| "it should be a time, as in 90, 90s, 10m or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Vec<AppArgs>, clap::Error> {
        let words = line.split(' ').map(OsString::from);
        let args = Args::try_parse_from(normalize_np(&Args::command(), words))?;
        let super::super::PealCommand::Run(run) = args.command else {
            panic!("{line}")
        };
        run.apps()
    }

    #[test]
    fn applications_are_separated_and_each_has_options_of_its_own() {
        let apps = run(
            "peal run -np 2 --tag-output -x A=1 ./one -n 7 : -np 3 --wdir /tmp -x B ./two : three",
        )
        .unwrap();
        let app_args: Vec<_> = apps
            .iter()
            .map(|app| (app.procs, app.program.join(OsStr::new(" "))))
            .collect();
        assert_eq!(
            app_args,
            [
                (2, "./one -n 7".into()),
                (3, "./two".into()),
                (1, "three".into())
            ]
        );
        assert_eq!(apps[1].wdir.as_deref(), Some(std::path::Path::new("/tmp")));
        assert_eq!(
            (
                apps[0].variables[0].value.as_deref(),
                apps[1].variables[0].value.as_deref()
            ),
            (Some(OsStr::new("1")), None)
        );
    }

    #[test]
    fn np_is_an_option_before_the_program_only() {
        let of = |line| {
            run(line)
                .map(|apps| (apps[0].procs, apps[0].program.clone()))
                .unwrap()
        };
        assert_eq!(
            of("peal run --pset np -x A -np 4 prog"),
            (4, vec!["prog".into()]),
            "the name of a file may be anything"
        );
        assert_eq!(
            of("peal run prog -np 4"),
            (1, ["prog", "-np", "4"].map(OsString::from).to_vec())
        );
        assert_eq!(of("peal run -np 4 -- -np"), (4, vec!["-np".into()]));
        assert_eq!(of("peal run --procs 3 prog").0, 3);
    }

    #[test]
    fn invalid_options_are_refused_with_reason() {
        for (line, word) in [
            ("peal run -n 2 prog :", "behind `:`"),
            ("peal run -n 2 : prog", "before the first `:`"),
            (
                "peal run prog : -n 0 other",
                "it should be a whole number from 1 to 65535",
            ),
            ("peal run prog : --tag-output other", "--tag-output"),
            ("peal run --timeout soon prog", "90s"),
            ("peal run --timeout 0 prog", "90s"),
            ("peal run --stdin some prog", "all or none"),
            ("peal run -x =1 prog", "-x NAME"),
            ("peal run --output :nocopy prog", "directory"),
        ] {
            let told = run(line).map(|_| ()).unwrap_err().to_string();
            assert!(told.contains(word), "{line}: {told}");
        }
    }
}
