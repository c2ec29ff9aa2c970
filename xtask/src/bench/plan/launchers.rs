//! Rows of Peal as the library of real launchers.
use super::{C, Group, LeftOut, Peers, Plan, ResultBound, metric};
use crate::bench::{
    arm::{Arm, MeasuredWork},
    launchers::{LauncherJob, LauncherSide, NODES},
};
use peal_labs::LabLauncher;

/// Job with its name in names of arms, and its values in the table.
struct LauncherRows {
    launcher: LabLauncher,
    name: String,
    job: LauncherJob,
    /// Number of jobs of each side.
    count: u32,
    /// Names of the values, with their descriptions.
    values: Vec<(&'static str, String)>,
    unit: &'static str,
    /// Bound with Peal's library in the launcher.
    must: ResultBound,
}

impl Plan {
    pub(super) fn launchers(&mut self, peers: &Peers) {
        for (launcher, command) in [
            (LabLauncher::Slurm, "srun"),
            (LabLauncher::Mpirun, "mpirun"),
        ] {
            if let Some(lacking) = peers.lacks_lab(launcher) {
                self.left_out.push(LeftOut::Lab(lacking));
                continue;
            }
            for procs in [4, 32] {
                self.launcher_rows(LauncherRows {
                    launcher,
                    name: format!("launchers.{command}.{procs}"),
                    job: LauncherJob::Start { procs },
                    count: self.size.of(10),
                    values: vec![("ms", format!("{command} start {procs}"))],
                    unit: "ms",
                    // The goal is 0.8.
                    must: ResultBound::RatioAtMost(1.0),
                });
            }
            if launcher == LabLauncher::Slurm {
                let (count, warm) = (self.size.of(1000), self.size.of(100));
                self.launcher_rows(LauncherRows {
                    launcher,
                    name: "launchers.fence".to_owned(),
                    job: LauncherJob::Fences { count, warm },
                    count: self.size.of(5),
                    values: vec![
                        ("fence_us", format!("fence over {NODES} nodes")),
                        (
                            "exchange_us",
                            format!("put, commit and fence with data over {NODES} nodes"),
                        ),
                    ],
                    unit: "us",
                    must: ResultBound::RatioAtMost(1.0),
                });
            }
        }
    }

    fn launcher_rows(&mut self, rows: LauncherRows) {
        if !self.with_c {
            return;
        }
        let name = |side: LauncherSide| format!("{}.{}", rows.name, side.name());
        for (value, description) in rows.values {
            for (side, procs) in [
                (LauncherSide::PealServers, "libpmix"),
                (LauncherSide::Peal, "Peal's"),
            ] {
                self.row(
                    Group::Launchers,
                    format!("{description}, procs on {procs}"),
                    metric(&name(side), value),
                    (C, metric(&name(LauncherSide::C), value)),
                    rows.unit,
                    rows.must,
                );
            }
        }
        self.arms.push(Arm {
            names: LauncherSide::ALL.map(name).into(),
            work: MeasuredWork::Launcher {
                launcher: rows.launcher,
                job: rows.job,
                count: rows.count,
            },
        });
    }
}
