//! Costs of parts of the server: log channels, monitors, memory, audit trail and trace.
use super::{C, Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{FloorWork, Hosts, JobMeasurement, MeasuredWork, Side},
    instructions::CountedWork,
    observed::Observer,
};

impl Plan {
    pub(super) fn audit(&mut self) {
        let count = self.size.of(6000);
        let warm = self.size.of(600);
        // One event after the other makes some 5,000 calls a second.
        for (name, procs, mode, hosts) in [
            ("audit.policy", 2, "fan", Hosts::Policy),
            ("audit.policy-recorded", 2, "fan", Hosts::PolicyRecorded),
            ("audit.handlers", 1, "pingpong", Hosts::Handlers),
            (
                "audit.handlers-recorded",
                1,
                "pingpong",
                Hosts::HandlersRecorded,
            ),
        ] {
            let job = JobMeasurement {
                side: Side::PealClient,
                procs,
                mode,
                count,
                warm,
                extra: 0,
                hosts,
            };
            self.arm(name.to_owned(), MeasuredWork::Job(job));
        }
        for (what, name) in [
            ("one way past a policy", "policy"),
            ("through eight handlers and back", "handlers"),
        ] {
            let ours = metric(&format!("audit.{name}-recorded"), "us");
            let peer = ("without a trail", metric(&format!("audit.{name}"), "us"));
            self.row(
                Group::Audit,
                format!("{what}, all recorded"),
                ours,
                peer,
                "us",
                ResultBound::RatioAtMost(1.2),
            );
        }
    }

    pub(super) fn observed(&mut self) {
        let (count, warm) = (self.size.of(10_000), self.size.of(1000));
        let name = |observer: Observer| format!("observed.{}", observer.name());
        for observer in Observer::ALL {
            self.arm(
                name(observer),
                MeasuredWork::Observed {
                    observer,
                    count,
                    warm,
                },
            );
        }
        for (what, observer) in [
            ("beside an open page of the console", Observer::Browser),
            (
                "with traces and metrics for a collector",
                Observer::Collector,
            ),
        ] {
            let ours = metric(&name(observer), "us");
            let peer = ("unobserved", metric(&name(observer), "alone_us"));
            self.row(
                Group::Observed,
                format!("through 16 handlers and back, {what}"),
                ours,
                peer,
                "us",
                ResultBound::RatioAtMost(1.1),
            );
        }
    }

    pub(super) fn log(&mut self) {
        let count = self.size.of(5000);
        let warm = self.size.of(500);
        for (name, side, hosts) in [
            ("log.peal", Side::Peal, Hosts::Stdio),
            ("log.host", Side::Peal, Hosts::Nothing),
            ("log.c", Side::C, Hosts::Nothing),
        ] {
            let job = JobMeasurement {
                side,
                procs: 1,
                mode: "log",
                count,
                warm,
                extra: 0,
                hosts,
            };
            self.arm(name.to_owned(), MeasuredWork::Job(job));
        }
        for (name, what) in [
            (
                "log.peal",
                "blocking requests to stderr, through a component, libpmix clients",
            ),
            (
                "log.host",
                "blocking requests to stderr, by the launcher, libpmix clients",
            ),
        ] {
            self.row(
                Group::Log,
                what,
                metric(name, "per_s"),
                (C, metric("log.c", "per_s")),
                "/s",
                ResultBound::RatioAtLeast(1.0),
            );
        }
        self.one_proc_floor("log", FloorWork::Log, (5000, 500));
        let what = "blocking requests to stderr, ";
        self.beside_floor(Group::Log, what, "log", "per_s", &[Side::Peal]);
    }

    pub(super) fn monitor(&mut self) {
        self.jobs(
            "beats",
            &[Side::Peal, Side::C],
            (1, "beats", 0),
            (50_000, 5000),
        );
        let ours = metric("beats.peal", "per_s");
        let peer = (C, metric("beats.c", "per_s"));
        let must = ResultBound::RatioAtLeast(1.0);
        self.row(
            Group::Monitor,
            "heartbeats of one client, libpmix clients",
            ours,
            peer,
            "/s",
            must,
        );
        self.one_proc_floor("beats", FloorWork::Beats, (50_000, 5000));
        let what = "heartbeats of one client, ";
        self.beside_floor(Group::Monitor, what, "beats", "per_s", &[Side::Peal]);
        self.jobs("pulse", &[Side::Peal, Side::C], (500, "pulse", 0), (20, 0));
        let ours = metric("pulse.peal", "cpu");
        let peer = (C, metric("pulse.c", "cpu"));
        let what = "share of a CPU for 500 clients that send one a second, libpmix clients";
        self.row(
            Group::Monitor,
            what,
            ours,
            peer,
            "",
            ResultBound::AtMost(0.02),
        );
    }

    pub(super) fn memory(&mut self) {
        let few = 64;
        let many = 512;
        let sides: &[Side] = if self.with_c {
            &[Side::Peal, Side::C]
        } else {
            &[Side::PealClient]
        };
        for side in sides {
            self.arm(
                format!("memory.{}", side.name()),
                MeasuredWork::Growth {
                    side: *side,
                    few,
                    many,
                },
            );
        }
        let ours = if self.with_c {
            "memory.peal"
        } else {
            "memory.peal-client"
        };
        for (name, how, must) in [
            (
                "rss_kib_per_client",
                "resident",
                ResultBound::RatioAtMost(1.0),
            ),
            ("pss_kib_per_client", "proportional", ResultBound::Nothing),
        ] {
            let what = format!("server, {how}, per idle client from {few} to {many}");
            self.row(
                Group::Memory,
                what,
                metric(ours, name),
                (C, metric("memory.c", name)),
                "KiB",
                must,
            );
        }
    }

    pub(super) fn trace(&mut self) {
        // The times show what a user waits. Turns of the same program may differ by these bounds,
        // which hide a microsecond.
        let levels = [
            (
                Side::PealTraceOff,
                "trace off",
                ResultBound::RatioAtMost(1.05),
            ),
            (
                Side::PealClient,
                "trace at warn",
                ResultBound::RatioAtMost(1.1),
            ),
        ];
        let sides = [Side::PealTraceOff, Side::PealWithoutTrace, Side::PealClient];
        for (what, name, job) in [
            (
                "there and back",
                "trace.pingpong",
                (2, "pingpong", Hosts::Nothing),
            ),
            (
                "through 16 handlers and back",
                "trace.chain",
                (1, "pingpong", Hosts::NoopHandlers),
            ),
        ] {
            self.by_turns(name, &sides, job, (300, 30));
            let of = |side: Side| metric(&format!("{name}.{}", side.name()), "us");
            for (side, level, must) in levels {
                let peer = ("compiled out", of(Side::PealWithoutTrace));
                let what = format!("{what}, {level}");
                self.row(Group::Trace, what, of(side), peer, "us", must);
            }
        }
        // The numbers of instructions are nearly the same in every run, so that they show also a
        // few hundred of some ten thousand.
        let of = |side: Side| format!("trace.instructions.{}", side.name());
        for side in sides {
            let work = CountedWork::repeated(side, "pingpong", 2, [500, 2500]);
            self.arm(of(side), MeasuredWork::Instructions(work));
        }
        for (side, level, must) in [
            (
                Side::PealTraceOff,
                "trace off",
                ResultBound::RatioAtMost(1.01),
            ),
            (
                Side::PealClient,
                "trace at warn",
                ResultBound::RatioAtMost(1.1),
            ),
        ] {
            self.row(
                Group::Trace,
                format!("server, instructions there and back, {level}"),
                metric(&of(side), "instructions"),
                (
                    "compiled out",
                    metric(&of(Side::PealWithoutTrace), "instructions"),
                ),
                "",
                must,
            );
        }
        let (few, many) = (64, 512);
        let of = |side: Side| format!("trace.memory.{}", side.name());
        for side in [Side::PealTraceOff, Side::PealClient] {
            self.arm(of(side), MeasuredWork::Growth { side, few, many });
        }
        let name = "rss_kib_per_client";
        let (ours, peer) = (of(Side::PealClient), of(Side::PealTraceOff));
        self.row(
            Group::Trace,
            format!("server, resident, per idle client from {few} to {many}, trace at warn"),
            metric(&ours, name),
            ("trace off", metric(&peer, name)),
            "KiB",
            ResultBound::Nothing,
        );
    }
}
