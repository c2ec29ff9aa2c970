//! `peal event watch --cluster`: prints the events of all nodes as they happen.
use super::print::{self, EventFormat};
use crate::{
    args::EventWatch,
    cluster::{
        EventPosition, NodeReply, NodeRequest,
        nodes::{self, OTHER_REPLY, access, members},
    },
    monitor::written,
    node, plain,
};
use anyhow::{Context, Result};
use peal_model::NodeName;
use peal_nats::{NatsLink, NodeAsker};
use peal_server::admin::WatchedEvent;
use std::{collections::BTreeSet, process::ExitCode, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{interval, sleep},
};

/// Capacity of the queue of lines to print; a full queue makes the nodes wait.
const MAX_QUEUED: usize = 256;
/// Time between two looks at the nodes of the cluster.
const LOOK_EACH: Duration = Duration::from_secs(5);
/// Time after a failure until a node is asked again.
const RETRY_EACH: Duration = Duration::from_secs(1);
/// Time limit of an answer. A node waits 3 s for events.
const ANSWER_LIMIT: Duration = Duration::from_secs(8);

/// Item of the queue to print.
enum NodeItem {
    Event(Box<WatchedEvent>),
    /// Line for the administrator.
    Notice(String),
}

/// Prints events until the count is reached, the reader closes the pipe or a signal comes.
pub(super) fn run(args: EventWatch) -> Result<ExitCode> {
    let form = EventFormat::of(args.format.output);
    let access = access(args.config)?;
    let codes: Vec<i32> = args.codes.iter().map(|code| code.0).collect();
    node::as_tool(async {
        let link = NatsLink::connect(&access).await?;
        let (sender, items) = mpsc::channel(MAX_QUEUED);
        let mut signals = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        let printed = tokio::select! {
            printed = print_all(items, args.count, form) => printed,
            failed = follow_members(&link, &codes, sender) => failed,
            _ = signals.0.recv() => Ok(()),
            _ = signals.1.recv() => Ok(()),
        };
        printed.map(|()| ExitCode::SUCCESS)
    })
}

/// Follows each node that is in the cluster, also those that join later.
async fn follow_members(
    link: &NatsLink,
    codes: &[i32],
    sender: mpsc::Sender<(NodeName, NodeItem)>,
) -> Result<()> {
    let mut followed = BTreeSet::new();
    let mut looks = interval(LOOK_EACH);
    loop {
        looks.tick().await;
        for node in members(link).await? {
            if followed.insert(node.clone()) {
                let follower = NodeFollower {
                    asker: NodeAsker::new(link),
                    node,
                    codes: codes.to_vec(),
                    sender: sender.clone(),
                };
                tokio::spawn(follower.run());
            }
        }
    }
}

/// Follower of one node's events.
struct NodeFollower {
    asker: NodeAsker,
    node: NodeName,
    codes: Vec<i32>,
    sender: mpsc::Sender<(NodeName, NodeItem)>,
}

/// Events of an answer.
struct NodeEvents {
    position: EventPosition,
    events: Vec<WatchedEvent>,
    missed: u64,
}

impl NodeFollower {
    async fn run(self) {
        let mut position = None;
        let mut failure: Option<String> = None;
        // The receiver is gone when the command ends.
        while !self.sender.is_closed() {
            match self.ask(position).await {
                Ok(found) => {
                    if failure.take().is_some() {
                        self.tell("it answers again".to_owned()).await;
                    }
                    let is_other = |before: EventPosition| before.run != found.position.run;
                    if position.is_some_and(is_other) {
                        let text = "events may be missing: its server was started again, or did not hear of this command";
                        self.tell(text.to_owned()).await;
                    }
                    position = Some(found.position);
                    for event in found.events {
                        self.send(NodeItem::Event(Box::new(event))).await;
                    }
                    if found.missed > 0 {
                        self.tell(print::missed(found.missed)).await;
                    }
                }
                Err(reason) => {
                    if failure.as_ref() != Some(&reason) {
                        self.tell(reason.clone()).await;
                        failure = Some(reason);
                    }
                    sleep(RETRY_EACH).await;
                }
            }
        }
    }

    async fn ask(&self, after: Option<EventPosition>) -> Result<NodeEvents, String> {
        let request = NodeRequest::Events {
            after,
            codes: self.codes.clone(),
        };
        let nodes = BTreeSet::from([self.node.clone()]);
        let replies = nodes::ask_by(&self.asker, nodes, &request, ANSWER_LIMIT).await;
        let mut replies = replies.map_err(|error| crate::error_text(&error))?;
        match replies.remove(&self.node) {
            Some(Ok(NodeReply::Events {
                position,
                events,
                missed,
            })) => Ok(NodeEvents {
                position,
                events,
                missed,
            }),
            Some(Ok(_)) | None => Err(OTHER_REPLY.to_owned()),
            Some(Err(reason)) => Err(reason),
        }
    }

    async fn tell(&self, text: String) {
        self.send(NodeItem::Notice(text)).await;
    }

    async fn send(&self, item: NodeItem) {
        // The receiver may be gone.
        let _ = self.sender.send((self.node.clone(), item)).await;
    }
}

/// Prints items line by line, until the count is reached or the reader closes the pipe.
async fn print_all(
    mut items: mpsc::Receiver<(NodeName, NodeItem)>,
    count: Option<u64>,
    form: EventFormat,
) -> Result<()> {
    let mut left = count;
    while left != Some(0) {
        let (node, item) = items.recv().await.context("no source of events is left")?;
        let event = match item {
            NodeItem::Event(event) => event,
            NodeItem::Notice(text) => {
                crate::print_line(&format!("node {node}: {}", plain(&text)));
                continue;
            }
        };
        if !written(&print::of_node(&node, &event, form)?).await? {
            return Ok(());
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}
