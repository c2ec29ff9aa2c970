//! Version of the contract: that of this host, and that of a component.
use crate::interface::PACKAGE;
use semver::Version;
use std::collections::BTreeSet;
use thiserror::Error;

/// Version of the contract in this release, `peal:pmix` of `wit/`.
pub const CONTRACT_VERSION: Version = Version::new(0, 1, 0);

/// Versions of the contract that are served, for messages.
pub const CONTRACT_SERVED: &str = "0.1";

/// Advice to the owner of a module with an older contract.
pub(crate) const REBUILD: &str = "build the module again with the server's `peal module build`";
/// Advice to the owner of a module with a newer contract.
const UPDATE: &str =
    "update the server, or build the module again with the server's `peal module build`";

/// Contract of a component that this release does not have. The text continues the name of the
/// module.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ContractMismatch {
    /// Contract of an earlier release that is not served.
    #[error(
        "is built for {PACKAGE} {version}; this server has {CONTRACT_VERSION} and loads modules of {CONTRACT_SERVED}: {REBUILD}"
    )]
    Older {
        /// Version of the component's contract.
        version: Version,
    },
    /// Contract of a later release that is not served.
    #[error(
        "is built for {PACKAGE} {version}; this server has {CONTRACT_VERSION} and loads modules of {CONTRACT_SERVED}: {UPDATE}"
    )]
    Newer {
        /// Version of the component's contract.
        version: Version,
    },
    /// A served contract with additions that the component needs.
    #[error(
        "is built for {PACKAGE} {version} and needs an addition to {CONTRACT_VERSION} of this server ({reason}): {UPDATE}"
    )]
    Addition {
        /// Version of the component's contract.
        version: Version,
        /// Reason for which the component does not load.
        reason: String,
    },
}

impl ContractMismatch {
    /// Returns the mismatch of a component whose interfaces have these versions, if one of them is
    /// not served.
    pub(crate) fn of_versions(versions: &BTreeSet<String>) -> Option<ContractMismatch> {
        let version = parsed(versions)
            .filter(|version| !is_served(version))
            .max()?;
        Some(if version < CONTRACT_VERSION {
            ContractMismatch::Older { version }
        } else {
            ContractMismatch::Newer { version }
        })
    }

    /// Returns the mismatch that explains why a component does not load, if its contract is newer.
    pub(crate) fn of_failure(
        versions: &BTreeSet<String>,
        reason: impl FnOnce() -> String,
    ) -> Option<ContractMismatch> {
        newer(versions).map(|version| ContractMismatch::Addition {
            version,
            reason: reason(),
        })
    }
}

/// Returns true if components of a version are loaded: those of the same major and minor number,
/// older and newer.
pub(crate) fn is_served(version: &Version) -> bool {
    // wasmtime matches a pre-release only with itself.
    (version.major, version.minor) == (CONTRACT_VERSION.major, CONTRACT_VERSION.minor)
        && version.pre.is_empty()
}

/// Returns the version in the name of an interface of the contract, served or not.
pub(crate) fn version_of(interface: &str) -> Option<&str> {
    let (_, version) = interface
        .strip_prefix(PACKAGE)?
        .strip_prefix('/')?
        .split_once('@')?;
    Some(version)
}

/// Returns the newest version among these, if it is newer than that of this release.
fn newer(versions: &BTreeSet<String>) -> Option<Version> {
    parsed(versions)
        .max()
        .filter(|version| *version > CONTRACT_VERSION)
}

/// Returns the versions that are versions. Other names are those of unknown interfaces.
fn parsed(versions: &BTreeSet<String>) -> impl Iterator<Item = Version> {
    versions
        .iter()
        .filter_map(|version| Version::parse(version).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(versions: &[&str]) -> Option<ContractMismatch> {
        ContractMismatch::of_versions(&versions.iter().map(|of| (*of).to_owned()).collect())
    }

    #[test]
    fn served_versions_have_the_major_and_minor_number() {
        let line = format!("{}.{}", CONTRACT_VERSION.major, CONTRACT_VERSION.minor);
        assert_eq!(line, CONTRACT_SERVED);
        let served = ["0.1.0", "0.1.40", "0.1.2+build", "0.1", "x", ""];
        assert_eq!(found(&served), None);
        for older in ["0.0.9", "0.1.0-rc.1"] {
            let version = Version::parse(older).unwrap();
            let mismatch = ContractMismatch::Older { version };
            assert_eq!(found(&["0.1.0", older]), Some(mismatch));
        }
        for newer in ["0.2.0", "0.10.0", "1.0.0"] {
            let version = Version::parse(newer).unwrap();
            let mismatch = ContractMismatch::Newer { version };
            assert_eq!(found(&["0.1.0", "0.1.9", newer]), Some(mismatch));
        }
    }

    #[test]
    fn newest_version_is_named() {
        let text = found(&["0.9.0", "0.10.0"]).unwrap().to_string();
        assert!(text.starts_with("is built for peal:pmix 0.10.0;"), "{text}");
    }
}
