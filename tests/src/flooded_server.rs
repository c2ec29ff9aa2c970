//! A server under attack, whose well-behaved clients must not notice.
use crate::in_process::{Node, listener, next, soon};
use peal_client::Client;
use peal_model::{Event, Info, Infos, Key, KeyName, Range, Scope, Status, Value};
use peal_server::{Counter, Counters, ServerSettings, metrics::Amount};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// The event of a round.
pub const NEWS: Status = Status(-3101);
/// An event that attackers make use of; the well-behaved hear it too.
pub const FLOOD: Status = Status(-3102);
/// Which round it is.
pub const ROUND: KeyName = KeyName("test.round");
/// Ranks from here on are the attackers'.
pub const ATTACKER: u32 = 2;
/// How many ranks there are.
pub const SIZE: u32 = 8;

/// A server under attack, and two clients that behave well.
pub struct FloodedServer {
    /// The server.
    pub node: Node,
    /// One of them, which raises events.
    pub first: Client,
    second: Client,
    /// What the other one hears.
    pub heard: UnboundedReceiver<Event>,
    rounds: u32,
}

impl FloodedServer {
    /// Starts the server and its well-behaved clients.
    pub async fn begin(settings: ServerSettings) -> FloodedServer {
        FloodedServer::of_size(settings, SIZE).await
    }

    /// The same with another number of ranks.
    pub async fn of_size(settings: ServerSettings, size: u32) -> FloodedServer {
        let node = Node::alone(settings, size).await;
        let (first, second) = (node.client(0).await, node.client(1).await);
        let (handler, heard) = listener();
        second.register(&[NEWS, FLOOD], &[], handler).await.unwrap();
        FloodedServer {
            node,
            first,
            second,
            heard,
            rounds: 0,
        }
    }

    /// Handshakes may take as long as they like, so that a refusal is one for another reason.
    pub fn settings() -> ServerSettings {
        ServerSettings {
            handshake_timeout: Duration::from_secs(600),
            ..ServerSettings::default()
        }
    }

    /// The well-behaved clients put, commit, get, fence and notify.
    pub async fn is_withstood(&mut self) {
        self.rounds += 1;
        let round = Value::Uint32(self.rounds);
        let key = Key::new(&format!("test.round.{}", self.rounds)).unwrap();
        let (first, second) = (&self.first, &self.second);
        let both = [first.me().clone(), second.me().clone()];
        soon("the well-behaved clients are served", async {
            first.put(Scope::Global, key.clone(), round.clone());
            first.commit().await.unwrap();
            assert_eq!(second.get(first.me(), key, &[]).await.unwrap(), round);
            let fences = tokio::join!(first.fence(&both, &[]), second.fence(&both, &[]));
            assert!(fences.0.is_ok() && fences.1.is_ok(), "{fences:?}");
            first
                .notify(
                    NEWS,
                    Range::Namespace,
                    vec![Info::new(ROUND, round.clone())],
                )
                .await
                .unwrap();
        })
        .await;
        assert_eq!(
            next(&mut self.heard).await.infos.value_of(ROUND),
            Some(&round)
        );
    }

    /// The well-behaved clients leave in order, and so does the server.
    pub async fn end(self) {
        let leave = async { tokio::join!(self.first.finalize(), self.second.finalize()) };
        let left = soon("the well-behaved clients leave", leave).await;
        assert!(left.0.is_ok() && left.1.is_ok(), "{left:?}");
        soon("the server stops", self.node.server.shutdown()).await;
    }

    /// How many so far.
    pub fn count(&self, counter: fn(&Counters) -> &Counter) -> u64 {
        counter(self.node.server.counters()).get()
    }

    /// How many connections were refused so far.
    pub fn refused(&self) -> u64 {
        self.count(|counters| &counters.connections_refused)
    }

    /// How many connections have their place now: it is taken when the kernel has said whose a connection is.
    pub fn connections(&self) -> u64 {
        let families = self.node.server.metrics().snapshot().families;
        let used = families
            .iter()
            .filter(|family| family.name == "peal_user_usage")
            .flat_map(|family| &family.samples);
        let connections = used.filter(|sample| {
            sample
                .labels
                .get("resource")
                .is_some_and(|what| what == "connections")
        });
        connections
            .map(|sample| {
                if let Amount::Number(number) = sample.value {
                    number
                } else {
                    0
                }
            })
            .sum()
    }

    /// How many messages were malformed so far.
    pub fn malformed(&self) -> u64 {
        self.count(|counters| &counters.messages_malformed)
    }
}
