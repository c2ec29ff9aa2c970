//! Events and fences at a server that looks for more work before it sleeps (`server.spin_us`).
use super::{Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{Hosts, JobMeasurement, MeasuredWork, Side},
};

/// Work of a job at both servers.
struct Work {
    description: &'static str,
    name: &'static str,
    side: Side,
    procs: u32,
    mode: &'static str,
    /// Modules of the server that sleeps at once, and of the other one.
    hosts: [Hosts; 2],
}

/// No modules.
const PLAIN: [Hosts; 2] = [Hosts::Nothing, Hosts::Spinning];

const WORK: [Work; 5] = [
    Work {
        description: "event, one way, Peal's clients",
        name: "event",
        side: Side::PealClient,
        procs: 2,
        mode: "fan",
        hosts: PLAIN,
    },
    Work {
        description: "event, one way past one policy, Peal's clients",
        name: "policy",
        side: Side::PealClient,
        procs: 2,
        mode: "fan",
        hosts: [Hosts::Policy, Hosts::SpinningPolicy],
    },
    Work {
        description: "event, one way, libpmix clients",
        name: "event-libpmix",
        side: Side::Peal,
        procs: 2,
        mode: "fan",
        hosts: PLAIN,
    },
    Work {
        description: "fence, 4 procs, libpmix clients",
        name: "fence.4",
        side: Side::Peal,
        procs: 4,
        mode: "fence",
        hosts: PLAIN,
    },
    Work {
        description: "fence, 16 procs, libpmix clients",
        name: "fence.16",
        side: Side::Peal,
        procs: 16,
        mode: "fence",
        hosts: PLAIN,
    },
];

impl Plan {
    pub(super) fn spin(&mut self) {
        for work in WORK {
            let arm = |how: &str| format!("spin.{}.{how}", work.name);
            let (sleeps, spins) = (arm("sleeps"), arm("spins"));
            for (name, hosts) in [&sleeps, &spins].into_iter().zip(work.hosts) {
                let job = JobMeasurement {
                    side: work.side,
                    procs: work.procs,
                    mode: work.mode,
                    count: self.size.of(3000),
                    warm: self.size.of(600),
                    extra: 0,
                    hosts,
                };
                self.arm(name.clone(), MeasuredWork::Job(job));
            }
            let values = [("us", ""), ("cpu_us", ", server's processor time")];
            // Peal's clients do not print the processor time of the server.
            let printed = if work.side.is_without_c() { 1 } else { 2 };
            for (value, part) in values.into_iter().take(printed) {
                self.row(
                    Group::Spin,
                    format!("{}{part}", work.description),
                    metric(&spins, value),
                    ("sleeps at once", metric(&sleeps, value)),
                    "us",
                    ResultBound::Nothing,
                );
            }
        }
    }
}
