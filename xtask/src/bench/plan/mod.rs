//! Arms of the bench, rows that compare them, and their bounds.
mod cluster;
mod collectives;
mod delivery;
mod handlers;
mod launchers;
mod libpmix;
mod load;
mod modules;
mod nodes;
mod processes;
mod scale;
mod server;
mod spin;
mod start;

use super::{
    Group,
    arm::{Arm, FloorWork, Hosts, JobMeasurement, MeasuredWork, RelayWay, Side},
    instructions::CountedWork,
    programs::Programs,
};
use crate::{mpi::Release, needs, test_servers};
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
    /// True if there is a NATS server.
    nats_server: bool,
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
        } else if groups.contains(&Group::Nodes) {
            &[LabLauncher::Slurm]
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
            nats_server: test_servers::nats_server(&programs.test_servers).exists(),
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
    /// NATS server.
    NatsServer,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeftOut::Release(release) => write!(
                f,
                "{}, which is not here (`cargo xtask test-servers` gets it)",
                release.name()
            ),
            LeftOut::NatsServer => write!(
                f,
                "a NATS server, which is not here (`cargo xtask test-servers` gets it)"
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
    /// Upper bound of what Peal's value is more than the peer's.
    MoreByAtMost(f64),
}

const C: &str = "libpmix";
const FLOOR: &str = "the floor";
const BOTH_CLIENTS: [Side; 2] = [Side::Peal, Side::PealClient];
const C_NO_DELAY: &str = "libpmix, no delay";
const BARE: &str = "wasmtime";
const A_THIRD: f64 = 1.0 / 3.0;

/// Upper bound of the server's processor time, beside that of the C library's server.
const HALF: ResultBound = ResultBound::RatioAtMost(0.5);

/// Upper bound of the server's processor time, beside the least that any server could take.
const NEAR_FLOOR: ResultBound = ResultBound::RatioAtMost(1.2);

/// Messages of which the least cost is measured.
struct Floor {
    work: FloorWork,
    procs: u32,
    /// Number of repetitions, and of those before.
    repeat: (u32, u32),
}

impl Floor {
    /// Returns that of fences of these procs.
    fn fence(procs: u32) -> Floor {
        Floor::of_all(FloorWork::Fence, procs)
    }

    /// Returns that of groups of these procs.
    fn group(procs: u32) -> Floor {
        Floor::of_all(FloorWork::Group, procs)
    }

    fn of_all(work: FloorWork, procs: u32) -> Floor {
        Floor {
            work,
            procs,
            repeat: (10_000 / procs, 10),
        }
    }
}

/// Number of turns of each job in a session.
const TURNS: u32 = 10;

/// Number of repetitions in a turn of a collective, and before them. A turn takes some dozens of
/// milliseconds. The warm-up before it removes the effects of the previous turn.
fn collective_turn(procs: u32) -> (u32, u32) {
    ((1000 / procs).max(16), 3)
}

/// Returns the unit of a time or a rate of clients.
fn unit_of(metric_name: &str) -> &'static str {
    if metric_name == "per_s" { "/s" } else { "us" }
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
                Group::Modules => plan.modules(),
                Group::Policies => plan.policies(),
                Group::Spin => plan.spin(),
                Group::Latency => plan.latency(),
                Group::Pingpong => plan.pingpong(),
                Group::Flood => plan.flood(),
                Group::UnderFlood => plan.under_flood(),
                Group::UnderLimitHits => plan.under_limit_hits(),
                Group::BesideShadow => plan.beside_shadow(),
                Group::Audit => plan.audit(),
                Group::Observed => plan.observed(),
                Group::Fanout => plan.fanout(),
                Group::Fence => plan.fence(),
                Group::Groups => plan.groups(),
                Group::Scale => plan.scale(),
                Group::Log => plan.log(),
                Group::Monitor => plan.monitor(),
                Group::Libpmix => plan.libpmix(),
                Group::Memory => plan.memory(),
                Group::Trace => plan.trace(),
                Group::Attack => plan.attack(),
                Group::Siege => plan.siege(),
                Group::Register => plan.register(),
                Group::Processes => plan.processes(),
                Group::Start => Release::BOTH
                    .into_iter()
                    .for_each(|release| plan.start(release, &peers.releases)),
                Group::Launchers => plan.launchers(peers),
                Group::Nodes => plan.nodes(peers),
                Group::Cluster => plan.cluster(peers.nats_server),
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
            | MeasuredWork::Floor { .. }
            | MeasuredWork::Victim { .. }
            | MeasuredWork::Siege { .. }
            | MeasuredWork::Register { .. }
            | MeasuredWork::ServerStart { .. }
            | MeasuredWork::IdleMemory { .. }
            | MeasuredWork::FirstCall { .. }
            | MeasuredWork::Instances { .. }
            | MeasuredWork::Observed { .. }
            | MeasuredWork::Cluster { .. }
            | MeasuredWork::UserChain { .. } => false,
            MeasuredWork::Start { .. } => false,
            // Sides that need it were left out before.
            MeasuredWork::Turns(_) | MeasuredWork::Launcher { .. } | MeasuredWork::Nodes(_) => {
                false
            }
            MeasuredWork::Job(JobMeasurement { side, .. })
            | MeasuredWork::Growth { side, .. }
            | MeasuredWork::Crowd { side, .. }
            | MeasuredWork::Instructions(CountedWork { side, .. }) => !side.is_without_c(),
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

    /// Adds rows of the server's processor time for a repetition by clients of the C library: beside the C
    /// library's server, and where `floor` is given, beside the least that any server could take for its messages.
    fn server_time(&mut self, group: Group, what: &str, name: &str, floor: Option<Floor>) {
        let used = |of: &str| metric(&format!("{name}.{of}"), "cpu_us");
        let what = format!("{what}, server's processor time");
        let ours = || used(Side::Peal.name());
        let peer = (C, used(Side::C.name()));
        self.row(group, what.clone(), ours(), peer, "us", HALF);
        if let Some(floor) = floor {
            self.floor(name, floor);
            let peer = (FLOOR, used("floor"));
            self.row(group, what, ours(), peer, "us", NEAR_FLOOR);
        }
    }

    /// Adds the arm of a floor. Its name is that of the measurement followed by `.floor`.
    fn floor(&mut self, name: &str, floor: Floor) {
        let (count, warm) = floor.repeat;
        self.arm(
            format!("{name}.floor"),
            MeasuredWork::Floor {
                work: floor.work,
                procs: floor.procs,
                count: self.size.of(count),
                warm,
            },
        );
    }

    /// Adds the arm of the floor of work of one proc.
    fn one_proc_floor(&mut self, name: &str, work: FloorWork, repeat: (u32, u32)) {
        self.floor(
            name,
            Floor {
                work,
                procs: 1,
                repeat,
            },
        );
    }

    /// Adds an arm of messages through a bare relay. Its name is that of the measurement followed by `.floor`.
    fn relay(&mut self, name: &str, way: RelayWay, (count, warm): (u32, u32)) {
        self.arm(
            format!("{name}.floor"),
            MeasuredWork::Relay {
                way,
                count: self.size.of(count),
                warm: self.size.of(warm),
            },
        );
    }

    /// Adds rows that compare the time or rate of clients of the C library and of Peal with that of the floor. They
    /// have no bound: the time of the clients themselves is in them.
    fn beside_floor(
        &mut self,
        group: Group,
        what: &str,
        name: &str,
        metric_name: &'static str,
        sides: &[Side],
    ) {
        let unit = unit_of(metric_name);
        for side in sides {
            self.row(
                group,
                format!("{what}{} clients", side.clients()),
                metric(&format!("{name}.{}", side.name()), metric_name),
                (FLOOR, metric(&format!("{name}.floor"), metric_name)),
                unit,
                ResultBound::Nothing,
            );
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

    /// Adds a row without a peer.
    fn alone(
        &mut self,
        group: Group,
        what: impl Into<String>,
        ours: Metric,
        unit: &'static str,
        must: ResultBound,
    ) {
        self.rows.push(ResultRow {
            group,
            description: what.into(),
            ours,
            peer: None,
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
        let unit = unit_of(metric_name);
        for (side, must) in BOTH_CLIENTS.into_iter().zip(musts) {
            let ours = metric(&format!("{name}.{}", side.name()), metric_name);
            let peer = (C, metric(&format!("{name}.c"), metric_name));
            self.row(
                group,
                format!("{what}{} clients", side.clients()),
                ours,
                peer,
                unit,
                must,
            );
        }
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
            nats_server: true,
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
                MeasuredWork::Growth { side, .. }
                | MeasuredWork::Crowd { side, .. }
                | MeasuredWork::Instructions(CountedWork { side, .. }) => vec![side],
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
