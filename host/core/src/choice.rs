//! Choices of a site that are settings and arguments alike, so that the configuration and the code
//! that acts on a choice share one type.
use crate::termination::TerminationRequest;

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
