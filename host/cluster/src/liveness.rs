//! Which servers are heard of, and which are to be declared gone.
use crate::Membership;
use peal_core::{MonotonicTime, group::ServerId};
use std::{collections::BTreeMap, time::Duration};

/// Times of the liveness of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LivenessSettings {
    /// Silence after which a server is suspected.
    pub suspect_after: Duration,
    /// Silence after which a server is declared gone. Elections of the network's servers take up to
    /// 9 s, in which nobody is heard of.
    pub gone_after: Duration,
}

impl Default for LivenessSettings {
    fn default() -> LivenessSettings {
        LivenessSettings {
            suspect_after: Duration::from_secs(5),
            gone_after: Duration::from_secs(15),
        }
    }
}

/// The connection of this server to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NetworkConnection {
    Lost,
    /// Connected since this time.
    Since(MonotonicTime),
}

/// Times at which servers were last heard of.
///
/// A server is declared gone by the one with the lowest number that is heard of. Nobody declares
/// anybody gone while it is not connected to the network, or shortly after: what it has not heard then
/// says nothing about others.
#[derive(Debug)]
pub struct Liveness {
    me: ServerId,
    settings: LivenessSettings,
    connection: NetworkConnection,
    heard: BTreeMap<ServerId, MonotonicTime>,
}

impl Liveness {
    /// Returns the liveness as a server sees it that is not connected.
    pub fn new(me: ServerId, settings: LivenessSettings) -> Liveness {
        Liveness {
            me,
            settings,
            connection: NetworkConnection::Lost,
            heard: BTreeMap::new(),
        }
    }

    /// Notes that the network is reached.
    pub fn connect(&mut self, now: MonotonicTime) {
        self.connection = NetworkConnection::Since(now);
    }

    /// Notes that the network is not reached.
    pub fn disconnect(&mut self) {
        self.connection = NetworkConnection::Lost;
    }

    /// Notes that a server was heard of: a frame of it came, or it has joined.
    pub fn hear(&mut self, of: ServerId, now: MonotonicTime) {
        self.heard.insert(of, now);
    }

    /// Removes a server that has left.
    pub fn leave(&mut self, id: ServerId) {
        self.heard.remove(&id);
    }

    /// Returns the members that are suspected.
    pub fn suspected(&self, members: &Membership, now: MonotonicTime) -> Vec<ServerId> {
        self.silent_for(self.settings.suspect_after, members, now)
    }

    /// Returns the members that this server has to declare gone.
    pub fn to_declare_gone(&self, members: &Membership, now: MonotonicTime) -> Vec<ServerId> {
        let silent = self.silent_for(self.settings.gone_after, members, now);
        let is_lowest = members
            .members()
            .map(|(id, _)| id)
            .take_while(|id| *id < self.me)
            .all(|id| silent.contains(&id));
        if is_lowest && members.member(self.me).is_some() {
            silent
        } else {
            Vec::new()
        }
    }

    fn silent_for(
        &self,
        time: Duration,
        members: &Membership,
        now: MonotonicTime,
    ) -> Vec<ServerId> {
        let NetworkConnection::Since(since) = self.connection else {
            return Vec::new();
        };
        members
            .members()
            .map(|(id, _)| id)
            .filter(|id| *id != self.me)
            .filter(|id| {
                let heard = self.heard.get(id).copied().unwrap_or(since).max(since);
                heard + time <= now
            })
            .collect()
    }
}
