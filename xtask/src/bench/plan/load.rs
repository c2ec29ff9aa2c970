//! Work beside attacks and registrations.
use super::{Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::MeasuredWork,
    attacking::VictimWork,
    registering::Installed,
    siege::{CoreUse, SiegeCounts},
};

impl Plan {
    pub(super) fn attack(&mut self) {
        let count = self.size.of(500);
        for (work, attacks) in VictimWork::ALL {
            let alone = format!("attack.{}.alone", work.name());
            self.arm(
                alone.clone(),
                MeasuredWork::Victim {
                    work,
                    attack: None,
                    count,
                },
            );
            for attack in attacks {
                let beside = format!("attack.{}.{}", work.name(), attack.name);
                self.arm(
                    beside.clone(),
                    MeasuredWork::Victim {
                        work,
                        attack: Some(*attack),
                        count,
                    },
                );
                let ours = metric(&beside, "median_us");
                let peer = metric(&alone, "median_us");
                let what = format!("{}, beside {}", work.name(), attack.name);
                self.row(
                    Group::Attack,
                    what,
                    ours,
                    ("without", peer),
                    "us",
                    ResultBound::RatioAtMost(2.0),
                );
            }
        }
    }

    pub(super) fn siege(&mut self) {
        let counts = SiegeCounts {
            events: self.size.of(3000),
            launches: self.size.of(500),
            calls: self.size.of(2000),
        };
        for (cores, note) in [
            (CoreUse::Apart, "on a core of its own"),
            (CoreUse::Shared, "on the attacker's cores"),
        ] {
            let arm = format!("siege.{}", cores.name());
            self.arm(arm.clone(), MeasuredWork::Siege { cores, counts });
            for (what, name, alone) in [
                (
                    "an event, 99th percentile",
                    "event_us_p99",
                    "alone_event_us_p99",
                ),
                ("an event, median", "event_us", "alone_event_us"),
                (
                    "a launch, 99th percentile",
                    "launch_us_p99",
                    "alone_launch_us_p99",
                ),
                ("a launch, median", "launch_us", "alone_launch_us"),
                (
                    "an admin call, 99th percentile",
                    "call_us_p99",
                    "alone_call_us_p99",
                ),
                ("an admin call, median", "call_us", "alone_call_us"),
            ] {
                let is_bounded = name.ends_with("_p99") && cores == CoreUse::Apart;
                let must = if is_bounded {
                    ResultBound::RatioAtMost(3.0)
                } else {
                    ResultBound::Nothing
                };
                let (ours, peer) = (metric(&arm, name), metric(&arm, alone));
                let description = format!("{what}, {note}");
                self.row(
                    Group::Siege,
                    description,
                    ours,
                    ("without", peer),
                    "us",
                    must,
                );
            }
        }
    }

    pub(super) fn register(&mut self) {
        let count = self.size.of(50);
        for (name, installed) in [
            ("register.beside", Installed::LargeComponents),
            ("register.alone", Installed::Nothing),
        ] {
            self.arm(name.to_owned(), MeasuredWork::Register { installed, count });
        }
        let ours = metric("register.beside", "ms");
        let peer = metric("register.alone", "ms");
        let what = "a job is registered while six components of a user are compiled";
        self.row(
            Group::Register,
            what,
            ours,
            ("without", peer),
            "ms",
            ResultBound::RatioAtMost(2.0),
        );
    }
}
