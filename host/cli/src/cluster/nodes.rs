//! Commands that ask the servers of all nodes of a cluster.
use super::requests::{NodeReply, NodeRequest};
use crate::{args::ConfigArgs, config, node, plain, wait_message::WaitMessage};
use anyhow::{Result, bail};
use peal_model::NodeName;
use peal_nats::{ClusterAccess, NatsLink, NodeAsker, read_members};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
    time::Duration,
};

/// Message while answers are gathered.
const ASKING: &str = "asking the nodes of the cluster";

/// Reason of an answer of another kind than the request.
pub const OTHER_REPLY: &str = "its answer is to another request";

/// Exit status if a node did not answer.
pub const SILENT: u8 = 3;

/// Replies of nodes, or the reasons for which there are none.
pub type NodeReplies<T = NodeReply> = BTreeMap<NodeName, Result<T, String>>;

/// Returns the access of this node to its cluster.
pub fn access(sources: ConfigArgs) -> Result<ClusterAccess> {
    let settings = config::load_sections(sources, &["cluster"])?.cluster;
    let access = ClusterAccess::from_settings(&settings, &peal_system::hostname())?;
    let Some(access) = access else {
        bail!("--cluster: no cluster is configured ([cluster])");
    };
    Ok(access)
}

/// Asks the servers of all nodes in the cluster.
pub fn ask_all(sources: ConfigArgs, request: &NodeRequest, limit: Duration) -> Result<NodeReplies> {
    let access = access(sources)?;
    let _waiting = WaitMessage::new(ASKING);
    node::as_tool(async {
        let link = NatsLink::connect(&access).await?;
        let nodes = members(&link).await?;
        ask(&link, nodes, request, limit).await
    })
}

/// Returns the nodes in the cluster.
pub async fn members(link: &NatsLink) -> Result<BTreeSet<NodeName>> {
    Ok(read_members(link).await?.nodes().cloned().collect())
}

/// Asks the servers of these nodes.
pub async fn ask(
    link: &NatsLink,
    nodes: BTreeSet<NodeName>,
    request: &NodeRequest,
    limit: Duration,
) -> Result<NodeReplies> {
    ask_by(&NodeAsker::new(link), nodes, request, limit).await
}

/// Asks the servers of these nodes by a requester.
pub async fn ask_by(
    asker: &NodeAsker,
    nodes: BTreeSet<NodeName>,
    request: &NodeRequest,
    limit: Duration,
) -> Result<NodeReplies> {
    let nodes = nodes.into_iter().collect();
    let mut answers = asker.ask(nodes, request.encode()?, limit).await?;
    let mut replies = NodeReplies::new();
    while let Some(answer) = answers.recv().await {
        replies.insert(answer.node.clone(), NodeReply::of(answer));
    }
    Ok(replies)
}

/// Prints the nodes without a usable reply, and returns the exit status: another one than that of success
/// if there are any.
pub fn report_silent<T>(replies: &NodeReplies<T>) -> ExitCode {
    let failures = replies
        .iter()
        .filter_map(|(node, reply)| Some((node, reply.as_ref().err()?)));
    let mut status = ExitCode::SUCCESS;
    for (node, reason) in failures {
        crate::print_line(&format!("node {node}: {}", plain(reason)));
        status = ExitCode::from(SILENT);
    }
    status
}

/// Returns replies as JSON: for each node its name, and the contents of its reply under this key or the
/// failure.
pub fn as_json<T>(replies: &NodeReplies<T>, key: &str, contents: impl Fn(&T) -> Value) -> Value {
    let of_node = |(node, reply): (&NodeName, &Result<T, String>)| match reply {
        Ok(reply) => json!({ "node": node.to_string(), key: contents(reply) }),
        Err(failure) => json!({ "node": node.to_string(), "failure": failure }),
    };
    replies.iter().map(of_node).collect()
}

/// Replaces replies of another kind than the request by a reason.
pub fn of_kind<T>(replies: NodeReplies, take: impl Fn(NodeReply) -> Option<T>) -> NodeReplies<T> {
    let taken = |reply: NodeReply| take(reply).ok_or_else(|| OTHER_REPLY.to_owned());
    replies
        .into_iter()
        .map(|(node, reply)| (node, reply.and_then(taken)))
        .collect()
}
