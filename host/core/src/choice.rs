//! Choices of a site that are settings and arguments alike, so that the configuration and the code
//! that acts on a choice share one type.
use crate::termination::TerminationRequest;
use std::fmt;

/// Reaction to the abnormal end of a proc if no handler of its event decides (`run.on_abort`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnAbort {
    /// The job is terminated, as `mpirun` does.
    #[default]
    Terminate,
    /// The other procs continue.
    Continue,
}

impl OnAbort {
    /// Returns the termination request that stands for this choice.
    pub fn termination_request(self) -> TerminationRequest {
        match self {
            OnAbort::Terminate => TerminationRequest::Termination,
            OnAbort::Continue => TerminationRequest::NoTermination,
        }
    }
}

/// Extent of a restart of procs (`run.restart`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RestartScope {
    /// The named procs.
    #[default]
    Ranks,
    /// All procs of their job.
    Job,
}

/// Effect on a job if the command that runs it is killed (`run.on_kill`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnKill {
    /// Its procs are killed.
    #[default]
    End,
    /// Its procs run on without a server.
    Continue,
}

/// Use of control groups for procs (`run.control_groups`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ControlGroups {
    /// Use them if possible.
    #[default]
    Try,
    /// Do not use them.
    Off,
}

/// Source of the topology of the node for procs (`run.topology`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TopologySource {
    /// The launcher discovers it once, and procs get it with the data of their job.
    #[default]
    Launcher,
    /// Each proc discovers it by itself.
    Procs,
}

/// Unit of the processors of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProcessorUnit {
    /// Hardware thread: one processor of the kernel.
    HardwareThread,
    /// Core.
    Core,
    /// Cores that share a level-3 cache.
    L3Cache,
    /// Cores of one NUMA node.
    Numa,
    /// Package, also called socket.
    Package,
}

impl ProcessorUnit {
    /// All units, from the smallest.
    pub const ALL: [ProcessorUnit; 5] = [
        ProcessorUnit::HardwareThread,
        ProcessorUnit::Core,
        ProcessorUnit::L3Cache,
        ProcessorUnit::Numa,
        ProcessorUnit::Package,
    ];

    /// Returns the keyword, in settings and in directives of PMIx.
    pub fn keyword(self) -> &'static str {
        match self {
            ProcessorUnit::HardwareThread => "hwthread",
            ProcessorUnit::Core => "core",
            ProcessorUnit::L3Cache => "l3cache",
            ProcessorUnit::Numa => "numa",
            ProcessorUnit::Package => "package",
        }
    }

    /// Returns the unit of a keyword. A package may be called socket, as `mpirun` does.
    pub fn from_keyword(word: &str) -> Option<ProcessorUnit> {
        let mut units = ProcessorUnit::ALL.into_iter();
        match word {
            "socket" => Some(ProcessorUnit::Package),
            word => units.find(|unit| unit.keyword() == word),
        }
    }
}

impl fmt::Display for ProcessorUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcessorUnit::HardwareThread => "hardware thread",
            ProcessorUnit::Core => "core",
            ProcessorUnit::L3Cache => "level-3 cache",
            ProcessorUnit::Numa => "NUMA node",
            ProcessorUnit::Package => "package",
        })
    }
}

/// Processors that a proc may run on (`run.bind_to`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BindTo {
    /// All that the launcher may run on.
    #[default]
    None,
    /// Those of one unit.
    Unit(ProcessorUnit),
}

impl BindTo {
    /// All values.
    pub const ALL: [BindTo; 6] = [
        BindTo::None,
        BindTo::Unit(ProcessorUnit::HardwareThread),
        BindTo::Unit(ProcessorUnit::Core),
        BindTo::Unit(ProcessorUnit::L3Cache),
        BindTo::Unit(ProcessorUnit::Numa),
        BindTo::Unit(ProcessorUnit::Package),
    ];

    /// Returns the keyword, in settings and in directives of PMIx.
    pub fn keyword(self) -> &'static str {
        match self {
            BindTo::None => "none",
            BindTo::Unit(unit) => unit.keyword(),
        }
    }

    /// Returns the value of a keyword.
    pub fn from_keyword(word: &str) -> Option<BindTo> {
        match word {
            "none" => Some(BindTo::None),
            word => ProcessorUnit::from_keyword(word).map(BindTo::Unit),
        }
    }

    /// Returns the unit; none if procs are not bound.
    pub fn unit(self) -> Option<ProcessorUnit> {
        match self {
            BindTo::None => None,
            BindTo::Unit(unit) => Some(unit),
        }
    }
}

/// Strictness of the comparison between a peer and the identity that it claims (`identity.check`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdentityCheck {
    /// User, group and process: only the process that was started for a proc, and its descendants,
    /// may be that proc.
    #[default]
    Process,
    /// The user alone, for launchers that do not stay the parents of their procs: any process of a
    /// job's user may be any of its procs.
    User,
}

/// Reaction to a decision that cannot be recorded (`audit.on_failure`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RecordFailurePolicy {
    /// Grants become denials.
    #[default]
    Deny,
    /// Grants stay grants.
    Continue,
}
