//! Faults of jobs under Slurm on Peal's servers: each job ends as on the installed library, and nothing is left of it.
use super::{
    peal_nodes::{
        Configuration, Daemons, WaitingJob, peal_on, peal_servers, processes, processes_of_jobs,
        signal, start, wait_for_no_traces,
    },
    slurm::check_hello,
};
use peal_needs::needs;
use peal_tests::{
    labs::{CONTROL_NODE, ClientLibrary, PROBE_NODES, SlurmLab, all_is_tried},
    until,
};

/// Configuration of servers that may be those of the nodes.
const CONFIG: &str = "[hosts]\nsocket = \"/run/peal/hosts.sock\"\n";

/// Fault of a running job.
#[derive(Clone, Copy, Debug)]
enum JobFault {
    /// `scancel` ends the job.
    Cancelled,
    /// A proc on the second node is killed.
    ProcKilled,
    /// The server on the second node is killed.
    ServerKilled,
    /// The second node is taken off the network.
    LinkCut,
}

impl JobFault {
    /// Makes it happen.
    fn strike(self, lab: &SlurmLab) {
        let n2 = lab.lab.node("n2").unwrap();
        match self {
            JobFault::Cancelled => {
                let jobs = lab
                    .output("squeue", &["--noheader", "--format=%i"])
                    .unwrap();
                lab.output("scancel", &[jobs.trim()]).unwrap();
            }
            JobFault::ProcKilled => signal(n2, "KILL", &processes(n2, "probe_pmix")[0]),
            JobFault::ServerKilled => signal(n2, "KILL", &processes(n2, "peal")[0]),
            JobFault::LinkCut => lab.lab.disconnect_node("n2").unwrap(),
        }
    }

    /// Returns a part of what `srun` prints about the end.
    fn reason(self) -> &'static str {
        match self {
            JobFault::Cancelled => "CANCELLED AT",
            JobFault::ProcKilled => "srun: error: n2: task",
            JobFault::ServerKilled => "Error handler invoked: status = -61, source = [peal-",
            JobFault::LinkCut => "Node failure on n2",
        }
    }
}

/// Runs a job into a fault. No proc gets to its own end.
fn check_end(lab: &SlurmLab, fault: JobFault, name: &str) {
    let job = WaitingJob::start(lab, name);
    fault.strike(lab);
    let done = job.end();
    assert_ne!(done.status, Some(0), "{fault:?}: {done:?}");
    assert!(done.stderr.contains(fault.reason()), "{fault:?}: {done:?}");
    lab.wait_for_end_of_jobs().unwrap();
}

/// Returns a lab on which a job has run.
fn used_lab() -> SlurmLab {
    let config = Configuration::new(CONFIG);
    let libraries = peal_servers(ClientLibrary::Stock);
    let lab = start(PROBE_NODES, &libraries, &config.path());
    check_hello(&lab, PROBE_NODES, 2);
    lab
}

#[needs(slurm_lab)]
#[test]
fn faults_end_a_job_and_leave_nothing_on_its_nodes() {
    let lab = used_lab();
    check_end(&lab, JobFault::Cancelled, "cancelled");
    check_end(&lab, JobFault::ProcKilled, "proc");
    wait_for_no_traces(&lab);
    check_end(&lab, JobFault::ServerKilled, "server");
    // The next server on the node removes the socket of the killed one.
    check_hello(&lab, PROBE_NODES, 2);
    wait_for_no_traces(&lab);
}

#[needs(slurm_lab)]
#[test]
fn peer_of_a_killed_proc_is_notified_before_slurm_ends_job() {
    let lab = used_lab();
    let job = WaitingJob::listening(&lab, "listening");
    // While Slurm's controller is stopped, nothing ends the job.
    let control = lab.lab.node(CONTROL_NODE).unwrap();
    let controller = &processes(control, "slurmctld")[0];
    signal(control, "STOP", controller);
    let n3 = lab.lab.node("n3").unwrap();
    signal(n3, "KILL", &processes(n3, "probe_pmix")[0]);
    let heard = |rank: u32| lab.lab.path(format!("shared/listening.{rank}.heard"));
    until("the other proc of the node hears", || {
        [4, 5].into_iter().any(|rank| heard(rank).exists())
    });
    signal(control, "CONT", controller);
    assert_ne!(job.end().status, Some(0));
}

#[needs(slurm_lab)]
#[test]
fn killed_server_of_a_node_ends_its_job_and_is_replaced() {
    let lab = used_lab();
    wait_for_no_traces(&lab);
    let _daemons = Daemons::start(&lab);
    check_end(&lab, JobFault::ServerKilled, "server");
    // On that node Slurm starts a server for the next job. The others serve on.
    check_hello(&lab, PROBE_NODES, 2);
    for (node, is_served) in [("n1", true), ("n2", false)] {
        let jobs = peal_on(&lab, node, &["job", "list", "-o", "json"]);
        assert_eq!(jobs.status == Some(0), is_served, "{node}: {jobs:?}");
    }
}

#[needs(slurm_lab)]
#[test]
fn server_of_a_killed_step_daemon_ends_at_once() {
    let lab = used_lab();
    wait_for_no_traces(&lab);
    let n2 = lab.lab.node("n2").unwrap();
    let job = WaitingJob::start(&lab, "step");
    assert_eq!(processes(n2, "peal").len(), 1);
    signal(n2, "KILL", &processes(n2, "slurmstepd")[0]);
    until("the server ends", || {
        processes_of_jobs(n2) == ["probe_pmix"; 2]
    });
    if all_is_tried() {
        // With either library the procs on the node live on, and Slurm notices nothing until the job is cancelled.
        JobFault::Cancelled.strike(&lab);
        assert_ne!(job.end().status, Some(0));
        std::fs::write(lab.lab.path("shared/step.go"), "").unwrap();
        until("the procs end", || processes_of_jobs(n2).is_empty());
    }
}

#[needs(slurm_lab)]
#[test]
fn cut_link_ends_the_job_and_the_node_serves_again() {
    let lab = used_lab();
    if all_is_tried() {
        check_end(&lab, JobFault::LinkCut, "link");
    } else {
        JobFault::LinkCut.strike(&lab);
    }
    lab.lab.connect_node("n2").unwrap();
    lab.wait_for_nodes().unwrap();
    wait_for_no_traces(&lab);
    check_hello(&lab, PROBE_NODES, 2);
}
