//! Acceptance rules of a policy file, for `peal module inspect --policy`.
use anyhow::{Context, Result};
use peal_config::TrustedKey;
use peal_modules::{Signature, SignatureError};
use peal_sandbox::{Capability, ImportKind, Inspection, Role};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// Rules for components. An absent rule restricts nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptanceRules {
    roles: Option<Vec<Role>>,
    capabilities: Option<Vec<Capability>>,
    wasi: Option<Vec<String>>,
    wit: Option<Vec<String>>,
    max_size: Option<usize>,
    signed_by: Option<Vec<String>>,
    #[serde(skip)]
    keys: Vec<TrustedKey>,
}

/// Rule that a component violates.
#[derive(Serialize)]
pub struct Broken {
    /// Key of the rule in the policy file.
    pub rule: &'static str,
    /// Description of the violation.
    pub message: String,
}

impl AcceptanceRules {
    /// Reads a policy file.
    pub fn read(path: &Path) -> Result<AcceptanceRules> {
        let named = || format!("the policy {}", path.display());
        let text = fs::read_to_string(path).with_context(named)?;
        let mut policy: AcceptanceRules = toml::from_str(&text).with_context(named)?;
        // An invalid key must be an error of the file: otherwise every signer would seem unknown.
        let keys = policy
            .signed_by
            .iter()
            .flatten()
            .map(|key| TrustedKey::parse(key));
        policy.keys = keys
            .collect::<Result<_, _>>()
            .context("signed_by")
            .with_context(named)?;
        Ok(policy)
    }

    /// Returns the trusted keys.
    pub fn keys(&self) -> &[TrustedKey] {
        &self.keys
    }

    /// Returns the rules that a component violates.
    pub fn broken(
        &self,
        bytes: &[u8],
        found: &Inspection,
        signature: &Result<Signature, SignatureError>,
    ) -> Vec<Broken> {
        let mut broken = Vec::new();
        let mut breaks = |rule, message| broken.push(Broken { rule, message });
        if let Some(allowed) = &self.roles {
            for role in found.roles.iter().filter(|role| !allowed.contains(role)) {
                breaks("roles", format!("it fills the role {:?}", role.name()));
            }
        }
        if let Some(allowed) = &self.capabilities {
            for capability in found
                .capabilities
                .iter()
                .filter(|capability| !allowed.contains(capability))
            {
                breaks(
                    "capabilities",
                    format!("it imports the capability {:?}", capability.name()),
                );
            }
        }
        if let Some(allowed) = &self.wasi {
            for import in found
                .imports
                .iter()
                .filter(|import| import.kind == ImportKind::Wasi)
            {
                if !allowed.iter().any(|pattern| is_wasi(pattern, &import.name)) {
                    breaks("wasi", format!("it imports {}", import.name));
                }
            }
        }
        if let Some(allowed) = &self.wit {
            for version in found
                .contract
                .iter()
                .filter(|version| !allowed.iter().any(|line| is_of(line, version)))
            {
                breaks("wit", format!("it is built for peal:pmix@{version}"));
            }
        }
        if let Some(most) = self.max_size.filter(|most| found.size > *most) {
            breaks(
                "max_size",
                format!("it has {} bytes, {most} are allowed", found.size),
            );
        }
        if self.signed_by.is_some() {
            // The keys that the site trusts do not count here.
            let signer = signature
                .clone()
                .and_then(|signature| signature.signer(bytes, &self.keys));
            if let Err(error) = signer {
                breaks("signed_by", error.to_string());
            }
        }
        broken
    }
}

/// Returns true if a pattern matches the name of a WASI interface, such as `wasi:cli/exit@0.2.3`.
/// Patterns are `cli/exit`, `cli/*`, and `*` for all.
fn is_wasi(pattern: &str, name: &str) -> bool {
    let name = name.strip_prefix("wasi:").unwrap_or(name);
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match pattern.strip_suffix('*') {
        // A star stands alone or after a slash: `cli*` would match more than one package.
        Some(start) => start.is_empty() || (start.ends_with('/') && name.starts_with(start)),
        None => pattern == name,
    }
}

/// Returns true if a version is this one or a more specific one: `0.1` includes `0.1.3`.
fn is_of(line: &str, version: &str) -> bool {
    version
        .strip_prefix(line)
        // `0.1` must not include `0.12`.
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_and_versions_are_named_whole_or_by_their_family() {
        for (pattern, fits) in [
            ("cli/exit", true),
            ("cli/*", true),
            ("*", true),
            ("cli", false),
            ("io/*", false),
            ("cl*", false),
        ] {
            assert_eq!(is_wasi(pattern, "wasi:cli/exit@0.2.3"), fits, "{pattern}");
        }
        for (line, fits) in [
            ("0.1", true),
            ("0.1.2", true),
            ("0", true),
            ("0.1.20", false),
            ("1", false),
            ("0.1.", false),
        ] {
            assert_eq!(is_of(line, "0.1.2"), fits, "{line}");
        }
    }
}
