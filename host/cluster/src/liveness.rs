//! Which servers are heard of, and which are to be declared gone.
use crate::Membership;
use peal_core::{MonotonicTime, group::ServerId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Times of the liveness of servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LivenessSettings {
    /// Time between two beats of a server.
    pub beat_each: Duration,
    /// Silence after which a server is suspected.
    pub suspect_after: Duration,
    /// Silence after which a server is declared gone. Elections of the network's servers take up to
    /// 9 s, in which nobody is heard of.
    pub gone_after: Duration,
    /// Number of servers with the lowest numbers that hear the beats of all. The others hear those of
    /// these alone.
    pub observers: usize,
    /// Further silence for each lower server, after which a server that is no observer declares all
    /// observers gone. So not all others do that at once.
    pub gone_after_each: Duration,
    /// Maximum of that further silence.
    pub max_gone_after_each: Duration,
    /// Delay of this server's own beat that shows that it was stopped or had no processor: what it has not
    /// heard meanwhile says nothing about others.
    pub held_up_after: Duration,
}

impl Default for LivenessSettings {
    fn default() -> LivenessSettings {
        LivenessSettings {
            beat_each: Duration::from_secs(1),
            suspect_after: Duration::from_secs(5),
            gone_after: Duration::from_secs(15),
            observers: 4,
            gone_after_each: Duration::from_millis(50),
            max_gone_after_each: Duration::from_secs(10),
            held_up_after: Duration::from_secs(2),
        }
    }
}

/// Servers whose beats a server hears.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum HeardServers {
    /// All other servers of the cluster.
    All,
    /// These servers.
    Only(BTreeSet<ServerId>),
}

/// The connection of this server to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum NetworkConnection {
    Lost,
    /// Connected since this time.
    Since(MonotonicTime),
}

/// Times at which servers were last heard of.
///
/// The servers with the lowest numbers, the observers, hear all. A server is declared gone by the lowest
/// observer that is heard of, and all observers by any other server. Nobody declares anybody gone while it
/// is not connected to the network or has missed beats, or shortly after: what it has not heard then says
/// nothing about others.
#[derive(Debug, Serialize, Deserialize)]
pub struct Liveness {
    me: ServerId,
    settings: LivenessSettings,
    connection: NetworkConnection,
    /// Servers whose beats this one hears, with the time of the last sign of each or of the moment from
    /// which on it is heard.
    heard: BTreeMap<ServerId, MonotonicTime>,
    /// Number of members that precede this server.
    rank: usize,
}

impl Liveness {
    /// Returns the liveness as a server sees it that is not connected.
    pub fn new(me: ServerId, settings: LivenessSettings) -> Liveness {
        Liveness {
            me,
            settings,
            connection: NetworkConnection::Lost,
            heard: BTreeMap::new(),
            rank: 0,
        }
    }

    /// Notes that the network is reached, or that beats were missed until now.
    pub fn connect(&mut self, now: MonotonicTime) {
        self.connection = NetworkConnection::Since(now);
    }

    /// Notes that the network is not reached.
    pub fn disconnect(&mut self) {
        self.connection = NetworkConnection::Lost;
    }

    /// Notes that a server was heard of: a beat or a frame of it came.
    pub fn hear(&mut self, of: ServerId, now: MonotonicTime) {
        if let Some(heard) = self.heard.get_mut(&of) {
            *heard = now;
        }
    }

    /// Takes a server that has joined, whose number is greater than those of all members. The servers that
    /// this one has to hear stay the same, but an observer hears all.
    pub fn join(&mut self, id: ServerId, now: MonotonicTime) {
        if self.rank < self.settings.observers {
            self.heard.entry(id).or_insert(now);
        }
    }

    /// Takes a changed membership. Returns the servers whose beats this one has to hear.
    pub fn members_changed(&mut self, members: &Membership, now: MonotonicTime) -> HeardServers {
        let ids = || members.members().map(|(id, _)| id);
        self.rank = ids().take_while(|id| *id < self.me).count();
        let is_observer = self.rank < self.settings.observers;
        let heard: BTreeSet<ServerId> = if is_observer {
            ids().filter(|id| *id != self.me).collect()
        } else {
            ids().take(self.settings.observers).collect()
        };
        self.heard.retain(|id, _| heard.contains(id));
        for id in &heard {
            self.heard.entry(*id).or_insert(now);
        }
        if is_observer {
            HeardServers::All
        } else {
            HeardServers::Only(heard)
        }
    }

    /// Returns the members that are suspected.
    pub fn suspected(&self, now: MonotonicTime) -> Vec<ServerId> {
        self.silent_for(self.settings.suspect_after, now)
    }

    /// Returns the members that this server has to declare gone.
    pub fn to_declare_gone(&self, now: MonotonicTime) -> Vec<ServerId> {
        let LivenessSettings {
            gone_after,
            gone_after_each,
            max_gone_after_each,
            observers,
            ..
        } = self.settings;
        let further = if self.rank < observers {
            Duration::ZERO
        } else {
            let rank = u32::try_from(self.rank).unwrap_or(u32::MAX);
            gone_after_each
                .saturating_mul(rank)
                .min(max_gone_after_each)
        };
        let silent = self.silent_for(gone_after.saturating_add(further), now);
        let mut lower = self.heard.keys().filter(|id| **id < self.me);
        if lower.all(|id| silent.contains(id)) {
            silent
        } else {
            Vec::new()
        }
    }

    /// Returns true if this server has been connected for as long as a silence of servers that are gone.
    pub fn may_judge(&self, now: MonotonicTime) -> bool {
        match self.connection {
            NetworkConnection::Since(since) => since + self.settings.gone_after <= now,
            NetworkConnection::Lost => false,
        }
    }

    fn silent_for(&self, time: Duration, now: MonotonicTime) -> Vec<ServerId> {
        let NetworkConnection::Since(since) = self.connection else {
            return Vec::new();
        };
        let heard = self.heard.iter();
        heard
            .filter(|(_, heard)| (**heard).max(since) + time <= now)
            .map(|(id, _)| *id)
            .collect()
    }
}
