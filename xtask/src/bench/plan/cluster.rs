//! Servers of a cluster.
use super::{LeftOut, Plan, ResultBound, metric};
use crate::bench::{Group, arm::MeasuredWork, plan::ResultRow};

/// Name of the arm.
const ARM: &str = "cluster";

impl Plan {
    pub(super) fn cluster(&mut self, has_nats_server: bool) {
        if !has_nats_server {
            return self.left_out.push(LeftOut::NatsServer);
        }
        let servers = self.size.of(1000);
        let events = self.size.of(20);
        self.arm(ARM.to_owned(), MeasuredWork::Cluster { servers, events });
        for (description, name, unit, must) in [
            (
                format!("{servers} servers start, until each knows all others"),
                "join_ms",
                "ms",
                ResultBound::AtMost(10_000.0),
            ),
            (
                format!("an event of one of {servers} servers, until all others have it"),
                "event_ms",
                "ms",
                ResultBound::AtMost(100.0),
            ),
            (
                "servers that were declared gone".to_owned(),
                "lost",
                "",
                ResultBound::AtMost(0.0),
            ),
            (
                format!("memory of a server that knows {servers}"),
                "kib_per_server",
                "KiB",
                ResultBound::Nothing,
            ),
        ] {
            self.rows.push(ResultRow {
                group: Group::Cluster,
                description,
                ours: metric(ARM, name),
                peer: None,
                unit,
                must,
            });
        }
    }
}
