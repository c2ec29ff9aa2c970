//! Processes of a supervised server.
use super::{Plan, ResultBound, metric};
use crate::bench::{Group, arm::MeasuredWork, module_costs::IdleModules, processes::UserProcess};

impl Plan {
    pub(super) fn processes(&mut self) {
        let count = self.size.of(20);
        self.arm(
            "processes.start".to_owned(),
            MeasuredWork::ServerStart {
                modules: IdleModules::Nothing,
                count,
            },
        );
        self.arm(
            "processes.memory".to_owned(),
            MeasuredWork::IdleMemory {
                modules: IdleModules::Nothing,
            },
        );
        for (description, ours, unit, most) in [
            (
                "start of `peal serve`",
                metric("processes.start", "ms"),
                "ms",
                100.0,
            ),
            (
                "memory of all processes, idle",
                metric("processes.memory", "pss_mib"),
                "MiB",
                60.0,
            ),
        ] {
            let must = ResultBound::AtMost(most);
            self.alone(Group::Processes, description, ours, unit, must);
        }
        let name = |process: UserProcess| format!("processes.chain.{}", process.name());
        let (count, warm) = (self.size.of(3000), self.size.of(300));
        for process in [UserProcess::Own, UserProcess::Servers] {
            self.arm(
                name(process),
                MeasuredWork::UserChain {
                    process,
                    count,
                    warm,
                },
            );
        }
        let ours = metric(&name(UserProcess::Own), "us");
        let peer = metric(&name(UserProcess::Servers), "us");
        self.row(
            Group::Processes,
            "through 16 handlers of a user and back, in the user's own process",
            ours,
            ("the server's process", peer),
            "us",
            ResultBound::MoreByAtMost(40.0),
        );
    }
}
