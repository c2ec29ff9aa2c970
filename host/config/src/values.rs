//! Types of settings that are keywords, or begin with one.
use peal_core::{
    choice::{
        BindTo, ControlGroups, IdentityCheck, OnAbort, OnKill, ProcessorUnit, RecordFailurePolicy,
        RestartScope, TopologySource,
    },
    class::ClassFilter,
    defaults::HookDefault,
    pattern::NspacePattern,
    registration::HandlerLocation,
};
use peal_sinks::{PlainHttp, WebhookFormat};
use std::path::PathBuf;

/// Type whose values are keywords.
pub trait Keyword: Copy + PartialEq + Sized + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Returns the keyword of a value.
    fn name(self) -> &'static str;

    /// Returns the value of this keyword.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.name() == name)
    }
}

/// Gives keywords to enumerations, also to those that are defined where they take effect. A value
/// after the semicolon has a name, but a setting cannot have it.
macro_rules! keywords {
    ($( $Type:ty { $( $Value:path = $word:literal, )+ $( ; $Other:path = $other:literal )? } )+) => { $(
        impl Keyword for $Type {
            const ALL: &'static [$Type] = &[$($Value),+];

            fn name(self) -> &'static str {
                match self {
                    $($Value => $word,)+
                    $($Other => $other,)?
                }
            }
        }
    )+ };
}

/// Defines enumerations and their keywords.
macro_rules! words {
    ($(
        $(#[doc = $about:literal])+
        $Name:ident { $( $(#[doc = $doc:literal])+ $Value:ident = $word:literal, )+ }
    )+) => { $(
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $Name { $( $(#[doc = $doc])+ $Value, )+ }

        keywords! { $Name { $( $Name::$Value = $word, )+ } }
    )+ };
}

keywords! {
    OnAbort { OnAbort::Terminate = "terminate", OnAbort::Continue = "continue", }
    RestartScope { RestartScope::Ranks = "ranks", RestartScope::Job = "job", }
    OnKill { OnKill::End = "end", OnKill::Continue = "continue", }
    ControlGroups { ControlGroups::Try = "try", ControlGroups::Off = "off", }
    TopologySource { TopologySource::Launcher = "launcher", TopologySource::Procs = "procs", }
    IdentityCheck { IdentityCheck::Process = "process", IdentityCheck::User = "user", }
    PlainHttp { PlainHttp::Refused = "refused", PlainHttp::Loopback = "loopback", }
    WebhookFormat { WebhookFormat::Text = "text", WebhookFormat::Json = "json", }
    RecordFailurePolicy {
        RecordFailurePolicy::Deny = "deny",
        RecordFailurePolicy::Continue = "continue",
    }
    HookDefault {
        HookDefault::BuiltIn = "built-in",
        HookDefault::Grant = "grant",
        HookDefault::Deny = "deny",
    }
    HandlerLocation {
        HandlerLocation::Origin = "origin",
        HandlerLocation::EachNode = "each-node",
    }
    ClassFilter {
        ClassFilter::JobSpecific = "job",
        ClassFilter::Environment = "environment",
        ClassFilter::Both = "both",
        ; ClassFilter::Neither = "neither"
    }
}

impl Keyword for ProcessorUnit {
    const ALL: &'static [ProcessorUnit] = &ProcessorUnit::ALL;

    fn name(self) -> &'static str {
        self.keyword()
    }
}

impl Keyword for BindTo {
    const ALL: &'static [BindTo] = &BindTo::ALL;

    fn name(self) -> &'static str {
        self.keyword()
    }
}

words! {
    /// Outcome that a failed policy counts as.
    OnFailure {
        /// The request is denied.
        Deny = "deny",
        /// The policies after it decide.
        Pass = "pass",
    }

    /// Mode of a module.
    Mode {
        /// Its outcomes have effect.
        Active = "active",
        /// It is called, but its outcomes are ignored.
        Shadow = "shadow",
    }

    /// Owner of a module, as far as the signature rules distinguish them.
    ModuleOwner {
        /// The site.
        Site = "site",
        /// A user, by whom or for whom the module was installed.
        User = "user",
        /// Jobs with matching names, to which the site gave the module.
        Namespace = "namespace",
        /// A job that supplies the module itself.
        JobSupplied = "job-supplied",
    }

    /// Extent of the sharing of an instance's memory.
    Isolation {
        /// All calls of the module.
        Module = "module",
        /// Calls caused by procs of the same job.
        Namespace = "namespace",
        /// One call.
        Call = "call",
    }

    /// Processes that run the modules of users and jobs.
    TenantProcess {
        /// A process for each user.
        Own = "own",
        /// The server's process.
        Shared = "shared",
    }

    /// Modules for which fuel is counted.
    FuelCount {
        /// Modules with a fuel limit.
        WhereLimited = "limited",
        /// All modules.
        Always = "always",
    }

    /// Durability of a record.
    Durability {
        /// It survives the end of the process.
        Process = "process",
        /// It survives the end of the machine.
        Machine = "machine",
    }

    /// Copies of trail checkpoints in the system log.
    CheckpointSyslog {
        /// No copies.
        No = "no",
        /// Copies.
        Yes = "yes",
    }

    /// Confinement of the server by the kernel.
    ConfinementMode {
        /// No confinement.
        Off = "off",
        /// As far as the kernel supports it.
        Try = "try",
        /// Full confinement; the server does not start without it.
        Require = "require",
        /// As far as the kernel supports it, but system calls that would fail are made, and the
        /// kernel logs them.
        Log = "log",
    }

    /// Access to a directory.
    FilesMode {
        /// Files can be read.
        Read = "read",
        /// Files can be read and written.
        ReadWrite = "read-write",
    }

    /// Durability of messages that a sink has accepted.
    SinkDurability {
        /// None: they are in memory.
        Memory = "memory",
        /// They survive the end of the process: they are in the store.
        Store = "store",
    }

    /// Encryption of the connection to a mail server.
    Encryption {
        /// STARTTLS is required: nothing is sent to a server that does not offer it.
        StartTls = "start-tls",
        /// STARTTLS is used if the server offers it. An attacker on the network can remove the
        /// offer.
        StartTlsIfOffered = "start-tls-if-offered",
        /// TLS from the start.
        Tls = "tls",
        /// No encryption.
        None = "none",
    }

    /// Time at which a message is written to the disk.
    FileSync {
        /// The operating system decides.
        Never = "never",
        /// Before the requester gets the reply.
        Each = "each",
    }
}

/// Sink that a module may write to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SinkName {
    /// Standard output of the job that logs.
    Stdout,
    /// Standard error of that job.
    Stderr,
    /// Record of that job.
    JobRecord,
    /// Sink that the admin opened.
    Opened(String),
}

impl SinkName {
    /// Names of the built-in sinks.
    pub const BUILT_IN: [&str; 3] = ["stdout", "stderr", "job-record"];

    /// Returns the sink of this name.
    pub fn of(name: &str) -> SinkName {
        match name {
            "stdout" => SinkName::Stdout,
            "stderr" => SinkName::Stderr,
            "job-record" => SinkName::JobRecord,
            other => SinkName::Opened(other.to_owned()),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            SinkName::Stdout => "stdout",
            SinkName::Stderr => "stderr",
            SinkName::JobRecord => "job-record",
            SinkName::Opened(name) => name,
        }
    }
}

/// Directory that a module may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryGrant {
    /// Name of the directory in the module.
    pub name: String,
    /// Path of the directory.
    pub path: PathBuf,
    /// Access to the directory.
    pub mode: FilesMode,
    /// Limit of the bytes of all its files, each of which counts for at least 4096. It applies to
    /// writable directories.
    pub max_bytes: u64,
}

/// Scope of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConfiguredScope {
    /// The site.
    Site,
    /// A user.
    User(UserRef),
    /// All jobs whose names match the pattern, including those that are registered later.
    Namespace(NspacePattern),
}

/// User in the configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UserRef {
    /// User by uid.
    Id(u32),
    /// User by name, which the system resolves.
    Name(String),
}

/// Log channel in the order of the site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedChannel {
    /// Name in lower case, as in `local_syslog`.
    pub name: String,
    /// Requirement of its success.
    pub requirement: Requirement,
}

/// Requirement of a log channel's success for its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// Its failure does not make the request fail.
    Optional,
    /// It is always tried, and its failure makes the request fail.
    Required,
}
