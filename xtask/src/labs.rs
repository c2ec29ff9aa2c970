//! `cargo xtask labs`: labs for work by hand, and the long form of their tests.
use crate::{
    c_programs,
    command::{cargo, run, step},
    needs, test_servers,
};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use peal_labs::{
    CONTROL_NODE, ClientLibrary, DetachedLab, Lab, LabLauncher, LabLibraries, LabSetup, MpirunLab,
    NodeMount, ServerLibrary, SlurmLab, SlurmSettings,
};
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
    time::Instant,
};

const LONG_HELP: &str = "\
A lab is some nodes on this machine, made of namespaces, with a real launcher on them: Slurm, or mpirun of Open MPI 4.1. Each node \
has its own processes, network, host name, /etc, /usr, /var, /tmp, /run and /dev; the rest of the file system is the machine's. \
Nothing on the machine changes. Needs root, and what `cargo xtask prepare` gets.";

const EXAMPLES: &str = "\
Examples:
  cargo xtask labs slurm up                                  nodes n1 to n3, and ctl with the launcher
  cargo xtask labs slurm run -N 3 -n 6 -- target/c/labs/hello_pmix
  cargo xtask labs slurm shell n2                            a shell on a node; srun and others work on ctl
  cargo xtask labs slurm logs n2                             what slurmd and the steps on n2 logged
  cargo xtask labs slurm down
  cargo xtask labs mpirun up --nodes 2
  cargo xtask labs mpirun run -n 4 --map-by node -- target/c/labs/hello_mpi

Peal as the library of Slurm's servers, and of programs:
  cargo xtask libpmix
  cargo xtask labs slurm up --server-library target/libpmix/lib/libpmix.so.2 --client-libraries target/libpmix/lib

Tests, with those that take minutes:
  cargo xtask labs test";

/// Arguments of `cargo xtask labs`.
#[derive(Args)]
#[command(about = "Run jobs over several nodes under Slurm and mpirun", long_about = LONG_HELP, after_help = EXAMPLES)]
pub struct Labs {
    #[command(subcommand)]
    action: LabsAction,
}

#[derive(Subcommand)]
enum LabsAction {
    /// Nodes with Slurm
    Slurm(LabCommand),
    /// Nodes for mpirun of Open MPI 4.1
    Mpirun(LabCommand),
    /// Run the tests of the labs in their long form: many jobs, many ranks, lost nodes
    Test {
        /// Run only tests whose names contain this
        filter: Option<String>,
    },
}

#[derive(Args)]
struct LabCommand {
    /// Name the lab; several can be up at a time
    #[arg(long, default_value = "default", global = true)]
    name: String,
    #[command(subcommand)]
    verb: LabVerb,
}

#[derive(Subcommand)]
enum LabVerb {
    /// Start the nodes and the launcher on them; they stay until `down`
    Up(UpOptions),
    /// Run a job: options of srun or mpirun, `--`, and a program with its arguments
    Run {
        /// Options such as `-N 3 -n 6`, `--`, and the program with its arguments
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            required = true,
            value_name = "OPTIONS -- PROGRAM"
        )]
        words: Vec<String>,
    },
    /// Open a shell on a node, or run a command there
    Shell {
        /// Node; the launcher's commands work on `ctl`
        #[arg(default_value = CONTROL_NODE)]
        node: String,
        /// Command with its arguments
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Print the log of a node's slurmd and steps, or of the controller on `ctl`
    Logs {
        /// Node
        #[arg(default_value = CONTROL_NODE)]
        node: String,
    },
    /// End all processes of the lab
    Down,
}

#[derive(Args)]
struct UpOptions {
    /// Number of nodes, beside the one with the launcher
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
    /// Library of the launcher's servers, instead of the installed libpmix
    #[arg(long, value_name = "FILE")]
    server_library: Option<PathBuf>,
    /// Directory with the libpmix.so.2 of programs, instead of the installed one
    #[arg(long, value_name = "DIR")]
    client_libraries: Option<PathBuf>,
    /// Show a path below /tmp, /run, /etc, /usr, /var or /dev on the nodes; the repository and this
    /// directory always are
    #[arg(long, value_name = "PATH")]
    share: Vec<PathBuf>,
    /// Show a file or directory at another path, on all nodes or on one, as in
    /// `n1:my.toml:/etc/peal/peal.toml`
    #[arg(long, value_name = "[NODE:]PATH:TARGET")]
    mount: Vec<MountArgument>,
    /// Width of Slurm's tree of daemons; below the number of nodes, fences without data wait for
    /// other nodes
    #[arg(long, value_name = "N", default_value_t = 50)]
    tree_width: u32,
    /// Time after which a fence under Slurm fails, in seconds
    #[arg(long, value_name = "SECONDS")]
    fence_timeout: Option<u32>,
}

/// Mount as it is typed.
#[derive(Clone)]
struct MountArgument {
    mount: NodeMount,
}

impl FromStr for MountArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let (node, source, target) = match parts.as_slice() {
            [source, target] => (None, source, target),
            [node, source, target] => (Some((*node).to_owned()), source, target),
            _ => return Err(format!("{text} is not PATH:TARGET or NODE:PATH:TARGET")),
        };
        Ok(MountArgument {
            mount: NodeMount {
                node,
                source: source.into(),
                target: target.into(),
            },
        })
    }
}

impl Labs {
    /// Carries out the command.
    pub fn run(&self, root: &Path) -> Result<()> {
        match &self.action {
            LabsAction::Slurm(command) => command.run(root, LabLauncher::Slurm),
            LabsAction::Mpirun(command) => command.run(root, LabLauncher::Mpirun),
            LabsAction::Test { filter } => test(root, filter.as_deref()),
        }
    }
}

impl LabCommand {
    fn run(&self, root: &Path, launcher: LabLauncher) -> Result<()> {
        let lab = DetachedLab::new(&root.join("target/labs"), launcher, &self.name);
        match &self.verb {
            LabVerb::Up(options) => options.start(root, &lab),
            LabVerb::Run { words } => pass_on(&mut job(lab.open()?, launcher, words)?),
            LabVerb::Shell { node, command } => {
                let lab = lab.open()?;
                let directory = env::current_dir().context("reading the current directory")?;
                let shell = ["bash".to_owned()];
                let words = if command.is_empty() {
                    &shell
                } else {
                    command.as_slice()
                };
                let mut shell = lab.node(node)?.command_in(directory, "env");
                pass_on(shell.args(words))
            }
            LabVerb::Logs { node } => {
                ensure!(
                    launcher == LabLauncher::Slurm,
                    "mpirun and its daemons write to the output of the job"
                );
                print!("{}", SlurmLab { lab: lab.open()? }.log(node)?);
                Ok(())
            }
            LabVerb::Down => {
                let was_up = lab.end()?;
                println!(
                    "{}",
                    if was_up {
                        "the lab is down"
                    } else {
                        "the lab was not up"
                    }
                );
                Ok(())
            }
        }
    }
}

impl UpOptions {
    fn start(&self, root: &Path, lab: &DetachedLab) -> Result<()> {
        let began = Instant::now();
        let absolute = |path: &Path| {
            path.canonicalize()
                .with_context(|| format!("looking for {}", path.display()))
        };
        let server = self.server_library.as_deref().map(absolute).transpose()?;
        let client = self.client_libraries.as_deref().map(absolute).transpose()?;
        let test_servers = test_servers::directory(root);
        let packages = test_servers::slurm_packages(&test_servers);
        ensure!(
            packages.exists(),
            "{} is missing: run `cargo xtask test-servers`",
            packages.display()
        );
        let mut setup = LabSetup::new(self.nodes)
            .with_packages(packages)
            .with_libraries(LabLibraries {
                server: server.map_or(ServerLibrary::Stock, ServerLibrary::File),
                client: client
                    .clone()
                    .map_or(ClientLibrary::Stock, ClientLibrary::Directory),
            })
            .share(root)
            .share(env::current_dir().context("reading the current directory")?);
        for path in self
            .share
            .iter()
            .map(|path| absolute(path))
            .chain(client.map(Ok))
        {
            setup = setup.share(path?);
        }
        for MountArgument { mount } in &self.mount {
            setup = setup.mount(mount.clone());
        }
        let settings = SlurmSettings {
            tree_width: self.tree_width,
            fence_timeout: self.fence_timeout,
            ..SlurmSettings::default()
        };
        println!("starting {} nodes", self.nodes);
        lab.start(setup, &settings)?;
        println!("up after {:.1} s", began.elapsed().as_secs_f32());
        Ok(())
    }
}

/// Returns the command of a job in the current directory.
fn job(lab: Lab, launcher: LabLauncher, words: &[String]) -> Result<Command> {
    let mut parts = words.splitn(2, |word| word == "--");
    let first = parts.next().unwrap_or_default();
    // Without options, `--` comes first and is not among the words.
    let (options, program) = parts
        .next()
        .map_or((&[][..], first), |program| (first, program));
    ensure!(
        program.first().is_some_and(|word| !word.starts_with('-')),
        "put `--` between the options and the program"
    );
    let directory = env::current_dir().context("reading the current directory")?;
    let directory = directory.display().to_string();
    let own = match launcher {
        LabLauncher::Slurm => "--chdir",
        LabLauncher::Mpirun => "--wdir",
    };
    let own = [own.to_owned(), directory];
    let options = own.iter().chain(options);
    match launcher {
        LabLauncher::Slurm => SlurmLab { lab }.srun(options, program),
        LabLauncher::Mpirun => MpirunLab { lab }.mpirun(options, program),
    }
}

/// Runs a command with the streams of this process.
fn pass_on(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::inherit())
        .status()
        .context("running nsenter")?;
    if !status.success() {
        bail!("it ended with {status}");
    }
    Ok(())
}

/// Runs the tests of the labs in their long form.
fn test(root: &Path, filter: Option<&str>) -> Result<()> {
    let programs = step("C programs", || c_programs::build(root))?;
    let test_servers = step("test-servers", || test_servers::get(root))?;
    step("needs of the tests", || needs::record(root))?;
    let mut tests = cargo(root);
    tests
        .env("PEAL_LABS_WHOLE", "1")
        .env("PEAL_TEST_SERVERS", test_servers);
    if let Some(programs) = programs {
        tests.env("PEAL_C_PROGRAMS", programs);
    }
    tests.args(["test", "--package", "peal-tests", "--test", "labs", "--"]);
    step("tests of the labs", || {
        // One at a time: lost nodes are noticed by time-outs.
        run(tests.args(["--test-threads", "1"]).args(filter))
    })
}
