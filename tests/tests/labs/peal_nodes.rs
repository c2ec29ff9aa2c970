//! Nodes that have Peal's library in the place of the installed one, Peal's command, and a configuration.
use super::placement::path_of;
use peal_tests::{
    Done, finish,
    labs::{
        COMMAND, CONFIG, CONTROL_NODE, ClientLibrary, LabLibraries, LabNode, LabSetup, NodeMount,
        ProbedLab, ServerLibrary, SlurmLab, SlurmSettings, lab_setup, wait_until,
    },
    program, provided, root, run, until,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

/// Directory with Peal's library.
pub fn libraries() -> PathBuf {
    let directory = root().join("target/libpmix/lib");
    provided(directory.join("libpmix.so.2"));
    directory
}

/// Returns Peal's library for Slurm's servers, with this library for programs.
pub fn peal_servers(client: ClientLibrary) -> LabLibraries {
    LabLibraries {
        server: ServerLibrary::File(libraries().join("libpmix.so.2")),
        client,
    }
}

/// Describes nodes that have Peal's library, its command, and this configuration.
pub fn peal_setup(nodes: u32, libraries: &LabLibraries, config: &Path) -> LabSetup {
    let file = |source: &Path, target: &str| NodeMount {
        node: None,
        source: source.to_owned(),
        target: target.into(),
    };
    lab_setup(nodes, libraries)
        .mount(file(&program("peal"), COMMAND))
        .mount(file(config, CONFIG))
}

/// Starts Slurm on nodes that have Peal's library, its command, and this configuration.
pub fn start(nodes: u32, libraries: &LabLibraries, config: &Path) -> SlurmLab {
    let setup = peal_setup(nodes, libraries, config);
    SlurmLab::start(setup, &SlurmSettings::default()).unwrap()
}

/// Returns the nodes with procs.
pub fn nodes_of(lab: &SlurmLab) -> impl Iterator<Item = &LabNode> {
    lab.lab.nodes().filter(|node| node.name() != CONTROL_NODE)
}

/// Configuration in a file of its own.
pub struct Configuration {
    directory: tempfile::TempDir,
}

impl Configuration {
    pub fn new(text: &str) -> Configuration {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("peal.toml"), text).unwrap();
        Configuration { directory }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("peal.toml")
    }
}

/// `peal serve` on each node but the launcher's. They end with their nodes.
pub struct Daemons {
    _servers: Vec<Child>,
}

impl Daemons {
    pub fn start(lab: &SlurmLab) -> Daemons {
        let servers = nodes_of(lab).map(|node| {
            let mut command = node.command(COMMAND);
            command
                .arg("serve")
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            let server = command.spawn().unwrap();
            until("the node's server listens", || {
                node.path("/run/peal/hosts.sock").exists()
            });
            server
        });
        Daemons {
            _servers: servers.collect(),
        }
    }
}

/// Runs `peal` on a node.
pub fn peal_on(lab: &SlurmLab, node: &str, args: &[&str]) -> Done {
    run(lab.lab.node(node).unwrap().command(COMMAND).args(args))
}

/// Returns the processes of a node with this name.
pub fn processes(node: &LabNode, name: &str) -> Vec<String> {
    let done = run(node.command("pgrep").args(["-x", name]));
    done.stdout.lines().map(str::to_owned).collect()
}

/// Sends a signal, such as `KILL`, to a process of a node.
pub fn signal(node: &LabNode, signal: &str, process: &str) {
    run(node.command("kill").args(["-s", signal, process])).expect_status(0);
}

/// Job with two procs on each node, which wait until something ends them.
pub struct WaitingJob {
    srun: Child,
}

impl WaitingJob {
    /// Starts the job, and waits until all procs run. The name is that of no other job of the lab.
    pub fn start(lab: &SlurmLab, name: &str) -> WaitingJob {
        WaitingJob::run(lab, "wait", name)
    }

    /// Starts the job whose procs create the file `NAME.RANK.heard` at their first event.
    pub fn listening(lab: &SlurmLab, name: &str) -> WaitingJob {
        WaitingJob::run(lab, "listen", name)
    }

    fn run(lab: &SlurmLab, probe: &str, name: &str) -> WaitingJob {
        WaitingJob::of_program(lab, &[path_of("probe_pmix"), probe.to_owned()], name)
    }

    /// Starts the job of a program that takes the path of a file last, and creates `FILE.RANK`.
    pub fn of_program(lab: &SlurmLab, program: &[String], name: &str) -> WaitingJob {
        let file = format!("/run/lab/shared/{name}");
        let words = [program, &[file]].concat();
        let mut srun = lab.job(2, &words);
        let srun = srun.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let running = |rank| lab.lab.path(format!("shared/{name}.{rank}")).exists();
        until("all procs run", || {
            (0..2 * nodes_of(lab).count()).all(running)
        });
        WaitingJob {
            srun: srun.unwrap(),
        }
    }

    /// Waits for the end of the job.
    pub fn end(self) -> Done {
        finish(self.srun)
    }
}

/// Directories in which jobs and their servers keep files.
const DIRECTORIES: [&str; 5] = [
    "/tmp",
    "/dev/shm",
    "/run/peal",
    "/run/peal-launchers",
    "/var/spool/slurmd",
];

/// Beginnings of the names of files that belong to no job and to no server.
const LASTING_FILES: [&str; 4] = ["cred_state", "hwloc_topo", "peal-0", ".peal.lock"];

/// Names of processes that belong to no job and to no server of Peal's.
const LASTING_PROCESSES: [&str; 3] = ["bash", "munged", "slurmd"];

/// Waits until no process and no file of a job, or of a server, is left on any node.
pub fn wait_for_no_traces(lab: &SlurmLab) {
    let left = || {
        let mut all = String::new();
        for node in nodes_of(lab) {
            let mut left = processes_of_jobs(node);
            let repository = node.path(root());
            for directory in DIRECTORIES {
                add_files(&node.path(directory), &repository, &mut left);
            }
            let lines = left.iter().map(|left| format!("{}: {left}\n", node.name()));
            all.extend(lines);
        }
        Ok(Some(all).filter(|all| !all.is_empty()))
    };
    wait_until("nothing is left of jobs", left).unwrap();
}

/// Returns the names of the processes of jobs and servers on a node.
pub fn processes_of_jobs(node: &LabNode) -> Vec<String> {
    let entries = fs::read_dir(node.path("/proc")).unwrap();
    let names = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        // A process may end meanwhile.
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        Some(name.trim_end().to_owned())
    });
    names
        .filter(|name| !LASTING_PROCESSES.contains(&name.as_str()))
        .collect()
}

/// Adds the paths of files of jobs and servers below a directory, which may be removed meanwhile. Nodes see the
/// repository, which may be in there.
fn add_files(directory: &Path, repository: &Path, left: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path == repository {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut lasting = LASTING_FILES.iter();
        let is_lasting = lasting.any(|beginning| name.starts_with(beginning));
        if !is_lasting && !repository.starts_with(&path) {
            left.push(path.display().to_string());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_files(&path, repository, left);
        }
    }
}
