//! Upgrades of the servers of nodes while a job of Slurm runs on them.
use super::{
    peal_nodes::{Configuration, Daemons, WaitingJob, nodes_of, peal_on, peal_servers, start},
    slurm::check_hello,
};
use peal_needs::needs;
use peal_tests::labs::ClientLibrary;
use std::fs;

#[needs(slurm_lab)]
#[test]
fn jobs_of_slurm_go_on_with_upgraded_servers() {
    const NODES: u32 = 2;
    let config = Configuration::new("[hosts]\nsocket = \"/run/peal/hosts.sock\"\n");
    let libraries = peal_servers(ClientLibrary::Stock);
    let lab = start(NODES, &libraries, &config.path());
    let _daemons = Daemons::start(&lab);
    let job = WaitingJob::start(&lab, "upgraded");
    for _ in 0..2 {
        for node in nodes_of(&lab) {
            let told = peal_on(&lab, node.name(), &["upgrade"]).expect_status(0);
            // Slurm's library is a tool of the server.
            assert!(
                told.stdout.contains("serves 1 job and 3 connections"),
                "{}",
                told.stdout
            );
        }
    }
    // All procs meet in a fence over the nodes, and leave.
    fs::write(lab.lab.path("shared/upgraded.go"), "").unwrap();
    let done = job.end().expect_status(0);
    let finalized = done.stdout.matches("finalize SUCCESS").count();
    assert_eq!(finalized, 4, "{done:?}");
    lab.wait_for_end_of_jobs().unwrap();
    // The next job finds them, and each knows of its end.
    check_hello(&lab, NODES, 2);
    lab.wait_for_end_of_jobs().unwrap();
    for node in nodes_of(&lab) {
        let jobs = peal_on(&lab, node.name(), &["job", "list", "-o", "json"]).expect_status(0);
        assert_eq!(jobs.stdout.trim(), "[]", "{}", node.name());
    }
}
