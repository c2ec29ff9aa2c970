//! Jobs of Slurm on nodes whose servers meet on NATS: what Slurm does not carry between nodes reaches the other nodes.
use super::{
    peal_nodes::{WaitingJob, nodes_of, peal_on, peal_servers, processes, signal},
    peal_slurm_site::{SYSLOG, start_syslog},
};
use peal_needs::needs;
use peal_tests::{
    Done, c_program, guest,
    labs::{
        CONTROL_NODE, ClientLibrary, ClusterOptions, ClusterPrograms, JOB_LIMIT, LabNode,
        ProbeCase, ProbeOutcome, ProbedLab, RankLine, SlurmCluster, check_probes_on, lab_setup,
    },
    nats_site::nats_server,
    peal, program, run, run_within, until,
};

/// Number of nodes with servers.
const NODES: u32 = 4;

/// Node that writes to syslog for the others.
const GATEWAY: &str = "n4";

/// Starts the nodes and the servers with these options, and waits until these have met.
fn start(options: &ClusterOptions<'_>) -> SlurmCluster {
    let programs = ClusterPrograms {
        peal: program("peal"),
        nats_server: nats_server(),
    };
    let setup = lab_setup(NODES, &peal_servers(ClientLibrary::Stock));
    SlurmCluster::start(setup, &programs, options).unwrap()
}

/// Returns the options of a node's server.
fn gateway(node: &LabNode) -> Vec<&'static str> {
    if node.name() == GATEWAY {
        vec!["--set", "server.gateway=true"]
    } else {
        Vec::new()
    }
}

/// Probes of what Slurm carries for nobody. That of the session comes last: later jobs of the user hear its event, too.
const CLUSTER: [ProbeCase; 5] = [
    ProbeCase {
        probe: "event namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
    ProbeCase {
        probe: "late namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
    ProbeCase {
        probe: "group",
        outcome: ProbeOutcome::Completes(&[RankLine::of_ranks(0, 7, "construct SUCCESS")]),
    },
    ProbeCase {
        probe: "publish",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "publish SUCCESS"),
            RankLine::of(7, "lookup SUCCESS"),
        ]),
    },
    ProbeCase {
        probe: "event session all FILE",
        outcome: HEARD_BY_ALL,
    },
];

/// Event that all ranks hear once.
const HEARD_BY_ALL: ProbeOutcome = ProbeOutcome::Completes(&[
    RankLine::of(0, "notify SUCCESS"),
    RankLine::of_ranks(0, 7, "heard 1"),
]);

#[needs(slurm_lab, nats)]
#[test]
fn what_slurm_does_not_carry_reaches_other_nodes() {
    let lab = start(&ClusterOptions::default());
    check_probes_on(NODES, &lab.slurm, &CLUSTER);
}

/// Shell commands of eight procs that form groups: `tests/c/group.c` and `invite.c`. No release of the C library here lets a proc call that
/// others add, so that one runs Peal's own client.
const GROUPS: [&str; 7] = [
    "exec group whole",
    "exec group part",
    "exec group several",
    "exec group leaves 5",
    "case $PMIX_RANK in 7) exec client bootstrap;; *) exec group bootstrap 7;; esac",
    "exec invite accept",
    "exec invite decline 6",
];

/// Returns the lines of eight procs of a program, by rank. A proc says how many others were before it in places.
fn lines_of(done: Done) -> Vec<String> {
    let mut lines = done.expect_status(0).by_rank();
    lines.sort();
    lines
}

#[needs(slurm_lab, nats)]
#[test]
fn groups_form_over_nodes_as_on_one() {
    let lab = start(&ClusterOptions::default());
    for command in GROUPS {
        let mut command = command.replace(
            "exec client",
            &format!("exec {}", program("peal-grouped").display()),
        );
        for name in ["group", "invite"] {
            let path = c_program(name).display().to_string();
            command = command.replace(&format!("exec {name}"), &format!("exec {path}"));
        }
        let words = ["sh".to_owned(), "-c".to_owned(), command];
        let here = run(peal(["run", "-n", "8", "--"]).args(&words));
        let there = run_within(JOB_LIMIT, &mut lab.slurm.job(2, &words));
        assert_eq!(lines_of(there), lines_of(here), "{words:?}");
    }
}

/// Slurm neither controls single procs nor answers queries about them.
#[needs(slurm_lab, nats)]
#[test]
fn procs_of_other_nodes_are_queried_and_controlled() {
    let lab = start(&ClusterOptions {
        config: "[audit]\npath = \"/var/lib/peal-audit.db\"\non_failure = \"deny\"\n",
        ..ClusterOptions::default()
    });
    let lab = &lab.slurm;
    let program = c_program("elsewhere").display().to_string();
    let words = [program, "7".to_owned(), "8".to_owned()];
    let told = run_within(JOB_LIMIT, &mut lab.job(2, &words)).expect_status(0);
    let expected = "\
signal to one: 0
signal to all: 0
checkpoint of one: -47
usage of one: 0 pmix.qry.pres
table of all: 8 procs, 8 with their process
table of all: 0 pmix.qry.ptable
table of the node: 2 procs, 2 with their process
table of the node: 0 pmix.qry.lptable
";
    let told: String = told
        .stdout
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(told.starts_with(expected), "{told}");

    let job = WaitingJob::start(lab, "controlled");
    let on_n4 = || processes(lab.lab.node("n4").unwrap(), "probe_pmix").len();
    assert_eq!(on_n4(), 2);
    let control = |args: &[&str]| peal_on(lab, "n1", &[&["ctl"], args].concat());
    control(&["pause", "slurm.pmix.2.0"]).expect_status(0);
    let stopped = |node: &LabNode| {
        let states = run(node.command("ps").args(["-o", "stat=", "-C", "probe_pmix"])).stdout;
        states
            .lines()
            .filter(|state| state.starts_with('T'))
            .count()
    };
    let all: Vec<usize> = nodes_of(lab).map(stopped).collect();
    assert_eq!(all, [2; NODES as usize]);
    control(&["resume", "slurm.pmix.2.0"]).expect_status(0);
    let all: Vec<usize> = nodes_of(lab).map(stopped).collect();
    assert_eq!(all, [0; NODES as usize]);
    let told = control(&["kill", "slurm.pmix.2.0:8"])
        .expect_status(1)
        .stderr;
    assert!(told.contains("slurm.pmix.2.0:8"), "{told}");
    control(&["kill", "slurm.pmix.2.0:7"]).expect_status(0);
    until("the proc has ended", || on_n4() < 2);
    // The trail of its node has what was done there: to pause, to resume, to kill.
    let list = ["audit", "list", "-n", "0", "--kind", "decision"];
    let listed = peal_on(lab, "n4", &list).expect_status(0).stdout;
    let done = |line: &&str| line.contains("job-control") && line.contains("node n1");
    let done: Vec<&str> = listed.lines().filter(done).collect();
    assert_eq!(done.len(), 5, "{listed}");
    assert_ne!(job.end().status, Some(0));
}

#[needs(slurm_lab, nats)]
#[test]
fn procs_of_all_nodes_are_checkpointed() {
    let lab = start(&ClusterOptions {
        config: "[audit]\npath = \"/var/lib/peal-audit.db\"\non_failure = \"deny\"\n",
        ..ClusterOptions::default()
    });
    let lab = &lab.slurm;
    let program = c_program("checkpoint").display().to_string();
    let job = |how: &str| {
        let words = [program.clone(), how.to_owned()];
        run_within(JOB_LIMIT, &mut lab.job(2, &words))
    };
    let sorted = |job: Done| {
        let mut lines: Vec<String> = job.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let checkpoint = |how: &str| sorted(job(how).expect_status(0));
    let made = |rank: u32, how: &str| format!("rank {rank}: made its checkpoint {how}");
    // Each proc has declared its own method: odd ranks a signal, even ones an event.
    let all_well: Vec<String> = (0..2 * NODES).map(|rank| made(rank, "well")).collect();
    let accepted = "rank 0: checkpoint: SUCCESS (0)".to_owned();
    let over = |status: &str| format!("rank 0: it is over: {status}");
    let state = "rank 0: checkpoint \"mycheckpoint.1\", done".to_owned();
    let mut all = [
        all_well.clone(),
        vec![state, accepted.clone(), over("SUCCESS (0)")],
    ]
    .concat();
    all.sort();
    assert_eq!(checkpoint("both"), all);
    let mut one_badly = all_well.clone();
    one_badly[1] = made(1, "badly");
    one_badly.extend([accepted.clone(), over("PARTIAL SUCCESS (-52)")]);
    one_badly.sort();
    let mut told = checkpoint("failed");
    // The query by name finds the request of the job before first.
    told.retain(|line| !line.contains("mycheckpoint.1"));
    assert_eq!(told, one_badly);
    // Nothing begins where a proc can make none.
    assert_eq!(
        checkpoint("nobody"),
        ["rank 0: checkpoint: NOT-SUPPORTED (-47)"]
    );
    // All are killed, when each has made its checkpoint.
    let preempted = job("preempt");
    assert_ne!(preempted.status, Some(0));
    let mut told = sorted(preempted);
    told.retain(|line| line.contains("checkpoint"));
    assert_eq!(told, [vec![accepted], all_well.clone()].concat());
    // The same by the command, on one node.
    let waiting = [program.clone(), "stays".to_owned()];
    let waiting = WaitingJob::of_program(lab, &waiting, "checkpointed");
    let job = "slurm.pmix.5.0";
    let control = |args: &[&str]| peal_on(lab, "n1", &[&["ctl"], args].concat());
    control(&["checkpoint", "night.1", job, "--wait"]).expect_status(0);
    control(&[
        "preempt", job, "--action", "kill", "--grace", "60s", "--wait",
    ])
    .expect_status(0);
    let ended = waiting.end();
    let made = ended
        .stdout
        .lines()
        .filter(|line| line.ends_with("made its checkpoint well"));
    assert_eq!(made.count(), 2 * all_well.len(), "{}", ended.stdout);
    assert_ne!(ended.status, Some(0));
    // The trail of each node has what was done there for the others.
    let list = ["audit", "list", "-n", "0", "--kind", "decision"];
    let listed = peal_on(lab, "n4", &list).expect_status(0).stdout;
    let done = |line: &&str| line.contains("job-control") && line.contains("node n1");
    assert_eq!(listed.lines().filter(done).count(), 7, "{listed}");
}

#[needs(slurm_lab, nats)]
#[test]
fn death_of_a_proc_is_told_on_all_nodes() {
    let lab = start(&ClusterOptions::default());
    let lab = &lab.slurm;
    let job = WaitingJob::listening(lab, "listening");
    // While Slurm's controller is stopped, nothing ends the job.
    let control = lab.lab.node(CONTROL_NODE).unwrap();
    let controller = &processes(control, "slurmctld")[0];
    signal(control, "STOP", controller);
    let n3 = lab.lab.node("n3").unwrap();
    signal(n3, "KILL", &processes(n3, "probe_pmix")[0]);
    let heard = |rank: u32| lab.lab.path(format!("shared/listening.{rank}.heard"));
    until("the procs of all nodes hear", || {
        let all = (0..2 * NODES).filter(|rank| heard(*rank).exists());
        all.count() == 7
    });
    signal(control, "CONT", controller);
    assert_ne!(job.end().status, Some(0));
}

#[needs(slurm_lab, nats, rsyslog)]
#[test]
fn gateway_logs_for_all_nodes_and_site_handler_runs_once() {
    let [report, syslog] = ["report", "syslog"].map(guest);
    let config = format!(
        "[audit]\npath = \"/var/lib/peal-audit.db\"\non_failure = \"deny\"\n\
         [[sink]]\nname = \"local-syslog\"\nsyslog.address = \"unix:/dev/log\"\n\
         [[module]]\nname = \"report\"\npath = {report:?}\ngrants = [\"logging\"]\n"
    );
    let channel = format!(
        "name = \"syslog\"\npath = {syslog:?}\nchannels = [\"local_syslog\", \"syslog\"]\n\
         sinks = [\"local-syslog\"]\ngrants = [\"sink\", \"clock\"]\nconfig = {{ local_format = \"rfc3164\" }}\n"
    );
    let lab = start(&ClusterOptions {
        config: &config,
        install: &|node| {
            if node.name() == GATEWAY {
                node.write("/etc/peal/modules.d/syslog.toml", &channel)?;
            }
            Ok(())
        },
        serve: &gateway,
    });
    let lab = &lab.slurm;
    let gateway = lab.lab.node(GATEWAY).unwrap();
    let _syslog = start_syslog(gateway);
    check_probes_on(NODES, lab, &LOGGING);
    let text = "slurm.pmix.1.0[0]: line\n";
    until("the line is in the syslog of the gateway", || {
        gateway.read(SYSLOG).is_ok_and(|log| log.contains(text))
    });
    // The event is handled at the server of rank 0, and at no other.
    let calls = |node: &LabNode| {
        let list = ["audit", "list", "-n", "0", "--module", "report"];
        let listed = peal_on(lab, node.name(), &list).expect_status(0).stdout;
        let of_probe = |line: &&str| line.contains("slurm.pmix.2.0") && line.contains("event ");
        listed.lines().filter(of_probe).count()
    };
    until("the event was handled", || {
        nodes_of(lab).map(calls).sum::<usize>() > 0
    });
    let calls: Vec<usize> = nodes_of(lab).map(calls).collect();
    assert_eq!(calls, [1, 0, 0, 0]);
}

/// Probes of a log request that a gateway writes, and of an event that a handler of the site gets.
const LOGGING: [ProbeCase; 2] = [
    ProbeCase {
        probe: "lines 1",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "log SUCCESS")]),
    },
    ProbeCase {
        probe: "event namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
];
