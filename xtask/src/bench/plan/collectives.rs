//! Fences and groups of all procs of a job.
use super::{BOTH_CLIENTS, C, Floor, Plan, ResultBound, collective_turn, metric};
use crate::bench::{
    Group,
    arm::{Hosts, Side},
};

impl Plan {
    pub(super) fn fence(&mut self) {
        for procs in [2, 4, 8, 16, 32, 64] {
            let name = format!("fence.{procs}");
            let sides = [Side::Peal, Side::C, Side::PealClient];
            let job = (procs, "fence", Hosts::Nothing);
            self.by_turns(&name, &sides, job, collective_turn(procs));
            let what = format!("{procs} procs, ");
            self.against_c(
                Group::Fence,
                &what,
                &name,
                "us",
                [ResultBound::RatioAtMost(1.0), ResultBound::Nothing],
            );
            let what = format!("{procs} procs");
            self.server_time(Group::Fence, &what, &name, Some(Floor::fence(procs)));
            let what = format!("{what}, ");
            self.beside_floor(Group::Fence, &what, &name, "us", &BOTH_CLIENTS);
        }
    }

    pub(super) fn groups(&mut self) {
        for procs in [2, 8, 32, 64] {
            for (mode, with) in [("group", "without"), ("groupid", "with")] {
                let name = format!("{mode}.{procs}");
                let (sides, job) = ([Side::Peal, Side::C], (procs, mode, Hosts::Nothing));
                self.by_turns(&name, &sides, job, collective_turn(procs));
                let times = [("construct", "construct_us"), ("destruct", "destruct_us")];
                for (what, metric_name) in times {
                    let what =
                        format!("{what} {with} a context id, {procs} procs, libpmix clients");
                    let ours = format!("{name}.peal");
                    let peer = format!("{name}.c");
                    let ours = metric(&ours, metric_name);
                    let peer = (C, metric(&peer, metric_name));
                    self.row(
                        Group::Groups,
                        what,
                        ours,
                        peer,
                        "us",
                        ResultBound::RatioAtMost(1.0),
                    );
                }
                let what = format!("construct and destruct {with} a context id, {procs} procs");
                self.server_time(Group::Groups, &what, &name, Some(Floor::group(procs)));
                for (what, metric_name) in times {
                    let what = format!("{what} {with} a context id, {procs} procs, ");
                    self.beside_floor(Group::Groups, &what, &name, metric_name, &[Side::Peal]);
                }
            }
        }
    }
}
