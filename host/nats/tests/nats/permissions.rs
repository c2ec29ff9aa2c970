//! A node publishes, subscribes and reads only where it may, by the real NATS server.
use crate::support::{PATIENCE, RunningSite, expecting, next, node, settle, subscribed, violation};
use async_nats::{Client, jetstream};
use peal_nats::{ClusterStream, ClusterSubject, NatsLink};
use peal_needs::needs;
use serde_json::Value;
use std::time::Instant;

/// Publishes, and expects a violation that names the subject.
async fn expect_refused(link: &mut NatsLink, subject: &str) {
    link.client
        .publish(subject.to_owned(), "{}".into())
        .await
        .unwrap();
    let text = violation(link).await;
    assert!(
        text.contains("for Publish") && text.contains(&format!("\"{subject}\"")),
        "{subject}: {text}"
    );
}

/// Returns the answer of JetStream to a request.
async fn answer(client: &Client, subject: &str, request: &str) -> Value {
    let answer = client
        .request(subject.to_owned(), request.to_owned().into())
        .await
        .unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

/// Returns the number of messages of a stream, and the sequence of the last one.
async fn state(link: &NatsLink, stream: ClusterStream) -> (u64, u64) {
    let [info, _] = link.subjects.reads(stream);
    let state = answer(&link.client, &info, "").await["state"].take();
    let number = |field: &str| state[field].as_u64().unwrap();
    (number("messages"), number("last_seq"))
}

#[needs(nats)]
#[tokio::test]
async fn node_cannot_publish_as_another_or_change_streams() {
    let running = RunningSite::start(1).await;
    let mut a = running.link("a").await;
    let before = [
        state(&a, ClusterStream::Members).await,
        state(&a, ClusterStream::Seals).await,
    ];
    for subject in [
        "peal.site.from.b.all",
        "peal.site.from.b.to.a",
        "peal.site.from.a.some",
        "peal.site.members.b",
        "peal.site.verdicts.b",
        "peal.site.seals.b",
        "peal.site.deployments.b",
        "peal.site.readiness.b",
        "peal.site.objects.b.0.0",
        "peal.site.stored.deployments.a",
        "peal.site.stored.readiness.b",
        "peal.site.sequenced",
        "peal.site.ask.a.b",
        "peal.site.inbox.a.b.1",
        "peal.site.inbox.b.c.1",
        "peal.site.administration.x",
        "peal.other.from.a.all",
        "$JS.API.STREAM.DELETE.PEAL_site_MEMBERS",
        "$JS.API.STREAM.DELETE.PEAL_site_SEALS",
        "$JS.API.STREAM.PURGE.PEAL_site_MEMBERS",
        "$JS.API.STREAM.PURGE.PEAL_site_SEALS",
        "$JS.API.STREAM.MSG.DELETE.PEAL_site_SEALS",
        "$JS.API.STREAM.UPDATE.PEAL_site_SEALS",
        "$JS.API.STREAM.CREATE.other",
        "$JS.API.STREAM.INFO.other",
        "$JS.API.STREAM.NAMES",
        "$JS.API.DIRECT.GET.PEAL_site_MEMBERS",
        "$JS.API.DIRECT.GET.PEAL_site_MEMBERS.peal.site.members.a",
        "$JS.API.CONSUMER.CREATE.PEAL_site_MEMBERS",
        "$JS.API.CONSUMER.CREATE.PEAL_site_MEMBERS.c",
        "$JS.API.CONSUMER.CREATE.PEAL_site_MEMBERS.sequenced",
        "$JS.API.CONSUMER.DELETE.PEAL_site_MEMBERS.sequenced",
        "$JS.API.CONSUMER.PAUSE.PEAL_site_MEMBERS.sequenced",
        "$JS.API.CONSUMER.RESET.PEAL_site_MEMBERS.sequenced",
        "$JS.API.CONSUMER.DURABLE.CREATE.PEAL_site_MEMBERS.c",
        "$JS.API.CONSUMER.MSG.NEXT.PEAL_site_MEMBERS.c",
        "$JS.API.INFO",
        "$JS.ACK.PEAL_site_MEMBERS.c.1.1.1.1.1",
        "$SYS.REQ.SERVER.PING",
        "other",
    ] {
        expect_refused(&mut a, subject).await;
    }
    let after = [
        state(&a, ClusterStream::Members).await,
        state(&a, ClusterStream::Seals).await,
    ];
    assert_eq!(after, before);
}

#[needs(nats)]
#[tokio::test]
async fn node_cannot_subscribe_to_what_is_for_others() {
    let running = RunningSite::start(1).await;
    let mut a = running.link("a").await;
    for subject in [
        "peal.site.from.*.to.b",
        "peal.site.from.b.to.b",
        "peal.site.from.*.to.*",
        "peal.site.from.>",
        "peal.site.ask.b.*",
        "peal.site.ask.*.*",
        "peal.site.inbox.b.>",
        "peal.site.inbox.>",
        "peal.site.members.*",
        "peal.site.verdicts.*",
        "peal.site.seals.*",
        "peal.site.administration.>",
        "peal.site.>",
        "peal.>",
        "peal.other.from.*.all",
        "$JS.API.>",
        "$JS.EVENT.>",
        "$SYS.>",
        "_INBOX.>",
        ">",
    ] {
        let _refused = a.client.subscribe(subject).await.unwrap();
        let text = violation(&mut a).await;
        assert!(
            text.contains("for Subscription") && text.contains(&format!("\"{subject}\"")),
            "{subject}: {text}"
        );
    }
}

#[needs(nats)]
#[tokio::test]
async fn messages_of_nodes_reach_their_recipients() {
    let running = RunningSite::start(1).await;
    let (a, b) = (running.link("a").await, running.link("b").await);
    let subjects = &a.subjects;
    for (subscription, subject) in [
        (
            subjects.broadcasts(),
            ClusterSubject::Broadcast { from: node("a") },
        ),
        (
            subjects.messages_to(&node("b")),
            ClusterSubject::Direct {
                from: node("a"),
                to: node("b"),
            },
        ),
        (
            subjects.asks_to(&node("b")),
            ClusterSubject::Ask {
                to: node("b"),
                from: node("a"),
            },
        ),
        (
            subjects.inbox(&node("b")),
            ClusterSubject::Answer {
                to: node("b"),
                from: node("a"),
                request: 7,
            },
        ),
    ] {
        let mut arrivals = subscribed(&b, subscription).await;
        let text = subjects.text(&subject);
        a.client.publish(text, "frame".into()).await.unwrap();
        // The inbox also has what the node sent to itself.
        let arrival = loop {
            let arrival = next(&mut arrivals).await;
            if arrival.payload != "settle" {
                break arrival;
            }
        };
        assert_eq!(b.subjects.parse(&arrival.subject), Ok(subject));
        assert_eq!(arrival.payload, "frame");
    }
}

#[needs(nats)]
#[tokio::test]
async fn members_and_verdicts_are_stored_in_one_sequence() {
    let running = RunningSite::start(1).await;
    let (a, b) = (running.link("a").await, running.link("b").await);
    let mut sequenced = subscribed(&b, b.subjects.sequenced()).await;
    let written = [
        (&a, ClusterSubject::Member { node: node("a") }),
        (&b, ClusterSubject::Verdict { by: node("b") }),
    ];
    // The first position is the time at which the stream was made.
    let (_, before) = state(&a, ClusterStream::Members).await;
    for (last, (link, subject)) in (before..).zip(written) {
        let text = link.subjects.text(&subject);
        let context = jetstream::new(link.client.clone());
        let store = |last| {
            let (context, text) = (context.clone(), text.clone());
            async move {
                let sent = context.publish_with_headers(text, expecting(last), "frame".into());
                sent.await.unwrap().await
            }
        };
        // One that assumes another last sequence is refused, and takes no place in the sequence.
        assert!(store(last + 5).await.is_err());
        assert_eq!(store(last).await.unwrap().sequence, last + 1);
        let message = next(&mut sequenced).await;
        assert_eq!(b.subjects.parse(&message.subject), Ok(subject));
        let reply = message.reply.unwrap();
        let expected = format!("$JS.ACK.PEAL_site_MEMBERS.sequenced.1.{}.", last + 1);
        assert!(reply.starts_with(&expected), "{reply}");
        let [_, get] = a.subjects.reads(ClusterStream::Members);
        let stored = answer(&a.client, &get, &format!("{{\"seq\":{}}}", last + 1)).await;
        assert_eq!(stored["message"]["subject"], text.as_str());
    }
    assert_eq!(state(&a, ClusterStream::Members).await, (2, before + 2));
}

#[needs(nats)]
#[tokio::test]
async fn node_with_every_permission_cannot_erase_seals() {
    let open = RunningSite::start_bare(1, |config| {
        for user in config["accounts"]["PEAL"]["users"].as_array_mut().unwrap() {
            user.as_object_mut().unwrap().remove("permissions");
        }
    });
    peal_nats::apply_streams(&open.site).await.unwrap();
    let a = open.link("a").await;
    let subject = a.subjects.text(&ClusterSubject::Seal { node: node("a") });
    let context = jetstream::new(a.client.clone());
    context
        .publish(subject, "seal".into())
        .await
        .unwrap()
        .await
        .unwrap();
    for (verb, request) in [
        ("PURGE", ""),
        ("MSG.DELETE", "{\"seq\":1,\"no_erase\":true}"),
    ] {
        let subject = format!("$JS.API.STREAM.{verb}.PEAL_site_SEALS");
        let answer = answer(&a.client, &subject, request).await;
        let text = answer["error"]["description"].as_str().unwrap();
        assert!(text.contains("not permitted"), "{verb}: {text}");
    }
    assert_eq!(state(&a, ClusterStream::Seals).await, (1, 1));
}

/// JetStream answers to the subject that a requester names. Answers to the requests of nodes are JSON,
/// which no frame of a server is, and are refused as requests of JetStream.
#[needs(nats)]
#[tokio::test]
async fn answers_of_jetstream_carry_no_bytes_of_a_node() {
    let running = RunningSite::start(1).await;
    let (a, b) = (running.link("a").await, running.link("b").await);
    let context = jetstream::new(b.client.clone());
    let seal = b.subjects.text(&ClusterSubject::Seal { node: node("b") });
    context
        .publish(seal, "seal".into())
        .await
        .unwrap()
        .await
        .unwrap();
    let mut broadcasts = subscribed(&b, b.subjects.broadcasts()).await;
    let own = a.subjects.text(&ClusterSubject::Member { node: node("a") });
    let requests = ClusterStream::ALL
        .into_iter()
        .flat_map(|stream| a.subjects.reads(stream))
        .chain([own]);
    let requests: Vec<String> = requests.collect();
    let bodies = ["", "{\"seq\":1}", "forged"];
    for request in &requests {
        for body in bodies {
            a.client
                .publish_with_reply(request.clone(), "peal.site.from.b.all", body.into())
                .await
                .unwrap();
            let answer = next(&mut broadcasts).await;
            assert_eq!(answer.subject.as_str(), "peal.site.from.b.all");
            assert!(answer.payload.starts_with(b"{"), "{request}: {answer:?}");
        }
    }
    // What a node stored last, and an empty message, could be requests.
    let targets = ["DELETE", "PURGE", "MSG.DELETE", "UPDATE"]
        .iter()
        .flat_map(|verb| {
            ["MEMBERS", "SEALS"].map(|stream| format!("$JS.API.STREAM.{verb}.PEAL_site_{stream}"))
        });
    for target in targets {
        for request in &requests {
            for body in bodies {
                a.client
                    .publish_with_reply(request.clone(), target.clone(), body.into())
                    .await
                    .unwrap();
            }
        }
    }
    settle(&a).await;
    let (members, last) = state(&a, ClusterStream::Members).await;
    assert!(members > 0 && last >= members);
    assert_eq!(state(&a, ClusterStream::Seals).await, (1, 1));
    // Answers can even be stored under the name of another node. Readers drop them, as no frames.
    for (stream, target) in [
        (ClusterStream::Members, "peal.site.members.b"),
        (ClusterStream::Seals, "peal.site.seals.b"),
    ] {
        a.client
            .publish_with_reply(requests[4].clone(), target, "forged".into())
            .await
            .unwrap();
        let [_, get] = a.subjects.reads(stream);
        let last = format!("{{\"last_by_subj\":\"{target}\"}}");
        // `{"` in Base64. The NATS server answers, and so stores, in its own time.
        let forged = async {
            let is_forged = |stored: &Value| {
                let data = stored["message"]["data"].as_str();
                data.is_some_and(|data| data.starts_with("ey"))
            };
            while !is_forged(&answer(&a.client, &get, &last).await) {}
        };
        let forged = tokio::time::timeout(PATIENCE, forged).await;
        forged.expect("an answer is stored");
    }
}

/// Shows why nodes have no direct reads: with them, and a stream that offers them, a node forges messages
/// and deletes streams. If this test fails, NATS servers prevent it, and nodes could read faster.
#[needs(nats)]
#[tokio::test]
async fn direct_reads_would_let_a_node_forge_and_delete() {
    let subject = "$JS.API.DIRECT.GET.PEAL_site_MEMBERS";
    let running = RunningSite::start_bare(1, |config| {
        let users = config["accounts"]["PEAL"]["users"].as_array_mut().unwrap();
        // The first node may read directly, and the second has every permission.
        let publish = users[1]["permissions"]["publish"].as_array_mut().unwrap();
        publish.push(subject.into());
        users[2].as_object_mut().unwrap().remove("permissions");
    });
    peal_nats::apply_streams(&running.site).await.unwrap();
    let (a, b) = (running.link("a").await, running.link("b").await);
    let all = jetstream::new(b.client.clone());
    let members = all.get_stream("PEAL_site_MEMBERS").await.unwrap();
    let mut config = members.cached_info().config.clone();
    config.allow_direct = true;
    all.update_stream(&config).await.unwrap();
    let mut broadcasts = subscribed(&b, b.subjects.broadcasts()).await;
    let own = a.subjects.text(&ClusterSubject::Member { node: node("a") });
    let context = jetstream::new(a.client.clone());
    let read_to = async |target: &str, payload: &'static str| {
        let stored = context.publish(own.clone(), payload.into()).await.unwrap();
        let sequence = stored.await.unwrap().sequence;
        let request = format!("{{\"seq\":{sequence},\"no_hdr\":true}}");
        a.client
            .publish_with_reply(subject, target.to_owned(), request.into())
            .await
            .unwrap();
    };
    read_to("peal.site.from.b.all", "forged").await;
    let forged = next(&mut broadcasts).await;
    assert_eq!(forged.subject.as_str(), "peal.site.from.b.all");
    assert_eq!(
        (&forged.payload[..], forged.headers),
        (&b"forged"[..], None)
    );
    read_to("$JS.API.STREAM.DELETE.PEAL_site_SEALS", "").await;
    // The request is on its way when the node's own are done, so its effect is waited for.
    let began = Instant::now();
    while all.get_stream("PEAL_site_SEALS").await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "the stream is still there");
    }
}
