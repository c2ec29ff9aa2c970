//! Labs leave nothing behind, however they end.
use peal_needs::needs;
use peal_tests::{
    labs::{LabLibraries, MpirunLab, SlurmLab, SlurmSettings, lab_setup, run_in_lab},
    until,
};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

/// Variable that makes this binary start a lab and wait to be killed.
const HOLDER: &str = "PEAL_LABS_HOLDER";

/// Kinds of namespaces that a node has for itself.
const KINDS: [&str; 5] = ["mnt", "uts", "ipc", "net", "pid"];

/// Returns the namespaces of processes, as `net:[4026531840]`.
fn namespaces(processes: impl IntoIterator<Item = PathBuf>) -> BTreeSet<String> {
    let links = processes
        .into_iter()
        .flat_map(|process| KINDS.map(|kind| process.join("ns").join(kind)));
    links
        .filter_map(|link| Some(fs::read_link(link).ok()?.display().to_string()))
        .collect()
}

/// Returns the processes of this machine that are in one of these namespaces, each by its pid and the time of its start. The kernel
/// gives the numbers of namespaces to later ones.
fn processes_in(wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let entries = fs::read_dir("/proc").unwrap();
    let processes = entries.map(|entry| entry.unwrap().path());
    processes
        .filter(|process| !namespaces([process.clone()]).is_disjoint(wanted))
        .filter_map(|process| {
            let pid = process.file_name()?.to_str()?.parse::<u32>().ok()?;
            let stat = fs::read_to_string(process.join("stat")).ok()?;
            let (_, rest) = stat.rsplit_once(") ")?;
            Some(format!("{pid} since {}", rest.split(' ').nth(19)?))
        })
        .collect()
}

/// Returns the namespaces of the nodes of a lab that this process does not share.
fn namespaces_of(pids: impl IntoIterator<Item = u32>) -> BTreeSet<String> {
    let own = namespaces([PathBuf::from("/proc/self")]);
    let all = namespaces(
        pids.into_iter()
            .map(|pid| PathBuf::from(format!("/proc/{pid}"))),
    );
    all.difference(&own).cloned().collect()
}

/// Asserts that the machine has no mount and no network interface of a lab.
#[track_caller]
fn assert_machine_unchanged() {
    let links = Command::new("ip")
        .args(["-o", "link"])
        .output()
        .unwrap()
        .stdout;
    let links = String::from_utf8(links).unwrap();
    assert!(!links.contains("p-n1"), "{links}");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("/run/lab"), "{mounts}");
    assert!(!fs::exists("/run/lab").unwrap(), "the machine has /run/lab");
}

#[needs(slurm_lab)]
#[test]
fn nothing_is_left_of_a_lab_that_was_dropped() {
    let setup = lab_setup(2, &LabLibraries::STOCK);
    let lab = SlurmLab::start(setup, &SlurmSettings::default()).unwrap();
    run_in_lab(&lab, 1, "hello_pmix").expect_status(0);
    let of_lab = namespaces_of(lab.lab.nodes().map(|node| node.pid()));
    assert!(of_lab.len() > 10, "{of_lab:?}");
    let processes = processes_in(&of_lab);
    assert!(processes.len() > 6, "{processes:?}");
    assert_machine_unchanged();
    drop(lab);
    let left: BTreeSet<String> = processes_in(&of_lab)
        .intersection(&processes)
        .cloned()
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_machine_unchanged();
}

#[needs(slurm_lab)]
#[test]
fn nothing_is_left_after_the_process_of_a_lab_is_killed() {
    if std::env::var_os(HOLDER).is_some() {
        let setup = lab_setup(1, &LabLibraries::STOCK);
        let lab = SlurmLab::start(setup, &SlurmSettings::default()).unwrap();
        for node in lab.lab.nodes() {
            println!("\nnode {}", node.pid());
        }
        println!("\nup");
        loop {
            std::thread::park();
        }
    }
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["nothing_is_left_after_the_process", "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines
        .map(Result::unwrap)
        .take_while(|line| line != "up")
        .collect();
    let pids = lines
        .iter()
        .filter_map(|line| line.strip_prefix("node ")?.parse().ok());
    let of_lab = namespaces_of(pids);
    assert!(of_lab.len() > 5, "{of_lab:?} {lines:?}");
    let processes = processes_in(&of_lab);
    assert!(processes.len() > 4, "{processes:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("the processes of the lab end", || {
        processes_in(&of_lab).is_disjoint(&processes)
    });
}

#[needs(mpirun_lab)]
#[test]
fn labs_of_the_same_network_run_side_by_side() {
    let [one, other] =
        [(), ()].map(|()| MpirunLab::start(lab_setup(2, &LabLibraries::STOCK)).unwrap());
    for lab in [&one, &other] {
        run_in_lab(lab, 1, "hello_mpi").expect_status(0);
    }
    drop(one);
    run_in_lab(&other, 1, "hello_mpi").expect_status(0);
}
