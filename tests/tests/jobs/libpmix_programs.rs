//! Features that existing programs rely on, each tested by a small program with the C library of
//! every installed release.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
use peal_model::{CommandCode, Nspace, Proc, Rank, Request, code, key};
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    daemon::Place,
    finish,
    in_process::{Node, soon},
    libpmix::Release,
    peal,
    raw_client::{RawClient, hello},
    run,
};
use peal_wire::{Encoding, Hello};
use std::{path::Path, process::Command};

/// Runs `peal run` with this number of procs and these options.
fn job(release: &Release, procs: u32, options: &[&str], program: &Path, words: &[&str]) -> Done {
    let procs = procs.to_string();
    let mut command = peal(["run", "-n", procs.as_str()].iter().chain(options));
    run(release.of(command.arg("--").arg(program).args(words)))
}

/// Replaces the names of statuses by those of releases before 5.0.
fn plain(lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .map(|line| {
            line.replace("PMIX_ERR_", "")
                .replace("PMIX_", "")
                .replace('_', " ")
                .replace("NOT-FOUND", "NOT FOUND")
        })
        .collect()
}

/// The library of the wheel's 5.0.11 fails an assertion of its own (hwloc) when a process finalizes
/// for the second time.
#[needs(prepared, libpmix)]
#[test]
fn procs_initialize_fence_and_finalize_again_and_again() {
    let cycle = c_program("cycle");
    let done = job(&Release::system(), 4, &[], &cycle, &["10"]).expect_status(0);
    let all: Vec<String> = (0..4).map(|rank| format!("rank {rank}: done")).collect();
    assert_eq!(done.by_rank(), all);
}

#[needs(prepared, libpmix)]
#[test]
fn fence_ends_without_finalized_proc_that_exits() {
    let cycle = c_program("cycle");
    let done = job(&Release::system(), 3, &[], &cycle, &["3", "0"]).expect_status(0);
    let of =
        |rank| ["last fence: PARTIAL SUCCESS", "done"].map(|line| format!("rank {rank}: {line}"));
    assert_eq!(plain(&done.by_rank()), [of(1), of(2)].concat());
}

/// Releases before 5.0 put no reserved key, and so no qualified value.
#[needs(prepared, libpmix, openmpi5)]
#[test]
fn values_of_one_key_with_several_qualifiers_are_kept() {
    let qualified = c_program("qualified");
    let release = Release::newer();
    let done = job(&release, 2, &[], &qualified, &[]).expect_status(0);
    let told = [
        "left: to the left",
        "right: to the right",
        "below: TIMEOUT",
        "none: in the middle",
    ];
    assert_eq!(
        plain(&done.by_rank()),
        told.map(|line| format!("rank 1: {line}")),
        "{}",
        release.name
    );
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn job_data_contain_keys_read_by_programs() {
    let facts = c_program("facts");
    let asked = [
        ("all:pmix.lprocs", "[own:0, own:1]"),
        ("own:pmix.pset.nms", "here"),
        ("own:pmix.locstr", "nothing"),
        ("own:pmix.reinc", "uint32 0"),
        ("own:pmix.ppid", "own pid"),
        // Peal has no session directories, and the get does not wait for one.
        ("own:pmix.pdir", "NOT FOUND"),
    ];
    for release in Release::all() {
        let done = job(
            &release,
            2,
            &["--pset", "here"],
            &facts,
            &asked.map(|(word, _)| word),
        )
        .expect_status(0);
        let of = |rank| {
            let told = asked
                .iter()
                .map(move |(word, told)| format!("rank {rank}: {word}: {told}"));
            told.chain([format!("rank {rank}: finalize: SUCCESS (0)")])
        };
        assert_eq!(
            plain(&done.by_rank()),
            of(0).chain(of(1)).collect::<Vec<_>>(),
            "{}",
            release.name
        );
    }
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn proc_that_exits_without_finalizing_fails_its_job() {
    let leaves = c_program("leaves");
    for release in Release::both() {
        // Procs that are ended at once print nothing more; procs that get time do.
        for (delay, last_lines) in [("0", 0), ("10000", 2)] {
            let options = ["--set", &format!("run.termination_delay_ms={delay}")];
            let wait = if last_lines == 0 { "60000" } else { "300" };
            let done = job(&release, 3, &options, &leaves, &[wait]).expect_status(1);
            assert_eq!(
                done.by_rank().len(),
                last_lines,
                "{}: {done:?}",
                release.name
            );
            assert!(
                done.stderr
                    .contains("rank 0 exited with status 0 without having finalized"),
                "{done:?}"
            );
        }
    }
}

/// Returns the output of a program in job `one` that gets the facts of job `two` and requests these
/// keys.
async fn about_another_job(release: &Release, facts: &Path, words: &[&str]) -> Vec<String> {
    let node = Node::alone(peal_server::ServerSettings::default(), 1).await;
    node.add_job("two", 2).await;
    let mut command = node.program(0, facts);
    let child = release
        .of(command.args(["of", "two"]).args(words))
        .spawn()
        .unwrap();
    let done = tokio::task::spawn_blocking(|| finish(child))
        .await
        .unwrap()
        .expect_status(0);
    done.by_rank()
}

#[needs(prepared, libpmix, openmpi5)]
#[tokio::test(flavor = "multi_thread")]
async fn data_of_procs_of_another_job_are_provided() {
    let facts = c_program("facts");
    for release in Release::all() {
        let asked = [
            ("0:pmix.lrank", "uint16 0"),
            ("1:pmix.lrank", "uint16 1"),
            ("all:pmix.job.size", "uint32 2"),
        ];
        let printed = about_another_job(&release, &facts, &asked.map(|(word, _)| word)).await;
        let expected = asked.map(|(word, told)| format!("rank 0: {word}: {told}"));
        assert_eq!(printed.get(..3), Some(&expected[..]), "{}", release.name);
    }
}

#[needs(prepared, libpmix)]
#[test]
fn tools_get_the_leader_of_a_node() {
    let facts = c_program("facts");
    let place = Place::new();
    place.configure("[tools]\nsystem_server = true\n");
    let daemon = place.start();
    daemon.tell(&["job", "register", "demo", "-n", "2"]);
    let release = Release::system();
    let mut command = Command::new(&facts);
    command
        .args(["of", "demo", "all:pmix.lldr", "1:pmix.lrank"])
        .env("PMIX_SYSTEM_TMPDIR", place.path(""));
    let done = run(release.of(&mut command)).expect_status(0);
    let told =
        ["all:pmix.lldr: rank 0", "1:pmix.lrank: uint16 1"].map(|line| format!("rank 0: {line}"));
    assert_eq!(done.by_rank().get(..2), Some(&told[..]), "{}", release.name);
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn tool_inside_a_job_may_bring_its_own_name() {
    let tool = c_program("tool");
    for release in Release::all() {
        let done = job(&release, 1, &[], &tool, &["my-tool"]).expect_status(0);
        assert!(
            done.stdout
                .starts_with("I am my-tool\nnamespaces: one job\n"),
            "{}: {done:?}",
            release.name
        );
        // A name in the namespace of a job is not granted, since the tool would be a proc of the
        // job.
        let taken = job(&release, 1, &[], &tool, &["peal-tool-7"]);
        assert!(
            taken.stdout.starts_with("I am peal-tool-7\n"),
            "{}: {taken:?}",
            release.name
        );
    }
}

/// A client of 7.0 does not send a flag for such keys that the server should answer at once.
#[tokio::test(flavor = "multi_thread")]
async fn unset_reserved_key_delays_no_get() {
    let settings = peal_server::ServerSettings::default();
    let core = peal_core::server::StateSettings {
        get_timeout: std::time::Duration::from_secs(3600),
        ..settings.core
    };
    let node = Node::alone(peal_server::ServerSettings { core, ..settings }, 1).await;
    let newest = hello(node.proc(0));
    let newest = Hello {
        release: "7.0.0".parse().unwrap(),
        encoding: Encoding::V61,
        ..newest
    };
    let mut peer = RawClient::connect(&node)
        .await
        .greet(&newest)
        .await
        .unwrap();
    let get = Request::Get {
        proc: node.proc(0),
        infos: Vec::new(),
        key: Some(key::PMIX_PARENT_ID.0.into()),
    };
    peer.request(101, &get).await;
    let reply = soon("it is answered", peer.reply(101, CommandCode::Get)).await;
    assert_eq!(reply.status(), code::PMIX_ERR_NOT_FOUND);
}

/// Singletons of 6.1 and 7.0, by their handshakes.
mod singletons {
    use super::*;
    use peal_model::{JobEntry, Kval, Reply, Value};
    use peal_server::ServerSettings;
    use peal_tests::raw_client::encoded;
    use peal_wire::{Credential, PeerKind};

    /// Returns the handshake of a singleton of a release with this module for its job data.
    fn singleton(release: &str, gds: &str) -> Hello {
        let proc = Proc::new(Nspace::new("singleton.node.7").unwrap(), Rank(0));
        let as_client = hello(proc.clone());
        let user = match &as_client.credential {
            Credential::Native(user) => *user,
            other => panic!("{other:?}"),
        };
        let peer = PeerKind::Singleton(user, proc);
        let release = release.parse().unwrap();
        Hello {
            peer,
            release,
            encoding: Encoding::V61,
            gds: gds.into(),
            ..as_client
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn singletons_with_job_data_elsewhere_are_turned_away() {
        let node = Node::alone(ServerSettings::default(), 1).await;
        for (release, gds) in [("6.1.0", "shmem2"), ("7.0.0", "shmem3")] {
            let mut raw = RawClient::connect(&node).await;
            raw.say(&encoded(&singleton(release, gds))).await;
            assert!(
                soon("the server closes", raw.is_closed_without_a_byte()).await,
                "{release}"
            );
        }
        // The libraries of these releases do not request job data.
        for release in ["5.0.11", "6.0.0"] {
            let peer = RawClient::connect(&node)
                .await
                .greet(&singleton(release, "shmem2"))
                .await;
            assert!(peer.is_some(), "{release}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn singletons_that_take_messages_get_their_job_data() {
        let node = Node::alone(ServerSettings::default(), 1).await;
        for release in ["6.1.0", "7.0.0"] {
            let mut peer = RawClient::connect(&node)
                .await
                .greet(&singleton(release, "hash"))
                .await
                .unwrap();
            peer.request(101, &Request::JobData).await;
            let Reply::JobData(info) = peer.reply(101, CommandCode::JobData).await else {
                panic!("{release}")
            };
            let local_rank = Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(0));
            let size = JobEntry::Job(Kval::new(key::PMIX_JOB_SIZE, Value::Uint32(1)));
            let is_told = |entry: &JobEntry| matches!(entry, JobEntry::Rank(_, kvals) if kvals.contains(&local_rank));
            assert!(
                info.entries.contains(&size) && info.entries.iter().any(is_told),
                "{info:?}"
            );
        }
    }
}
