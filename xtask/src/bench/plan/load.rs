//! Work beside attacks and registrations.
use super::{Plan, ResultBound, metric};
use crate::bench::{Group, arm::MeasuredWork, attacking::VictimWork, registering::Installed};

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
