//! The chain: the hash of a row follows from all that it says and from the hash of the row before; seals say which hash a row has.
use crate::{Keys, SealPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use peal_store::{Seal, SealKind, TrailRow};
use sha2::{Digest as _, Sha256};
use std::{fmt, str::FromStr};

/// Which row, and the hash that it has.
pub(crate) type ChainHead = (u64, [u8; 32]);

/// The hash before the first row.
pub(crate) const FIRST: [u8; 32] = [0; 32];

/// What the hash of a row is, behind a row of that hash. What the row says it is does not matter.
pub fn hash_of(before: &[u8; 32], row: &TrailRow) -> [u8; 32] {
    let TrailRow {
        seq,
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
    hasher.update(before);
    hasher.update(seq.to_le_bytes());
    hasher.update(at.to_le_bytes());
    let mut add = |bytes: Option<&[u8]>| match bytes {
        None => hasher.update([0]),
        Some(bytes) => {
            hasher.update([1]);
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
    };
    let uid = uid.map(u32::to_le_bytes);
    add(Some(kind.as_bytes()));
    add(module.as_deref().map(str::as_bytes));
    add(job.as_deref().map(str::as_bytes));
    add(uid.as_ref().map(|uid| uid.as_slice()));
    add(outcome.as_deref().map(str::as_bytes));
    add(Some(body));
    hasher.finalize().into()
}

/// A seal as it is sent elsewhere: a line of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    pub(crate) what: &'static str,
    pub(crate) seal: Seal,
}

impl Statement {
    /// Seals a row of this hash.
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

    /// A seal of this kind.
    pub fn of(kind: SealKind, seal: Seal) -> Statement {
        Statement {
            what: word(kind),
            seal,
        }
    }

    /// Whether it is of this kind.
    pub(crate) fn is_of(&self, kind: SealKind) -> bool {
        self.what == word(kind)
    }

    /// Which row it is about, and which hash it says that has.
    pub fn row(&self) -> (u64, [u8; 32]) {
        (self.seal.seq, self.seal.hash)
    }

    /// Whether the owner of this key says so.
    pub fn is_by(&self, key: &SealPublicKey) -> bool {
        key.has_signed(&text(self.what, &self.seal), &self.seal.signature)
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}",
            text(self.what, &self.seal),
            STANDARD.encode(&self.seal.signature)
        )
    }
}

impl FromStr for Statement {
    type Err = ();
    /// Finds one in a line, whatever stands before it: syslog puts a time and a host there.
    fn from_str(line: &str) -> Result<Statement, ()> {
        let begin = line.find("peal-audit 1 ").ok_or(())?;
        let mut words = line
            .get(begin..)
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(2);
        let what = words.next().ok_or(())?;
        let what = [SealKind::Head, SealKind::Anchor, SealKind::Checkpoint]
            .map(word)
            .into_iter()
            .find(|known| *known == what);
        let mut number = || {
            words
                .next()
                .and_then(|number| number.parse().ok())
                .ok_or(())
        };
        let (seq, at) = (number()?, number()?);
        let hash: peal_sandbox::Digest = words.next().ok_or(())?.parse().map_err(drop)?;
        let signature = STANDARD.decode(words.next().ok_or(())?).map_err(drop)?;
        Ok(Statement {
            what: what.ok_or(())?,
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

/// What is signed.
fn text(what: &str, Seal { seq, at, hash, .. }: &Seal) -> String {
    format!(
        "peal-audit 1 {what} {seq} {at} {}",
        peal_sandbox::Digest(*hash)
    )
}
