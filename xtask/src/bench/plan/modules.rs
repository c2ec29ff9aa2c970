//! Costs of modules: first calls, memory, servers with many, and policies.
use super::{Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{Hosts, JobMeasurement, MeasuredWork, Side},
    module_costs::{GuestLanguage, IdleModules},
};

impl Plan {
    pub(super) fn modules(&mut self) {
        let count = self.size.of(10);
        for language in GuestLanguage::ALL {
            let name = format!("modules.first.{}", language.component());
            self.arm(name.clone(), MeasuredWork::FirstCall { language, count });
            let must = match language {
                GuestLanguage::Python => ResultBound::AtMost(100_000.0),
                GuestLanguage::Rust => ResultBound::AtMost(1000.0),
                _ => ResultBound::Nothing,
            };
            self.alone(
                Group::Modules,
                format!(
                    "first event after a start, through a handler in {} and back",
                    language.name()
                ),
                metric(&name, "us"),
                "us",
                must,
            );
        }
        let (few, many) = (4, 20);
        for language in GuestLanguage::ALL {
            let name = format!("modules.memory.{}", language.component());
            let work = MeasuredWork::Instances {
                language,
                few,
                many,
            };
            self.arm(name.clone(), work);
            self.alone(
                Group::Modules,
                format!("server, memory of a called instance in {}", language.name()),
                metric(&name, "kib_per_module"),
                "KiB",
                ResultBound::Nothing,
            );
        }
        for (what, name, modules) in [
            ("200 modules", "same", IdleModules::Same(200)),
            (
                "200 different modules",
                "different",
                IdleModules::Different(200),
            ),
        ] {
            let name = format!("modules.start.{name}");
            self.arm(name.clone(), MeasuredWork::ServerStart { modules, count });
            self.alone(
                Group::Modules,
                format!("start of `peal serve` with {what}"),
                metric(&name, "ms"),
                "ms",
                ResultBound::AtMost(300.0),
            );
        }
        let modules = IdleModules::Different(100);
        let name = "modules.memory.idle";
        self.arm(name.to_owned(), MeasuredWork::IdleMemory { modules });
        self.alone(
            Group::Modules,
            "memory of all processes with 100 different modules, idle",
            metric(name, "pss_mib"),
            "MiB",
            ResultBound::AtMost(100.0),
        );
    }

    pub(super) fn policies(&mut self) {
        let count = self.size.of(6000);
        let warm = self.size.of(600);
        for (name, hosts) in [
            ("policies.none", Hosts::Nothing),
            ("policies.1", Hosts::Policy),
            ("policies.8", Hosts::Policies),
        ] {
            let job = JobMeasurement {
                side: Side::PealClient,
                procs: 2,
                mode: "fan",
                count,
                warm,
                extra: 0,
                hosts,
            };
            self.arm(name.to_owned(), MeasuredWork::Job(job));
        }
        for (what, name) in [
            ("one policy", "policies.1"),
            ("eight policies", "policies.8"),
        ] {
            self.row(
                Group::Policies,
                format!("one way past {what}"),
                metric(name, "us"),
                ("without", metric("policies.none", "us")),
                "us",
                ResultBound::Nothing,
            );
        }
    }
}
