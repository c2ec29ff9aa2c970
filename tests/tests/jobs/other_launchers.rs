//! Jobs of other launchers over two nodes: their procs exchange data through the launcher.
use peal_model::{Info, KeyName, Nspace, Proc, Rank, Status, Value, code, key};
use peal_needs::needs;
use peal_stub::{HostNotice, HostReply, HostRequest, UpcallKind};
use peal_tests::{
    Done, c_program,
    comparison::ProgramComparison,
    daemon::Place,
    fake_launcher::{Conduct, FakeLauncher, server_command},
    finish,
    libpmix::Release,
    program, until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

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

/// Runs `requests` as ranks 0 and 1 of a job on two nodes. Returns what rank 0 printed, without its name.
fn make_requests(conduct: Conduct) -> Vec<String> {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, conduct);
    launcher.register();
    let done = run_all(&launcher, 2, "requests", &[]);
    let [first, second] = done.try_into().ok().unwrap();
    // The launcher costs others nothing.
    let second = second.expect_status(0).stdout;
    assert_eq!(second, "rank 1: get from the node: 0\n");
    let printed = first.expect_status(0).stdout;
    let lines = printed.lines().map(|line| line.strip_prefix("rank 0: "));
    lines.map(|line| line.unwrap().to_owned()).collect()
}

/// Requests of the program that a launcher answers.
const REQUESTS: [&str; 9] = [
    "publish",
    "unpublish",
    "lookup",
    "spawn",
    "query",
    "allocation",
    "get",
    "fence",
    "connect",
];

/// Returns the lines of all requests with this status.
fn all_with(status: Status) -> Vec<String> {
    let lines = REQUESTS.map(|request| format!("{request}: {}", status.0));
    [vec!["get from the node: 0".to_owned()], lines.to_vec()].concat()
}

#[needs(libpmix)]
#[test]
fn launcher_that_never_answers_costs_requesters_a_timeout() {
    let expected = all_with(code::PMIX_ERR_TIMEOUT);
    assert_eq!(make_requests(Conduct::Silent), expected);
}

#[needs(libpmix)]
#[test]
fn error_of_launcher_goes_to_requester_as_it_is() {
    // A status that only this launcher has.
    let status = Status(-3917);
    assert_eq!(make_requests(Conduct::Refusing(status)), all_with(status));
}

#[needs(libpmix)]
#[test]
fn tool_named_by_launcher_gets_output_that_it_delivers() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 1, 1, Conduct::Proper);
    launcher.register();
    launcher.deliver(0, "early\n");
    let mut tool = launcher.tool(0, &c_program("pull"));
    tool.args([launcher.nspace().as_str(), "3"]);
    let mut tool = tool.spawn().unwrap();
    let mut printed = BufReader::new(tool.stdout.take().unwrap()).lines();
    let mut first: Vec<String> = printed.by_ref().take(2).map(Result::unwrap).collect();
    first.sort();
    assert_eq!(first, ["pulls", "rank 0: early"]);
    launcher.deliver(0, "late\n");
    launcher.deliver(0, "");
    let rest: Vec<String> = printed.map(Result::unwrap).collect();
    assert_eq!(rest, ["rank 0: late", "rank 0: the end"]);
    assert!(tool.wait().unwrap().success());
    let upcalls = launcher.upcalls();
    assert_eq!(
        upcalls,
        [UpcallKind::ToolConnected, UpcallKind::IofPull],
        "the launcher names the tool, and is asked for the output"
    );
}

#[needs(libpmix)]
#[test]
fn groups_over_nodes_are_formed_through_the_launcher() {
    for program in ["group whole", "group part"] {
        let mut expected = ProgramComparison::new(program, "4", 0, 16).under_peal();
        expected.sort();
        let place = Place::new();
        let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Proper);
        launcher.register();
        let action = program.split(' ').next_back().unwrap();
        let done = run_all(&launcher, 4, "group", &[action]);
        let printed = done.into_iter().map(|done| done.expect_status(0).stdout);
        let printed = printed.collect::<Vec<_>>().concat();
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort();
        assert_eq!(lines, expected);
        let asked = launcher.asked_groups();
        assert!(!asked.is_empty());
        for asked in asked.iter().filter(|asked| asked.operation == 0) {
            let is_numbered = asked.keys.iter().any(|key| key == "pmix.grp.actxid");
            assert_eq!(is_numbered, action == "whole", "{asked:?}");
            // Infos for members travel with the data.
            assert!(
                asked
                    .keys
                    .ends_with(&["pmix.loc.col.st", "pmix.grp.endpt"].map(str::to_owned))
            );
            assert!(
                !asked.keys.contains(&"pmix.grp.info".to_owned()),
                "{asked:?}"
            );
        }
    }
}

/// Returns what rank 0 of a job on two nodes prints about requests that name procs of the other node.
fn ask_elsewhere(launcher: &FakeLauncher) -> String {
    let done = run_all(launcher, 2, "elsewhere", &["3", "2"]);
    let printed = done.into_iter().map(|done| done.expect_status(0).stdout);
    printed.collect::<Vec<_>>().concat()
}

#[needs(libpmix)]
#[test]
fn requests_about_other_nodes_go_to_the_launcher() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Managing);
    launcher.register();
    let expected = "\
signal to one: 0 test.answer
signal to all: 0 test.answer
checkpoint of one: 0 test.answer
usage of one: 0 pmix.qry.pres
table of all: 0 pmix.qry.ptable
table of the node: 2 procs, 2 with their process
table of the node: 0 pmix.qry.lptable
monitor of one: 0
monitor of all: 0
";
    assert_eq!(ask_elsewhere(&launcher), expected);
    let one = vec![Proc::new(launcher.nspace().clone(), Rank(3))];
    let all = vec![Proc::all(launcher.nspace().clone())];
    assert_eq!(launcher.controlled(), [one.clone(), all, one]);
    // The C library gives the results of a monitor to nobody.
    let upcalls = launcher.upcalls();
    let monitors = upcalls.iter().filter(|kind| **kind == UpcallKind::Monitor);
    assert_eq!(monitors.count(), 2);
}

#[needs(libpmix)]
#[test]
fn requests_about_other_nodes_need_the_launcher() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Proper);
    launcher.register();
    // What the launcher does not support is done for the procs of the node, and reported.
    let expected = "\
signal to one: -47
signal to all: -52
checkpoint of one: -47
usage of one: -47
table of all: 4 procs, 2 with their process
table of all: 0 pmix.qry.ptable
table of the node: 2 procs, 2 with their process
table of the node: 0 pmix.qry.lptable
monitor of one: -47
monitor of all: 0
";
    assert_eq!(ask_elsewhere(&launcher), expected);
}

#[needs(libpmix)]
#[test]
fn errors_about_other_nodes_are_those_of_the_launcher() {
    let place = Place::new();
    let refusing = Conduct::Refusing(Status(-3917));
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, refusing);
    launcher.register();
    let expected = "\
signal to one: -3917
signal to all: -3917
checkpoint of one: -3917
usage of one: -3917
table of all: 4 procs, 2 with their process
table of all: 0 pmix.qry.ptable
table of the node: 2 procs, 2 with their process
table of the node: 0 pmix.qry.lptable
monitor of one: -3917
monitor of all: -3917
";
    assert_eq!(ask_elsewhere(&launcher), expected);
}

/// Runs `group` with a proc that dies, as ranks 0 to 3 of a job on nodes of this size. Its lines are the
/// same as on one node.
#[track_caller]
fn form_groups_without(launcher: &FakeLauncher, action: &str, dying: usize) {
    let program = format!("group {action} {dying}");
    let compared = ProgramComparison::new(Box::leak(program.into_boxed_str()), "4", 137, 16);
    let mut expected = compared.under_peal();
    expected.sort();
    let done = run_all(launcher, 4, "group", &[action, &dying.to_string()]);
    let printed = done.into_iter().enumerate().map(|(rank, done)| {
        let has_ended_well = done.status == Some(0);
        assert_eq!(has_ended_well, rank != dying, "rank {rank}: {done:?}");
        done.stdout
    });
    let printed = printed.collect::<Vec<_>>().concat();
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort();
    assert_eq!(lines, expected, "{:#?}", launcher.asked_groups());
}

#[needs(libpmix)]
#[test]
fn death_during_construct_over_nodes_ends_it_everywhere() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Proper);
    launcher.register();
    form_groups_without(&launcher, "dies", 3);
    // The node of the dead proc says so, for nodes that have not heard of it.
    let aborted = launcher
        .asked_groups()
        .into_iter()
        .find(|asked| asked.node == 1 && asked.group == "all");
    let status = aborted.unwrap().status;
    assert_eq!(status, Some(code::PMIX_GROUP_CONSTRUCT_ABORT));
}

#[needs(libpmix)]
#[test]
fn death_on_node_of_its_own_keeps_no_group_waiting() {
    let place = Place::new();
    place.configure("[group]\ndecision_timeout_ms = 200\n");
    let launcher = FakeLauncher::start(&place.path(""), 4, 1, Conduct::Proper);
    launcher.register();
    form_groups_without(&launcher, "dies", 3);
}

#[needs(libpmix)]
#[test]
fn tolerant_group_over_nodes_forms_without_the_dead() {
    let place = Place::new();
    for action in ["tolerant", "mourned"] {
        let launcher = FakeLauncher::start(&place.path(action), 2, 2, Conduct::Proper);
        launcher.register();
        form_groups_without(&launcher, action, 3);
    }
}

/// Returns the command of a host environment on a library, with a server of its own.
fn host_on(library: &Release, name: &str, place: &Place) -> Command {
    let mut command = Command::new(c_program(name));
    library
        .of(&mut command)
        .env("PEAL_SERVER", "embedded")
        .env("PEAL_EXECUTABLE", program("peal"))
        .env("PEAL_CONFIG", "")
        .env("PMIX_SYSTEM_TMPDIR", place.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns what a host environment prints on each library.
fn hosts_on_both(name: &str) -> [String; 2] {
    [Release::system(), Release::peal()].map(|library| {
        let place = Place::new();
        let done = finish(host_on(&library, name, &place).spawn().unwrap());
        done.expect_status(0).stdout
    })
}

#[needs(libpmix)]
#[test]
fn host_delivers_output_of_its_own() {
    let expected = "launcher 0: early\nlauncher 7: of another process\nlauncher 0: late\n";
    assert_eq!(hosts_on_both("host_output"), [expected, expected]);
}

#[needs(libpmix)]
#[test]
fn environment_of_procs_is_that_of_the_c_library() {
    let [stock, own] = hosts_on_both("fork_environment");
    // Peal's server shares no memory with its clients.
    let is_shared = |line: &&str| !line.contains(": PMIX_DSTORE_");
    let stock: Vec<&str> = stock.lines().filter(is_shared).collect();
    assert_eq!(own.lines().collect::<Vec<_>>(), stock);
    assert!(stock.contains(&"several 1: OMPI_FIRST_RANKS=0 1"));
}

#[needs(libpmix)]
#[test]
fn launcher_gets_log_request_whole_with_directives() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 1, 1, Conduct::Proper);
    launcher.register();
    let done = run_all(&launcher, 1, "logs", &["all"]);
    done.into_iter()
        .for_each(|done| drop(done.expect_status(0)));
    let several = ["pmix.log.gsys", "site.log.board"].map(str::to_owned);
    let logged = launcher.logged();
    let whole: Vec<_> = logged.iter().filter(|one| one.data == several).collect();
    assert!(!whole.is_empty(), "{logged:?}");
    for one in whole {
        let directives = one.directives.first_chunk().unwrap();
        assert_eq!(directives, &["pmix.log.once", "pmix.log.source"]);
    }
}

#[needs(libpmix)]
#[test]
fn job_data_name_node_of_each_proc() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 2, 2, Conduct::Proper);
    let resource = Info::new(KeyName("site.switch"), Value::string("fast"));
    let resources = HostRequest::RegisterResources {
        infos: vec![resource],
    };
    assert_eq!(launcher.request(0, resources), Ok(HostReply::Done));
    launcher.register();
    let facts = [
        "all:site.switch",
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
        "all:site.switch: \"fast\"",
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

#[needs(libpmix)]
#[test]
fn names_that_are_not_registered_are_refused() {
    let place = Place::new();
    let launcher = FakeLauncher::start(&place.path(""), 1, 1, Conduct::Proper);
    launcher.register();
    let stranger = Nspace::new("stranger").unwrap();
    let proc = Proc::new(stranger.clone(), Rank(0));
    let modex = HostRequest::Modex { proc: proc.clone() };
    assert_eq!(
        launcher.request(0, modex),
        Err(code::PMIX_ERR_INVALID_NAMESPACE)
    );
    // To remove a name that is not there succeeds, as with the C library.
    for request in [
        HostRequest::DeregisterClient { proc },
        HostRequest::DeregisterNamespace { nspace: stranger },
        HostRequest::DeleteProcessSet {
            name: "strangers".into(),
        },
    ] {
        assert_eq!(launcher.request(0, request), Ok(HostReply::Done));
    }
    let hello = c_program("hello");
    for (variable, value) in [("PMIX_NAMESPACE", "stranger"), ("PMIX_RANK", "7")] {
        let mut program = launcher.program(0, &hello);
        let done = finish(program.env(variable, value).spawn().unwrap());
        assert_eq!(done.status, Some(1), "{variable}: {done:?}");
        assert!(done.stderr.contains("init: UNREACHABLE"), "{done:?}");
    }
    for done in run_all(&launcher, 1, "hello", &[]) {
        done.expect_status(0);
    }
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

#[needs(prepared)]
#[test]
fn servers_of_launchers_share_a_store_and_no_audit_trail() {
    let place = Place::new();
    let dir = place.path("");
    place.configure(&format!("[store]\npath = {:?}\n", place.path("peal.db")));
    let launcher = FakeLauncher::start(&dir, 2, 1, Conduct::Proper);
    launcher.register();
    drop(launcher);
    let trail = place.path("audit.db");
    place.configure(&format!(
        "[audit]\npath = {trail:?}\non_failure = \"deny\"\n"
    ));
    let _first = FakeLauncher::start(&dir, 1, 1, Conduct::Proper);
    let second = finish(server_command(&dir, 1).spawn().unwrap());
    assert_eq!(second.status, Some(125), "{}", second.stderr);
    for part in ["audit.db", "locked by another process"] {
        assert!(second.stderr.contains(part), "{}", second.stderr);
    }
}

#[needs(libpmix)]
#[test]
fn server_ends_with_its_launcher_although_a_child_lives() {
    let place = Place::new();
    let mut launcher = host_on(&Release::peal(), "orphan", &place).spawn().unwrap();
    let mut line = String::new();
    let mut printed = BufReader::new(launcher.stdout.take().unwrap());
    printed.read_line(&mut line).unwrap();
    let child = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    assert!(launcher.wait().unwrap().success());
    // The server has the standard error of its launcher, until it ends.
    let mut errors = String::new();
    let mut stderr = launcher.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    kill_process(child, Signal::KILL).unwrap();
}
