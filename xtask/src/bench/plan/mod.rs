//! Arms of the bench, rows that compare them, and their bounds.
mod launchers;
mod libpmix;

use super::{
    Group,
    arm::{Arm, Hosts, JobMeasurement, MeasuredWork, Side},
    attacking::VictimWork,
    programs::Programs,
    registering::Installed,
    start::Launcher,
};
use crate::{mpi::Release, needs};
use peal_labs::LabLauncher;
use std::{fmt, path::Path};

/// Number of repetitions within a round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Enough to measure the speed.
    Full,
    /// Enough to check that it works.
    Quick,
}

impl Size {
    fn of(self, full: u32) -> u32 {
        match self {
            Size::Full => full,
            Size::Quick => full / 5,
        }
    }
}

/// Plan of one run.
pub struct Plan {
    /// Arms of each round.
    pub arms: Vec<Arm>,
    /// Rows of the results.
    pub rows: Vec<ResultRow>,
    size: Size,
    with_c: bool,
    left_out: Vec<LeftOut>,
}

/// Peers that this machine has.
pub struct Peers {
    /// True if `libpmix` is there.
    c: bool,
    /// Releases of Open MPI.
    releases: Vec<Release>,
    /// Launchers without a lab, and the reasons.
    lacking: Vec<LackingLab>,
}

/// Lab that this machine cannot have.
#[derive(Clone, Copy)]
pub struct LackingLab {
    launcher: LabLauncher,
    reason: &'static str,
}

impl Peers {
    /// Looks for the peers of these groups.
    pub fn find(root: &Path, groups: &[Group], programs: &Programs) -> Peers {
        let releases = programs
            .mpi
            .as_ref()
            .map(|_| Release::available(&programs.test_servers));
        // Labs are started for this check.
        let launchers: &[LabLauncher] = if groups.contains(&Group::Launchers) {
            &[LabLauncher::Slurm, LabLauncher::Mpirun]
        } else {
            &[]
        };
        let lacking = launchers.iter().filter_map(|launcher| {
            let reason = needs::missing_lab(root, *launcher)?;
            Some(LackingLab {
                launcher: *launcher,
                reason,
            })
        });
        Peers {
            c: programs.c.is_some(),
            releases: releases.unwrap_or_default(),
            lacking: lacking.collect(),
        }
    }

    /// Returns the lab of this launcher if it is lacking.
    fn lacks_lab(&self, launcher: LabLauncher) -> Option<LackingLab> {
        self.lacking
            .iter()
            .find(|lab| lab.launcher == launcher)
            .copied()
    }
}

/// Peer whose rows are left out.
pub enum LeftOut {
    /// Release of Open MPI that is not installed.
    Release(Release),
    /// Launcher without a lab.
    Lab(LackingLab),
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftOut::Release(release) => write!(
                f,
                "{}, which is not here (`cargo xtask test-servers` gets it)",
                release.name()
            ),
            LeftOut::Lab(LackingLab { launcher, reason }) => {
                write!(f, "nodes with {}: {reason}", launcher.name())
            }
        }
    }
}

/// Row of the results.
pub struct ResultRow {
    /// Group of the row.
    pub group: Group,
    /// Description.
    pub description: String,
    /// Value of Peal.
    pub ours: Metric,
    /// Name and value of the peer.
    pub peer: Option<(&'static str, Metric)>,
    /// Unit of both values.
    pub unit: &'static str,
    /// Bound that the row must meet.
    pub must: ResultBound,
}

/// Value that an arm measures.
pub struct Metric {
    /// Name of the arm.
    pub arm: String,
    /// Name of the value.
    pub name: &'static str,
}

/// Bound of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ResultBound {
    /// No bound: the row is for information.
    Nothing,
    /// Upper bound of the ratio of Peal's value to the peer's.
    RatioAtMost(f64),
    /// Lower bound of that ratio.
    RatioAtLeast(f64),
    /// Upper bound of Peal's value.
    AtMost(f64),
}

const C: &str = "libpmix";
const C_NO_DELAY: &str = "libpmix, no delay";
const BARE: &str = "wasmtime";
const A_THIRD: f64 = 1.0 / 3.0;

/// Number of turns of each job in a session.
const TURNS: u32 = 10;

/// Number of repetitions in a turn of a collective, and before them. A turn takes some dozens of
/// milliseconds. The warm-up before it removes the effects of the previous turn.
fn collective_turn(procs: u32) -> (u32, u32) {
    ((1000 / procs).max(16), 3)
}

fn metric(arm: &str, name: &'static str) -> Metric {
    Metric {
        arm: arm.to_owned(),
        name,
    }
}

impl Plan {
    /// Creates the plan of these groups, for these peers. Arms that need others are left out.
    pub fn new(groups: &[Group], size: Size, peers: &Peers) -> Plan {
        let mut plan = Plan {
            arms: Vec::new(),
            rows: Vec::new(),
            size,
            with_c: peers.c,
            left_out: Vec::new(),
        };
        for group in groups {
            match group {
                Group::Chain => plan.chain(),
                Group::Step => plan.step(),
                Group::Latency => plan.latency(),
                Group::Pingpong => plan.pingpong(),
                Group::Flood => plan.flood(),
                Group::UnderFlood => plan.under_flood(),
                Group::UnderLimitHits => plan.under_limit_hits(),
                Group::BesideShadow => plan.beside_shadow(),
                Group::Audit => plan.audit(),
                Group::Fanout => plan.fanout(),
                Group::Fence => plan.fence(),
                Group::Groups => plan.groups(),
                Group::Log => plan.log(),
                Group::Monitor => plan.monitor(),
                Group::Libpmix => plan.libpmix(),
                Group::Memory => plan.memory(),
                Group::Trace => plan.trace(),
                Group::Attack => plan.attack(),
                Group::Register => plan.register(),
                Group::Start => Release::BOTH
                    .into_iter()
                    .for_each(|release| plan.start(release, &peers.releases)),
                Group::Launchers => plan.launchers(peers),
            }
        }
        plan.rows.retain(|row| {
            plan.arms
                .iter()
                .any(|arm| arm.names.contains(&row.ours.arm))
        });
        plan
    }

    /// Returns true if `libpmix` is present.
    pub fn has_c(&self) -> bool {
        self.with_c
    }

    /// Returns the peers that were left out.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn arm(&mut self, name: String, work: MeasuredWork) {
        let needs_c = match &work {
            MeasuredWork::Chain { .. }
            | MeasuredWork::Relay { .. }
            | MeasuredWork::Victim { .. }
            | MeasuredWork::Register { .. } => false,
            MeasuredWork::Start { .. } => false,
            // Sides that need it were left out before.
            MeasuredWork::Turns(_) | MeasuredWork::Launcher { .. } => false,
            MeasuredWork::Job(JobMeasurement { side, .. }) | MeasuredWork::Growth { side, .. } => {
                !side.is_without_c()
            }
        };
        if self.with_c || !needs_c {
            self.arms.push(Arm {
                names: vec![name],
                work,
            });
        }
    }

    /// Adds the same job for several sides, which measure by turns. The names are those of
    /// [`Plan::jobs`].
    fn by_turns(
        &mut self,
        name: &str,
        sides: &[Side],
        (procs, mode, hosts): (u32, &'static str, Hosts),
        (count, warm): (u32, u32),
    ) {
        let turns = self.size.of(TURNS);
        let sides = sides
            .iter()
            .filter(|side| self.with_c || side.is_without_c());
        let job = |side: &Side| JobMeasurement {
            side: *side,
            procs,
            mode,
            count,
            warm,
            extra: turns,
            hosts,
        };
        let (names, jobs) = sides
            .map(|side| (format!("{name}.{}", side.name()), job(side)))
            .unzip();
        self.arms.push(Arm {
            names,
            work: MeasuredWork::Turns(jobs),
        });
    }

    /// Adds the same job for several sides. An arm's name is that of the measurement followed by
    /// that of the side.
    fn jobs(
        &mut self,
        name: &str,
        sides: &[Side],
        (procs, mode, extra): (u32, &'static str, u32),
        repeat: (u32, u32),
    ) {
        let count = self.size.of(repeat.0);
        let warm = self.size.of(repeat.1);
        for side in sides {
            let hosts = if mode == "under-limit-hits" {
                Hosts::Bomb
            } else {
                Hosts::Nothing
            };
            let job = JobMeasurement {
                side: *side,
                procs,
                mode,
                count,
                warm,
                extra,
                hosts,
            };
            self.arm(format!("{name}.{}", side.name()), MeasuredWork::Job(job));
        }
    }

    fn row(
        &mut self,
        group: Group,
        what: impl Into<String>,
        ours: Metric,
        peer: (&'static str, Metric),
        unit: &'static str,
        must: ResultBound,
    ) {
        self.rows.push(ResultRow {
            group,
            description: what.into(),
            ours,
            peer: Some(peer),
            unit,
            must,
        });
    }

    /// Adds rows for clients of the C library and of Peal, each compared with the C library alone.
    fn against_c(
        &mut self,
        group: Group,
        what: &str,
        name: &str,
        metric_name: &'static str,
        musts: [ResultBound; 2],
    ) {
        let unit = if metric_name == "per_s" { "/s" } else { "us" };
        for (side, clients, must) in [
            (Side::Peal, "libpmix", musts[0]),
            (Side::PealClient, "Peal's", musts[1]),
        ] {
            let ours = metric(&format!("{name}.{}", side.name()), metric_name);
            let peer = (C, metric(&format!("{name}.c"), metric_name));
            self.row(
                group,
                format!("{what}{clients} clients"),
                ours,
                peer,
                unit,
                must,
            );
        }
    }

    fn chain(&mut self) {
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
                16 => ResultBound::RatioAtMost(0.3),
                64 => ResultBound::RatioAtMost(0.2),
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
                own_code,
                metric(&name("own-code"), "us"),
                c(),
                "us",
                ResultBound::Nothing,
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

    fn step(&mut self) {
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

    fn latency(&mut self) {
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
        self.arm(
            "latency.relay".to_owned(),
            MeasuredWork::Relay {
                count: self.size.of(2000),
                warm: self.size.of(600),
            },
        );
        for (side, clients) in [(Side::Peal, "libpmix"), (Side::PealClient, "Peal's")] {
            let ours = metric(&format!("latency.{}", side.name()), "us");
            let relay = ("a bare relay", metric("latency.relay", "us"));
            self.row(
                Group::Latency,
                format!("one way, {clients} clients"),
                ours,
                relay,
                "us",
                ResultBound::Nothing,
            );
        }
    }

    fn pingpong(&mut self) {
        let sides = [Side::Peal, Side::CNoDelay, Side::PealClient];
        self.jobs("pingpong", &sides, (2, "pingpong", 0), (2000, 600));
        // Each event takes 44 ms; see nodelay.c.
        self.jobs("pingpong", &[Side::C], (2, "pingpong", 0), (25, 5));
        let ours = |side: Side| metric(&format!("pingpong.{}", side.name()), "us");
        let both = [
            (Side::Peal, "libpmix", ResultBound::RatioAtMost(1.0)),
            (Side::PealClient, "Peal's", ResultBound::Nothing),
        ];
        for (side, clients, must) in both {
            let what = format!("there and back, {clients} clients");
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
    }

    fn flood(&mut self) {
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
            for side in [Side::Peal, Side::PealClient] {
                let ours = metric(&format!("{name}.{}", side.name()), "lost");
                let clients = if side == Side::Peal {
                    "libpmix"
                } else {
                    "Peal's"
                };
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

    fn under_flood(&mut self) {
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

    fn under_limit_hits(&mut self) {
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

    fn beside_shadow(&mut self) {
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

    fn audit(&mut self) {
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
                ResultBound::RatioAtMost(1.3),
            );
        }
    }

    fn fanout(&mut self) {
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
        }
    }

    fn fence(&mut self) {
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
        }
    }

    fn groups(&mut self) {
        for procs in [2, 8, 32, 64] {
            for (mode, with) in [("group", "without"), ("groupid", "with")] {
                let name = format!("{mode}.{procs}");
                let (sides, job) = ([Side::Peal, Side::C], (procs, mode, Hosts::Nothing));
                self.by_turns(&name, &sides, job, collective_turn(procs));
                for (what, metric_name) in
                    [("construct", "construct_us"), ("destruct", "destruct_us")]
                {
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
            }
        }
    }

    fn log(&mut self) {
        let count = self.size.of(5000);
        let warm = self.size.of(500);
        for (side, hosts) in [(Side::Peal, Hosts::Stdio), (Side::C, Hosts::Nothing)] {
            let job = JobMeasurement {
                side,
                procs: 1,
                mode: "log",
                count,
                warm,
                extra: 0,
                hosts,
            };
            self.arm(format!("log.{}", side.name()), MeasuredWork::Job(job));
        }
        let ours = metric("log.peal", "per_s");
        let peer = (C, metric("log.c", "per_s"));
        let what = "blocking requests to stderr, libpmix clients";
        self.row(
            Group::Log,
            what,
            ours,
            peer,
            "/s",
            ResultBound::RatioAtLeast(1.0),
        );
    }

    fn monitor(&mut self) {
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

    fn memory(&mut self) {
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

    fn trace(&mut self) {
        // Whatever the spans cost when they are off would be a few nanoseconds of some dozens of
        // microseconds. The bounds are what turns of the same program may differ.
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

    fn attack(&mut self) {
        let count = self.size.of(500);
        for (work, attacks) in VictimWork::ALL {
            let alone = format!("attack.{}.alone", work.name());
            self.arm(
                alone.clone(),
                MeasuredWork::Victim {
                    work,
                    attack: None,
                    count,
                },
            );
            for attack in attacks {
                let beside = format!("attack.{}.{}", work.name(), attack.name);
                self.arm(
                    beside.clone(),
                    MeasuredWork::Victim {
                        work,
                        attack: Some(*attack),
                        count,
                    },
                );
                let ours = metric(&beside, "median_us");
                let peer = metric(&alone, "median_us");
                let what = format!("{}, beside {}", work.name(), attack.name);
                self.row(
                    Group::Attack,
                    what,
                    ours,
                    ("without", peer),
                    "us",
                    ResultBound::RatioAtMost(2.0),
                );
            }
        }
    }

    fn register(&mut self) {
        let count = self.size.of(50);
        for (name, installed) in [
            ("register.beside", Installed::LargeComponents),
            ("register.alone", Installed::Nothing),
        ] {
            self.arm(name.to_owned(), MeasuredWork::Register { installed, count });
        }
        let ours = metric("register.beside", "ms");
        let peer = metric("register.alone", "ms");
        let what = "a job is registered while six components of a user are compiled";
        self.row(
            Group::Register,
            what,
            ours,
            ("without", peer),
            "ms",
            ResultBound::RatioAtMost(2.0),
        );
    }

    fn start(&mut self, release: Release, here: &[Release]) {
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
        // The goal is half of the peer's time.
        self.row(
            Group::Start,
            what,
            ours,
            (release.launcher(), peer),
            "ms",
            ResultBound::RatioAtMost(1.0),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::BTreeSet;

    fn peers(c: bool) -> Peers {
        Peers {
            c,
            releases: Release::BOTH.into(),
            lacking: Vec::new(),
        }
    }

    fn full(with_c: bool) -> Plan {
        Plan::new(Group::value_variants(), Size::Full, &peers(with_c))
    }

    #[test]
    fn arms_of_all_groups_have_different_names() {
        let plan = full(true);
        let names: Vec<&String> = plan.arms.iter().flat_map(|arm| &arm.names).collect();
        let different: BTreeSet<&String> = names.iter().copied().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn rows_compare_only_arms_that_are_measured() {
        let plan = full(true);
        let names: BTreeSet<&String> = plan.arms.iter().flat_map(|arm| &arm.names).collect();
        for row in &plan.rows {
            let peer = row.peer.iter().map(|(_, peer)| peer);
            for metric in std::iter::once(&row.ours).chain(peer) {
                assert!(names.contains(&metric.arm), "{}", metric.arm);
            }
        }
    }

    #[test]
    fn every_group_has_rows_with_the_c_library() {
        for group in Group::value_variants() {
            let plan = Plan::new(&[*group], Size::Quick, &peers(true));
            assert!(!plan.rows.is_empty(), "{group:?}");
        }
    }

    #[test]
    fn groups_without_the_c_library_start_no_program_of_it() {
        for arm in full(false).arms {
            let sides: Vec<Side> = match arm.work {
                MeasuredWork::Job(job) => vec![job.side],
                MeasuredWork::Turns(jobs) => jobs.iter().map(|job| job.side).collect(),
                MeasuredWork::Growth { side, .. } => vec![side],
                _ => Vec::new(),
            };
            assert!(
                sides.iter().all(|side| side.is_without_c()),
                "{:?}",
                arm.names
            );
        }
    }
}
