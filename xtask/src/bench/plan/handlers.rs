//! Chains of hosted handlers, and single steps in them.
use super::{BARE, C, Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{Hosts, JobMeasurement, MeasuredWork, Side},
};

impl Plan {
    pub(super) fn chain(&mut self) {
        let count = self.size.of(5000);
        let warm = self.size.of(1000);
        for handlers in [1, 4, 16, 64] {
            let name = |by: &str| format!("chain.{handlers}.{by}");
            for (side, by, modules, code) in [
                ("peal", "peal", handlers, "shared"),
                ("own-code", "peal", handlers, "own"),
                ("one-module", "peal", 1, "shared"),
                ("thread", "thread", handlers, "shared"),
                ("bare", "bare", 1, "shared"),
                ("together", "bare-together", 1, "shared"),
            ] {
                self.arm(
                    name(side),
                    MeasuredWork::Chain {
                        component: "noop",
                        by,
                        handlers,
                        modules,
                        code,
                        count,
                        warm,
                    },
                );
            }
            let hosts = Hosts::Nothing;
            let job = JobMeasurement {
                side: Side::C,
                procs: 1,
                mode: "chain",
                count,
                warm,
                extra: handlers,
                hosts,
            };
            self.arm(name("c"), MeasuredWork::Job(job));
            let must = match handlers {
                16 | 64 => ResultBound::RatioAtMost(0.15),
                _ => ResultBound::Nothing,
            };
            let c = || (C, metric(&name("c"), "us"));
            let peal = || metric(&name("peal"), "us");
            self.row(
                Group::Chain,
                format!("{handlers} handlers"),
                peal(),
                c(),
                "us",
                must,
            );
            let own_code = format!("{handlers} handlers of different components");
            self.row(
                Group::Chain,
                own_code.clone(),
                metric(&name("own-code"), "us"),
                c(),
                "us",
                ResultBound::Nothing,
            );
            self.row(
                Group::Chain,
                own_code,
                metric(&name("own-code"), "us"),
                ("of the same", peal()),
                "us",
                ResultBound::RatioAtMost(1.1),
            );
            let handed_over = format!("{handlers} handlers, with the hand-over to a thread");
            self.row(
                Group::Chain,
                handed_over,
                metric(&name("thread"), "us"),
                c(),
                "us",
                ResultBound::Nothing,
            );
            // A handler that does nothing measures only the cost of the call. The bound is on one
            // that does work (`step`).
            let bare = || (BARE, metric(&name("bare"), "us"));
            self.row(
                Group::Chain,
                format!("{handlers} handlers"),
                peal(),
                bare(),
                "us",
                ResultBound::Nothing,
            );
            let together = ("bare wasmtime, one store", metric(&name("together"), "us"));
            self.row(
                Group::Chain,
                format!("{handlers} handlers"),
                peal(),
                together,
                "us",
                ResultBound::Nothing,
            );
            let of_one = format!("{handlers} handlers of one module");
            self.row(
                Group::Chain,
                of_one,
                metric(&name("one-module"), "us"),
                bare(),
                "us",
                ResultBound::Nothing,
            );
        }
        // Four times the handlers may take four times as long, and a little more for cache misses.
        let many = metric("chain.64.peal", "us");
        let few = metric("chain.16.peal", "us");
        self.row(
            Group::Chain,
            "64 handlers for 16: linear",
            many,
            ("16 handlers", few),
            "us",
            ResultBound::RatioAtMost(5.0),
        );
    }

    pub(super) fn step(&mut self) {
        let count = self.size.of(5000);
        let warm = self.size.of(1000);
        for by in ["peal", "bare"] {
            self.arm(
                format!("step.{by}"),
                MeasuredWork::Chain {
                    component: "read-push",
                    by,
                    handlers: 16,
                    modules: 16,
                    code: "shared",
                    count,
                    warm,
                },
            );
        }
        let peal = metric("step.peal", "step_us");
        let bare = metric("step.bare", "step_us");
        self.row(
            Group::Step,
            "read one info, push one result",
            peal,
            (BARE, bare),
            "us",
            ResultBound::AtMost(3.0),
        );
        let peal = metric("step.peal", "step_us");
        let bare = metric("step.bare", "step_us");
        self.row(
            Group::Step,
            "the same, beside bare wasmtime",
            peal,
            (BARE, bare),
            "us",
            ResultBound::RatioAtMost(2.0),
        );
    }
}
