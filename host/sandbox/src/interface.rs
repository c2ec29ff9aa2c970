//! The interfaces of the contract: the roles that a module exports and the capabilities that it imports.
use peal_model::Hook;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The package that the contract is.
const PACKAGE: &str = "peal:pmix";
/// The versions of it that this host serves: 0.1 and whatever is added to it compatibly, older and newer.
const SERVED: (u64, u64) = (0, 1);

/// What a module does: a role interface that it exports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Is called for events.
    EventHandler,
    /// Decides who may connect.
    ConnectionPolicy,
    /// Decides which events may be raised.
    EventPolicy,
    /// Decides which procs may be controlled.
    JobControlPolicy,
    /// Decides who may watch what.
    MonitorPolicy,
    /// Provides nodes.
    ProvisionPolicy,
    /// Decides what may be logged.
    LogPolicy,
    /// Decides who may form groups of procs.
    GroupPolicy,
    /// Decides what may be spawned.
    SpawnPolicy,
    /// Writes what procs log.
    LogChannel,
    /// Is told when it starts and stops, and says what to register.
    Lifecycle,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 11] = [
        Role::EventHandler,
        Role::ConnectionPolicy,
        Role::EventPolicy,
        Role::JobControlPolicy,
        Role::MonitorPolicy,
        Role::ProvisionPolicy,
        Role::LogPolicy,
        Role::GroupPolicy,
        Role::SpawnPolicy,
        Role::LogChannel,
        Role::Lifecycle,
    ];

    /// The role of those that decide at this hook; none where there is none yet.
    pub fn policy(hook: Hook) -> Option<Role> {
        match hook {
            Hook::Connection => Some(Role::ConnectionPolicy),
            Hook::Event => Some(Role::EventPolicy),
            Hook::JobControl => Some(Role::JobControlPolicy),
            Hook::Monitor => Some(Role::MonitorPolicy),
            Hook::Provision => Some(Role::ProvisionPolicy),
            Hook::Log => Some(Role::LogPolicy),
            Hook::Group => Some(Role::GroupPolicy),
            Hook::Spawn => Some(Role::SpawnPolicy),
            _ => None,
        }
    }

    /// The interface's name within the package.
    pub fn name(self) -> &'static str {
        match self {
            Role::EventHandler => "event-handler",
            Role::ConnectionPolicy => "connection-policy",
            Role::EventPolicy => "event-policy",
            Role::JobControlPolicy => "job-control-policy",
            Role::MonitorPolicy => "monitor-policy",
            Role::ProvisionPolicy => "provision-policy",
            Role::LogPolicy => "log-policy",
            Role::GroupPolicy => "group-policy",
            Role::SpawnPolicy => "spawn-policy",
            Role::LogChannel => "log-channel",
            Role::Lifecycle => "lifecycle",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PACKAGE}/{}", self.name())
    }
}

/// What a module may reach beyond the call at hand: an interface that it imports and that an admin grants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Writes to the host's trace.
    Logging,
    /// Knows the time.
    Clock,
    /// Raises events.
    Notify,
    /// Changes what it is registered for.
    Registration,
    /// Writes to what the admin opened for it.
    Sink,
    /// Keeps values that survive restarts.
    State,
    /// Draws random numbers.
    Random,
    /// Reads and writes in directories that the admin named for it.
    Files,
    /// Controls procs.
    Control,
    /// Logs.
    Report,
    /// Knows what procs use of the machine.
    Usage,
    /// Has WASI 0.2 for its language, with nothing behind it.
    Wasi,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Capability; 12] = [
        Capability::Logging,
        Capability::Clock,
        Capability::Notify,
        Capability::Registration,
        Capability::Sink,
        Capability::State,
        Capability::Random,
        Capability::Files,
        Capability::Control,
        Capability::Report,
        Capability::Usage,
        Capability::Wasi,
    ];

    /// The interface's name within the package, as a grant names it.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Logging => "logging",
            Capability::Clock => "clock",
            Capability::Notify => "notify",
            Capability::Registration => "registration",
            Capability::Sink => "sink",
            Capability::State => "state",
            Capability::Random => "random",
            Capability::Files => "files",
            Capability::Control => "job-control",
            Capability::Report => "log-request",
            Capability::Usage => "resource-usage",
            Capability::Wasi => "wasi",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Capability::Wasi {
            return f.write_str("WASI 0.2");
        }
        write!(f, "{PACKAGE}/{}", self.name())
    }
}

/// What an imported interface is to this host.
pub(crate) enum Import {
    /// Linked for every module.
    Always,
    /// Linked where it is granted.
    Capability(Capability),
    /// Not offered.
    Unknown,
}

/// The name of an interface of the contract in a version that this host serves, or none.
fn own(interface: &str) -> Option<&str> {
    let (name, version) = interface
        .strip_prefix(PACKAGE)?
        .strip_prefix('/')?
        .split_once('@')?;
    let version = semver::Version::parse(version).ok()?;
    // The engine takes no pre-release for anything but itself.
    ((version.major, version.minor) == SERVED && version.pre.is_empty()).then_some(name)
}

/// The version of the contract that the name of an interface of it names, served here or not.
pub(crate) fn contract_version(interface: &str) -> Option<&str> {
    Some(
        interface
            .strip_prefix(PACKAGE)?
            .strip_prefix('/')?
            .split_once('@')?
            .1,
    )
}

/// The versions of the contract that are served here, in words.
pub const CONTRACT_SERVED: &str = "0.1";

/// The packages of WASI that have stand-ins.
const WASI: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// The name of an interface of WASI without the version, as in `cli/exit`, if it has a stand-in here.
pub(crate) fn wasi_interface(interface: &str) -> Option<&str> {
    let (name, version) = interface.strip_prefix("wasi:")?.split_once('@')?;
    let (package, _) = name.split_once('/')?;
    (WASI.contains(&package) && version.starts_with("0.2.")).then_some(name)
}

/// What an import of this name asks for.
pub(crate) fn import(interface: &str) -> Import {
    if wasi_interface(interface).is_some() {
        return Import::Capability(Capability::Wasi);
    }
    match own(interface) {
        Some("types" | "call" | "amendment" | "exception") => Import::Always,
        Some(name) => Capability::ALL
            .into_iter()
            .find(|capability| *capability != Capability::Wasi && capability.name() == name)
            .map_or(Import::Unknown, Import::Capability),
        None => Import::Unknown,
    }
}

/// The role that an export of this name fills, if it is one.
pub(crate) fn role(interface: &str) -> Option<Role> {
    let name = own(interface)?;
    Role::ALL.into_iter().find(|role| role.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_known_by_package_name_and_compatible_version() {
        assert_eq!(
            role("peal:pmix/event-handler@0.1.0"),
            Some(Role::EventHandler)
        );
        assert_eq!(role("peal:pmix/lifecycle@0.1.7"), Some(Role::Lifecycle));
        assert_eq!(role("peal:pmix/event-handler@0.2.0"), None);
        for none in ["", "@0.1", "@0.1.0-rc.1", "@0.1.x"] {
            assert_eq!(
                role(&format!("peal:pmix/event-handler{none}")),
                None,
                "{none}"
            );
        }
        assert_eq!(
            role("peal:pmix/event-handler@0.1.0+build"),
            Some(Role::EventHandler)
        );
        assert_eq!(role("other:pmix/event-handler@0.1.0"), None);
        assert!(matches!(
            import("peal:pmix/clock@0.1.0"),
            Import::Capability(Capability::Clock)
        ));
        assert!(matches!(import("peal:pmix/call@0.1.0"), Import::Always));
        assert!(matches!(import("peal:pmix/clock@0.10.0"), Import::Unknown));
        assert!(matches!(
            import("wasi:cli/environment@0.2.0"),
            Import::Capability(Capability::Wasi)
        ));
        assert!(matches!(
            import("wasi:cli/environment@0.3.0"),
            Import::Unknown
        ));
        assert!(matches!(import("wasi:http/types@0.2.0"), Import::Unknown));
        assert!(matches!(import("peal:pmix/wasi@0.1.0"), Import::Unknown));
    }
}
