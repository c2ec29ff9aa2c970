//! A server under attack, whose well-behaved clients must not notice it.
use crate::in_process::{Node, listener, next, soon};
use peal_client::Client;
use peal_model::{Event, Info, Infos, Key, KeyName, Range, Scope, Status, Value};
use peal_server::{Counter, Counters, ServerSettings, metrics::Amount};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// Event of a round.
pub const NEWS: Status = Status(-3101);
/// Event that attackers use. The well-behaved clients receive it, too.
pub const FLOOD: Status = Status(-3102);
/// Number of the round.
pub const ROUND: KeyName = KeyName("test.round");
/// First of the ranks that belong to the attackers.
pub const ATTACKER: u32 = 2;
/// Number of ranks.
pub const SIZE: u32 = 8;

/// Server under attack, and two well-behaved clients.
pub struct FloodedServer {
    /// The server.
    pub node: Node,
    /// The client that raises events.
    pub first: Client,
    second: Client,
    /// Events that the other client receives.
    pub heard: UnboundedReceiver<Event>,
    rounds: u32,
}

impl FloodedServer {
    /// Starts the server and its well-behaved clients.
    pub async fn begin(settings: ServerSettings) -> FloodedServer {
        FloodedServer::of_size(settings, SIZE).await
    }

    /// Starts them with another number of ranks.
    pub async fn of_size(settings: ServerSettings, size: u32) -> FloodedServer {
        let node = Node::alone(settings, size).await;
        let first = node.client(0).await;
        let second = node.client(1).await;
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

    /// Returns settings without a time limit of handshakes, so that every refusal has another
    /// reason.
    pub fn settings() -> ServerSettings {
        ServerSettings {
            handshake_timeout: Duration::from_secs(600),
            ..ServerSettings::default()
        }
    }

    /// Checks that the well-behaved clients can put, commit, get, fence and notify.
    pub async fn is_withstood(&mut self) {
        self.rounds += 1;
        let round = Value::Uint32(self.rounds);
        let key = Key::new(&format!("test.round.{}", self.rounds)).unwrap();
        let first = &self.first;
        let second = &self.second;
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

    /// Finalizes the well-behaved clients and stops the server.
    pub async fn end(self) {
        let leave = async { tokio::join!(self.first.finalize(), self.second.finalize()) };
        let left = soon("the well-behaved clients leave", leave).await;
        assert!(left.0.is_ok() && left.1.is_ok(), "{left:?}");
        soon("the server stops", self.node.server.shutdown()).await;
    }

    /// Returns the value of a counter.
    pub fn count(&self, counter: fn(&Counters) -> &Counter) -> u64 {
        counter(self.node.server.counters()).get()
    }

    /// Returns the number of refused connections.
    pub fn refused(&self) -> u64 {
        self.count(|counters| &counters.connections_refused)
    }

    /// Returns the number of counted connections. A connection is counted when the kernel has
    /// reported its user.
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

    /// Returns the number of malformed messages.
    pub fn malformed(&self) -> u64 {
        self.count(|counters| &counters.messages_malformed)
    }
}
