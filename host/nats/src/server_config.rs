//! Configuration of a NATS server, as JSON, which is one of the forms that NATS servers read: strings
//! are quoted by the serializer.
use crate::{
    permissions::SubjectPermissions,
    site::{ClusterSite, SERVER_CERTIFICATE, server_directory},
    subjects::ClusterSubjects,
};
use peal_config::NatsAddress;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Account of the nodes of a cluster.
const ACCOUNT: &str = "PEAL";
/// Distance from the port of clients to the port at which NATS servers reach each other, as from 4222
/// to 6222.
const ROUTE_PORT: u16 = 2000;
/// Maximum port of clients, so that there is one for the other NATS servers.
pub(crate) const MAX_PORT: u16 = u16::MAX - ROUTE_PORT;
/// Maximum size of a message, in bytes: the default, which is written since Peal relies on it.
const MAX_PAYLOAD: u32 = 1 << 20;
/// Time for a handshake of TLS, in seconds.
const TLS_TIMEOUT: u32 = 5;

/// Returns the configuration of one NATS server of a site. Paths in it start at the directory in which
/// the server is started.
pub fn server_config(site: &ClusterSite, server: &NatsAddress) -> String {
    let tls = json!({
        "cert_file": format!("{SERVER_CERTIFICATE}.pem"),
        "key_file": format!("{SERVER_CERTIFICATE}.key"),
        "timeout": TLS_TIMEOUT,
        "min_version": "1.3",
    });
    let mut config = json!({
        "server_name": server_directory(server),
        "listen": listen(server, server.port()),
        "max_payload": MAX_PAYLOAD,
        "tls": tls,
        "jetstream": { "store_dir": "jetstream" },
        "accounts": { ACCOUNT: { "jetstream": "enabled", "users": users(site) } },
    });
    let others: Vec<String> = site
        .servers
        .iter()
        .filter(|other| *other != server)
        .map(route)
        .collect();
    if let (false, Some(fields)) = (others.is_empty(), config.as_object_mut()) {
        let mut tls = tls;
        if let Some(tls) = tls.as_object_mut() {
            // Only servers have certificates of this authority.
            tls.insert("ca_file".to_owned(), json!("ca.pem"));
            tls.insert("verify".to_owned(), json!(true));
        }
        let cluster = json!({
            "name": site.name,
            "listen": listen(server, route_port(server)),
            "routes": others,
            "tls": tls,
        });
        fields.insert("cluster".to_owned(), cluster);
    }
    format!(
        "# NATS server {server} of cluster {}, by `peal cluster init`, which replaces this file.\n\
         # Start it in this directory: nats-server -c nats-server.conf\n{config:#}\n",
        site.name
    )
}

/// Returns the users of the account: the administrator, and the nodes in the order of their names.
fn users(site: &ClusterSite) -> Vec<Value> {
    let subjects = ClusterSubjects::new(site.name.clone());
    let user = |key: &str, permissions: SubjectPermissions| {
        // Other kinds of connections (websocket, MQTT, leaf nodes) have rules of their own.
        json!({ "nkey": key, "permissions": permissions, "allowed_connection_types": ["STANDARD"] })
    };
    let administrator = user(
        &site.administrator,
        SubjectPermissions::of_administrator(&subjects),
    );
    let nodes = site.nodes.iter().map(|(node, key)| {
        user(
            key,
            SubjectPermissions::of_node(&subjects, node, site.kind_of(node)),
        )
    });
    std::iter::once(administrator).chain(nodes).collect()
}

fn route_port(server: &NatsAddress) -> u16 {
    server.port().saturating_add(ROUTE_PORT)
}

fn route(server: &NatsAddress) -> String {
    let host = server.host();
    let port = route_port(server);
    if host.contains(':') {
        format!("tls://[{host}]:{port}")
    } else {
        format!("tls://{host}:{port}")
    }
}

/// Returns the address at which a server listens: its own if it is one, else all of the machine.
fn listen(server: &NatsAddress, port: u16) -> String {
    match server.ip() {
        Some(ip) => SocketAddr::new(ip, port).to_string(),
        None => format!("0.0.0.0:{port}"),
    }
}
