//! Starts of programs, beside the launchers of Open MPI.
use super::{FLOOR, LeftOut, NEAR_FLOOR, Plan, ResultBound, metric};
use crate::bench::{Group, arm::MeasuredWork, start::Launcher};
use crate::mpi::Release;

/// Numbers of ranks.
const PROCS: [u32; 2] = [4, 32];

impl Plan {
    pub(super) fn start(&mut self, release: Release, here: &[Release]) {
        if !here.contains(&release) {
            return self.left_out.push(LeftOut::Release(release));
        }
        for procs in PROCS {
            // A start of many takes seconds.
            self.start_of(release, procs, self.size.of(40 / procs).max(1));
        }
    }

    fn start_of(&mut self, release: Release, procs: u32, count: u32) {
        let name = |launcher: Launcher| {
            let launcher = launcher.name(release);
            format!("start.{}.{procs}.{launcher}", release.number())
        };
        for launcher in [Launcher::Peal, Launcher::ItsOwn, Launcher::Nobody] {
            self.arm(
                name(launcher),
                MeasuredWork::Start {
                    launcher,
                    release,
                    procs,
                    count,
                },
            );
        }
        let ours = || metric(&name(Launcher::Peal), "ms");
        let what = format!("hello of {procs} ranks, {}", release.name());
        for (who, launcher, must) in [
            (
                release.launcher(),
                Launcher::ItsOwn,
                ResultBound::RatioAtMost(0.5),
            ),
            (FLOOR, Launcher::Nobody, NEAR_FLOOR),
        ] {
            let peer = (who, metric(&name(launcher), "ms"));
            self.row(Group::Start, what.clone(), ours(), peer, "ms", must);
        }
    }
}
