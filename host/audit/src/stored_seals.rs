//! Comparison of a trail with seals that are stored where nobody may delete them. The seals say what the
//! trail had: a trail that was cut, or replaced by another or an older one, contradicts them.
use crate::{AuditError, SealPublicKey, Statement, TrailSource, Verified, verify};
use peal_model::counted;
use std::fmt;

/// Result of the comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SealedTrail {
    /// Result of the verification, stored seals of this trail included.
    pub verified: Verified,
    /// Stored seals that are signed by the key of this trail.
    pub own: u64,
    /// Stored seals that are signed by another key, with the last record that they are about.
    pub of_other_keys: Option<OtherKeys>,
    /// Stored lines that are no seals.
    pub unreadable: u64,
}

/// Stored seals that another key has signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OtherKeys {
    /// Number of these seals.
    pub seals: u64,
    /// Last record that they are about.
    pub last: u64,
}

impl SealedTrail {
    /// Returns true if the trail is as it was written, and its seals are.
    pub fn is_intact(&self) -> bool {
        self.verified.findings.is_empty() && self.of_other_keys.is_none() && self.unreadable == 0
    }

    /// Returns a line for each contradiction, at most as many as findings are reported.
    pub fn contradictions(&self) -> Vec<String> {
        let findings = self.verified.findings.iter().map(ToString::to_string);
        let other = self.of_other_keys.map(|other| other.to_string());
        let unreadable = (self.unreadable > 0).then(|| {
            let are = if self.unreadable == 1 {
                "is no seal"
            } else {
                "are no seals"
            };
            format!(
                "{} stored under its name {are}",
                counted(self.unreadable, "line")
            )
        });
        other
            .into_iter()
            .chain(unreadable)
            .chain(findings)
            .collect()
    }
}

impl fmt::Display for OtherKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherKeys { seals, last } = self;
        write!(
            f,
            "the trail was replaced: {}, up to record {last}, signed by another key",
            if *seals == 1 {
                "1 stored seal is".to_owned()
            } else {
                format!("{seals} stored seals are")
            }
        )
    }
}

/// Verifies a trail, and compares it with stored seals, each of which is a line of text.
///
/// # Errors
///
/// Fails if the trail cannot be read.
pub fn verify_sealed(
    source: &TrailSource,
    key: &SealPublicKey,
    stored: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<SealedTrail, AuditError> {
    let mut own = Vec::new();
    let mut of_other_keys: Option<OtherKeys> = None;
    let mut unreadable = 0;
    for line in stored {
        match line.as_ref().parse::<Statement>() {
            Ok(seal) if seal.is_by(key) => own.push(seal),
            Ok(seal) => {
                let (seq, _) = seal.row();
                let other = of_other_keys.get_or_insert(OtherKeys { seals: 0, last: 0 });
                other.seals += 1;
                other.last = other.last.max(seq);
            }
            Err(()) => unreadable += 1,
        }
    }
    Ok(SealedTrail {
        verified: verify(source, key, &own)?,
        own: own.len() as u64,
        of_other_keys,
        unreadable,
    })
}
