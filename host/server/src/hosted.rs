//! Module set of a server, by the roles of the modules. A set is prepared in advance and replaces
//! the previous one as a whole.
use crate::{chains::HostedChains, channels::HostedChannels, decisions::HostedPolicies};

/// Modules of a server.
#[derive(Default)]
pub struct Hosted {
    /// Event handlers.
    pub chains: HostedChains,
    /// Policies of the site.
    pub policies: HostedPolicies,
    /// Log channels of the site.
    pub channels: HostedChannels,
}
