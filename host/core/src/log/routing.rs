//! Destinations of log channels: a module, a gateway for channels that no local module serves, or
//! the host environment. The origin of a request excludes some, so that no request travels in a
//! circle (RFC "Logging extension").
use peal_model::{Key, KeyName, key};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};

/// The destination of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogDestination {
    /// A module of the site.
    Module,
    /// The gateway: another server, which writes for servers that cannot (`PMIX_SERVER_GATEWAY`).
    Gateway,
    /// The host environment, which may know further channels.
    Host,
}

/// The origin of a request, which excludes destinations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum LogOrigin {
    /// A client or tool of this server.
    #[default]
    Client,
    /// A client or tool of another server, for which this one is the gateway. The request does not
    /// go to a third server.
    OtherServer,
    /// The host environment. The request does not go back to it.
    Host,
    /// The host environment of another server, for which this one is the gateway.
    OtherHost,
}

/// The availability of a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GatewayAvailability {
    /// There is none, or it is this server.
    #[default]
    NotElsewhere,
    /// Another server is the gateway.
    Elsewhere,
}

/// The circumstances of a request's arrival.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogArrival {
    /// Time of arrival, in seconds since the epoch. It becomes the timestamp of a request that
    /// requires one and has none.
    pub at: u64,
    /// The origin.
    pub origin: LogOrigin,
    /// The availability of a gateway at that time.
    pub gateway: GatewayAvailability,
    /// The only channel to write to, if another server has chosen it.
    pub chosen: Option<Key>,
}

/// The channels that are available to a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AvailableChannels {
    /// Channels of modules, in their order.
    pub of_modules: Arc<[Key]>,
    /// Channels of the host environment for this requester.
    pub of_host: Vec<Key>,
}

/// One attempt to write to a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Attempt {
    pub(super) writer: LogDestination,
    /// The channel, under the name that this destination knows it by.
    pub(super) channel: Key,
}

/// Channels that also appear on a gateway when a local module serves them.
const OF_GATEWAYS: [KeyName; 2] = [key::PMIX_LOG_STDOUT, key::PMIX_LOG_STDERR];

impl LogOrigin {
    /// Returns the origin of such a request as the gateway sees it.
    pub fn at_gateway(self) -> LogOrigin {
        match self {
            LogOrigin::Client | LogOrigin::OtherServer => LogOrigin::OtherServer,
            LogOrigin::Host | LogOrigin::OtherHost => LogOrigin::OtherHost,
        }
    }
}

impl LogArrival {
    /// Returns the channels of a request that names none, those of modules first.
    pub fn all<'a>(&self, available: &'a AvailableChannels) -> impl Iterator<Item = &'a Key> {
        let AvailableChannels {
            of_modules,
            of_host,
        } = available;
        let of_host = if self.may_ask_host() {
            of_host.as_slice()
        } else {
            &[]
        };
        // A module replaces the host environment for a channel that both serve.
        of_modules.iter().chain(
            of_host
                .iter()
                .filter(|channel| !of_modules.contains(channel)),
        )
    }

    /// Returns the attempts for a channel. Each is made if the destinations before it do not know
    /// the channel.
    ///
    /// `PMIX_LOG_SYSLOG` is the global syslog if a module, the gateway or the host environment
    /// serves it, and else the local one.
    pub(super) fn attempts(&self, channel: &Key, modules: &[Key]) -> VecDeque<Attempt> {
        let global = Key::from(key::PMIX_LOG_GLOBAL_SYSLOG);
        let local = Key::from(key::PMIX_LOG_LOCAL_SYSLOG);
        let of = |channel: &Key| self.direct_attempts(channel, modules);
        let attempts = if *channel != key::PMIX_LOG_SYSLOG {
            of(channel)
        } else {
            match (modules.contains(channel), modules.contains(&global)) {
                // A module that serves both uses the global one itself.
                (true, true) => of(channel),
                (false, _) if modules.contains(&local) => {
                    [of(&global), of(channel), of(&local)].concat()
                }
                _ => [of(&global), of(channel)].concat(),
            }
        };
        attempts.into()
    }

    /// Returns the attempts for a channel under its own name.
    fn direct_attempts(&self, channel: &Key, modules: &[Key]) -> Vec<Attempt> {
        let is_served = modules.contains(channel);
        let appears_there = !is_served || OF_GATEWAYS.iter().any(|key| channel == key);
        let gateway = (self.has_gateway() && appears_there).then_some(LogDestination::Gateway);
        let last = if is_served {
            Some(LogDestination::Module)
        } else {
            self.may_ask_host().then_some(LogDestination::Host)
        };
        let attempt = |writer| Attempt {
            writer,
            channel: channel.clone(),
        };
        gateway.into_iter().chain(last).map(attempt).collect()
    }

    fn may_ask_host(&self) -> bool {
        // RFC "Logging extension": a request that came from the host environment must not be logged
        // through it again, because that makes an infinite loop.
        matches!(self.origin, LogOrigin::Client | LogOrigin::OtherServer)
    }

    fn has_gateway(&self) -> bool {
        self.gateway == GatewayAvailability::Elsewhere
            // A request of another server goes to no third one.
            && matches!(self.origin, LogOrigin::Client | LogOrigin::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GatewayAvailability::{Elsewhere, NotElsewhere};
    use LogOrigin::{Client, Host, OtherHost, OtherServer};

    #[test]
    fn request_from_above_never_returns_and_sideways_one_stops() {
        let offered = [
            Key::from(key::PMIX_LOG_STDOUT),
            Key::from(key::PMIX_LOG_LOCAL_SYSLOG),
        ];
        let module = LogDestination::Module;
        let gateway = LogDestination::Gateway;
        let host = LogDestination::Host;
        for (origin, elsewhere, stdout, syslog, email) in [
            (Client, NotElsewhere, vec![module], vec![module], vec![host]),
            (
                Client,
                Elsewhere,
                vec![gateway, module],
                vec![module],
                vec![gateway, host],
            ),
            (
                OtherServer,
                NotElsewhere,
                vec![module],
                vec![module],
                vec![host],
            ),
            (
                OtherServer,
                Elsewhere,
                vec![module],
                vec![module],
                vec![host],
            ),
            (Host, NotElsewhere, vec![module], vec![module], vec![]),
            (
                Host,
                Elsewhere,
                vec![gateway, module],
                vec![module],
                vec![gateway],
            ),
            (OtherHost, NotElsewhere, vec![module], vec![module], vec![]),
            (OtherHost, Elsewhere, vec![module], vec![module], vec![]),
        ] {
            let arrival = LogArrival {
                origin,
                gateway: elsewhere,
                ..LogArrival::default()
            };
            for (channel, wanted) in [
                (key::PMIX_LOG_STDOUT, stdout),
                (key::PMIX_LOG_LOCAL_SYSLOG, syslog),
                (key::PMIX_LOG_EMAIL, email),
            ] {
                let asked = arrival
                    .attempts(&channel.into(), &offered)
                    .into_iter()
                    .map(|attempt| attempt.writer);
                assert_eq!(asked.collect::<Vec<_>>(), wanted, "{arrival:?} {channel:?}");
            }
        }
    }

    #[test]
    fn syslog_is_global_wherever_there_is_one_and_else_local() {
        let [syslog, global, local] = [
            key::PMIX_LOG_SYSLOG,
            key::PMIX_LOG_GLOBAL_SYSLOG,
            key::PMIX_LOG_LOCAL_SYSLOG,
        ]
        .map(Key::from);
        let attempts = |gateway, modules: &[&Key]| -> Vec<(LogDestination, Key)> {
            let modules: Vec<Key> = modules.iter().map(|key| (*key).clone()).collect();
            let arrival = LogArrival {
                gateway,
                ..LogArrival::default()
            };
            arrival
                .attempts(&syslog, &modules)
                .into_iter()
                .map(|attempt| (attempt.writer, attempt.channel))
                .collect()
        };
        let of = |writer, channel: &Key| (writer, channel.clone());
        assert_eq!(
            attempts(Elsewhere, &[&syslog, &global, &local]),
            [of(LogDestination::Module, &syslog)]
        );
        let beyond = [
            of(LogDestination::Gateway, &global),
            of(LogDestination::Host, &global),
        ];
        let one_module = [&beyond[..], &[of(LogDestination::Module, &syslog)]].concat();
        assert_eq!(attempts(Elsewhere, &[&syslog, &local]), one_module);
        assert_eq!(attempts(NotElsewhere, &[&syslog, &local]), one_module[1..]);
        let local_alone = [
            of(LogDestination::Host, &global),
            of(LogDestination::Host, &syslog),
            of(LogDestination::Module, &local),
        ];
        assert_eq!(attempts(NotElsewhere, &[&local]), local_alone);
        let global_alone = [
            of(LogDestination::Module, &global),
            of(LogDestination::Host, &syslog),
        ];
        assert_eq!(attempts(NotElsewhere, &[&global]), global_alone);
    }
}
