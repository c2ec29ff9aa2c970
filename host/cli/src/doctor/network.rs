//! Network: the loopback interface, the port of the metrics, and the servers of the cluster.
use super::{Finding, running_server::StatusAnswer};
use peal_config::Resolved;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    time::Duration,
};

/// Time limit of a connection.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Examines the network of a server with this configuration. A server that runs holds its port.
pub fn examine(resolved: &Resolved, answer: &StatusAnswer) -> Vec<Finding> {
    let mut found = vec![loopback()];
    if let Some(address) = resolved.config.metrics.listen
        && matches!(answer, StatusAnswer::Missing)
        && let Err(error) = TcpListener::bind(address)
    {
        found.push(Finding::failed(
            format!("nothing can listen at {address} (metrics.listen): {error}"),
            "Choose another port, or end the program that has it (`ss -ltnp`).",
        ));
    }
    // A cluster that is not configured wholly is a problem of the configuration.
    let access = crate::config::cluster_access(resolved).ok().flatten();
    for server in access.iter().flat_map(|access| &access.servers) {
        let (host, port) = (server.host(), server.port());
        found.push(match connect(host, port) {
            Ok(address) => Finding::ok(format!("a server of the cluster listens at {host}:{port} ({address})")),
            Err(error) => Finding::failed(
                format!("no connection to {host}:{port} (cluster.servers): {error}"),
                "`peal cluster status` examines a server that is reached. Look at its firewall and its address.",
            ),
        });
    }
    found
}

fn connect(host: &str, port: u16) -> io::Result<SocketAddr> {
    let mut last = io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(_) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to a port of this process, as programs connect to the server.
fn loopback() -> Finding {
    let connected = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        TcpStream::connect_timeout(&listener.local_addr()?, TIMEOUT)
    };
    match connected() {
        Ok(_) => Finding::ok("programs can connect through the loopback interface"),
        Err(error) => Finding::failed(
            format!("no connection through the loopback interface: {error}"),
            "Programs reach the server through it: `ip link set lo up`, and let a firewall pass it.",
        ),
    }
}
