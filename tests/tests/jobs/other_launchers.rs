//! Jobs of other launchers over two nodes: their procs exchange data through the launcher.
use peal_model::{Info, Proc, Rank, Value, code, key};
use peal_needs::needs;
use peal_stub::{HostNotice, HostReply, HostRequest, UpcallKind};
use peal_tests::{
    Done, c_program,
    daemon::Place,
    fake_launcher::{Conduct, FakeLauncher},
    finish, until,
};
use std::process::Command;

/// Runs a C program as all procs of the job. Returns what each did, by rank.
fn run_all(launcher: &FakeLauncher, size: u32, program: &str, args: &[&str]) -> Vec<Done> {
    let program = c_program(program);
    let start = |rank| launcher.program(rank, &program).args(args).spawn().unwrap();
    let children: Vec<_> = (0..size).map(start).collect();
    children.into_iter().map(finish).collect()
}

#[needs(libpmix)]
#[test]
fn procs_of_two_nodes_exchange_values_and_events() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Proper);
    launcher.register();
    let done = run_all(&launcher, 4, "hello", &[]);
    for (rank, done) in done.into_iter().enumerate() {
        let done = done.expect_status(0);
        let neighbor = (rank + 1) % 4;
        let greeting = format!("hello from rank {neighbor}");
        assert!(done.stdout.contains(&greeting), "{}", done.stdout);
    }
    let upcalls = launcher.upcalls();
    assert!(upcalls.contains(&UpcallKind::Fence), "{upcalls:?}");
    // Rank 1 needs a value of rank 2, and rank 3 one of rank 0: fences without data exchange none.
    assert!(upcalls.contains(&UpcallKind::DirectModex), "{upcalls:?}");
    // The launcher has heard of each finalize before the program went on.
    let mut finalized = launcher.finalized();
    finalized.sort();
    let all = (0..4).map(|rank| Proc::new(launcher.nspace().clone(), Rank(rank)));
    assert_eq!(finalized, all.collect::<Vec<_>>());
}

#[needs(libpmix)]
#[test]
fn second_answer_to_an_upcall_changes_nothing() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Twice);
    launcher.register();
    for done in run_all(&launcher, 4, "hello", &[]) {
        done.expect_status(0);
    }
}

#[needs(libpmix)]
#[test]
fn job_data_name_node_of_each_proc() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Proper);
    launcher.register();
    let facts = [
        "own:pmix.hname",
        "3:pmix.hname",
        "0:pmix.nodeid",
        "3:pmix.lrank",
        "all:pmix.job.size",
        "all:pmix.num.nodes",
    ];
    let done = finish(
        launcher
            .program(1, &c_program("facts"))
            .args(facts)
            .spawn()
            .unwrap(),
    );
    let told = done.expect_status(0).stdout;
    for line in [
        "own:pmix.hname: \"n0\"",
        "3:pmix.hname: \"n1\"",
        "0:pmix.nodeid: uint32 0",
        "3:pmix.lrank: uint16 1",
        "all:pmix.job.size: uint32 4",
        "all:pmix.num.nodes: uint32 2",
    ] {
        assert!(
            told.lines().any(|other| other.ends_with(line)),
            "{line} is missing in {told}"
        );
    }
}

#[needs(prepared)]
#[test]
fn registration_with_wrong_infos_is_refused_and_changes_nothing() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 1, 2, Conduct::Proper);
    let nspace = launcher.nspace().clone();
    let refused = launcher.request(
        0,
        HostRequest::RegisterNamespace {
            nspace: nspace.clone(),
            local: 0,
            infos: vec![Info::new(key::PMIX_JOB_SIZE, Value::string("two"))],
        },
    );
    assert_eq!(refused, Err(code::PMIX_ERR_BAD_PARAM));
    // A second registration adds to the first.
    launcher.register();
    launcher.register();
    let modex = |rank| {
        let proc = Proc::new(nspace.clone(), Rank(rank));
        launcher.request(0, HostRequest::Modex { proc })
    };
    assert_eq!(modex(7), Err(code::PMIX_ERR_NOT_FOUND));
    let gone = HostRequest::DeregisterNamespace { nspace };
    assert_eq!(launcher.request(0, gone), Ok(HostReply::Done));
}

#[needs(prepared)]
#[test]
fn server_ends_with_its_launcher() {
    let place = Place::new();
    let mut launcher = FakeLauncher::start(&place.path(""), 1, 1, Conduct::Proper);
    launcher.register();
    let errors = launcher.leave(0);
    assert!(!errors.contains("WARN"), "{errors}");
}

#[needs(libpmix)]
#[test]
fn killed_proc_is_reported_to_its_launcher() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 1, 1, Conduct::Proper);
    launcher.register();
    let mut command: Command = launcher.program(0, &c_program("stays"));
    let mut child = command.spawn().unwrap();
    let proc = Proc::new(launcher.nspace().clone(), Rank(0));
    let has = |notice: HostNotice| launcher.notices().contains(&(0, notice));
    until("the proc is connected", || {
        has(HostNotice::ClientConnected(proc.clone()))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    until("its loss is reported", || {
        has(HostNotice::ClientLost(proc.clone()))
    });
}
