//! The trail as lines of JSON: records with their exact bytes, seals, and the referenced blobs. An
//! export can be verified and replayed on another machine.
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

/// Maximum length of a line in bytes: a component of the largest size in base64.
const MAX_LINE: u64 = 256 << 20;

/// Error of reading or writing an export.
#[derive(Debug, Error)]
pub enum ExportError {
    /// An error of the operating system.
    #[error("{path:?}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A malformed line.
    #[error(
        "{path:?}, line {line}: {what}; the file should be an audit trail or the output of `peal audit export`"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The description of the error.
        what: String,
    },
}

/// An export that was read.
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

/// Writes the records that match `filter`, the blobs they refer to, and the seals. Returns the
/// number of records.
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
    /// Reads an export.
    pub(crate) fn read(mut from: impl BufRead, path: &Path) -> Result<Exported, AuditError> {
        let mut exported = Exported::default();
        for number in 1.. {
            let wrong = |what: String| ExportError::Malformed {
                path: path.to_owned(),
                line: number,
                what,
            };
            let mut text = Vec::new();
            // A file without line breaks must not be read into memory as a whole.
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
                        .map_err(|()| wrong(format!("{text:?} should be a seal")))?;
                    exported.seals.push(seal);
                }
            }
        }
        Ok(exported)
    }

    /// Returns the rows that match the filter, in order.
    pub(crate) fn rows<'a>(
        &'a self,
        filter: &'a Filter,
    ) -> impl DoubleEndedIterator<Item = &'a TrailRow> {
        self.rows.iter().filter(|row| filter.wants(row))
    }
}
