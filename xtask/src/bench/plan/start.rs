//! Starts of programs, beside the launchers of Open MPI.
use super::{LeftOut, Plan, ResultBound, metric};
use crate::bench::{Group, arm::MeasuredWork, start::Launcher};
use crate::mpi::Release;

impl Plan {
    pub(super) fn start(&mut self, release: Release, here: &[Release]) {
        if !here.contains(&release) {
            return self.left_out.push(LeftOut::Release(release));
        }
        let procs = 4;
        let count = self.size.of(10);
        let name =
            |launcher: Launcher| format!("start.{}.{}", release.number(), launcher.name(release));
        for launcher in [Launcher::Peal, Launcher::ItsOwn] {
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
        let ours = metric(&name(Launcher::Peal), "ms");
        let peer = metric(&name(Launcher::ItsOwn), "ms");
        let what = format!("hello of {procs} ranks, {}", release.name());
        // The goal is half of the peer's time. Ranks of 5.0 alone need more than that of the processors.
        let bound = match release {
            Release::Four => 0.5,
            Release::Five => 1.0,
        };
        self.row(
            Group::Start,
            what,
            ours,
            (release.launcher(), peer),
            "ms",
            ResultBound::RatioAtMost(bound),
        );
    }
}
