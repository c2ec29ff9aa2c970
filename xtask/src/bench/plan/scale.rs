//! Work of the server for one proc, as the number of procs on its node grows.
use super::{C, Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{MeasuredWork, Side},
    instructions::CountedWork,
};

/// Numbers of procs. The first one is that to which the others are compared.
const PROCS: [u32; 4] = [64, 256, 512, 1024];

/// Upper bound of the work for a proc among many, beside that among few.
const GROWTH: f64 = 1.1;

/// Upper bound of the server's instructions for a proc, beside those of the C library's server.
const A_HALF: f64 = 0.5;

/// Work of all procs of a job.
#[derive(Clone, Copy)]
enum ProcWork {
    /// Initialization to finalization. Counted as what half of the procs cost more.
    Life,
    /// Fence of all.
    Fence,
    /// Event to all others.
    Event,
}

impl ProcWork {
    const ALL: [ProcWork; 3] = [ProcWork::Life, ProcWork::Fence, ProcWork::Event];

    fn description(self) -> &'static str {
        match self {
            ProcWork::Life => "start of a proc to its end, with init and finalize",
            ProcWork::Fence => "part of a proc in a fence of all",
            ProcWork::Event => "part of a proc in an event to all",
        }
    }

    fn name(self) -> &'static str {
        match self {
            ProcWork::Life => "life",
            ProcWork::Fence => "fence",
            ProcWork::Event => "event",
        }
    }

    fn counted(self, side: Side, procs: u32) -> CountedWork {
        match self {
            ProcWork::Life => CountedWork::grown(side, "nothing", [procs / 2, procs]),
            ProcWork::Fence => CountedWork::repeated(side, "fence", procs, [2, 12]).for_each_proc(),
            ProcWork::Event => CountedWork::repeated(side, "fan", procs, [2, 12]).for_each_proc(),
        }
    }
}

impl Plan {
    pub(super) fn scale(&mut self) {
        for work in ProcWork::ALL {
            let arm = |side: Side, procs| format!("scale.{}.{procs}.{}", work.name(), side.name());
            let count = |procs, side| metric(&arm(side, procs), "instructions");
            for procs in PROCS {
                for side in [Side::Peal, Side::C] {
                    let counted = work.counted(side, procs);
                    self.arm(arm(side, procs), MeasuredWork::Instructions(counted));
                }
                self.row(
                    Group::Scale,
                    format!("server, instructions: {}, of {procs}", work.description()),
                    count(procs, Side::Peal),
                    (C, count(procs, Side::C)),
                    "",
                    ResultBound::RatioAtMost(A_HALF),
                );
            }
            let [few, .., many] = PROCS;
            self.row(
                Group::Scale,
                format!("server, instructions: {}, of {many}", work.description()),
                count(many, Side::Peal),
                ("of 64", count(few, Side::Peal)),
                "",
                ResultBound::RatioAtMost(GROWTH),
            );
        }
    }
}
