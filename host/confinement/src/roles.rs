//! Roles of processes, and the access that each of them has.
use crate::groups::CallGroup;
use rustix::thread::CapabilitySet;

/// Role of a process of `peal serve`. The access of a role starts from nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProcessRole {
    /// Starts the other processes and ends them.
    Supervisor,
    /// Connections, state, audit trail, policies and modules of the site.
    Server,
    /// Acts on other processes, and as other users.
    PrivilegedHelper,
    /// Signs what extends the audit trail.
    AuditSigner,
    /// Starts a process for each component that is compiled.
    CompilerParent,
    /// Compiles one component.
    Compilation,
    /// Fetches artefacts from registries at one port.
    ArtifactFetcher,
    /// Runs the modules of one user.
    TenantRuntime,
    /// Serves the web console.
    Console,
    /// Replays a recorded call.
    CallReplay,
}

/// Processes that a process can signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalScope {
    /// Itself.
    Itself,
    /// Processes that it started.
    Descendants,
    /// Every process that its user may signal.
    Everything,
}

/// Files of a role that the kernel keeps it to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileScope {
    /// The paths in a [`Confinement`](crate::Confinement).
    Listed,
    /// All files. The kernel lets no process with confined files inspect other processes.
    Everything,
}

/// Access of a role.
#[derive(Clone, Copy, Debug)]
pub struct RoleAccess {
    /// User that runs the process.
    pub user: &'static str,
    /// Capabilities that remain. A process of an unprivileged user has none of them.
    pub capabilities: CapabilitySet,
    /// System calls.
    pub groups: &'static [CallGroup],
    /// Extent of the confinement of files.
    pub file_scope: FileScope,
    /// Files, in words.
    pub files: &'static str,
    /// Connections, in words.
    pub network: &'static str,
    /// Processes that it can signal.
    pub signals: SignalScope,
}

impl RoleAccess {
    /// Returns the names of the capabilities, as in `CAP_KILL`.
    pub fn capability_names(&self) -> Vec<String> {
        let names = self.capabilities.iter_names();
        names.map(|(name, _)| format!("CAP_{name}")).collect()
    }
}

impl SignalScope {
    /// Returns the processes in words.
    pub fn name(self) -> &'static str {
        match self {
            SignalScope::Itself => "itself",
            SignalScope::Descendants => "processes that it started",
            SignalScope::Everything => "all",
        }
    }
}

/// All groups: what this process starts can make no call that it cannot make itself.
const SUPERVISOR: &[CallGroup] = CallGroup::ALL;

const SERVER: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::CompiledCode,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::Limits,
    CallGroup::FileReads,
    CallGroup::FileChanges,
    CallGroup::DirectoryCreation,
    CallGroup::FileRemoval,
    CallGroup::FileModes,
    CallGroup::FileGroups,
    CallGroup::FileWatches,
    CallGroup::Sockets,
    CallGroup::ProcessWatches,
];

const PRIVILEGED_HELPER: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::FileReads,
    CallGroup::FileRemoval,
    CallGroup::ProcessWatches,
    CallGroup::Signals,
    CallGroup::Credentials,
];

const AUDIT_SIGNER: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Descriptors,
    CallGroup::Information,
];

const COMPILER_PARENT: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::Limits,
    CallGroup::FileReads,
    CallGroup::FileChanges,
    CallGroup::DirectoryCreation,
    CallGroup::FileRemoval,
    CallGroup::ProcessWatches,
    CallGroup::Signals,
    // The loader of programs maps their code.
    CallGroup::CompiledCode,
    CallGroup::Programs,
    CallGroup::Confinement,
];

const COMPILATION: &[CallGroup] = &[
    CallGroup::Memory,
    // The engine maps the code that it has compiled.
    CallGroup::CompiledCode,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    // Threads that compile have a low priority.
    CallGroup::Limits,
    CallGroup::FileReads,
    CallGroup::FileChanges,
    CallGroup::DirectoryCreation,
    CallGroup::FileRemoval,
];

const ARTIFACT_FETCHER: &[CallGroup] = &[
    CallGroup::Memory,
    // The resolver of names has a thread for each query.
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::FileReads,
    CallGroup::FileChanges,
    CallGroup::DirectoryCreation,
    CallGroup::FileRemoval,
    CallGroup::Sockets,
];

const CONSOLE: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::FileReads,
    CallGroup::Sockets,
];

const CALL_REPLAY: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::CompiledCode,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::FileReads,
];

const TENANT_RUNTIME: &[CallGroup] = &[
    CallGroup::Memory,
    CallGroup::CompiledCode,
    CallGroup::Threads,
    CallGroup::OwnSignals,
    CallGroup::Time,
    CallGroup::Events,
    CallGroup::Descriptors,
    CallGroup::Information,
    CallGroup::FileReads,
    // The engine creates the directory of code unless it exists.
    CallGroup::DirectoryCreation,
];

/// Capabilities of the privileged helper.
const HELPER_CAPABILITIES: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_PTRACE);

impl ProcessRole {
    /// All roles.
    pub const ALL: [ProcessRole; 10] = [
        ProcessRole::Supervisor,
        ProcessRole::Server,
        ProcessRole::PrivilegedHelper,
        ProcessRole::AuditSigner,
        ProcessRole::CompilerParent,
        ProcessRole::Compilation,
        ProcessRole::ArtifactFetcher,
        ProcessRole::TenantRuntime,
        ProcessRole::Console,
        ProcessRole::CallReplay,
    ];

    /// Returns the name of the role in documents.
    pub fn name(self) -> &'static str {
        match self {
            ProcessRole::Supervisor => "supervisor",
            ProcessRole::Server => "server",
            ProcessRole::PrivilegedHelper => "privileged helper",
            ProcessRole::AuditSigner => "audit signer",
            ProcessRole::CompilerParent => "compiler",
            ProcessRole::Compilation => "compilation",
            ProcessRole::ArtifactFetcher => "artefact fetcher",
            ProcessRole::TenantRuntime => "tenant runtime",
            ProcessRole::Console => "web console",
            ProcessRole::CallReplay => "call replay",
        }
    }

    /// Returns the access of the role.
    pub fn access(self) -> RoleAccess {
        match self {
            ProcessRole::Supervisor => RoleAccess {
                user: "root, or the user that starts the server",
                // A process never has a capability that the one before it lacked, so the helper's
                // are among these. `SETPCAP` is needed to drop capabilities for good.
                capabilities: HELPER_CAPABILITIES
                    .union(CapabilitySet::CHOWN)
                    .union(CapabilitySet::SETPCAP),
                groups: SUPERVISOR,
                file_scope: FileScope::Everything,
                files: "all",
                network: "TCP, UDP",
                signals: SignalScope::Everything,
            },
            ProcessRole::Server => RoleAccess {
                user: "`server.user`, or the user that starts the server",
                // For a server of root. One of another user has none.
                capabilities: CapabilitySet::CHOWN
                    .union(CapabilitySet::DAC_OVERRIDE)
                    .union(CapabilitySet::DAC_READ_SEARCH)
                    .union(CapabilitySet::NET_BIND_SERVICE),
                groups: SERVER,
                file_scope: FileScope::Listed,
                files: "what the configuration names; it reads all but `confinement.inaccessible_paths` and `/dev`",
                network: "TCP connections to the ports of sinks and NATS servers; TCP and UDP sockets that listen; UDP",
                signals: SignalScope::Itself,
            },
            ProcessRole::PrivilegedHelper => RoleAccess {
                user: "the user that starts the server",
                capabilities: HELPER_CAPABILITIES,
                groups: PRIVILEGED_HELPER,
                file_scope: FileScope::Everything,
                files: "reads and removes, changes none",
                network: "none",
                signals: SignalScope::Everything,
            },
            ProcessRole::AuditSigner => RoleAccess {
                user: "the user that starts the server",
                capabilities: CapabilitySet::empty(),
                groups: AUDIT_SIGNER,
                file_scope: FileScope::Listed,
                files: "none but what it has open",
                network: "none",
                signals: SignalScope::Itself,
            },
            ProcessRole::CompilerParent => RoleAccess {
                user: "that of the server",
                capabilities: CapabilitySet::empty(),
                groups: COMPILER_PARENT,
                file_scope: FileScope::Listed,
                files: "reads and runs its own program with its libraries, reads `/proc`; changes the cache of compiled code",
                network: "none",
                signals: SignalScope::Descendants,
            },
            ProcessRole::Compilation => RoleAccess {
                user: "that of the server",
                capabilities: CapabilitySet::empty(),
                groups: COMPILATION,
                file_scope: FileScope::Listed,
                files: "the cache of compiled code",
                network: "none",
                signals: SignalScope::Itself,
            },
            ProcessRole::ArtifactFetcher => RoleAccess {
                user: "that of the server",
                capabilities: CapabilitySet::empty(),
                groups: ARTIFACT_FETCHER,
                file_scope: FileScope::Listed,
                files: "reads certificates and credentials of registries; changes the store of artefacts",
                network: "TCP connections to the port of its registries and to 443; UDP",
                signals: SignalScope::Itself,
            },
            ProcessRole::TenantRuntime => RoleAccess {
                user: "the user whose modules it runs",
                capabilities: CapabilitySet::empty(),
                groups: TENANT_RUNTIME,
                file_scope: FileScope::Listed,
                files: "reads the code that was compiled for its user",
                network: "none",
                signals: SignalScope::Itself,
            },
            ProcessRole::Console => RoleAccess {
                user: "that of the server",
                capabilities: CapabilitySet::empty(),
                groups: CONSOLE,
                file_scope: FileScope::Listed,
                files: "reads the directory of the audit trail; changes none",
                network: "accepts TCP connections; connects to Unix sockets; UDP",
                signals: SignalScope::Itself,
            },
            ProcessRole::CallReplay => RoleAccess {
                user: "that of the server",
                capabilities: CapabilitySet::empty(),
                groups: CALL_REPLAY,
                file_scope: FileScope::Listed,
                files: "reads the directory of the audit trail",
                network: "none",
                signals: SignalScope::Itself,
            },
        }
    }
}
