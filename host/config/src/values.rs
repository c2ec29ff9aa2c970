//! The types of settings that are words, or begin with one.
use peal_core::pattern::NspacePattern;
use std::path::PathBuf;

/// A type whose values are words.
pub trait Keyword: Copy + PartialEq + Sized + 'static {
    /// Every value.
    const ALL: &'static [Self];

    /// The word for it.
    fn name(self) -> &'static str;

    /// The value of this word.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.name() == name)
    }
}

/// Enumerations and their words.
macro_rules! words {
    ($(
        $(#[doc = $about:literal])+
        $Name:ident { $( $(#[doc = $doc:literal])+ $Value:ident = $word:literal, )+ }
    )+) => { $(
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $Name { $( $(#[doc = $doc])+ $Value, )+ }

        impl Keyword for $Name {
            const ALL: &'static [$Name] = &[$($Name::$Value),+];

            fn name(self) -> &'static str {
                match self { $($Name::$Value => $word,)+ }
            }
        }
    )+ };
}

words! {
    /// What follows the abnormal end of a proc.
    OnAbort {
        /// The job is ended.
        Terminate = "terminate",
        /// The other procs go on.
        Continue = "continue",
    }

    /// Who is started again where a proc is to be.
    RestartScope {
        /// Those that were named.
        Ranks = "ranks",
        /// All procs of their job.
        Job = "job",
    }

    /// Whether procs are kept in control groups.
    ControlGroups {
        /// Where that is possible.
        Try = "try",
        /// They are not.
        Off = "off",
    }

    /// What holds where every policy of a hook passes.
    PolicyDefault {
        /// The rule that Peal comes with.
        BuiltIn = "built-in",
        /// Yes.
        Grant = "grant",
        /// No.
        Deny = "deny",
    }

    /// How closely a peer is compared with what it claims to be.
    IdentityCheck {
        /// Only the process that was started for the proc, and its descendants.
        Process = "process",
        /// Any process of its user.
        User = "user",
    }

    /// What a policy that fails counts as.
    OnFailure {
        /// The request is denied.
        Deny = "deny",
        /// Those after it decide.
        Pass = "pass",
    }

    /// The classes of events that a handler is for.
    EventLevels {
        /// Those about procs and jobs.
        Job = "job",
        /// Those about the environment that procs run in.
        Environment = "environment",
        /// Both.
        Both = "both",
    }

    /// Whether a module takes part.
    Mode {
        /// It does.
        Active = "active",
        /// It only looks on.
        Shadow = "shadow",
    }

    /// Whose a module is, as far as rules for signatures tell owners apart.
    ModuleOwner {
        /// The site's.
        Site = "site",
        /// A user's: one that they installed, or that the site gave them.
        User = "user",
        /// One that the site gave jobs of some names.
        Namespace = "namespace",
        /// One that a job brings.
        JobSupplied = "job-supplied",
    }

    /// Who shares the memory of an instance.
    Isolation {
        /// All calls of the module.
        Module = "module",
        /// Calls that procs of the same job have caused.
        Namespace = "namespace",
        /// Nobody.
        Call = "call",
    }

    /// For which modules fuel is counted.
    FuelCount {
        /// For those that have a limit of it.
        WhereLimited = "limited",
        /// For all.
        Always = "always",
    }

    /// What to do where a decision cannot be recorded.
    AuditFailure {
        /// What was granted is denied.
        Deny = "deny",
        /// What was granted stays granted.
        Continue = "continue",
    }

    /// What a record survives.
    Durability {
        /// The end of the process.
        Process = "process",
        /// The end of the machine.
        Machine = "machine",
    }

    /// Whether the system's log has checkpoints of the audit trail.
    CheckpointSyslog {
        /// It has not.
        No = "no",
        /// It has.
        Yes = "yes",
    }

    /// Whether the kernel confines the server.
    ConfinementMode {
        /// It does not.
        Off = "off",
        /// As far as it can.
        Try = "try",
        /// It does, or there is no server.
        Require = "require",
    }

    /// What may be done in a directory.
    FilesMode {
        /// Files are read.
        Read = "read",
        /// Files are read and written.
        ReadWrite = "read-write",
    }

    /// What accepted messages of a sink survive.
    SinkDurability {
        /// Nothing: they are in memory.
        Memory = "memory",
        /// The end of the process: they are in the store.
        Store = "store",
    }

    /// Whether what is said to a mail server can be read on the way.
    Encryption {
        /// Not, behind the first words: a server that does not offer STARTTLS gets nothing.
        StartTls = "start-tls",
        /// Only where the server does not offer STARTTLS, or somebody on the way takes out that it does.
        StartTlsIfOffered = "start-tls-if-offered",
        /// Not at all.
        Tls = "tls",
        /// It can.
        None = "none",
    }

    /// When a message is on the disk.
    FileSync {
        /// When the system writes it.
        Never = "never",
        /// Before its requester is told.
        Each = "each",
    }
}

/// Where a module may write.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SinkName {
    /// The standard output of the job that logs.
    Stdout,
    /// Its standard error.
    Stderr,
    /// The record of that job.
    JobRecord,
    /// A sink that the admin opened.
    Opened(String),
}

impl SinkName {
    /// The names of those that are always there.
    pub const BUILT_IN: [&str; 3] = ["stdout", "stderr", "job-record"];

    /// The sink of this name.
    pub fn of(name: &str) -> SinkName {
        match name {
            "stdout" => SinkName::Stdout,
            "stderr" => SinkName::Stderr,
            "job-record" => SinkName::JobRecord,
            other => SinkName::Opened(other.to_owned()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            SinkName::Stdout => "stdout",
            SinkName::Stderr => "stderr",
            SinkName::JobRecord => "job-record",
            SinkName::Opened(name) => name,
        }
    }
}

/// A directory that a module may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryGrant {
    /// What the module calls it.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What may be done there.
    pub mode: FilesMode,
    /// How many bytes all files there may take, each counting for 4096 at least, where it may be written to.
    pub max_bytes: u64,
}

/// Whose module it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfiguredScope {
    /// The site's.
    Site,
    /// A user's.
    User(UserRef),
    /// A job's, which may be registered later, or those of all jobs that have such a name.
    Namespace(NspacePattern),
}

/// A user, as the configuration names one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserRef {
    /// By number.
    Id(u32),
    /// By name, which the system knows.
    Name(String),
}

/// A log channel's place in the site's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedChannel {
    /// Its name in lower case, as in `local_syslog`.
    pub name: String,
    /// Whether it must succeed.
    pub requirement: Requirement,
}

/// Whether a log channel must succeed for its request to do so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// It need not.
    Optional,
    /// It is always tried, and its failure makes the request fail.
    Required,
}
