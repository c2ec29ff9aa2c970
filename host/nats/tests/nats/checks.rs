//! NATS servers that are fit for a cluster, and others that are refused by name.
use crate::support::{PATIENCE, RunningSite, free_port, node};
use async_nats::jetstream;
use peal_config::NatsAddress;
use peal_nats::{
    AppliedStream, ClusterAccess, LinkError, NatsLink, ServerProblem, SiteRequest,
    StreamSetupError, apply_streams, check_server, plan_streams,
};
use peal_needs::needs;
use std::{fs, time::Instant};

async fn problems(running: &RunningSite) -> Vec<ServerProblem> {
    let mut link = running.link("a").await;
    check_server(&mut link).await.problems
}

/// Returns the problems as users see them.
async fn told(running: &RunningSite) -> Vec<String> {
    let problems = problems(running).await;
    problems.iter().map(ToString::to_string).collect()
}

/// Streams of the cluster `site`.
const STREAMS: [&str; 4] = [
    "PEAL_site_MEMBERS",
    "PEAL_site_SEALS",
    "PEAL_site_MODULES",
    "PEAL_site_OBJECTS",
];

#[needs(nats)]
#[tokio::test]
async fn prepared_server_is_fit_and_reports_its_state() {
    let running = RunningSite::start(1).await;
    let mut link = running.link("a").await;
    let report = check_server(&mut link).await;
    assert_eq!(report.require_fit(), Ok(()));
    assert_eq!(report.version, "2.15.1");
    assert!(report.has_jetstream && report.round_trip.is_some());
    let names: Vec<&str> = report
        .streams
        .iter()
        .map(|stream| stream.name.as_str())
        .collect();
    assert_eq!(names, STREAMS);
    assert_eq!(report.streams[0].messages, 0);
    let again = apply_streams(&running.site).await.unwrap();
    assert!(
        again
            .iter()
            .all(|stream| matches!(stream, AppliedStream::Kept(_))),
        "{again:?}"
    );
}

#[needs(nats)]
#[tokio::test]
async fn three_servers_store_streams_three_times() {
    let running = RunningSite::start(3).await;
    let mut link = running.link("a").await;
    let report = check_server(&mut link).await;
    assert_eq!(report.require_fit(), Ok(()));
    for stream in report.streams {
        assert_eq!(stream.replicas, 3, "{}", stream.name);
        assert!(stream.leader.is_some(), "{}", stream.name);
    }
}

#[needs(nats)]
#[tokio::test]
async fn server_without_jetstream_is_refused() {
    let nowhere = RunningSite::start_bare(1, |config| {
        config.as_object_mut().unwrap().remove("jetstream");
        let account = config["accounts"]["PEAL"].as_object_mut().unwrap();
        account.remove("jetstream");
    });
    let not_for_nodes = RunningSite::start_bare(1, |config| {
        let account = config["accounts"]["PEAL"].as_object_mut().unwrap();
        account.remove("jetstream");
    });
    for running in [nowhere, not_for_nodes] {
        assert_eq!(problems(&running).await, [ServerProblem::NoJetStream]);
        let error = apply_streams(&running.site).await.unwrap_err();
        assert!(matches!(error, StreamSetupError::NoJetStream), "{error}");
    }
}

#[needs(nats)]
#[tokio::test]
async fn server_without_permissions_is_refused() {
    let running = RunningSite::start_bare(1, |config| {
        for user in config["accounts"]["PEAL"]["users"].as_array_mut().unwrap() {
            user.as_object_mut().unwrap().remove("permissions");
        }
    });
    apply_streams(&running.site).await.unwrap();
    let expected = ServerProblem::PublishesAsOthers {
        node: node("a"),
        other: node("permission-check"),
    };
    assert_eq!(problems(&running).await, [expected]);
}

#[needs(nats)]
#[tokio::test]
async fn missing_and_different_streams_are_named() {
    let running = RunningSite::start_bare(1, |config| {
        // The administrator may delete here.
        let users = config["accounts"]["PEAL"]["users"].as_array_mut().unwrap();
        users[0].as_object_mut().unwrap().remove("permissions");
        users[2].as_object_mut().unwrap().remove("permissions");
    });
    let missing = |stream: &str| ServerProblem::MissingStream {
        stream: stream.to_owned(),
    };
    assert_eq!(problems(&running).await, STREAMS.map(missing));
    let planned = plan_streams(&running.site).await.unwrap();
    assert_eq!(problems(&running).await, STREAMS.map(missing));
    assert_eq!(apply_streams(&running.site).await.unwrap(), planned);
    assert_eq!(problems(&running).await, []);
    // The second node has every permission here.
    let b = running.link("b").await;
    let context = jetstream::new(b.client.clone());
    let mut members = context.get_stream("PEAL_site_MEMBERS").await.unwrap();
    let mut config = members.info().await.unwrap().config.clone();
    config.allow_direct = true;
    context.update_stream(&config).await.unwrap();
    assert_eq!(
        told(&running).await,
        ["stream PEAL_site_MEMBERS has allow_direct = true; false is right"]
    );
    let error = apply_streams(&running.site).await.unwrap_err().to_string();
    assert!(
        error.starts_with("stream PEAL_site_MEMBERS has allow_direct = true"),
        "{error}"
    );
    let planned = plan_streams(&running.site).await.unwrap_err().to_string();
    assert_eq!(planned, error);
}

#[needs(nats)]
#[tokio::test]
async fn missing_and_different_consumer_is_named_and_made() {
    let running = RunningSite::start_bare(1, |config| {
        let users = config["accounts"]["PEAL"]["users"].as_array_mut().unwrap();
        users[2].as_object_mut().unwrap().remove("permissions");
    });
    apply_streams(&running.site).await.unwrap();
    assert_eq!(problems(&running).await, []);
    // The second node has every permission here.
    let b = running.link("b").await;
    let context = jetstream::new(b.client.clone());
    let members = context.get_stream("PEAL_site_MEMBERS").await.unwrap();
    members.delete_consumer("sequenced").await.unwrap();
    let expected = ServerProblem::MissingConsumer {
        stream: "PEAL_site_MEMBERS".to_owned(),
        consumer: "sequenced".to_owned(),
    };
    assert_eq!(problems(&running).await, [expected]);
    let planned = plan_streams(&running.site).await.unwrap();
    let applied = apply_streams(&running.site).await.unwrap();
    assert_eq!(planned, applied);
    let completed = AppliedStream::Completed("PEAL_site_MEMBERS".to_owned());
    assert_eq!(applied.first(), Some(&completed));
    assert_eq!(problems(&running).await, []);
    // Records would come to one node, as frames of another.
    let elsewhere = jetstream::consumer::push::Config {
        durable_name: Some("sequenced".to_owned()),
        deliver_subject: "peal.site.from.b.to.a".to_owned(),
        deliver_policy: jetstream::consumer::DeliverPolicy::New,
        ack_policy: jetstream::consumer::AckPolicy::None,
        ..Default::default()
    };
    members.update_consumer(elsewhere).await.unwrap();
    let difference = "consumer sequenced of stream PEAL_site_MEMBERS has deliver_subject = Some(\"peal.site.from.b.to.a\")";
    assert_eq!(
        told(&running).await,
        [format!(
            "{difference}; Some(\"peal.site.sequenced\") is right"
        )]
    );
    let error = apply_streams(&running.site).await.unwrap_err().to_string();
    assert!(error.starts_with(difference), "{error}");
}

#[needs(nats)]
#[tokio::test]
async fn keys_names_and_certificates_of_others_are_refused() {
    let running = RunningSite::start(1).await;
    let other = RunningSite::start(1).await;
    let access = running.access("a");
    // Key of a node under the name of another one.
    let misnamed = ClusterAccess {
        node: node("b"),
        ..access.clone()
    };
    let mut link = NatsLink::connect(&misnamed).await.unwrap();
    let problems = check_server(&mut link).await.problems;
    assert!(
        matches!(problems.as_slice(), [ServerProblem::Refused { node, .. }] if node.as_str() == "b"),
        "{problems:?}"
    );
    let refusal = async |access: ClusterAccess| match NatsLink::connect(&access).await {
        Ok(_) => panic!("{access:?} was accepted"),
        Err(error) => error,
    };
    let unknown_key = ClusterAccess {
        credentials: other.access("a").credentials,
        ..access.clone()
    };
    let error = refusal(unknown_key).await;
    assert!(matches!(error, LinkError::KeyRefused { .. }), "{error}");
    let unknown_server = ClusterAccess {
        ca: other.access("a").ca,
        ..access.clone()
    };
    let error = refusal(unknown_server).await;
    assert!(matches!(error, LinkError::Tls { .. }), "{error}");
    let file = running.site.directory.join("none.pem");
    for text in [None, Some(""), Some("-----BEGIN CERTIFICATE-----\nAAAA")] {
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let without = ClusterAccess {
            ca: Some(file.clone()),
            ..access.clone()
        };
        let error = refusal(without).await;
        assert!(matches!(error, LinkError::Authority { .. }), "{error}");
    }
    let nobody = ClusterAccess {
        servers: vec![NatsAddress::loopback(free_port())],
        ..access
    };
    let (address, error) = (nobody.servers[0].to_string(), refusal(nobody).await);
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[needs(nats)]
#[tokio::test]
async fn reloaded_server_accepts_added_node_and_drops_withdrawn_one() {
    let running = RunningSite::start(1).await;
    let directory = running.site.directory.clone();
    drop(running.link("a").await);
    // A node without a line in the description has no access.
    let path = directory.join("cluster.toml");
    let text = fs::read_to_string(&path).unwrap();
    let line = format!("a = \"{}\"\n", running.site.nodes[&node("a")]);
    fs::write(&path, text.replace(&line, "")).unwrap();
    peal_nats::prepare_site(&SiteRequest {
        directory,
        name: None,
        servers: Vec::new(),
        nodes: vec![node("c")],
        deployers: Vec::new(),
    })
    .unwrap();
    let refused = NatsLink::connect(&running.access("c")).await.err().unwrap();
    assert!(matches!(refused, LinkError::KeyRefused { .. }), "{refused}");
    running.reload();
    let began = Instant::now();
    let mut link = loop {
        match NatsLink::connect(&running.access("c")).await {
            Ok(link) => break link,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!(check_server(&mut link).await.problems, []);
    let refused = NatsLink::connect(&running.access("a")).await.err().unwrap();
    assert!(matches!(refused, LinkError::KeyRefused { .. }), "{refused}");
}
