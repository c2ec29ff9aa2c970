//! Topology of this node, as hwloc describes it. Procs get it with the data of their job. Without it each
//! proc discovers it by itself, which takes longer than all else in the start of an MPI program.
use peal_model::Text;
use std::{
    env, fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};
use tempfile::NamedTempFile;
use thiserror::Error;

/// Programs of hwloc that print a topology. The second one has graphics and is not on all nodes.
const PROGRAMS: [&str; 2] = ["lstopo-no-graphics", "lstopo"];

/// Maximum time of the discovery.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Maximum size of a topology, in bytes. That of a node with 1,024 processors has 1 MB.
const MAX_BYTES: u64 = 16 << 20;

/// Time after which a kept topology is discovered again: devices come and go.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Text that all topologies of hwloc 2 have, and no others. Readers of other releases do not read it.
const RELEASE: &str = "<topology version=\"2.";

/// Files that the topology depends on. A kept topology begins with their contents.
const SCOPE: [&str; 3] = [
    "/proc/sys/kernel/random/boot_id",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/online",
];

/// Lines of `/proc/self/status` that it depends on.
const STATUS_LINES: [&str; 2] = ["Cpus_allowed_list:", "Mems_allowed_list:"];

/// Beginning of the names of variables by which users change what hwloc finds.
const VARIABLES: &str = "HWLOC_";

/// End of the scope in a kept topology.
const SCOPE_END: &str = "\n--\n";

/// Reason because of which procs get no topology.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// hwloc's programs are not installed.
    #[error("none of {PROGRAMS:?} is in PATH; install hwloc-nox or hwloc")]
    Missing,
    /// The program could not be run.
    #[error("running {program}: {source}")]
    Run {
        /// Program.
        program: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The program did not end in time.
    #[error("{program} did not end within {TIME_LIMIT:?}")]
    Late {
        /// Program.
        program: &'static str,
    },
    /// The program printed something else than a topology of hwloc 2.
    #[error("{program} printed no topology of hwloc 2 of at most {MAX_BYTES} bytes")]
    Format {
        /// Program.
        program: &'static str,
    },
}

/// Returns the topology of this node: the one that is kept in `directory`, or a new one, which is kept
/// there.
///
/// # Errors
///
/// Says why there is none. A topology that cannot be kept is no error.
pub fn node_topology(directory: Option<&Path>, hostname: &str) -> Result<Text, TopologyError> {
    let kept = directory.map(|directory| KeptTopology {
        // Home directories are shared by the nodes of a cluster.
        path: directory.join(format!("{}.xml", hostname.replace('/', "_"))),
        scope: scope(),
    });
    if let Some(xml) = kept.as_ref().and_then(KeptTopology::read) {
        return Ok(xml.as_str().into());
    }
    let xml = discover()?;
    if let Some(kept) = kept
        && let Err(error) = kept.write(&xml)
    {
        tracing::debug!(path = %kept.path.display(), %error, "topology of node not kept");
    }
    Ok(xml.as_str().into())
}

/// File with a topology, and what it must begin with.
struct KeptTopology {
    path: PathBuf,
    scope: String,
}

impl KeptTopology {
    fn read(&self) -> Option<String> {
        let file = fs::File::open(&self.path).ok()?;
        let written = file.metadata().ok()?.modified().ok()?;
        // A file from the future is not taken either: a clock was wrong.
        let age = SystemTime::now().duration_since(written).ok()?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let xml = text.strip_prefix(&self.scope)?.strip_prefix(SCOPE_END)?;
        (age < MAX_AGE && is_topology(xml)).then(|| xml.to_owned())
    }

    /// Writes the file as a whole: other jobs read it.
    fn write(&self, xml: &str) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut file = NamedTempFile::new_in(directory)?;
        for part in [&self.scope, SCOPE_END, xml] {
            file.write_all(part.as_bytes())?;
        }
        file.persist(&self.path)?;
        Ok(())
    }
}

/// Returns what the topology depends on.
fn scope() -> String {
    let files = SCOPE.map(|path| fs::read_to_string(path).unwrap_or_default());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of_process = status
        .lines()
        .filter(|line| STATUS_LINES.iter().any(|name| line.starts_with(name)));
    let mut variables: Vec<String> = env::vars_os()
        .filter(|(name, _)| name.to_string_lossy().starts_with(VARIABLES))
        .map(|variable| format!("{variable:?}"))
        .collect();
    variables.sort();
    files
        .iter()
        .map(|text| text.trim())
        .chain(of_process)
        .chain(variables.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Lets a program of hwloc discover the topology.
fn discover() -> Result<String, TopologyError> {
    for program in PROGRAMS {
        let started = Command::new(program)
            .args(["--of", "xml"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => return printed(program, child),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(TopologyError::Run { program, source }),
        }
    }
    Err(TopologyError::Missing)
}

/// Waits for the topology that a program prints. Ends the program if it takes too long.
fn printed(program: &'static str, mut child: Child) -> Result<String, TopologyError> {
    let output = child.stdout.take();
    let (sender, text) = mpsc::channel();
    // The thread ends with the program. Programs that it leaves behind may keep the thread, not the caller.
    thread::spawn(move || {
        let mut text = String::new();
        let read = output.map(|output| output.take(MAX_BYTES).read_to_string(&mut text));
        // The caller may no longer wait.
        let _ = sender.send(read.transpose().map(|_| text));
    });
    let text = text.recv_timeout(TIME_LIMIT);
    let of_run = |source| TopologyError::Run { program, source };
    // It has nothing more to do, and may live on all the same. An error means that it has just ended.
    let _ = child.kill();
    child.wait().map_err(of_run)?;
    let text = text
        .map_err(|_| TopologyError::Late { program })?
        .map_err(of_run)?;
    if is_topology(&text) {
        Ok(text)
    } else {
        Err(TopologyError::Format { program })
    }
}

/// Returns true for a whole topology of hwloc 2.
fn is_topology(text: &str) -> bool {
    text.contains(RELEASE) && text.trim_end().ends_with("</topology>")
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n</topology>\n";

    fn kept(directory: &Path, scope: &str) -> KeptTopology {
        KeptTopology {
            path: directory.join("new/node.xml"),
            scope: scope.to_owned(),
        }
    }

    #[test]
    fn topology_is_kept_for_the_same_processors_for_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let own = kept(directory.path(), "boot 1\ncpus 0-3");
        assert_eq!(own.read(), None);
        own.write(XML).unwrap();
        assert_eq!(own.read().as_deref(), Some(XML));
        for other in ["boot 1\ncpus 0-1", "boot 1\ncpus 0-31", "boot 2\ncpus 0-3"] {
            assert_eq!(kept(directory.path(), other).read(), None, "{other}");
        }
        let file = fs::File::options().write(true).open(&own.path).unwrap();
        let moments = [
            SystemTime::now() - MAX_AGE,
            SystemTime::now() + Duration::from_secs(3600),
        ];
        for moment in moments {
            file.set_modified(moment).unwrap();
            assert_eq!(own.read(), None, "{moment:?}");
        }
        own.write("<topology version=\"2.0\">\n").unwrap();
        assert_eq!(own.read(), None, "a part of a topology");
    }

    #[test]
    fn topology_of_another_release_is_refused() {
        assert!(is_topology(XML));
        assert!(!is_topology(&XML.replace("2.0", "3.0")));
        assert!(!is_topology("<topology>\n</topology>"), "release 1");
    }

    fn printed_by(script: &str) -> Result<String, TopologyError> {
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).stdout(Stdio::piped()).spawn();
        printed("lstopo", child.unwrap())
    }

    #[test]
    fn program_that_prints_something_else_is_named() {
        let refused = "lstopo printed no topology of hwloc 2 of at most 16777216 bytes";
        for script in ["echo Machine", "yes"] {
            let error = printed_by(script).unwrap_err();
            assert_eq!(error.to_string(), refused, "{script}");
        }
    }

    #[test]
    fn program_that_closes_its_output_and_lives_on_is_ended() {
        let script = format!("echo '{XML}'; exec >&-; exec sleep 1000");
        assert_eq!(printed_by(&script).unwrap(), XML.to_owned() + "\n");
    }
}
