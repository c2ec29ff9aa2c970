//! Exported trails as lines of JSON: records with their exact bytes, seals, and the referenced
//! blobs. An export can be verified and replayed on another machine.
//!
//! ```text
//! {"record":{"seq":1,"at":1789000000000,"kind":"call","module":"quota",...,"body":"<CBOR in base64>","hash":"<64 digits>"}}
//! {"blob":{"digest":"<64 digits>","bytes":"<base64>"}}
//! {"seal":"peal-audit 1 head 1 1789000000000 <hash> <signature>"}
//! {"dropped":{"last":2000,"body":"<CBOR in base64>","signature":"<base64>"}}
//! ```
use crate::Statement;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use peal_sandbox::Digest;
use peal_store::{DroppedRows, Filter, TrailRow};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{self, BufRead},
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
        "{path:?}, line {line}: {detail}; the file should be an audit trail or the output of `peal audit export`"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The description of the error.
        detail: String,
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
pub(crate) enum ExportLine {
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
pub(crate) struct Record {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) module: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<String>,
    pub(crate) body: String,
    pub(crate) hash: Digest,
}

impl Exported {
    /// Reads an export.
    pub(crate) fn read(mut from: impl BufRead, path: &Path) -> Result<Exported, ExportError> {
        let mut exported = Exported::default();
        for number in 1.. {
            let wrong = |detail: String| ExportError::Malformed {
                path: path.to_owned(),
                line: number,
                detail,
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
        self.rows.iter().filter(|row| filter.matches(row))
    }
}
