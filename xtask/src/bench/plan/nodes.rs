//! Events and fences over nodes whose servers meet on NATS.
use super::{Group, LeftOut, Peers, Plan, ResultBound, metric};
use crate::bench::{
    arm::{Arm, MeasuredWork},
    nodes::{NODES, NodesJob},
};
use peal_labs::LabLauncher;

/// Names of the arms.
const EVENTS: &str = "nodes.events";
const FENCES: &str = "nodes.fences";

impl Plan {
    pub(super) fn nodes(&mut self, peers: &Peers) {
        if let Some(lacking) = peers.lacks_lab(LabLauncher::Slurm) {
            return self.left_out.push(LeftOut::Lab(lacking));
        }
        if !peers.nats_server {
            return self.left_out.push(LeftOut::NatsServer);
        }
        if !self.with_c {
            return;
        }
        let (count, warm) = (self.size.of(1000), self.size.of(100));
        self.arms.push(Arm {
            names: vec![EVENTS.to_owned(), FENCES.to_owned()],
            work: MeasuredWork::Nodes(vec![
                NodesJob::Events { count, warm },
                NodesJob::Fences { count, warm },
            ]),
        });
        self.row(
            Group::Nodes,
            "event to a rank of another node, and its answer",
            metric(EVENTS, "across_us"),
            ("of the same node", metric(EVENTS, "within_us")),
            "us",
            ResultBound::RatioAtMost(3.0),
        );
        self.row(
            Group::Nodes,
            format!("fence over {NODES} nodes by the cluster"),
            metric(FENCES, "cluster_us"),
            ("by Slurm", metric(FENCES, "launcher_us")),
            "us",
            ResultBound::RatioAtMost(2.0),
        );
    }
}
