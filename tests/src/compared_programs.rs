//! Runs of the programs in `tests/c` that tests compare: under Peal and under the C library's
//! server, on the C library and on Peal's.
use crate::comparison::ProgramComparison;

/// Begin, data, fences, events and the end of a job.
pub const JOBS: [ProgramComparison; 10] = [
    ProgramComparison::new("job", "4", 0, 400),
    ProgramComparison::new("job --status 5", "4", 5, 400),
    ProgramComparison::new("job --abort 1", "4", 7, 40),
    ProgramComparison::new("job --die 2", "4", 137, 40),
    ProgramComparison::new("cycle 10", "4", 0, 4),
    // A handler prints beside the main thread.
    ProgramComparison::new("hello", "4", 0, 8).sorted(),
    ProgramComparison::new("claim", "2", 0, 2).sorted(),
    ProgramComparison::new("claim fork", "2", 0, 4).sorted(),
    ProgramComparison::new("alone", "1", 0, 8),
    ProgramComparison::new("leaves 300", "3", 1, 2)
        .with_options(&["--set", "run.termination_delay_ms=10000"]),
];

/// Events of every range and code, their handlers, and those that are kept for later registrations.
pub const EVENTS: [ProgramComparison; 20] = [
    ProgramComparison::new("registrations", "2", 0, 35),
    ProgramComparison::new("ranges", "4", 0, 130),
    ProgramComparison::new("contents infos", "2", 0, 12),
    ProgramComparison::new("contents codes", "2", 0, 30),
    ProgramComparison::new("order", "2", 0, 19),
    ProgramComparison::new("flood 2000 heard", "2", 0, 5),
    ProgramComparison::new("flood 2000 kept", "2", 0, 5),
    ProgramComparison::new("cached order", "3", 0, 27),
    ProgramComparison::new("cached once", "3", 0, 12),
    ProgramComparison::new("cached overlap", "3", 0, 9),
    ProgramComparison::new("cached unkept", "3", 0, 6),
    ProgramComparison::new("cached heard", "3", 0, 9),
    ProgramComparison::new("cached back", "3", 0, 12),
    ProgramComparison::new("cached targets", "3", 0, 9),
    ProgramComparison::new("cached others", "3", 0, 9),
    ProgramComparison::new("cached refused", "3", 0, 10),
    ProgramComparison::new("cached affected", "3", 0, 9),
    ProgramComparison::new("cached own", "3", 0, 6),
    ProgramComparison::new("cached default", "3", 0, 9),
    ProgramComparison::new("cached manager", "3", 0, 9),
];

/// Published data, job data, queries, logging, forwarded streams and spawned jobs.
pub const SERVICES: [ProgramComparison; 11] = [
    ProgramComparison::new("publish", "2", 0, 20),
    ProgramComparison::new("qualified", "2", 0, 4),
    ProgramComparison::new(
        "facts own:pmix.hname own:pmix.lrank own:pmix.nosuchkey all:pmix.lprocs",
        "2",
        0,
        10,
    ),
    ProgramComparison::new("resolve", "2", 0, 18),
    ProgramComparison::new("query pmix.qry.psets test.question", "1", 0, 1)
        .with_options(&["--pset", "here"]),
    // What a program logs to standard output comes beside its own output.
    ProgramComparison::new("payload", "1", 0, 3).sorted(),
    ProgramComparison::new("logs all", "1", 0, 31).sorted(),
    ProgramComparison::new("logs later", "1", 0, 31).sorted(),
    ProgramComparison::new("logs wrong", "1", 0, 2).sorted(),
    ProgramComparison::new("forward", "3", 0, 8)
        .sorted()
        .with_options(&["--stdin", "2"]),
    ProgramComparison::new("spawn -- 2 /bin/echo hi", "1", 0, 2),
];

/// Job control, checkpoints and monitoring.
pub const CONTROL: [ProgramComparison; 21] = [
    ProgramComparison::new("control signal", "3", 0, 3),
    ProgramComparison::new("control terminate 1", "3", 0, 2),
    ProgramComparison::new("control stubborn 1", "3", 0, 2),
    ProgramComparison::new("control kill", "3", 137, 0),
    // One proc: what several log has no order among them.
    ProgramComparison::new("control log", "1", 0, 1),
    ProgramComparison::new("control unknown", "3", 0, 1),
    ProgramComparison::new("control nothing", "3", 0, 1),
    ProgramComparison::new("checkpoint both", "3", 0, 5),
    ProgramComparison::new("checkpoint older", "3", 0, 5),
    ProgramComparison::new("checkpoint example", "3", 0, 5),
    ProgramComparison::new("checkpoint late", "3", 0, 5),
    ProgramComparison::new("checkpoint failed", "3", 0, 5),
    ProgramComparison::new("checkpoint nobody", "3", 0, 1),
    ProgramComparison::new("checkpoint cancel", "3", 0, 5),
    ProgramComparison::new("monitor once", "2", 0, 8),
    ProgramComparison::new("monitor cancel", "2", 0, 8),
    ProgramComparison::new("monitor again", "2", 0, 4),
    ProgramComparison::new("monitor mistakes", "2", 0, 5),
    ProgramComparison::new("monitor types", "2", 0, 3),
    ProgramComparison::new("monitor usage", "2", 0, 6),
    ProgramComparison::new("rfc_monitor", "2", 0, 4),
];

/// Groups that their members construct, with members that are late, die or leave.
pub const GROUPS: [ProgramComparison; 13] = [
    ProgramComparison::new("group whole", "4", 0, 92),
    ProgramComparison::new("group part", "4", 0, 16),
    ProgramComparison::new("group several", "4", 0, 22),
    ProgramComparison::new("group mistakes", "4", 0, 28),
    ProgramComparison::new("group late 1", "4", 0, 16),
    ProgramComparison::new("group dies 1", "4", 137, 16),
    ProgramComparison::new("group tolerant 1", "4", 137, 19),
    ProgramComparison::new("group mourned 1", "4", 137, 21),
    ProgramComparison::new("group leaves 1", "4", 0, 23),
    ProgramComparison::new("group departs 1", "4", 0, 23),
    ProgramComparison::new("group led 2", "4", 137, 10),
    ProgramComparison::new("group leaderless", "4", 137, 10),
    ProgramComparison::new("group named", "4", 0, 23),
];

/// Groups to which one proc invites the others. The library of the leader makes the decisions; that
/// of C ends only constructs that all accept.
pub const INVITATIONS: [ProgramComparison; 7] = [
    ProgramComparison::new("invite accept", "4", 0, 23),
    ProgramComparison::new("invite decline 2", "4", 0, 12),
    ProgramComparison::new("invite ignore 2", "4", 0, 22),
    ProgramComparison::new("invite cancel 2", "4", 0, 16),
    ProgramComparison::new("invite replace 1", "4", 0, 23),
    ProgramComparison::new("invite dies 2", "4", 137, 20),
    ProgramComparison::new("invite others", "4", 0, 20),
];
