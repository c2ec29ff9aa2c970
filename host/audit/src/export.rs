//! The trail as lines of JSON: records with their exact bytes, seals, and what records refer to, so that all of it can be verified
//! and replayed elsewhere.
//!
//! ```text
//! {"record":{"seq":1,"at":1789000000000,"kind":"call","module":"quota",...,"body":"<CBOR in base64>","hash":"<64 digits>"}}
//! {"blob":{"digest":"<64 digits>","bytes":"<base64>"}}
//! {"seal":"peal-audit 1 head 1 1789000000000 <hash> <signature>"}
//! {"dropped":{"last":2000,"body":"<CBOR in base64>","signature":"<base64>"}}
//! ```
use crate::{AuditError, Statement, TrailSource, source::call_of};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use peal_sandbox::Digest;
use peal_store::{DroppedRows, Filter, SealKind, TrailRow};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The longest line, in bytes: a component of the largest size in base64.
const MAX_LINE: u64 = 256 << 20;

/// Why a file cannot be written or read.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The system says so.
    #[error("{path:?}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line makes no sense.
    #[error(
        "{path:?}, line {line}: {what}; neither a database of an audit trail nor what `peal audit export` writes"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// What was exported.
#[derive(Debug, Default)]
pub struct Exported {
    pub(crate) rows: Vec<TrailRow>,
    pub(crate) seals: Vec<Statement>,
    pub(crate) dropped: Vec<DroppedRows>,
    pub(crate) blobs: BTreeMap<Digest, Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ExportLine {
    Record(Record),
    Blob {
        digest: Digest,
        bytes: String,
    },
    Seal(String),
    Dropped {
        last: u64,
        body: String,
        signature: String,
    },
}

#[derive(Serialize, Deserialize)]
struct Record {
    seq: u64,
    at: u64,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    body: String,
    hash: Digest,
}

/// Writes the records that are wanted with what they refer to, and the seals. How many records that were.
pub fn export(
    source: &TrailSource,
    filter: &Filter,
    out: &mut impl Write,
) -> Result<u64, AuditError> {
    let path = PathBuf::from("the output");
    let io = |source| ExportError::Io {
        path: path.clone(),
        source,
    };
    let mut line = |line: &ExportLine| -> Result<(), AuditError> {
        serde_json::to_writer(&mut *out, line).map_err(|error| io(error.into()))?;
        out.write_all(b"\n").map_err(io)?;
        Ok(())
    };
    let (mut count, mut known) = (0, BTreeSet::new());
    source.each::<AuditError>(filter, |row| {
        count += 1;
        let mut wanted = Vec::new();
        if let Some(call) = call_of(&row)? {
            wanted.push(call.facts);
            wanted.extend(source.facts(&call)?.map(|facts| facts.digest));
        }
        for digest in wanted {
            if known.insert(digest)
                && let Some(bytes) = source.blob(&digest)?
            {
                line(&ExportLine::Blob {
                    digest,
                    bytes: STANDARD.encode(bytes),
                })?;
            }
        }
        let TrailRow {
            seq,
            at,
            kind,
            module,
            job,
            uid,
            outcome,
            body,
            hash,
        } = row;
        let (body, hash) = (STANDARD.encode(body), Digest(hash));
        line(&ExportLine::Record(Record {
            seq,
            at,
            kind,
            module,
            job,
            uid,
            outcome,
            body,
            hash,
        }))
    })?;
    let seals = [SealKind::Anchor, SealKind::Head].map(|kind| source.seal(kind));
    for seal in seals {
        seal?.map_or(Ok(()), |seal| line(&ExportLine::Seal(seal.to_string())))?;
    }
    source
        .checkpoints()?
        .iter()
        .try_for_each(|seal| line(&ExportLine::Seal(seal.to_string())))?;
    for DroppedRows {
        last,
        body,
        signature,
    } in source.dropped()?
    {
        line(&ExportLine::Dropped {
            last,
            body: STANDARD.encode(body),
            signature: STANDARD.encode(signature),
        })?;
    }
    Ok(count)
}

impl Exported {
    /// Reads what was exported.
    pub(crate) fn read(mut from: impl BufRead, path: &Path) -> Result<Exported, AuditError> {
        let mut exported = Exported::default();
        for number in 1.. {
            let wrong = |what: String| ExportError::Malformed {
                path: path.to_owned(),
                line: number,
                what,
            };
            let mut text = Vec::new();
            let limited = io::Read::take(&mut from, MAX_LINE).read_until(b'\n', &mut text);
            if limited.map_err(|source| ExportError::Io {
                path: path.to_owned(),
                source,
            })? == 0
            {
                break;
            }
            let line = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
            let bytes = |text: &str| {
                STANDARD
                    .decode(text)
                    .map_err(|error| wrong(error.to_string()))
            };
            match line {
                ExportLine::Record(Record {
                    seq,
                    at,
                    kind,
                    module,
                    job,
                    uid,
                    outcome,
                    body,
                    hash,
                }) => {
                    let body = bytes(&body)?;
                    exported.rows.push(TrailRow {
                        seq,
                        at,
                        kind,
                        module,
                        job,
                        uid,
                        outcome,
                        body,
                        hash: hash.0,
                    });
                }
                ExportLine::Dropped {
                    last,
                    body,
                    signature,
                } => {
                    exported.dropped.push(DroppedRows {
                        last,
                        body: bytes(&body)?,
                        signature: bytes(&signature)?,
                    });
                }
                ExportLine::Blob {
                    digest,
                    bytes: text,
                } => drop(exported.blobs.insert(digest, bytes(&text)?)),
                ExportLine::Seal(text) => {
                    let seal = text
                        .parse()
                        .map_err(|()| wrong(format!("{text:?} is no seal")))?;
                    exported.seals.push(seal);
                }
            }
        }
        Ok(exported)
    }

    /// The rows that are wanted, in their order.
    pub(crate) fn rows<'a>(
        &'a self,
        filter: &'a Filter,
    ) -> impl DoubleEndedIterator<Item = &'a TrailRow> {
        self.rows.iter().filter(|row| filter.wants(row))
    }
}
