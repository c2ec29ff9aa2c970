//! Hash chain of the trail: the hash of a row covers the row and the hash of the row before. A seal
//! is a signed statement of the hash of a row.
use crate::{Keys, SealPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use peal_store::{Seal, SealKind, TrailRow};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{fmt, str::FromStr};

/// Number and hash of a row.
pub(crate) type ChainHead = (u64, [u8; 32]);

/// The hash before the first row.
pub(crate) const FIRST: [u8; 32] = [0; 32];

/// The part of a row that its hash covers directly. The rest is covered by a digest, so that the
/// chain can be followed without the rest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChainLink {
    /// The time of the row in milliseconds since the epoch.
    pub at: u64,
    /// The kind of the row.
    pub kind: String,
    /// The digest of the other fields.
    pub content: [u8; 32],
}

impl ChainLink {
    /// Returns the link of a row. The number and the hash of the row are not part of it.
    pub fn of(row: &TrailRow) -> ChainLink {
        let TrailRow {
            seq: _,
            at,
            kind,
            module,
            job,
            uid,
            outcome,
            body,
            hash: _,
        } = row;
        let mut hasher = Sha256::new();
        // Presence and length are hashed, too. Bytes could otherwise move from field to field
        // unnoticed.
        let mut add = |bytes: Option<&[u8]>| match bytes {
            None => hasher.update([0]),
            Some(bytes) => {
                hasher.update([1]);
                hasher.update((bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
        };
        let uid = uid.map(u32::to_le_bytes);
        add(module.as_deref().map(str::as_bytes));
        add(job.as_deref().map(str::as_bytes));
        add(uid.as_ref().map(|uid| uid.as_slice()));
        add(outcome.as_deref().map(str::as_bytes));
        add(Some(body));
        ChainLink {
            at: *at,
            kind: kind.clone(),
            content: hasher.finalize().into(),
        }
    }

    /// Computes the hash of the row with this number that follows a row with the hash `before`.
    pub(crate) fn hash(&self, before: &[u8; 32], seq: u64) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(before);
        hasher.update(seq.to_le_bytes());
        hasher.update(self.at.to_le_bytes());
        hasher.update((self.kind.len() as u64).to_le_bytes());
        hasher.update(self.kind.as_bytes());
        hasher.update(self.content);
        hasher.finalize().into()
    }

    /// Returns the head after this row; none if there is no higher number.
    pub(crate) fn after(&self, (seq, hash): ChainHead) -> Option<ChainHead> {
        let seq = seq.checked_add(1)?;
        Some((seq, self.hash(&hash, seq)))
    }
}

/// Computes the hash of a row that follows a row with the hash `before`. The `hash` field of the
/// row is ignored.
pub fn hash_of(before: &[u8; 32], row: &TrailRow) -> [u8; 32] {
    ChainLink::of(row).hash(before, row.seq)
}

/// A seal as a line of text, for use outside of the trail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    pub(crate) kind: &'static str,
    pub(crate) seal: Seal,
}

impl Statement {
    /// Signs a seal for a row of this hash.
    pub(crate) fn sealed(kind: SealKind, (seq, hash): ChainHead, at: u64, keys: &Keys) -> Seal {
        let seal = Seal {
            seq,
            at,
            hash,
            signature: Vec::new(),
        };
        let signature = keys.sign(&text(word(kind), &seal));
        Seal { signature, ..seal }
    }

    /// Builds the statement of a seal of this kind.
    pub fn of(kind: SealKind, seal: Seal) -> Statement {
        Statement {
            kind: word(kind),
            seal,
        }
    }

    /// Reports whether the seal is of this kind.
    pub(crate) fn is_of(&self, kind: SealKind) -> bool {
        self.kind == word(kind)
    }

    /// Returns the number and the hash of the sealed row.
    pub fn row(&self) -> (u64, [u8; 32]) {
        (self.seal.seq, self.seal.hash)
    }

    /// Reports whether `key` signed the seal.
    pub fn is_by(&self, key: &SealPublicKey) -> bool {
        key.has_signed(&text(self.kind, &self.seal), &self.seal.signature)
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            text(self.kind, &self.seal),
            STANDARD.encode(&self.seal.signature)
        )
    }
}

impl FromStr for Statement {
    type Err = ();
    /// Finds a statement in a line. Text before it is ignored: syslog adds a time and a host.
    fn from_str(line: &str) -> Result<Statement, ()> {
        let begin = line.find("peal-audit 2 ").ok_or(())?;
        let mut words = line
            .get(begin..)
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(2);
        let kind = words.next().ok_or(())?;
        let kind = [SealKind::Head, SealKind::Anchor, SealKind::Checkpoint]
            .map(word)
            .into_iter()
            .find(|known| *known == kind);
        let mut number = || {
            words
                .next()
                .and_then(|number| number.parse().ok())
                .ok_or(())
        };
        let seq = number()?;
        let at = number()?;
        let hash: peal_sandbox::Digest = words.next().ok_or(())?.parse().map_err(drop)?;
        let signature = STANDARD.decode(words.next().ok_or(())?).map_err(drop)?;
        Ok(Statement {
            kind: kind.ok_or(())?,
            seal: Seal {
                seq,
                at,
                hash: hash.0,
                signature,
            },
        })
    }
}

fn word(kind: SealKind) -> &'static str {
    match kind {
        SealKind::Head => "head",
        SealKind::Anchor => "anchor",
        SealKind::Checkpoint => "checkpoint",
    }
}

/// Returns the signed text.
fn text(kind: &str, Seal { seq, at, hash, .. }: &Seal) -> String {
    format!(
        "peal-audit 2 {kind} {seq} {at} {}",
        peal_sandbox::Digest(*hash)
    )
}
