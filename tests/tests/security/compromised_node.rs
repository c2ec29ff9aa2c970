//! Key of one node in the hands of an attacker: what it sends about jobs and groups of others is refused, counted, and
//! in the trail.
use peal_client::{Client, Handler, HandlerOutcome};
use peal_cluster::{
    ClusterServerSettings, JoinedServer, RefusedSender, ServerKind, ServerNetwork, ServerTransport,
};
use peal_core::{
    group::{GroupMessage, JobSummary, ServerId},
    rank_ranges::RankRanges,
    server::InterServerMessage,
    user_scope::UserScope,
};
use peal_model::{Event, Info, Nspace, Proc, Range, Rank, Status, UserIdentity, Value, code, key};
use peal_nats::{NatsLink, NatsNetwork};
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    nats_site::NatsSite,
    peal, run, until,
};
use serde_json::Value as Json;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, mpsc},
};
use tokio::runtime::Runtime;

const NEWS: Status = Status(-3001);
const HELLO: Status = Status(-3002);

/// Server of a node that knows the others and takes nothing else.
#[derive(Default)]
struct Impostor {
    others: Mutex<BTreeSet<ServerId>>,
}

impl JoinedServer for Impostor {
    fn enroll(&self, _id: ServerId) {}

    fn server_joined(&self, id: ServerId, _kind: ServerKind) {
        self.others.lock().unwrap().insert(id);
    }

    fn server_left(&self, id: ServerId) {
        self.others.lock().unwrap().remove(&id);
    }

    fn server_message(
        &self,
        _from: ServerId,
        _message: InterServerMessage,
    ) -> Result<(), Box<InterServerMessage>> {
        Ok(())
    }

    fn last_message(&self, _from: ServerId, _message: InterServerMessage) {}

    fn message_refused(&self, _from: RefusedSender, _reason: &str) {}

    fn max_server_inbox_bytes(&self) -> usize {
        1 << 20
    }
}

/// Node whose server is in this process.
struct InvadedNode {
    impostor: Arc<Impostor>,
    transport: Arc<dyn ServerTransport>,
}

impl InvadedNode {
    /// Joins with the key of a node, and waits until others are met.
    fn join(site: &NatsSite, node: &str, others: usize) -> InvadedNode {
        let network = NatsNetwork::new(
            site.access(node),
            ClusterServerSettings::default(),
            "0.0.0".to_owned(),
            7,
        );
        let impostor = Arc::new(Impostor::default());
        let transport = network.join(impostor.clone(), ServerKind::Node);
        let met = || impostor.others.lock().unwrap().len();
        until("the others are met", || met() == others);
        InvadedNode {
            impostor,
            transport,
        }
    }

    fn send(&self, to: ServerId, message: GroupMessage) {
        self.transport.send(to, InterServerMessage::Group(message));
    }
}

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

/// Returns an event about the first proc of a job.
fn event(source: Option<&str>, about: &str) -> Arc<Event> {
    let proc = |job: &str| Proc::new(nspace(job), Rank(0));
    Arc::new(Event {
        code: NEWS,
        source: source.map(proc),
        range: Range::Global,
        infos: vec![Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(proc(about)),
        )],
    })
}

/// Starts the server of a node with a trail, and registers a job at it. Waits until it is a member: the one that joins
/// first coordinates groups.
fn start(site: &NatsSite, node: &str, job: &str) -> (Place, Daemon) {
    let place = site.place_with(node, |place| {
        format!(
            "[audit]\npath = {:?}\non_failure = \"deny\"\n",
            place.path("audit.db")
        )
    });
    let daemon = place.start();
    daemon.tell(&["job", "register", job, "-n", "2"]);
    until("the server is a member", || {
        cluster(&daemon)["id"].is_number()
    });
    (place, daemon)
}

/// Waits until procs of both jobs hear of each other: their servers have announced the jobs then.
fn meet(runtime: &Runtime, procs: [&Client; 2]) {
    let (tell, heard) = mpsc::channel();
    for proc in procs {
        let (tell, me) = (tell.clone(), proc.me().nspace.clone());
        let handler = Handler::native(move |call| {
            let source = call
                .event()
                .source
                .as_ref()
                .map(|source| source.nspace.clone());
            // The test may have ended.
            let _ = tell.send((me.clone(), source));
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        runtime
            .block_on(proc.register(&[HELLO], &[], handler))
            .unwrap();
    }
    let mut met = BTreeSet::new();
    until("the jobs hear of each other", || {
        for proc in procs {
            let affected = Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(proc.me().clone()),
            );
            let notify = proc.notify(HELLO, Range::Global, vec![affected]);
            runtime.block_on(notify).unwrap();
        }
        met.extend(heard.try_iter());
        let has_met = |[one, other]: [&Client; 2]| {
            met.contains(&(one.me().nspace.clone(), Some(other.me().nspace.clone())))
        };
        has_met(procs) && has_met([procs[1], procs[0]])
    });
}

/// Returns the place of a server in its cluster.
fn cluster(daemon: &Daemon) -> Json {
    let status: Json = serde_json::from_str(&daemon.ask(&["status", "-o", "json"]).stdout).unwrap();
    status["cluster"].clone()
}

/// Returns the number of messages that a server has refused.
fn refused(daemon: &Daemon) -> u64 {
    let stats: Json = serde_json::from_str(&daemon.tell(&["stats", "-o", "json"])).unwrap();
    let mut families = stats["families"].as_array().unwrap().iter();
    let family = families.find(|family| family["name"] == "peal_server_messages_refused");
    family.unwrap()["samples"][0]["value"].as_u64().unwrap()
}

#[needs(prepared, nats)]
#[test]
fn key_of_a_node_gives_nothing_of_others() {
    let site = NatsSite::start(&["n1", "n2", "n3"]);
    let (place, daemon) = start(&site, "n1", "ours");
    let (_other_place, other) = start(&site, "n2", "theirs");
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let invaded = InvadedNode::join(&site, "n3", 2);
    until("the servers have met", || {
        let servers = [&daemon, &other].map(|daemon| cluster(daemon)["servers"].clone());
        servers == [3, 3]
    });
    let coordinator = *invaded.impostor.others.lock().unwrap().first().unwrap();
    let ours = runtime.block_on(daemon.client("ours", 0));
    let theirs = runtime.block_on(other.client("theirs", 0));
    meet(&runtime, [&ours, &theirs]);
    assert_eq!(refused(&daemon), 0);
    for (source, about) in [
        (Some("ours"), "ours"),
        (Some("theirs"), "theirs"),
        (None, "ours"),
        (None, "theirs"),
    ] {
        let event = event(source, about);
        invaded.transport.distribute(event, UserScope::Everybody);
    }
    invaded.send(
        coordinator,
        GroupMessage::Notify {
            procs: vec![Proc::new(nspace("ours"), Rank(0))],
            code: NEWS,
            infos: Vec::new(),
        },
    );
    invaded.send(
        coordinator,
        GroupMessage::Lost(Proc::new(nspace("theirs"), Rank(0))),
    );
    invaded.send(
        coordinator,
        GroupMessage::Job {
            nspace: nspace("theirs"),
            facts: JobSummary {
                size: 2,
                owner: UserIdentity { uid: 12345, gid: 1 },
            },
            ranks: RankRanges::below(2),
        },
    );
    // The key lets the node publish under its own name alone.
    let mut link = runtime
        .block_on(NatsLink::connect(&site.access("n3")))
        .unwrap();
    let publish = |subject: &'static str| {
        runtime
            .block_on(link.client.publish(subject, "no frame".into()))
            .unwrap();
    };
    publish("peal.site.from.n2.to.n1");
    publish("peal.site.from.n3.to.n1");
    runtime.block_on(link.client.flush()).unwrap();
    let violation = runtime.block_on(async {
        loop {
            let event = link.events.recv().await.unwrap().to_string();
            if event.to_lowercase().contains("permissions violation") {
                return event;
            }
        }
    });
    assert!(violation.contains("peal.site.from.n2.to.n1"), "{violation}");
    until("all is refused", || refused(&daemon) >= 8);
    assert_eq!(refused(&daemon), 8);
    until("the events are refused at the other node, too", || {
        refused(&other) == 4
    });
    daemon.tell(&["stop"]);
    daemon.ends();
    let mut list = peal(["audit", "list", "-n", "0", "-o", "json", "--from"]);
    let listed = run(list.arg(place.path("audit.db")))
        .expect_status(0)
        .stdout;
    let records: Vec<Json> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The first one is a record of its own, the others are a group.
    let denied = records.iter().filter_map(|record| {
        let entry = &record["entry"];
        let example = [&entry["Denied"], &entry["Refusals"]["example"]]
            .into_iter()
            .find(|denied| denied.is_object())?;
        Some((
            example["from"].as_str()?,
            entry["Refusals"]["count"].as_u64().unwrap_or(1),
        ))
    });
    let of_node: u64 = denied
        .filter(|(from, _)| *from == "node n3")
        .map(|(_, count)| count)
        .sum();
    assert_eq!(of_node, 8, "{listed}");
}
