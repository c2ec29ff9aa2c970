//! Groups across several servers of one in-process transport: one job of unmodified `libpmix`
//! programs at each, and the effects on a group if a server goes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_client::{Absence, Client, ClientError, ConstructOptions, Invite, NotFormed};
use peal_model::{Infos, KeyName, Scope, Value, code, key};
use peal_needs::needs;
use peal_server::{InProcessNetwork, ServerSettings};
use peal_tests::{
    Done, c_program, finish,
    group_jobs::{NOTE, alike, construct, destruct, joins, note, procs_of, refused},
    in_process::{Node, begin, everything, listener, next, soon},
    libpmix::Release,
};
use std::process::Child;

/// Output of each of two procs that form a group with a job of two procs.
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

/// Starts a job of two procs on this library at each of two servers.
async fn across(library: &Release, args: &[&str]) -> Vec<(String, Done)> {
    let program = c_program("across");
    let network = InProcessNetwork::new();
    let jobs = ["one", "two"];
    let mut nodes = Vec::new();
    for job in jobs {
        nodes.push(Node::start(ServerSettings::default(), &network, job, 2).await);
    }
    let procs = nodes
        .iter()
        .zip(jobs)
        .zip(["two", "one"])
        .flat_map(|((node, job), other)| {
            let program = &program;
            (0..2).map(move |rank| {
                let mut command = node.program(rank, program);
                command.arg(other).args(args);
                let child = library.of(&mut command).spawn().unwrap();
                (format!("{job}:{rank}"), child)
            })
        });
    let procs: Vec<(String, Child)> = procs.collect();
    let ended = procs.into_iter().map(|(proc, child)| (proc, finish(child)));
    tokio::task::block_in_place(|| ended.collect())
}

/// Returns the output of a proc without its name.
fn printed(done: &Done) -> String {
    done.stdout
        .lines()
        .map(|line| line.split_once(": ").unwrap().1.to_owned() + "\n")
        .collect()
}

/// Returns the line that a proc prints for an event of the first job's first proc.
fn called(proc: &str) -> &'static str {
    match proc {
        "one:0" => "",
        "one:1" => "hears 424242 across by own:0\n",
        _ => "hears 424242 across by other:0\n",
    }
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn members_at_two_servers_know_each_other_and_group_name() {
    for library in [Release::system(), Release::peal()] {
        know_each_other(across(&library, &[]).await);
    }
}

#[track_caller]
fn know_each_other(ended: Vec<(String, Done)>) {
    for (proc, done) in ended {
        let end =
            "fence across: SUCCESS (0)\ndestruct across: SUCCESS (0)\nfinalize: SUCCESS (0)\n";
        assert_eq!(
            printed(&done),
            format!("{KNOWN}{}{end}", called(&proc)),
            "{proc}: {}",
            done.stderr
        );
    }
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn death_at_one_server_is_sent_to_other_and_group_continues() {
    for library in [Release::system(), Release::peal()] {
        go_on_after_a_death(across(&library, &["1"]).await);
    }
}

#[track_caller]
fn go_on_after_a_death(ended: Vec<(String, Done)>) {
    for (proc, done) in ended {
        let whose = if proc.starts_with("one") {
            "own"
        } else {
            "other"
        };
        let dead = format!("hears -170 across about {whose}:1\n");
        let end =
            "fence across: SUCCESS (0)\ndestruct across: SUCCESS (0)\nfinalize: SUCCESS (0)\n";
        let then = if proc == "one:1" {
            String::new()
        } else {
            dead + end
        };
        let expected = format!("{KNOWN}{}fence across: SUCCESS (0)\n{then}", called(&proc));
        assert_eq!(printed(&done), expected, "{proc}: {}", done.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_server_leaves_groups_and_waiting_ones_end() {
    // The first server is the coordinator. If it goes, the next one takes over.
    for goes in [2, 0] {
        let network = InProcessNetwork::new();
        let mut nodes = Vec::new();
        for job in ["first", "second", "third"] {
            nodes.push(Node::start(ServerSettings::default(), &network, job, 1).await);
        }
        let clients = [
            nodes[0].client(0).await,
            nodes[1].client(0).await,
            nodes[2].client(0).await,
        ];
        let everybody = procs_of(&clients);
        let calls = clients.iter().map(|client| {
            (
                client,
                ConstructOptions::of(&everybody)
                    .notify_termination()
                    .context_id(),
            )
        });
        let before = alike(construct("before", calls.collect()).await);
        let left: Vec<usize> = (0..3).filter(|at| *at != goes).collect();
        let left = [clients[left[0]].clone(), clients[left[1]].clone()];
        let mut heard = Vec::new();
        for client in &left {
            let (handler, hears) = listener();
            client
                .register(&[code::PMIX_GROUP_MEMBER_FAILED], everything(), handler)
                .await
                .unwrap();
            heard.push(hears);
        }

        let mut waits = Vec::new();
        for client in left.clone() {
            let named = everybody.clone();
            let call = async move {
                client
                    .group_construct("during", ConstructOptions::of(&named))
                    .await
            };
            waits.push(begin(call).await);
        }
        // The answers to their next requests come after that.
        for client in &left {
            assert_eq!(client.group_members("before").await.unwrap(), everybody);
        }
        let gone = tokio::spawn(nodes.remove(goes).server.shutdown());
        for wait in waits {
            let error = soon("the construct ends", wait).await.unwrap().unwrap_err();
            assert_eq!(error.status(), code::PMIX_GROUP_CONSTRUCT_ABORT, "{error}");
        }
        let survivors = procs_of(&left);
        for hears in &mut heard {
            let event = next(hears).await;
            let about = event.infos.value_of(key::PMIX_EVENT_AFFECTED_PROC);
            assert_eq!(about, Some(&Value::Proc(everybody[goes].clone())));
            assert_eq!(
                event
                    .infos
                    .value_of(key::PMIX_GROUP_MEMBERSHIP)
                    .unwrap()
                    .as_procs()
                    .unwrap(),
                survivors
            );
        }
        destruct("before", &left).await;

        let calls = left
            .iter()
            .map(|client| (client, ConstructOptions::of(&survivors).context_id()));
        let after = alike(construct("after", calls.collect()).await);
        assert_eq!(after.members, survivors);
        assert_ne!(after.context_id, before.context_id);
        let all = left
            .iter()
            .map(|client| (client, ConstructOptions::of(&everybody)))
            .collect();
        refused(construct("again", all).await);
        drop(clients);
        soon("the server ends", gone).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invitation_across_servers_brings_committed_values() {
    const GLOBAL: KeyName = KeyName("test.global");
    let network = InProcessNetwork::new();
    let near = Node::start(ServerSettings::default(), &network, "near", 2).await;
    let far = Node::start(ServerSettings::default(), &network, "far", 1).await;
    let clients = [
        near.client(0).await,
        near.client(1).await,
        far.client(0).await,
    ];
    let everybody = procs_of(&clients);
    let text = |client: &Client| Value::string(&format!("by {}", client.me()));
    for client in &clients {
        client.put(Scope::Remote, NOTE.into(), text(client));
        client.commit().await.unwrap();
        client.put(Scope::Global, GLOBAL.into(), text(client));
        client.commit().await.unwrap();
        client.put(Scope::Local, KeyName("test.local").into(), text(client));
        client.commit().await.unwrap();
    }
    let mut joined = [joins(&clients[1]).await, joins(&clients[2]).await];
    let invite = Invite::new().context_id();
    let group = soon(
        "all accept",
        clients[0].group_invite("crew", &everybody[1..], invite),
    )
    .await
    .unwrap();
    assert_eq!(group.members, everybody);
    for joined in &mut joined {
        let joined = soon("a join ends", joined.recv()).await.unwrap().unwrap();
        assert_eq!(
            (&joined.members, joined.context_id),
            (&group.members, group.context_id)
        );
        assert_eq!(joined.infos_of(&everybody[2]), [note("said by far:0")]);
    }
    for (client, other) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
        for key in [NOTE, GLOBAL] {
            let found = soon(
                "a get is answered",
                clients[client].get(&everybody[other], key, &[]),
            )
            .await
            .unwrap();
            assert_eq!(
                found,
                text(&clients[other]),
                "{key:?} of {other} for {client}"
            );
        }
    }
    let local = clients[2].get(&everybody[0], KeyName("test.local"), &[]);
    let error = soon("a get is answered", local).await.unwrap_err();
    assert_eq!(
        error.status(),
        code::PMIX_ERR_NOT_FOUND,
        "it is for the other node: {error}"
    );
    for client in &clients {
        assert_eq!(client.group_members("crew").await.unwrap(), everybody);
    }
    destruct("crew", &clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inviter_receives_lost_remote_procs_and_servers() {
    for server_goes in [false, true] {
        let network = InProcessNetwork::new();
        let near = Node::start(ServerSettings::default(), &network, "near", 1).await;
        let far = Node::start(ServerSettings::default(), &network, "far", 1).await;
        let leader = near.client(0).await;
        let invited = far.client(0).await;
        let (handler, mut invitations) = listener();
        invited
            .register(&[code::PMIX_GROUP_INVITED], everything(), handler)
            .await
            .unwrap();
        let named = [far.proc(0)];
        let call =
            tokio::spawn(async move { leader.group_invite("crew", &named, Invite::new()).await });
        next(&mut invitations).await;
        let gone = if server_goes {
            Some((tokio::spawn(far.server.shutdown()), invited))
        } else {
            drop(invited);
            None
        };
        let ended = soon("the inviting proc is notified", call).await.unwrap();
        let Err(ClientError::NotFormed {
            reason: NotFormed::Absent(absent),
            ..
        }) = ended
        else {
            panic!("{ended:?}")
        };
        assert!(
            matches!(&absent[..], [(proc, Absence::Ended)] if proc.nspace.as_str() == "far"),
            "{absent:?}"
        );
        if let Some((gone, invited)) = gone {
            drop(invited);
            soon("the server ends", gone).await.unwrap();
        }
    }
}
