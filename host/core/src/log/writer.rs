//! Who writes to a channel: a module, a gateway for what no module here writes, or the host environment; and who must not, so that no
//! request goes round in circles (RFC "Logging extension").
use peal_model::{Key, KeyName, key};
use std::collections::VecDeque;

/// Who writes to a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A module of the site.
    Module,
    /// Another server, which writes for those that cannot (`PMIX_SERVER_GATEWAY`).
    Gateway,
    /// The host environment, which may know what is not known here.
    Host,
}

/// Where a request came from, and so where it cannot go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Origin {
    /// A client or tool of this server.
    #[default]
    Client,
    /// A client or tool of another server, for which this one is the gateway: it goes to no third one.
    OtherServer,
    /// The host environment: it never goes back up there.
    Host,
    /// The host environment of another server, for which this one is the gateway.
    OtherHost,
}

/// Whether there is another server that writes for those that cannot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gateway {
    /// There is none, or it is this one.
    #[default]
    NotElsewhere,
    /// There is one.
    Elsewhere,
}

/// How a request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// When, in seconds since the epoch: its time, if it wants one and has none.
    pub at: u64,
    /// From where.
    pub origin: Origin,
    /// Whether there was a gateway then.
    pub gateway: Gateway,
}

/// What appears on a gateway, also where it could be written without.
const OF_GATEWAYS: [KeyName; 2] = [key::PMIX_LOG_STDOUT, key::PMIX_LOG_STDERR];

impl Origin {
    /// What it is to a gateway that is handed such a request.
    pub fn at_gateway(self) -> Origin {
        match self {
            Origin::Client | Origin::OtherServer => Origin::OtherServer,
            Origin::Host | Origin::OtherHost => Origin::OtherHost,
        }
    }
}

impl Arrival {
    /// Who is asked to write to a channel, each if those before do not know it.
    pub(super) fn writers(&self, channel: &Key, offered: &[Key]) -> VecDeque<Writer> {
        let gateway = self.has_gateway().then_some(Writer::Gateway);
        if offered.contains(channel) {
            let gateway = gateway.filter(|_| OF_GATEWAYS.iter().any(|key| channel == key));
            return gateway.into_iter().chain([Writer::Module]).collect();
        }
        let host = matches!(self.origin, Origin::Client | Origin::OtherServer).then_some(Writer::Host);
        gateway.into_iter().chain(host).collect()
    }

    fn has_gateway(&self) -> bool {
        self.gateway == Gateway::Elsewhere && matches!(self.origin, Origin::Client | Origin::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Gateway::{Elsewhere, NotElsewhere};
    use Origin::{Client, Host, OtherHost, OtherServer};

    #[test]
    fn what_came_from_above_never_goes_there_and_what_came_from_beside_goes_to_no_third() {
        let offered = [Key::from(key::PMIX_LOG_STDOUT), Key::from(key::PMIX_LOG_LOCAL_SYSLOG)];
        let (module, gateway, host) = (Writer::Module, Writer::Gateway, Writer::Host);
        for (origin, elsewhere, stdout, syslog, email) in [
            (Client, NotElsewhere, vec![module], vec![module], vec![host]),
            (Client, Elsewhere, vec![gateway, module], vec![module], vec![gateway, host]),
            (OtherServer, NotElsewhere, vec![module], vec![module], vec![host]),
            (OtherServer, Elsewhere, vec![module], vec![module], vec![host]),
            (Host, NotElsewhere, vec![module], vec![module], vec![]),
            (Host, Elsewhere, vec![gateway, module], vec![module], vec![gateway]),
            (OtherHost, NotElsewhere, vec![module], vec![module], vec![]),
            (OtherHost, Elsewhere, vec![module], vec![module], vec![]),
        ] {
            let arrival = Arrival { at: 0, origin, gateway: elsewhere };
            for (channel, wanted) in
                [(key::PMIX_LOG_STDOUT, stdout), (key::PMIX_LOG_LOCAL_SYSLOG, syslog), (key::PMIX_LOG_EMAIL, email)]
            {
                assert_eq!(arrival.writers(&channel.into(), &offered), wanted, "{arrival:?} {channel:?}");
            }
        }
    }
}
