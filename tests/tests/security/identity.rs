//! Identity of peers according to the kernel: claims of other users, of other ranks, and of
//! unrelated processes are refused.
use peal_client::{Client, Environment};
use peal_core::choice::IdentityCheck;
use peal_core::job::ProcPhase;
use peal_model::{Proc, Range, Status, code};
use peal_needs::needs;
use peal_server::{Counters, HostEnvironment, InProcessNetwork, ProcessLookup, ServerSettings};
use peal_tests::{
    Done, c_program, finish,
    in_process::{Node, listener, next, soon},
    peal, program,
    raw_client::{encoded, hello},
    run,
};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
};

/// Runs a script as every proc of a job.
fn script(procs: &str, text: &str) -> Done {
    let dir = tempfile::tempdir().unwrap();
    let mut command = peal(["run", "-n", procs, "--", "sh", "-c", text]);
    let claim = c_program("claim");
    run(command
        .current_dir(&dir)
        .env("CLAIM", claim)
        .env("PEAL_CLAIM", program("peal-test-identity")))
}

#[needs(prepared, libpmix)]
#[test]
fn rank_cannot_be_claimed_by_another_rank_of_same_user() {
    let text = "until_there() { until test -e $1; do :; done; }
        if test $PMIX_RANK = 0; then
            until_there before; mkfifo input; $PEAL_CLAIM <input >output & exec 3>input
            until grep admitted output; do :; done 2>/dev/null; touch there
            until_there after; exec 3>&-; wait; cat output
        else
            PMIX_RANK=0 $CLAIM | sed 's/^/thief: /'; PMIX_RANK=0 $PEAL_CLAIM | sed 's/^/thief: /'; touch before
            until_there there; PMIX_RANK=0 $CLAIM | sed 's/^/thief: /'; PMIX_RANK=0 $PEAL_CLAIM | sed 's/^/thief: /'
            $CLAIM | sed 's/^/itself: /'; touch after
        fi";
    let done = script("2", text).expect_status(0);
    let of = |who: &str| {
        done.stdout
            .lines()
            .filter(|line| line.starts_with(who))
            .collect::<Vec<_>>()
    };
    let thief = of("thief: ");
    assert_eq!(thief.len(), 4, "{done:?}");
    assert!(
        thief.iter().all(|line| line.contains("refused")),
        "{done:?}"
    );
    assert_eq!(
        of("itself: ")
            .iter()
            .filter(|line| line.contains("admitted as rank 1"))
            .count(),
        1,
        "{done:?}"
    );
    assert!(
        done.stdout.ends_with("left\n") && done.stdout.contains("admitted as rank 0\n"),
        "{done:?}"
    );
    assert!(done.stderr.contains(":0 is claimed; process "), "{done:?}");
}

#[needs(prepared, libpmix)]
#[test]
fn a_descendant_of_a_rank_may_connect_as_its_clone() {
    let claim = c_program("claim");
    let done = run(peal(["run", "-n", "2", "--"]).arg(claim).arg("fork")).expect_status(0);
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    let admitted = [
        "child: admitted as rank 0",
        "child: admitted as rank 1",
        "proc: admitted as rank 0",
        "proc: admitted as rank 1",
    ];
    assert_eq!(lines, admitted);
}

/// Host environment that knows the processes which the test sets.
#[derive(Default)]
struct Launcher(Mutex<BTreeMap<Proc, ProcessLookup>>);

impl Launcher {
    fn says(&self, proc: Proc, process: ProcessLookup) {
        self.0.lock().unwrap().insert(proc, process);
    }
}

impl HostEnvironment for Launcher {
    fn process_of(&self, proc: &Proc) -> ProcessLookup {
        self.0
            .lock()
            .unwrap()
            .get(proc)
            .copied()
            .unwrap_or(ProcessLookup::Unknown)
    }
}

async fn start(settings: ServerSettings) -> (Node, Arc<Launcher>) {
    let launcher = Arc::new(Launcher::default());
    let node = Node::under(
        launcher.clone(),
        settings,
        &InProcessNetwork::new(),
        "job",
        4,
    )
    .await;
    (node, launcher)
}

/// Process that claims to be a rank.
struct Claimant {
    process: Child,
    output: std::io::Lines<BufReader<ChildStdout>>,
}

impl Claimant {
    /// Starts it as a direct child or below another process.
    fn start(node: &Node, rank: u32, command: &mut Command) -> Claimant {
        let Environment { me, server, .. } = node.environment(rank);
        command
            .env("PMIX_NAMESPACE", me.nspace.as_str())
            .env("PMIX_RANK", me.rank.0.to_string());
        command
            .env("PMIX_SERVER_URI41", server.to_string())
            .env("PEAL_CLAIM", program("peal-test-identity"));
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Claimant { process, output }
    }

    fn itself(node: &Node, rank: u32) -> Claimant {
        Claimant::start(node, rank, &mut Command::new(program("peal-test-identity")))
    }

    fn says(&mut self) -> String {
        self.output.next().expect("it has ended").unwrap()
    }

    #[track_caller]
    fn is_admitted(&mut self) {
        let said = self.says();
        assert!(said.starts_with("admitted"), "{said}");
    }

    #[track_caller]
    fn ends_refused(mut self) {
        let said = self.says();
        assert!(said.starts_with("refused"), "{said}");
        self.process.wait().unwrap();
    }

    fn leaves(mut self) {
        drop(self.process.stdin.take());
        assert_eq!(self.says(), "left");
        self.process.wait().unwrap();
    }
}

fn counts(node: &Node) -> (u64, u64) {
    let counters: &Counters = node.server.counters();
    (
        counters.connections_identity_mismatch.get(),
        counters.connections_refused.get(),
    )
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn known_process_and_descendants_are_the_only_proc() {
    let (node, launcher) = start(ServerSettings::default()).await;
    let rank_0 = node.proc(0);
    // It connects once the host environment knows it.
    let script = "read go; $PEAL_CLAIM </dev/null; exec $PEAL_CLAIM";
    let mut shell = Claimant::start(&node, 0, Command::new("sh").args(["-c", script]));
    launcher.says(rank_0.clone(), ProcessLookup::Running(shell.process.id()));
    Claimant::itself(&node, 0).ends_refused();
    assert_eq!(counts(&node), (1, 1));
    shell
        .process
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"go\n")
        .unwrap();
    shell.is_admitted();
    assert_eq!(shell.says(), "left");
    shell.is_admitted();
    Claimant::itself(&node, 0).ends_refused();
    let error = soon("a test is no rank", Client::connect(&node.environment(0)))
        .await
        .err()
        .unwrap();
    assert_eq!(error.status(), code::PMIX_ERR_UNREACH, "{error}");
    assert_eq!(counts(&node), (3, 3));
    assert!(matches!(
        node.server.handle().life(rank_0.clone()).await,
        Some(ProcPhase::Connected(1))
    ));
    shell.leaves();
    launcher.says(rank_0, ProcessLookup::Ended);
    Claimant::itself(&node, 0).ends_refused();
    assert_eq!(counts(&node), (4, 4));
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn first_live_claim_is_accepted_if_host_has_no_process() {
    let (node, _) = start(ServerSettings::default()).await;
    // The test is rank 0, and may connect twice. A child is its clone.
    let first = node.client(0).await;
    let second = node.client(0).await;
    let mut child = Claimant::itself(&node, 0);
    child.is_admitted();
    // One child is rank 1, and another one is not.
    let mut one = Claimant::itself(&node, 1);
    one.is_admitted();
    for refused in 1..=3 {
        Claimant::itself(&node, 1).ends_refused();
        assert_eq!(counts(&node), (refused, refused));
    }
    one.leaves();
    // It finalized, and no other process has the rank: the claim is a first one again.
    let mut other = Claimant::itself(&node, 1);
    other.is_admitted();
    // The server goes on serving the rank.
    let (handler, mut heard) = listener();
    second
        .register(&[Status(-3100)], &[], handler)
        .await
        .unwrap();
    node.client(2)
        .await
        .notify(Status(-3100), Range::Namespace, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut heard).await.code, Status(-3100));
    other.leaves();
    child.leaves();
    first.finalize().await.unwrap();
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn first_claimant_may_return_while_a_descendant_lives() {
    let (node, _) = start(ServerSettings::default()).await;
    let first = node.client(0).await;
    let mut child = Claimant::itself(&node, 0);
    child.is_admitted();
    first.finalize().await.unwrap();
    node.client(0).await.finalize().await.unwrap();
    child.leaves();
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn any_process_of_user_may_be_rank_if_only_users_are_checked() {
    let settings = ServerSettings {
        identity: IdentityCheck::User,
        ..ServerSettings::default()
    };
    let (node, launcher) = start(settings).await;
    launcher.says(node.proc(1), ProcessLookup::Ended);
    let mut one = Claimant::itself(&node, 1);
    one.is_admitted();
    let mut other = Claimant::itself(&node, 1);
    other.is_admitted();
    one.leaves();
    other.leaves();
    assert_eq!(counts(&node), (0, 0));
}

/// Sends these bytes to a port as another user, and ends at once.
fn say_and_vanish(user: u32, port: u16, bytes: &[u8]) -> Done {
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("cat >/dev/tcp/127.0.0.1/{port}")])
        .uid(user)
        .gid(user);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    finish(child)
}

#[needs(prepared, root)]
#[tokio::test(flavor = "multi_thread")]
async fn other_user_is_refused_also_after_vanishing() {
    let (node, _) = start(ServerSettings::default()).await;
    let mut honest = hello(node.proc(1));
    honest.credential = peal_wire::Credential::Native(peal_wire::ClaimedUser {
        uid: 65_534,
        gid: 65_534,
    });
    let lie = encoded(&hello(node.proc(0)));
    let truth = encoded(&honest);
    let port = node.environment(0).server.addr.port();
    // The kernel's table of sockets lists closed connections under root.
    for round in 1..=10 {
        for bytes in [&lie, &truth] {
            let bytes = bytes.clone();
            tokio::task::spawn_blocking(move || say_and_vanish(65_534, port, &bytes))
                .await
                .unwrap()
                .expect_status(0);
        }
        let all = async {
            while counts(&node).1 < 2 * round {
                tokio::task::yield_now().await;
            }
        };
        // If the kernel was asked before they had gone, they are counted as identity mismatches.
        soon("both are refused", all).await;
    }
    let (impostors, refused) = counts(&node);
    assert!(
        impostors <= 20 && refused == 20,
        "{impostors} impostors among {refused}"
    );
    assert_eq!(
        node.server.handle().life(node.proc(0)).await,
        Some(ProcPhase::Expected)
    );
    node.client(0).await.finalize().await.unwrap();
}
