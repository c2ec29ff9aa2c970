//! Events between clients: alone, in floods, beside other load, and to many.
use super::{A_THIRD, BOTH_CLIENTS, C, C_NO_DELAY, Floor, Plan, ResultBound, metric};
use crate::bench::{
    Group,
    arm::{FloorWork, Hosts, JobMeasurement, MeasuredWork, RelayWay, Side},
};

impl Plan {
    pub(super) fn latency(&mut self) {
        self.jobs(
            "latency",
            &[Side::Peal, Side::C, Side::PealClient],
            (2, "fan", 0),
            (2000, 600),
        );
        let musts = [
            ResultBound::RatioAtMost(1.0),
            ResultBound::RatioAtMost(A_THIRD),
        ];
        self.against_c(Group::Latency, "one way, ", "latency", "us", musts);
        self.relay("latency", RelayWay::There, (2000, 600));
        self.beside_floor(Group::Latency, "one way, ", "latency", "us", &BOTH_CLIENTS);
    }

    pub(super) fn pingpong(&mut self) {
        let sides = [Side::Peal, Side::CNoDelay, Side::PealClient];
        self.jobs("pingpong", &sides, (2, "pingpong", 0), (2000, 600));
        // Each event takes 44 ms; see nodelay.c.
        self.jobs("pingpong", &[Side::C], (2, "pingpong", 0), (25, 5));
        let ours = |side: Side| metric(&format!("pingpong.{}", side.name()), "us");
        let musts = [ResultBound::RatioAtMost(1.0), ResultBound::Nothing];
        for (side, must) in BOTH_CLIENTS.into_iter().zip(musts) {
            let what = format!("there and back, {} clients", side.clients());
            let peer = (C_NO_DELAY, ours(Side::CNoDelay));
            self.row(Group::Pingpong, what.clone(), ours(side), peer, "us", must);
            self.row(
                Group::Pingpong,
                what,
                ours(side),
                (C, ours(Side::C)),
                "us",
                ResultBound::Nothing,
            );
        }
        self.relay("pingpong", RelayWay::Back, (2000, 600));
        let what = "there and back, ";
        self.beside_floor(Group::Pingpong, what, "pingpong", "us", &BOTH_CLIENTS);
    }

    pub(super) fn flood(&mut self) {
        for (window, how) in [(64, "at most 64 unacknowledged, "), (0, "all at once, ")] {
            let name = format!("flood.{window}");
            self.jobs(
                &name,
                &[Side::Peal, Side::C, Side::PealClient],
                (2, "flood", window),
                (10_000, 0),
            );
            self.against_c(
                Group::Flood,
                how,
                &name,
                "per_s",
                [ResultBound::RatioAtLeast(1.0), ResultBound::Nothing],
            );
            self.relay(&name, RelayWay::Flood, (10_000, 0));
            self.beside_floor(Group::Flood, how, &name, "per_s", &BOTH_CLIENTS);
            for side in BOTH_CLIENTS {
                let ours = metric(&format!("{name}.{}", side.name()), "lost");
                let clients = side.clients();
                let peer = (C, metric(&format!("{name}.c"), "lost"));
                self.row(
                    Group::Flood,
                    format!("lost, {how}{clients} clients"),
                    ours,
                    peer,
                    "",
                    ResultBound::AtMost(0.0),
                );
            }
        }
    }

    pub(super) fn under_flood(&mut self) {
        self.jobs(
            "under-flood",
            &[Side::PealClient],
            (3, "under-flood", 0),
            (3000, 600),
        );
        for (what, name, alone) in [
            ("99th percentile", "us_p99", "alone_p99"),
            ("median", "us", "alone"),
        ] {
            let ours = metric("under-flood.peal-client", name);
            let peer = metric("under-flood.peal-client", alone);
            let what = format!("one way while a third client floods, {what}");
            let must = if name == "us_p99" {
                ResultBound::RatioAtMost(3.0)
            } else {
                ResultBound::Nothing
            };
            self.row(
                Group::UnderFlood,
                what,
                ours,
                ("without a flood", peer),
                "us",
                must,
            );
        }
    }

    pub(super) fn under_limit_hits(&mut self) {
        self.jobs(
            "under-limit-hits",
            &[Side::PealClient],
            (3, "under-limit-hits", 0),
            (6000, 600),
        );
        for (what, name, alone) in [
            ("median", "us", "alone"),
            ("99th percentile", "us_p99", "alone_p99"),
        ] {
            let ours = metric("under-limit-hits.peal-client", name);
            let peer = metric("under-limit-hits.peal-client", alone);
            let what = format!("one way while a hosted handler does harm, {what}");
            let must = if name == "us" {
                ResultBound::RatioAtMost(2.0)
            } else {
                ResultBound::Nothing
            };
            self.row(
                Group::UnderLimitHits,
                what,
                ours,
                ("without harm", peer),
                "us",
                must,
            );
        }
    }

    pub(super) fn beside_shadow(&mut self) {
        let count = self.size.of(6000);
        let warm = self.size.of(600);
        for (name, hosts) in [
            ("beside-shadow.with", Hosts::PolicyAndShadow),
            ("beside-shadow.without", Hosts::Policy),
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
        for (what, name, must) in [
            ("99th percentile", "us_p99", ResultBound::RatioAtMost(1.1)),
            ("median", "us", ResultBound::Nothing),
        ] {
            let ours = metric("beside-shadow.with", name);
            let peer = metric("beside-shadow.without", name);
            let what = format!("one way past a policy beside a shadow that spins, {what}");
            self.row(
                Group::BesideShadow,
                what,
                ours,
                ("without the shadow", peer),
                "us",
                must,
            );
        }
    }

    pub(super) fn fanout(&mut self) {
        for receivers in [8, 32, 64] {
            let name = format!("fanout.{receivers}");
            let sides = [Side::Peal, Side::C, Side::PealClient];
            self.jobs(&name, &sides, (receivers + 1, "fan", 0), (300, 50));
            let what = format!("to all of {receivers}, ");
            self.against_c(
                Group::Fanout,
                &what,
                &name,
                "us",
                [ResultBound::RatioAtMost(1.0), ResultBound::Nothing],
            );
            let floor = Floor {
                work: FloorWork::Event,
                procs: receivers + 1,
                repeat: (1000, 10),
            };
            let what = format!("to all of {receivers}");
            self.server_time(Group::Fanout, &what, &name, Some(floor));
            let what = format!("{what}, ");
            self.beside_floor(Group::Fanout, &what, &name, "us", &BOTH_CLIENTS);
        }
    }
}
