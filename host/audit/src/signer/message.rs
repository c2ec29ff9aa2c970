//! Messages between a server and the signer of its trail.
use crate::hash_chain::{ChainHead, ChainLink};
use peal_frames::FrameLimit;
use peal_store::{DroppedRows, Seal};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Version of the messages. A server and a signer of different versions do not work together.
pub const PROTOCOL: u16 = 1;

/// Longest message. A statement about dropped records has at most as many runs as records were
/// dropped in one step.
pub const LIMIT: FrameLimit = FrameLimit(4 << 20);

/// Maximum number of records in a request.
pub const MAX_LINKS: usize = 16_384;

/// Message of a server to the signer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToSigner {
    /// First message.
    Open(OpenTrail),
    /// Records that follow the head.
    Extend(ExtendTrail),
    /// The records up to this head are in the database. There is no reply.
    Commit(ChainHead),
    /// The oldest records are to be dropped.
    Anchor(AnchorTrail),
    /// Records between others are to be dropped.
    Thin(ThinTrail),
}

/// Beginning of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OpenTrail {
    /// Version of the server.
    pub protocol: u16,
    /// Seal of the last record; none in a new trail.
    pub head: Option<SignedSeal>,
    /// Run before this one, whose journal may hold records.
    pub previous_run: Option<RunId>,
}

/// Records that are to be sealed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExtendTrail {
    /// Record that they follow: the last one that was sealed or, if its group could not be written,
    /// the one before that group.
    pub from: ChainHead,
    /// The records.
    pub links: Vec<ChainLink>,
    /// Seals that are wanted.
    pub seals: WantedSeals,
}

/// Seals of the last record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WantedSeals {
    /// Seal of the head.
    Head,
    /// Seal of the head, and a trail checkpoint.
    HeadAndCheckpoint,
}

/// Record up to which all are dropped.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AnchorTrail {
    /// Record before it.
    pub before: ChainHead,
    /// The record.
    pub link: ChainLink,
}

/// Range of records of which those that do not stay are dropped.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ThinTrail {
    /// Last statement, which the new one may include.
    pub previous: Option<SignedStatement>,
    /// Record before the range.
    pub before: ChainHead,
    /// All records of the range.
    pub links: Vec<ChainLink>,
}

/// Seal with its signature.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignedSeal {
    /// Number of the record.
    pub seq: u64,
    /// Time of the seal in milliseconds since the epoch.
    pub at: u64,
    /// Hash of the record.
    pub hash: [u8; 32],
    /// Signature.
    pub signature: Vec<u8>,
}

/// Statement about dropped records with its signature.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignedStatement {
    /// Last record of the range.
    pub last: u64,
    /// The statement.
    pub body: Vec<u8>,
    /// Signature.
    pub signature: Vec<u8>,
}

/// Message of the signer to its server: the reply to the message before it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromSigner {
    /// The run has begun.
    Opened(OpenedRun),
    /// Seals of the records.
    Sealed {
        /// Seal of the head.
        head: SignedSeal,
        /// Trail checkpoint, if it was wanted.
        checkpoint: Option<SignedSeal>,
    },
    /// Seal of the last record that is dropped at the beginning.
    Anchored(SignedSeal),
    /// Statement about the dropped records.
    Thinned {
        /// The statement.
        statement: SignedStatement,
        /// Relation to the last statement.
        place: StatementPlace,
    },
    /// The request is not carried out.
    Refused(SignerRefusal),
}

/// Relation of a statement to the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StatementPlace {
    /// It stands beside the last one.
    Beside,
    /// It includes the last one.
    Instead,
}

/// Keys of a run. The key of seals is not among them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenedRun {
    /// Version of the signer.
    pub protocol: u16,
    /// Public key of the seals, as text.
    pub public: String,
    /// Key for digests of secrets.
    pub digests: KeyBytes,
    /// Name of the run.
    pub run: RunId,
    /// Key for codes of this run's journal.
    pub journal: KeyBytes,
    /// Key for codes of the previous run's journal.
    pub previous_journal: KeyBytes,
}

/// Secret key. Its text form does not show it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBytes(pub [u8; 32]);

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBytes(..)")
    }
}

/// Random name of a run. Nobody knows that of a later run, so no key of a journal can be known
/// before its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunId(pub [u8; 16]);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for RunId {
    type Err = ();
    fn from_str(text: &str) -> Result<RunId, ()> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(());
        }
        let number = u128::from_str_radix(text, 16).map_err(drop)?;
        Ok(RunId(number.to_be_bytes()))
    }
}

/// Reason why the signer does not sign.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Error)]
pub enum SignerRefusal {
    /// The server speaks another version.
    #[error("the server speaks version {0} of the signer's protocol, not {PROTOCOL}")]
    Protocol(u16),
    /// The seal of the last record was not made with this key.
    #[error(
        "the seal of record {0}, the last of the trail, was not made with its key in this format: name that key in audit.key, or move the trail away to begin a new one"
    )]
    ForeignSeal(u64),
    /// The trail does not end where the signer left it.
    #[error(
        "the trail ends with record {found}, and record {sealed} was the last that was sealed: an earlier or another trail is not continued"
    )]
    OtherHead {
        /// Last record of the trail.
        found: u64,
        /// Last record that was sealed.
        sealed: u64,
    },
    /// The records do not follow the last one.
    #[error(
        "records should follow record {head}, the last that was sealed, and follow record {found} or a different record {head}"
    )]
    NotAtHead {
        /// Record that they follow.
        found: u64,
        /// Last record that was sealed.
        head: u64,
    },
    /// A record is too young to be dropped.
    #[error("record {seq} is too young to be dropped")]
    TooYoung {
        /// The record.
        seq: u64,
    },
    /// The record is the last one, or there is no such record yet.
    #[error("record {seq} cannot be dropped: only records before {head}, the last, are")]
    NotBeforeHead {
        /// The record.
        seq: u64,
        /// Last record that was sealed.
        head: u64,
    },
    /// A request without records, or with too many.
    #[error("a request should have 1 to {MAX_LINKS} records, and has {0}")]
    Count(usize),
    /// There are no numbers left.
    #[error("no record can follow")]
    NoNumber,
    /// The statement cannot be written.
    #[error("{0}")]
    Statement(String),
}

impl From<Seal> for SignedSeal {
    fn from(
        Seal {
            seq,
            at,
            hash,
            signature,
        }: Seal,
    ) -> SignedSeal {
        SignedSeal {
            seq,
            at,
            hash,
            signature,
        }
    }
}

impl From<SignedSeal> for Seal {
    fn from(
        SignedSeal {
            seq,
            at,
            hash,
            signature,
        }: SignedSeal,
    ) -> Seal {
        Seal {
            seq,
            at,
            hash,
            signature,
        }
    }
}

impl From<DroppedRows> for SignedStatement {
    fn from(
        DroppedRows {
            last,
            body,
            signature,
        }: DroppedRows,
    ) -> SignedStatement {
        SignedStatement {
            last,
            body,
            signature,
        }
    }
}

impl From<SignedStatement> for DroppedRows {
    fn from(
        SignedStatement {
            last,
            body,
            signature,
        }: SignedStatement,
    ) -> DroppedRows {
        DroppedRows {
            last,
            body,
            signature,
        }
    }
}
