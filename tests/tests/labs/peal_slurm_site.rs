//! Modules of a site under Slurm: policies, a handler, a log channel, the audit trail, and their replacement while a job
//! runs.
use super::{
    peal_nodes::{Configuration, Daemons, peal_on, peal_servers, start},
    placement::path_of,
};
use peal_needs::needs;
use peal_tests::{
    finish, guest,
    labs::{
        ClientLibrary, ExpectedExit, LabNode, PROBE_NODES, ProbeCase, ProbeOutcome, ProbedLab,
        RankLine, SlurmLab, check_probes, run_in_lab,
    },
    root, test_servers, until,
};
use std::{
    fs,
    process::{Child, Stdio},
};

/// Log of a node's syslog.
pub const SYSLOG: &str = "/var/log/syslog";

/// Probes of jobs on nodes with the modules of [`site`].
const SITE: [ProbeCase; 5] = [
    // Slurm's own answer to a spawn is NOT-SUPPORTED.
    ProbeCase {
        probe: "spawn 3",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "spawn INSUFFICIENT RESOURCES")]),
    },
    ProbeCase {
        probe: "lines 2",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "log SUCCESS")]),
    },
    ProbeCase {
        probe: "lines 200",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "log RESOURCE-BUSY")]),
    },
    ProbeCase {
        probe: "events 20",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "notify RESOURCE-BUSY")]),
    },
    // Rank 2 is on the second node.
    ProbeCase {
        probe: "abort 2",
        outcome: ProbeOutcome::IsEnded(ExpectedExit::Status(7)),
    },
];

/// Decision about a job of a probe, as `peal audit list` shows it.
#[derive(Clone, Copy, Debug)]
struct ListedDecision {
    /// Number of the probe in [`SITE`].
    probe: u32,
    hook: &'static str,
    outcome: &'static str,
    policy: &'static str,
}

/// Decisions on the node of rank 0.
const DECISIONS: [ListedDecision; 4] = [
    ListedDecision {
        probe: 0,
        hook: "spawn",
        outcome: "denied:PMIX_ERR_JOB_INSUFFICIENT_RESOURCES",
        policy: "policy \"spawn-limit\"",
    },
    ListedDecision {
        probe: 1,
        hook: "log",
        outcome: "granted",
        policy: "the default",
    },
    ListedDecision {
        probe: 2,
        hook: "log",
        outcome: "denied:PMIX_ERR_RESOURCE_BUSY",
        policy: "policy \"log-limit\"",
    },
    ListedDecision {
        probe: 3,
        hook: "event",
        outcome: "denied:PMIX_ERR_RESOURCE_BUSY",
        policy: "policy \"quota\"",
    },
];

/// Returns a configuration with policies about spawns, log requests and events, a handler of abnormal ends that logs them, a log
/// channel for syslog, and a trail.
fn site() -> Configuration {
    let [spawn_limit, log_limit, quota, log_abort, syslog] =
        ["spawn-limit", "log-limit", "quota", "log-abort", "syslog"].map(guest);
    Configuration::new(&format!(
        r#"
[hosts]
socket = "/run/peal/hosts.sock"
[store]
path = "/var/lib/peal-store.db"
[audit]
path = "/var/lib/peal-audit.db"
on_failure = "deny"
[sandbox]
cache_dir = {cache:?}
[[sink]]
name = "local-syslog"
syslog.address = "unix:/dev/log"
[[module]]
name = "spawn-limit"
path = {spawn_limit:?}
config = {{ procs = 2 }}
[[module]]
name = "log-limit"
path = {log_limit:?}
grants = ["clock", "state"]
config = {{ per_minute = 100, exempt = "65534" }}
[[module]]
name = "quota"
path = {quota:?}
grants = ["clock", "state"]
config = {{ event = 10, exempt = "65534" }}
[[module]]
name = "log-abort"
path = {log_abort:?}
grants = ["log-request"]
config = {{ ends = "all", log = "syslog" }}
[[module]]
name = "syslog"
path = {syslog:?}
channels = ["local_syslog", "syslog"]
sinks = ["local-syslog"]
grants = ["sink", "clock"]
config = {{ local_format = "rfc3164" }}
"#,
        cache = root().join("target/test-cache/labs"),
    ))
}

/// rsyslog on a node, as the system's log. It ends with its node.
pub struct NodeSyslog {
    _rsyslog: Child,
}

/// Starts rsyslog on a node, and waits until it listens.
pub fn start_syslog(node: &LabNode) -> NodeSyslog {
    const CONFIG: &str = "/etc/rsyslog.conf";
    let lines = format!("module(load=\"imuxsock\")\naction(type=\"omfile\" file=\"{SYSLOG}\")\n");
    node.write(CONFIG, lines).unwrap();
    let unpacked = test_servers().join("rsyslog/usr");
    let libraries = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let libraries = unpacked.join(libraries);
    let rsyslog = node
        .command("env")
        .arg(format!("LD_LIBRARY_PATH={}", libraries.display()))
        .arg(unpacked.join("sbin/rsyslogd"))
        .args(["-n", "-f", CONFIG, "-i", "/run/rsyslogd.pid", "-M"])
        .arg(libraries.join("rsyslog"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("rsyslog listens", || node.path("/dev/log").exists());
    NodeSyslog { _rsyslog: rsyslog }
}

/// Runs the probes of the site, of which the first is this job of Slurm, and looks at their traces.
fn check_site(lab: &SlurmLab, first_job: u32) {
    let job = |probe: u32| format!("slurm.pmix.{}.0", first_job + probe);
    check_probes(lab, &SITE);
    let [n1, n2] = ["n1", "n2"].map(|name| lab.lab.node(name).unwrap());
    let is_logged = |node: &LabNode, text: String| {
        until(
            &format!("{text:?} is in the syslog of {}", node.name()),
            || node.read(SYSLOG).is_ok_and(|log| log.contains(&text)),
        );
    };
    is_logged(n1, format!("{}[0]: line\n", job(1)));
    // The handler on the second node saw the abort, and logged it.
    is_logged(n2, format!("{}:2 has ended abnormally\n", job(4)));
    let list = |node, job: &str, kind| {
        let listed = ["audit", "list", "-n", "0", "--job", job, "--kind", kind];
        peal_on(lab, node, &listed).expect_status(0).stdout
    };
    for decision in DECISIONS {
        let listed = list("n1", &job(decision.probe), "decision");
        let parts = [decision.hook, decision.outcome, decision.policy];
        let is_there = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(listed.lines().any(is_there), "{decision:?}:\n{listed}");
    }
    let calls = list("n2", &job(4), "call");
    for module in ["log-abort", "syslog"] {
        assert!(calls.contains(module), "{module}: {calls}");
    }
}

#[needs(slurm_lab, rsyslog)]
#[test]
fn modules_of_the_site_decide_log_and_leave_a_trail() {
    let config = site();
    let libraries = peal_servers(ClientLibrary::Stock);
    let lab = start(PROBE_NODES, &libraries, &config.path());
    let _syslogs = ["n1", "n2"].map(|name| start_syslog(lab.lab.node(name).unwrap()));
    // First with servers that Slurm starts, then with those of the nodes.
    check_site(&lab, 1);
    let _daemons = Daemons::start(&lab);
    check_site(&lab, 1 + u32::try_from(SITE.len()).unwrap());
    let handled = ["audit", "list", "-n", "0", "--module", "log-abort"];
    let handled = peal_on(&lab, "n2", &handled).expect_status(0);
    let events = handled.stdout.matches("event PMIX_ERR_PROC_TERM_WO_SYNC");
    // Two procs of each of the two aborted jobs.
    assert_eq!(events.count(), 4, "{}", handled.stdout);
    for node in ["n1", "n2"] {
        let verified = peal_on(&lab, node, &["audit", "verify"]).expect_status(0);
        assert!(verified.stdout.contains("as it was written"), "{node}");
        let replayed = peal_on(&lab, node, &["audit", "replay"]).expect_status(0);
        assert!(replayed.stdout.contains(" 0 differ"), "{}", replayed.stdout);
    }
}

/// Waits until `peal ps` on a node lists the four procs of a job, and processes of two of them: those
/// that have connected.
fn check_list(lab: &SlurmLab, node: &str, job: &str, with_process: [u32; 2]) {
    let places = [(0, "n1"), (1, "n1"), (2, "n2"), (3, "n2")];
    until(&format!("{node} lists its processes"), || {
        let listed = peal_on(lab, node, &["ps", job, "-o", "json"]).expect_status(0);
        let jobs: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let procs = jobs[0]["procs"].as_array().unwrap();
        assert_eq!(procs.len(), places.len(), "{procs:?}");
        procs.iter().zip(places).all(|(proc, (rank, place))| {
            assert_eq!(proc["rank"], rank, "{proc}");
            assert_eq!(proc["node"], place, "{proc}");
            let is_running = proc["state"] == "running" && proc["pid"].is_u64();
            is_running == with_process.contains(&rank)
        })
    });
}

#[needs(slurm_lab)]
#[test]
fn running_job_is_listed_and_meets_a_replaced_module() {
    let quota = guest("quota");
    let config = Configuration::new(&format!(
        "[hosts]\nsocket = \"/run/peal/hosts.sock\"\n[store]\npath = \"/var/lib/peal-store.db\"\n\
         [confinement]\nread_only_paths = [{:?}]\n",
        quota.parent().unwrap()
    ));
    let lab = start(2, &peal_servers(ClientLibrary::Stock), &config.path());
    let n1 = lab.lab.node("n1").unwrap();
    let write_module = |events: u32| {
        let module = format!(
            "name = \"quota\"\npath = {quota:?}\ngrants = [\"clock\", \"state\"]\n\
             config = {{ event = {events}, exempt = \"65534\" }}\n"
        );
        n1.write("/etc/peal/modules.d/quota.toml", module).unwrap();
    };
    // More than the job raises in all.
    write_module(1000);
    let _daemons = Daemons::start(&lab);
    let shared = lab.lab.path("shared");
    let words = [
        path_of("probe_pmix").as_str(),
        "replaced",
        "20",
        "/run/lab/shared/replaced",
    ]
    .map(str::to_owned);
    let job = lab
        .job(2, &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the first events are raised", || {
        shared.join("replaced").exists()
    });
    // Each server knows the processes of its own node.
    check_list(&lab, "n1", "slurm.pmix.1.0", [0, 1]);
    check_list(&lab, "n2", "slurm.pmix.1.0", [2, 3]);
    write_module(10);
    peal_on(&lab, "n1", &["module", "reload"]).expect_status(0);
    fs::write(shared.join("replaced.go"), "").unwrap();
    let done = finish(job).expect_status(0);
    let lines = done.by_rank();
    let notified: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("rank 0: notify "))
        .collect();
    assert_eq!(notified, ["SUCCESS", "RESOURCE-BUSY"], "{lines:?}");
}

#[needs(slurm_lab, rsyslog)]
#[test]
fn reason_of_a_server_that_does_not_start_is_in_syslog() {
    let config =
        Configuration::new("[[module]]\nname = \"none\"\npath = \"/etc/peal/none.wasm\"\n");
    let lab = start(1, &peal_servers(ClientLibrary::Stock), &config.path());
    let n1 = lab.lab.node("n1").unwrap();
    let _syslog = start_syslog(n1);
    // Slurm's own status of a launch that failed is 0.
    let done = run_in_lab(&lab, 1, "hello_pmix");
    assert_eq!(done.stdout, "", "{done:?}");
    for text in [
        "peal: ",
        "/etc/peal/none.wasm",
        "libpmix: PMIx_server_init: ",
    ] {
        until(&format!("{text:?} is in syslog"), || {
            n1.read(SYSLOG).is_ok_and(|log| log.contains(text))
        });
    }
}
