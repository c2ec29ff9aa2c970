//! Probes with the same outcome under several launchers and libraries.
use peal_tests::labs::{ExpectedExit, ProbeCase, ProbeOutcome, RankLine};

/// Outcome of an event that the two ranks on the node of its source hear.
pub const HEARD_ON_NODE: ProbeOutcome = ProbeOutcome::Completes(&[
    RankLine::of(0, "notify SUCCESS"),
    RankLine::of_ranks(0, 1, "heard 1"),
    RankLine::of_ranks(2, 5, "heard 0"),
]);

/// Event of the range of a node, which its two ranks hear.
pub const LOCAL_EVENT: ProbeCase = ProbeCase {
    probe: "event local 0,1 FILE",
    outcome: HEARD_ON_NODE,
};

/// Log requests to two channels.
pub const LOGS: ProbeCase = ProbeCase {
    probe: "log",
    outcome: ProbeOutcome::Completes(&[
        RankLine::of(0, "log to stderr SUCCESS"),
        RankLine::of(0, "log to syslog SUCCESS"),
    ]),
};

/// Group over all nodes, which nothing forms.
pub const NO_GROUPS: ProbeCase = ProbeCase {
    probe: "group",
    outcome: ProbeOutcome::Completes(&[RankLine::of_ranks(0, 5, "construct NOT-SUPPORTED")]),
};

/// Published data, which another node finds.
pub const PUBLISHED: ProbeCase = ProbeCase {
    probe: "publish",
    outcome: ProbeOutcome::Completes(&[
        RankLine::of(0, "publish SUCCESS"),
        RankLine::of(5, "lookup SUCCESS"),
    ]),
};

/// Query of the namespaces.
pub const QUERY: ProbeCase = ProbeCase {
    probe: "query",
    outcome: ProbeOutcome::Completes(&[RankLine::of(0, "query SUCCESS")]),
};

/// Fences without data that wait for a rank of another node.
pub const BARRIER: ProbeCase = ProbeCase {
    probe: "barrier FILE held",
    outcome: ProbeOutcome::Completes(&[
        RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
        RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
        RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
    ]),
};

/// Rank that kills itself.
pub const LOST: ProbeCase = ProbeCase {
    probe: "lost",
    outcome: ProbeOutcome::IsEnded(ExpectedExit::Failure),
};

/// Rank that ends without a finalize.
pub const EXIT: ProbeCase = ProbeCase {
    probe: "exit",
    outcome: ProbeOutcome::IsEnded(ExpectedExit::Failure),
};

/// Abort with a status, which becomes that of the launcher.
pub const ABORT: ProbeCase = ProbeCase {
    probe: "abort",
    outcome: ProbeOutcome::IsEnded(ExpectedExit::Status(7)),
};
