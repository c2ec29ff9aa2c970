//! Groups over several servers that the embedded fabric joins: unmodified `libpmix` programs of one job at each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_server::{EmbeddedFabric, ServerSettings};
use peal_tests::{Done, c_program, finish, in_process::Node};
use std::process::Child;

/// What each of two procs prints of a job of two that it forms a group with.
const KNOWN: &str = "construct across: SUCCESS (0)
construct across: it has a number
pmix.job.size of the job: uint32 2
test.posted of 0: uint32 1000
pmix.grp.lclid of 0: size 100
test.note of 0: \"rank 0 was here\"
test.posted of 1: uint32 1001
pmix.grp.lclid of 1: size 101
test.note of 1: \"rank 1 was here\"
fence across: SUCCESS (0)
";

/// A job of two procs at each of two servers; nothing where there is no `libpmix`.
async fn across(args: &[&str]) -> Option<Vec<(String, Done)>> {
    let program = c_program("across")?;
    let fabric = EmbeddedFabric::new();
    let jobs = ["one", "two"];
    let mut nodes = Vec::new();
    for job in jobs {
        nodes.push(Node::start(ServerSettings::default(), &fabric, job, 2).await);
    }
    let procs = nodes.iter().zip(jobs).zip(["two", "one"]).flat_map(|((node, job), other)| {
        let program = &program;
        (0..2).map(move |rank| {
            let child = node.program(rank, program).arg(other).args(args).spawn().unwrap();
            (format!("{job}:{rank}"), child)
        })
    });
    let procs: Vec<(String, Child)> = procs.collect();
    let ended = procs.into_iter().map(|(proc, child)| (proc, finish(child)));
    Some(tokio::task::block_in_place(|| ended.collect()))
}

/// What a proc printed, without its name.
fn printed(done: &Done) -> String {
    done.stdout.lines().map(|line| line.split_once(": ").unwrap().1.to_owned() + "\n").collect()
}

/// What a proc hears of an event of the first job's first proc.
fn called(proc: &str) -> &'static str {
    match proc {
        "one:0" => "",
        "one:1" => "hears 424242 across by own:0\n",
        _ => "hears 424242 across by other:0\n",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_at_two_servers_know_of_each_other_and_are_meant_by_the_groups_name() {
    let Some(ended) = across(&[]).await else { return };
    for (proc, done) in ended {
        let end = "fence across: SUCCESS (0)\ndestruct across: SUCCESS (0)\nfinalize: SUCCESS (0)\n";
        assert_eq!(printed(&done), format!("{KNOWN}{}{end}", called(&proc)), "{proc}: {}", done.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_at_one_server_is_told_at_the_other_and_the_group_goes_on() {
    let Some(ended) = across(&["1"]).await else { return };
    for (proc, done) in ended {
        let whose = if proc.starts_with("one") { "own" } else { "other" };
        let dead = format!("hears -170 across about {whose}:1\n");
        let end = "fence across: SUCCESS (0)\ndestruct across: SUCCESS (0)\nfinalize: SUCCESS (0)\n";
        let then = if proc == "one:1" { String::new() } else { dead + end };
        let expected = format!("{KNOWN}{}fence across: SUCCESS (0)\n{then}", called(&proc));
        assert_eq!(printed(&done), expected, "{proc}: {}", done.stderr);
    }
}
