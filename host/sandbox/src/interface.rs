//! Interfaces of the contract: their names and versions, and the capabilities that a module
//! imports. The roles that it exports are in `roles`.
use crate::{Role, contract};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Name of the contract's package.
pub(crate) const PACKAGE: &str = "peal:pmix";

/// Capability of a module: an interface that it imports and that an admin grants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Writes to the host's trace.
    Logging,
    /// Reads the time.
    Clock,
    /// Raises events.
    Notify,
    /// Changes the module's registrations.
    Registration,
    /// Writes to sinks that the admin opened for the module.
    Sink,
    /// Keeps values across restarts.
    State,
    /// Draws random numbers.
    Random,
    /// Reads and writes files in directories that the admin named for the module.
    Files,
    /// Requests job control.
    Control,
    /// Makes log requests.
    Report,
    /// Reads the resource usage of procs.
    Usage,
    /// WASI 0.2 for languages that need it, answered by stubs.
    Wasi,
}

impl Capability {
    /// All capabilities.
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

    /// Returns the name of the interface within the package, which is also the name in grants.
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

/// Kind of an import by its name.
pub(crate) enum Import {
    /// An interface linked for every module.
    Always,
    /// An interface linked if the capability is granted.
    Capability(Capability),
    /// An interface that Peal does not offer.
    Unknown,
}

/// Returns the name of an interface of the contract in a served version.
fn own(interface: &str) -> Option<&str> {
    let (name, version) = interface
        .strip_prefix(PACKAGE)?
        .strip_prefix('/')?
        .split_once('@')?;
    let version = semver::Version::parse(version).ok()?;
    contract::is_served(&version).then_some(name)
}

/// Packages of WASI that have stubs.
const WASI: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// Returns the name of an interface of WASI without the version, as in `cli/exit`, if it has stubs.
pub(crate) fn wasi_interface(interface: &str) -> Option<&str> {
    let (name, version) = interface.strip_prefix("wasi:")?.split_once('@')?;
    let (package, _) = name.split_once('/')?;
    (WASI.contains(&package) && version.starts_with("0.2.")).then_some(name)
}

/// Returns the kind of an import by its name.
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

/// Returns the role of an export by its name, if it is one.
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
