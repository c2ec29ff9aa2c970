//! Requests of a node to others, and seals of its audit trail, by the real NATS server.
use crate::support::{PATIENCE, RunningSite, node, settle};
use async_nats::{HeaderMap, jetstream};
use peal_cluster::{
    AskFailure, ClusterServerSettings, JoinedServer, RefusedSender, SealCounts, SealLimits,
    ServerKind, ServerNetwork, ServerTransport, TrailSeal,
};
use peal_core::{group::ServerId, server::InterServerMessage};
use peal_model::NodeName;
use peal_nats::{
    ClusterSubject, NatsNetwork, NodeAnswer, NodeAnswerFuture, NodeAsker, NodeService, SealQueue,
    read_seals, sealed_nodes,
};
use peal_needs::needs;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Server that only takes its number.
#[derive(Default)]
struct Alone(watch::Sender<Option<ServerId>>);

impl JoinedServer for Alone {
    fn enroll(&self, id: ServerId) {
        self.0.send_replace(Some(id));
    }

    fn server_joined(&self, _: ServerId, _: ServerKind) {}

    fn server_left(&self, _: ServerId) {}

    fn server_message(
        &self,
        _: ServerId,
        _: InterServerMessage,
    ) -> Result<(), Box<InterServerMessage>> {
        Ok(())
    }

    fn last_message(&self, _: ServerId, _: InterServerMessage) {}

    fn message_refused(&self, _from: RefusedSender, _reason: &str) {}

    fn max_server_inbox_bytes(&self) -> usize {
        1 << 20
    }
}

/// Service that says who asks for what, at length where it is asked to; `wait` waits for ever.
struct Echo;

impl NodeService for Echo {
    fn answer(&self, from: NodeName, request: Vec<u8>) -> NodeAnswerFuture {
        Box::pin(async move {
            let text = String::from_utf8(request).unwrap();
            match text.as_str() {
                "wait" => std::future::pending().await,
                "no" => Err("it says no".to_owned()),
                "much" => Ok(vec![b'm'; 3 << 20]),
                "too much" => Ok(vec![b'm'; 5 << 20]),
                _ => Ok(format!("{text} of {from}").into_bytes()),
            }
        })
    }
}

/// Server of a node, which has joined.
struct Member {
    transport: Arc<dyn ServerTransport>,
    seals: SealQueue,
}

/// Number of the next run of a server.
static RUNS: AtomicU64 = AtomicU64::new(0);

async fn member(running: &RunningSite, name: &str) -> Member {
    // Each join is that of another process.
    member_of_run(running, name, RUNS.fetch_add(1, Ordering::Relaxed)).await
}

async fn member_of_run(running: &RunningSite, name: &str, run: u64) -> Member {
    let limits = SealLimits {
        burst: 8,
        interval: Duration::from_secs(3600),
    };
    let seals = SealQueue::new(limits);
    let network = NatsNetwork::new(
        running.access(name),
        ClusterServerSettings::default(),
        "test".to_owned(),
        run,
    )
    .sealing(seals.clone());
    network.service().begin(Arc::new(Echo));
    let server = Arc::new(Alone::default());
    let mut id = server.0.subscribe();
    let transport = network.join(server, ServerKind::Node);
    let joined = tokio::time::timeout(PATIENCE, id.wait_for(Option::is_some)).await;
    joined.expect("not joined in time").unwrap();
    Member { transport, seals }
}

/// Asks nodes, and returns their answers.
async fn asked(
    asker: &NodeAsker,
    nodes: &[&str],
    request: &str,
    limit: Duration,
) -> BTreeMap<String, Result<String, AskFailure>> {
    let nodes = nodes.iter().map(|name| node(name)).collect();
    let mut answers = asker
        .ask(nodes, request.as_bytes().to_vec(), limit)
        .await
        .unwrap();
    let mut all = BTreeMap::new();
    while let Some(NodeAnswer { node, answer }) = answers.recv().await {
        let answer = answer.map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(all.insert(node.to_string(), answer).is_none());
    }
    all
}

#[needs(nats)]
#[tokio::test]
async fn nodes_answer_and_those_that_do_not_are_named() {
    let running = RunningSite::of_nodes(&["a", "b", "c"]).await;
    let _a = member(&running, "a").await;
    let b = member(&running, "b").await;
    let link = running.link("a").await;
    let asker = NodeAsker::new(&link);
    let all = asked(&asker, &["a", "b", "c"], "what", PATIENCE).await;
    assert_eq!(all["a"], Ok("what of a".to_owned()));
    assert_eq!(all["b"], Ok("what of a".to_owned()));
    // Nothing takes requests there.
    assert_eq!(all["c"], Err(AskFailure::NoServer));
    let all = asked(&asker, &["b"], "no", PATIENCE).await;
    assert_eq!(all["b"], Err(AskFailure::Refused("it says no".to_owned())));
    // Longer than a message of a NATS server.
    let all = asked(&asker, &["b"], "much", PATIENCE).await;
    assert_eq!(all["b"].as_ref().map(String::len), Ok(3 << 20));
    let all = asked(&asker, &["b"], "too much", PATIENCE).await;
    let Err(AskFailure::Refused(reason)) = &all["b"] else {
        panic!("{all:?}");
    };
    assert!(reason.ends_with("4194304 is the limit"), "{reason}");
    let limit = Duration::from_millis(50);
    let all = asked(&asker, &["a", "b"], "wait", limit).await;
    let silent = Err(AskFailure::Silent(limit));
    assert_eq!((&all["a"], &all["b"]), (&silent, &silent));
    // The requests that wait count; answers to others do not come then.
    for _ in 0..3 {
        asked(&asker, &["b"], "wait", limit).await;
    }
    let all = asked(&asker, &["b"], "what", PATIENCE).await;
    let Err(AskFailure::Refused(reason)) = &all["b"] else {
        panic!("{all:?}");
    };
    assert!(reason.ends_with("and 4 of one node"), "{reason}");
    // After it has left, nobody answers.
    b.transport.leave().await;
    drop(b);
    let began = Instant::now();
    loop {
        // A request that comes at the same time as the end has no answer.
        let limit = Duration::from_millis(200);
        let all = asked(&asker, &["b"], "what", limit).await;
        if all["b"] == Err(AskFailure::NoServer) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{all:?}");
    }
}

#[needs(nats)]
#[tokio::test]
async fn answer_in_the_name_of_another_node_does_not_count() {
    let running = RunningSite::of_nodes(&["a", "b", "c"]).await;
    let _b = member(&running, "b").await;
    let link = running.link("a").await;
    let mut c = running.link("c").await;
    // Node c may answer a, but only under its own name.
    let forged = link.subjects.text(&ClusterSubject::Answer {
        to: node("a"),
        from: node("b"),
        request: 7,
    });
    c.client.publish(forged, "junk".into()).await.unwrap();
    let told = crate::support::violation(&mut c).await;
    assert!(told.contains("inbox.a.b.7"), "{told}");
    // Answers of nodes that were not asked, and junk of those that were, harm no other.
    let asker = NodeAsker::new(&link);
    let mut asks = c
        .client
        .subscribe(c.subjects.asks_to(&node("c")))
        .await
        .unwrap();
    settle(&c).await;
    let answers = asked(&asker, &["b", "c"], "what", PATIENCE);
    let junk = async {
        let message = crate::support::next(&mut asks).await;
        let reply = message.reply.unwrap();
        c.client.publish(reply, "junk".into()).await.unwrap();
        c.client.flush().await.unwrap();
    };
    let (all, ()) = tokio::join!(answers, junk);
    assert_eq!(all["b"], Ok("what of a".to_owned()));
    assert!(
        matches!(all["c"], Err(AskFailure::Invalid(_))),
        "{:?}",
        all["c"]
    );
}

fn seal(number: u64) -> TrailSeal {
    TrailSeal {
        id: format!("id-{number}"),
        line: format!("seal {number}"),
    }
}

/// Waits until the stream has this many seals of the queue.
async fn stored(seals: &SealQueue, count: u64) {
    let began = Instant::now();
    while seals.counts().stored < count {
        assert!(began.elapsed() < PATIENCE, "{:?}", seals.counts());
        tokio::task::yield_now().await;
    }
}

/// Returns the numbers of the seals of a node that the stream has.
async fn lines(running: &RunningSite, of: &str) -> Vec<String> {
    let link = running.link("b").await;
    let seals = read_seals(&link, &node(of), None).await.unwrap();
    seals.into_iter().map(|seal| seal.line).collect()
}

#[needs(nats)]
#[tokio::test]
async fn seals_are_stored_once_each_and_after_an_absence() {
    let mut running = RunningSite::start(1).await;
    let Member { transport, seals } = member(&running, "a").await;
    (1..=2).for_each(|number| seals.add(seal(number)));
    stored(&seals, 2).await;
    running.kill();
    (3..=4).for_each(|number| seals.add(seal(number)));
    running.start_again();
    stored(&seals, 4).await;
    assert_eq!(
        lines(&running, "a").await,
        ["seal 1", "seal 2", "seal 3", "seal 4"]
    );
    // One that was stored, and whose answer was lost, is not stored again.
    seals.add(seal(4));
    stored(&seals, 5).await;
    assert_eq!(lines(&running, "a").await.len(), 4);
    // The last one comes after the server has left, beyond the rate.
    transport.leave().await;
    (5..=20).for_each(|number| seals.add(seal(number)));
    seals.finish(PATIENCE).await;
    assert_eq!(lines(&running, "a").await.last().unwrap(), "seal 20");
    let SealCounts {
        stored,
        superseded,
        waiting,
    } = seals.counts();
    assert_eq!((stored + superseded, waiting), (21, 0));
    let link = running.link("b").await;
    let counts = sealed_nodes(&link).await.unwrap();
    let count = lines(&running, "a").await.len() as u64;
    assert_eq!(counts, BTreeMap::from([(node("a"), count)]));
}

/// All nodes share the ids by which JetStream recognizes repeated messages.
#[needs(nats)]
#[tokio::test]
async fn node_cannot_have_records_of_another_dropped_as_repeated() {
    let running = RunningSite::start(1).await;
    let b = running.link("b").await;
    let run = u64::MAX;
    for (subject, id, stored) in [
        (
            ClusterSubject::Member { node: node("b") },
            format!("{run:016x}-1"),
            "junk",
        ),
        (
            ClusterSubject::Seal { node: node("b") },
            "a-id-1".to_owned(),
            // The same bytes under another name are another message.
            "seal 1",
        ),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        let context = jetstream::new(b.client.clone());
        let subject = b.subjects.text(&subject);
        let sent = context.publish_with_headers(subject, headers, stored.into());
        assert!(!sent.await.unwrap().await.unwrap().duplicate);
    }
    let Member { seals, .. } = member_of_run(&running, "a", run).await;
    seals.add(seal(1));
    stored(&seals, 1).await;
    assert_eq!(lines(&running, "a").await, ["seal 1"]);
}

#[needs(nats)]
#[tokio::test]
async fn seals_of_several_nodes_are_read_apart_and_by_time() {
    let running = RunningSite::start(1).await;
    let (a, b) = (member(&running, "a").await, member(&running, "b").await);
    for number in 0..5 {
        a.seals.add(seal(number));
        stored(&a.seals, number + 1).await;
        b.seals.add(seal(100 + number));
        stored(&b.seals, number + 1).await;
    }
    assert_eq!(
        lines(&running, "a").await,
        (0..5).map(|number| seal(number).line).collect::<Vec<_>>()
    );
    let link = running.link("b").await;
    let all = read_seals(&link, &node("b"), None).await.unwrap();
    assert_eq!(all.len(), 5);
    let later = read_seals(&link, &node("b"), Some(all[2].stored))
        .await
        .unwrap();
    assert_eq!(later, all[2..]);
}
