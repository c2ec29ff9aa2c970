//! Environment variables by which a client finds its server.
use crate::rendezvous::SERVED_VERSION;
use peal_model::{Nspace, Rank};
use peal_wire::{BufferType, GDS_HASH, variable};

/// Returns the variables by which a client finds its server (`pmix-wire.md`, section 1.1).
pub fn client_environment(
    nspace: &Nspace,
    hostname: &str,
    rank: Rank,
    uri: &str,
) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        (variable::NAMESPACE, nspace.to_string()),
        (variable::RANK, rank.0.to_string()),
        (variable::SERVER_URI, uri.to_owned()),
        (variable::SECURITY_MODE, "native".to_owned()),
        // The other modules use shared memory, whose layouts Peal does not implement.
        (variable::GDS_MODULE, GDS_HASH.to_owned()),
        (
            variable::BUFFER_TYPE,
            BufferType::NonDescribed.name().to_owned(),
        ),
        (variable::HOSTNAME, hostname.to_owned()),
        (variable::VERSION, SERVED_VERSION.to_owned()),
        // Open MPI 4.1 looks for a server only if this is set. Nothing listens at the address, and
        // Open MPI never connects to it (`pmix-wire.md`, section 6.4).
        (
            "OMPI_MCA_orte_local_daemon_uri",
            "1.0;tcp://127.0.0.1:1".to_owned(),
        ),
    ];
    variables.extend(
        variable::OLDER_SERVER_URIS
            .iter()
            .map(|name| (*name, uri.to_owned())),
    );
    variables
}
