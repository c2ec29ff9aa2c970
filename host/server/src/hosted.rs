//! The modules of a server, each in the seats of its roles. A set is made beforehand and then put in the place of the one before
//! it as a whole.
use crate::{chains::HostedChains, channels::HostedChannels, decisions::HostedPolicies};

/// The modules of a server.
#[derive(Default)]
pub struct Hosted {
    /// Those that handle events.
    pub chains: HostedChains,
    /// The site's policies.
    pub policies: HostedPolicies,
    /// The site's log channels.
    pub channels: HostedChannels,
}
