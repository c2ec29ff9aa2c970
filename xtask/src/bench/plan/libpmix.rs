//! Rows of Peal as the C library: the same C program on Peal's `libpmix` and server, and on the C
//! library's.
use super::{
    C, C_NO_DELAY, FLOOR, Floor, FloorWork, Group, Hosts, JobMeasurement, MeasuredWork, Plan,
    RelayWay, ResultBound, Side, collective_turn, metric,
};

/// Both sides of each row.
const SIDES: [Side; 2] = [Side::PealLibrary, Side::C];

/// Measurement on both sides, and its value in the table.
struct LibraryRow<'a> {
    /// Description.
    description: String,
    /// Name of the arms, without that of the side.
    measurement: &'a str,
    /// Side that Peal is compared with.
    peer: Side,
    /// Name of the value.
    value: &'static str,
    /// Unit of the value.
    unit: &'static str,
    /// Bound that the row must meet.
    must: ResultBound,
}

impl Plan {
    pub(super) fn libpmix(&mut self) {
        self.library_events();
        self.library_rates();
        self.library_collectives();
        self.library_chains();
        self.library_processes();
    }

    /// Adds a row of microseconds beside the C library.
    fn library_time(&mut self, description: impl Into<String>, name: &str, must: ResultBound) {
        self.library_row(LibraryRow {
            description: description.into(),
            measurement: name,
            peer: Side::C,
            value: "us",
            unit: "us",
            must,
        });
    }

    /// Adds a row of operations in a second beside the C library.
    fn library_rate(&mut self, description: &str, name: &str, must: ResultBound) {
        self.library_row(LibraryRow {
            description: description.to_owned(),
            measurement: name,
            peer: Side::C,
            value: "per_s",
            unit: "/s",
            must,
        });
    }

    fn library_row(&mut self, row: LibraryRow<'_>) {
        let of = |side: Side| metric(&format!("{}.{}", row.measurement, side.name()), row.value);
        let peer = match row.peer {
            Side::CNoDelay => C_NO_DELAY,
            _ => C,
        };
        self.row(
            Group::Libpmix,
            row.description,
            of(Side::PealLibrary),
            (peer, of(row.peer)),
            row.unit,
            row.must,
        );
    }

    /// Adds a row beside the floor, whose arm has been added.
    fn library_beside_floor(
        &mut self,
        description: impl Into<String>,
        name: &str,
        value: &'static str,
        unit: &'static str,
    ) {
        self.row(
            Group::Libpmix,
            description,
            metric(&format!("{name}.{}", Side::PealLibrary.name()), value),
            (FLOOR, metric(&format!("{name}.floor"), value)),
            unit,
            ResultBound::Nothing,
        );
    }

    fn library_events(&mut self) {
        // In each turn the C library's cache of events is full before the measurement begins.
        let name = "libpmix.latency";
        self.by_turns(name, &SIDES, (2, "fan", Hosts::Nothing), (300, 600));
        self.library_time("event, one way", name, ResultBound::RatioAtMost(0.7));
        self.relay(name, RelayWay::There, (2000, 600));
        self.library_beside_floor("event, one way", name, "us", "us");

        let name = "libpmix.pingpong";
        let sides = [Side::PealLibrary, Side::CNoDelay];
        self.by_turns(name, &sides, (2, "pingpong", Hosts::Nothing), (300, 300));
        self.library_row(LibraryRow {
            description: "event, there and back".to_owned(),
            measurement: name,
            peer: Side::CNoDelay,
            value: "us",
            unit: "us",
            must: ResultBound::RatioAtMost(0.7),
        });
        self.relay(name, RelayWay::Back, (2000, 600));
        self.library_beside_floor("event, there and back", name, "us", "us");

        let receivers = 64;
        let name = "libpmix.fanout";
        let job = (receivers + 1, "fan", Hosts::Nothing);
        self.by_turns(name, &SIDES, job, (30, 10));
        let description = format!("event, to all of {receivers}");
        self.library_time(description.clone(), name, ResultBound::RatioAtMost(0.7));
        let floor = Floor {
            work: FloorWork::Event,
            procs: receivers + 1,
            repeat: (1000, 10),
        };
        self.floor(name, floor);
        self.library_beside_floor(description, name, "us", "us");
    }

    fn library_rates(&mut self) {
        for (name, mode, window, how, must) in [
            (
                "libpmix.flood.64",
                "flood",
                64,
                "at most 64 unacknowledged",
                ResultBound::RatioAtLeast(3.0),
            ),
            (
                "libpmix.flood.0",
                "flood",
                0,
                "all at once",
                ResultBound::RatioAtLeast(3.0),
            ),
            (
                "libpmix.silent",
                "silent",
                0,
                "without a completion function",
                ResultBound::Nothing,
            ),
        ] {
            self.jobs(name, &SIDES, (2, mode, window), (10_000, 0));
            let description = format!("events, {how}");
            self.library_rate(&description, name, must);
            self.relay(name, RelayWay::Flood, (10_000, 0));
            self.library_beside_floor(description, name, "per_s", "/s");
            self.library_row(LibraryRow {
                description: format!("lost events, {how}"),
                measurement: name,
                peer: Side::C,
                value: "lost",
                unit: "",
                must: ResultBound::AtMost(0.0),
            });
        }

        for (side, hosts) in [(Side::PealLibrary, Hosts::Stdio), (Side::C, Hosts::Nothing)] {
            let job = JobMeasurement {
                side,
                procs: 1,
                mode: "log",
                count: self.size.of(5000),
                warm: self.size.of(500),
                extra: 0,
                hosts,
            };
            let name = format!("libpmix.log.{}", side.name());
            self.arm(name, MeasuredWork::Job(job));
        }
        let (name, description) = ("libpmix.log", "blocking log requests to stderr");
        self.library_rate(description, name, ResultBound::RatioAtLeast(2.0));
        self.one_proc_floor(name, FloorWork::Log, (5000, 500));
        self.library_beside_floor(description, name, "per_s", "/s");

        let name = "libpmix.beats";
        self.jobs(name, &SIDES, (1, "beats", 0), (50_000, 5000));
        self.library_rate("heartbeats", name, ResultBound::RatioAtLeast(2.0));
        self.one_proc_floor(name, FloorWork::Beats, (50_000, 5000));
        self.library_beside_floor("heartbeats", name, "per_s", "/s");
    }

    fn library_collectives(&mut self) {
        for procs in [2, 4, 8, 16, 32, 64] {
            let name = format!("libpmix.fence.{procs}");
            let job = (procs, "fence", Hosts::Nothing);
            self.by_turns(&name, &SIDES, job, collective_turn(procs));
            let description = format!("fence, {procs} procs");
            self.library_time(description.clone(), &name, ResultBound::RatioAtMost(0.7));
            self.floor(&name, Floor::fence(procs));
            self.library_beside_floor(description, &name, "us", "us");
        }
        for procs in [2, 8, 32, 64] {
            for (mode, with) in [("group", "without"), ("groupid", "with")] {
                let name = format!("libpmix.{mode}.{procs}");
                let job = (procs, mode, Hosts::Nothing);
                self.by_turns(&name, &SIDES, job, collective_turn(procs));
                self.floor(&name, Floor::group(procs));
                for (call, value, must) in [
                    ("construct", "construct_us", ResultBound::RatioAtMost(0.7)),
                    ("destruct", "destruct_us", ResultBound::Nothing),
                ] {
                    let description = format!("group {call} {with} a context id, {procs} procs");
                    self.library_row(LibraryRow {
                        description: description.clone(),
                        measurement: &name,
                        peer: Side::C,
                        value,
                        unit: "us",
                        must,
                    });
                    self.library_beside_floor(description, &name, value, "us");
                }
            }
        }
    }

    fn library_chains(&mut self) {
        for (handlers, must) in [
            (16, ResultBound::RatioAtMost(0.5)),
            (64, ResultBound::RatioAtMost(0.2)),
        ] {
            let name = format!("libpmix.chain.{handlers}");
            self.jobs(&name, &SIDES, (1, "chain", handlers), (5000, 1000));
            self.library_time(format!("chain of {handlers} handlers"), &name, must);
        }
    }

    fn library_processes(&mut self) {
        let name = "libpmix.cycle";
        self.by_turns(name, &SIDES, (1, "cycle", Hosts::Nothing), (10, 2));
        self.library_time(
            "init to finalize, in one process",
            name,
            ResultBound::RatioAtMost(0.8),
        );

        let name = "libpmix.start";
        self.by_turns(name, &SIDES, (1, "start", Hosts::Nothing), (6, 1));
        self.library_time(
            "start of a process to its end, with init and finalize",
            name,
            ResultBound::RatioAtMost(1.0),
        );

        let procs = 8;
        let name = "libpmix.memory";
        self.jobs(name, &SIDES, (procs, "memory", 0), (0, 0));
        for (what, value) in [
            ("private", "private_kib"),
            ("proportional", "proportional_kib"),
        ] {
            self.library_row(LibraryRow {
                description: format!("memory of a proc, {what}, {procs} procs"),
                measurement: name,
                peer: Side::C,
                value,
                unit: "KiB",
                must: ResultBound::RatioAtMost(1.0),
            });
        }
    }
}
