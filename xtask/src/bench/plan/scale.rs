//! Cost of a node's server as the number of its procs grows.
use super::{C, Floor, HALF, Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{FloorWork, Hosts, MeasuredWork, Side},
    instructions::CountedWork,
};

/// Numbers of procs.
const PROCS: [u32; 5] = [FEW, 128, 256, 512, MANY];

/// Number of procs with which more are compared.
const FEW: u32 = 64;

/// Largest number of procs.
const MANY: u32 = 1024;

/// Upper bound of the work for a proc among many, beside that among few: of instructions, and of starts.
const GROWTH: ResultBound = ResultBound::RatioAtMost(1.1);

/// Upper bound of times, which are those of clients, too.
const NO_MORE: ResultBound = ResultBound::RatioAtMost(1.0);

const SIDES: [Side; 2] = [Side::Peal, Side::C];

/// Work that all procs of a job do together.
#[derive(Clone, Copy)]
enum CommonWork {
    /// Fence of all.
    Fence,
    /// Event to all others.
    Event,
    /// Group of all, formed and destructed.
    Group,
    /// Query of the table of all procs. The host environment of the C library has none.
    Table,
}

impl CommonWork {
    const ALL: [CommonWork; 4] = [
        CommonWork::Fence,
        CommonWork::Event,
        CommonWork::Group,
        CommonWork::Table,
    ];

    /// Returns the mode of the measuring program.
    fn mode(self) -> &'static str {
        match self {
            CommonWork::Fence => "fence",
            CommonWork::Event => "fan",
            CommonWork::Group => "group",
            CommonWork::Table => "table",
        }
    }

    fn description(self) -> &'static str {
        match self {
            CommonWork::Fence => "fence",
            CommonWork::Event => "event to all",
            CommonWork::Group => "group, formed and destructed",
            CommonWork::Table => "query of all procs",
        }
    }

    /// Returns the times that are printed, each with what is added to the description.
    fn times(self) -> &'static [(&'static str, &'static str)] {
        match self {
            CommonWork::Group => &[
                ("construct_us", ", construct"),
                ("destruct_us", ", destruct"),
            ],
            CommonWork::Fence | CommonWork::Event | CommonWork::Table => &[("us", "")],
        }
    }

    /// Returns the messages of which the least cost is measured.
    fn floor(self) -> Option<FloorWork> {
        match self {
            CommonWork::Fence => Some(FloorWork::Fence),
            CommonWork::Event => Some(FloorWork::Event),
            CommonWork::Group => Some(FloorWork::Group),
            CommonWork::Table => None,
        }
    }

    fn sides(self) -> &'static [Side] {
        match self {
            CommonWork::Table => &[Side::Peal],
            CommonWork::Fence | CommonWork::Event | CommonWork::Group => &SIDES,
        }
    }
}

impl Plan {
    pub(super) fn scale(&mut self) {
        self.crowds();
        self.common_work();
        self.counted_work();
        self.memory_of_many();
    }

    /// Adds jobs from the start to the end.
    fn crowds(&mut self) {
        let name = |procs, side: Side| format!("scale.crowd.{procs}.{}", side.name());
        for procs in PROCS {
            for side in SIDES {
                self.arm(name(procs, side), MeasuredWork::Crowd { side, procs });
            }
            for (value, what, unit, must) in [
                ("init_ms", "start until all have initialized", "ms", NO_MORE),
                (
                    "init_cpu_us",
                    "the same, server's processor time for a proc",
                    "us",
                    HALF,
                ),
                (
                    "death_ms",
                    "killed proc until all others know",
                    "ms",
                    NO_MORE,
                ),
                ("end_ms", "end of all", "ms", NO_MORE),
            ] {
                self.row(
                    Group::Scale,
                    format!("{what}, {procs} procs"),
                    metric(&name(procs, Side::Peal), value),
                    (C, metric(&name(procs, Side::C), value)),
                    unit,
                    must,
                );
            }
        }
        for (value, what, unit, must) in [
            (
                "init_cpu_us",
                "until all have initialized, server's processor time for a proc",
                "us",
                GROWTH,
            ),
            ("ps_ms", "`peal ps`", "ms", ResultBound::Nothing),
        ] {
            self.row(
                Group::Scale,
                format!("{what}, {MANY} procs"),
                metric(&name(MANY, Side::Peal), value),
                ("of 64", metric(&name(FEW, Side::Peal), value)),
                unit,
                must,
            );
        }
    }

    /// Adds work of all procs of running jobs.
    fn common_work(&mut self) {
        for work in CommonWork::ALL {
            let job = |procs| format!("scale.{}.{procs}", work.mode());
            let value =
                |procs, side: Side, name| metric(&format!("{}.{}", job(procs), side.name()), name);
            for procs in PROCS {
                let repeat = ((1000 / procs).max(4), 1);
                let measured = (procs, work.mode(), Hosts::Nothing);
                self.by_turns(&job(procs), work.sides(), measured, repeat);
                if work.sides().len() < 2 {
                    continue;
                }
                let what = work.description();
                for (name, part) in work.times() {
                    self.row(
                        Group::Scale,
                        format!("{what}{part}, {procs} procs"),
                        value(procs, Side::Peal, name),
                        (C, value(procs, Side::C, name)),
                        "us",
                        NO_MORE,
                    );
                }
                let floor = work.floor().map(|work| Floor {
                    work,
                    procs,
                    repeat,
                });
                let what = format!("{what}, {procs} procs");
                let has_floor = floor.is_some();
                self.server_time(Group::Scale, &what, &job(procs), floor);
                for (name, part) in work.times().iter().filter(|_| has_floor) {
                    let what = format!("{}{part}, {procs} procs, ", work.description());
                    self.beside_floor(Group::Scale, &what, &job(procs), name, &[Side::Peal]);
                }
            }
            // Without a bound: that of the floor grows by a third and more, with what caches no longer hold.
            self.row(
                Group::Scale,
                format!(
                    "{}, server's processor time for a proc, {MANY} procs",
                    work.description()
                ),
                value(MANY, Side::Peal, "proc_cpu_us"),
                ("of 64", value(FEW, Side::Peal, "proc_cpu_us")),
                "us",
                ResultBound::Nothing,
            );
        }
    }

    /// Adds instructions of the server, which are the same in each run.
    fn counted_work(&mut self) {
        for (mode, what) in [("fence", "a fence"), ("fan", "an event to all")] {
            let arm = |procs, side: Side| format!("scale.{mode}.{procs}.{}.counted", side.name());
            let count = |procs, side| metric(&arm(procs, side), "instructions");
            for procs in [FEW, MANY] {
                for side in SIDES {
                    let counted = CountedWork::repeated(side, mode, procs, [2, 12]).for_each_proc();
                    self.arm(arm(procs, side), MeasuredWork::Instructions(counted));
                }
                self.row(
                    Group::Scale,
                    format!("server, instructions for a proc's part in {what}, {procs} procs"),
                    count(procs, Side::Peal),
                    (C, count(procs, Side::C)),
                    "",
                    HALF,
                );
            }
            self.row(
                Group::Scale,
                format!("server, instructions for a proc's part in {what}, {MANY} procs"),
                count(MANY, Side::Peal),
                ("of 64", count(FEW, Side::Peal)),
                "",
                GROWTH,
            );
        }
    }

    /// Adds the memory of the server for an idle client.
    fn memory_of_many(&mut self) {
        let name = |side: Side| format!("scale.memory.{}", side.name());
        for side in SIDES {
            let (few, many) = (FEW, MANY);
            self.arm(name(side), MeasuredWork::Growth { side, few, many });
        }
        self.row(
            Group::Scale,
            format!("server, resident, per idle client from {FEW} to {MANY}"),
            metric(&name(Side::Peal), "rss_kib_per_client"),
            (C, metric(&name(Side::C), "rss_kib_per_client")),
            "KiB",
            NO_MORE,
        );
    }
}
