//! Rules of the signer. No I/O: the time and the memory of an earlier signer are arguments.
use super::message::{
    AnchorTrail, ExtendTrail, FromSigner, KeyBytes, MAX_LINKS, OpenTrail, OpenedRun, PROTOCOL,
    RunId, SignedSeal, SignerRefusal, StatementPlace, ThinTrail, ToSigner, WantedSeals,
};
use crate::{
    Keys, SealKeyError, Statement,
    dropped::{DroppedRange, Successor},
    entry::kind,
    hash_chain::{ChainHead, ChainLink, FIRST},
};
use peal_store::{DroppedRows, RowClass, RowSummary, Seal, SealKind};
use std::time::Duration;

/// Ages that records must have before a statement says that they were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignerRules {
    /// Age of records at the beginning of the trail, of all kinds.
    pub oldest_age: Duration,
    /// Age of calls and denials between records that stay.
    pub passing_age: Duration,
}

/// Records that were sealed last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealedHeads {
    /// Last record that is in the database.
    pub committed: ChainHead,
    /// Last record of the last group, which may not have been written.
    pub sealed: ChainHead,
}

/// Signer between two requests.
pub struct SignerState {
    keys: Keys,
    rules: SignerRules,
    heads: SignerHeads,
}

/// Knowledge of the end of the trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignerHeads {
    /// No run has begun.
    Unknown,
    /// A signer before this one has left it.
    Remembered(SealedHeads),
    /// The run has begun.
    Open(SealedHeads),
}

impl SignerHeads {
    fn known(self) -> Option<SealedHeads> {
        match self {
            SignerHeads::Unknown => None,
            SignerHeads::Remembered(heads) | SignerHeads::Open(heads) => Some(heads),
        }
    }
}

/// Message that comes at the wrong time. The server is not the one that was started, so that the
/// signer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OutOfOrder {
    /// The run has not begun.
    #[error("the first message does not begin a run")]
    Early,
    /// The run has begun before.
    #[error("a second message begins a run")]
    Repeated,
    /// The committed records are not those that were sealed last.
    #[error("the committed records are not those that were sealed last")]
    Commit,
}

impl SignerState {
    /// Creates a signer. `remembered` is what a signer of the same server has sealed before it was
    /// lost.
    pub fn new(keys: Keys, rules: SignerRules, remembered: Option<SealedHeads>) -> SignerState {
        SignerState {
            keys,
            rules,
            heads: remembered.map_or(SignerHeads::Unknown, SignerHeads::Remembered),
        }
    }

    /// Returns the records that were sealed last, which the next signer must know before the reply
    /// is sent; none before a run has begun.
    pub fn heads(&self) -> Option<SealedHeads> {
        self.heads.known()
    }

    /// Carries out a request. Returns the reply; none for a message that has none.
    ///
    /// # Errors
    ///
    /// Fails if the message comes at the wrong time.
    pub fn handle(
        &mut self,
        request: ToSigner,
        now: u64,
    ) -> Result<Option<FromSigner>, OutOfOrder> {
        let heads = match (&request, self.heads) {
            (ToSigner::Open(open), SignerHeads::Unknown | SignerHeads::Remembered(_)) => {
                return Ok(Some(self.open(open).unwrap_or_else(FromSigner::Refused)));
            }
            (ToSigner::Open(_), SignerHeads::Open(_)) => return Err(OutOfOrder::Repeated),
            (_, SignerHeads::Open(heads)) => heads,
            (_, SignerHeads::Unknown | SignerHeads::Remembered(_)) => {
                return Err(OutOfOrder::Early);
            }
        };
        let done = match request {
            ToSigner::Open(_) => return Err(OutOfOrder::Repeated),
            ToSigner::Extend(extend) => self.extend(heads, &extend, now),
            ToSigner::Commit(head) => {
                self.commit(heads, head)?;
                return Ok(None);
            }
            ToSigner::Anchor(anchor) => self.anchor(heads, &anchor, now),
            ToSigner::Thin(thin) => self.thin(heads, thin, now),
        };
        Ok(Some(done.unwrap_or_else(FromSigner::Refused)))
    }

    fn open(&mut self, open: &OpenTrail) -> Result<FromSigner, SignerRefusal> {
        if open.protocol != PROTOCOL {
            return Err(SignerRefusal::Protocol(open.protocol));
        }
        let head = self.last_head(open.head.as_ref())?;
        if let Some(SealedHeads { committed, sealed }) = self.heads.known()
            && head != committed
            && head != sealed
        {
            return Err(SignerRefusal::OtherHead {
                found: head.0,
                sealed: sealed.0,
            });
        }
        let run = random_run().map_err(|error| SignerRefusal::Statement(error.to_string()))?;
        self.heads = SignerHeads::Open(SealedHeads {
            committed: head,
            sealed: head,
        });
        let journal = |run: Option<RunId>| KeyBytes(self.keys.journal_key(run.as_ref()));
        Ok(FromSigner::Opened(OpenedRun {
            protocol: PROTOCOL,
            public: self.keys.public().to_string(),
            digests: KeyBytes(self.keys.digest_key()),
            run,
            journal: journal(Some(run)),
            previous_journal: journal(open.previous_run),
        }))
    }

    /// Returns the last record of a trail, by a seal of this key.
    fn last_head(&self, head: Option<&SignedSeal>) -> Result<ChainHead, SignerRefusal> {
        let Some(head) = head else {
            return Ok((0, FIRST));
        };
        let seal = Seal::from(head.clone());
        let row = (seal.seq, seal.hash);
        if Statement::of(SealKind::Head, seal).is_by(&self.keys.public()) {
            Ok(row)
        } else {
            Err(SignerRefusal::ForeignSeal(row.0))
        }
    }

    fn extend(
        &mut self,
        SealedHeads { committed, sealed }: SealedHeads,
        extend: &ExtendTrail,
        now: u64,
    ) -> Result<FromSigner, SignerRefusal> {
        let ExtendTrail { from, links, seals } = extend;
        if links.len() > MAX_LINKS {
            return Err(SignerRefusal::Count(links.len()));
        }
        // The group that was sealed last could not be written if this one does not follow it.
        if *from != sealed && *from != committed {
            return Err(SignerRefusal::NotAtHead {
                found: from.0,
                head: sealed.0,
            });
        }
        let head = links
            .iter()
            .try_fold(*from, |head, link| link.after(head))
            .ok_or(SignerRefusal::NoNumber)?;
        self.heads = SignerHeads::Open(SealedHeads {
            committed: *from,
            sealed: head,
        });
        let sealed = |kind| Statement::sealed(kind, head, now, &self.keys).into();
        Ok(FromSigner::Sealed {
            head: sealed(SealKind::Head),
            checkpoint: match seals {
                WantedSeals::Head => None,
                WantedSeals::HeadAndCheckpoint => Some(sealed(SealKind::Checkpoint)),
            },
        })
    }

    /// Ends the possibility that the last group is replaced.
    fn commit(&mut self, heads: SealedHeads, head: ChainHead) -> Result<(), OutOfOrder> {
        if head != heads.sealed {
            return Err(OutOfOrder::Commit);
        }
        self.heads = SignerHeads::Open(SealedHeads {
            committed: head,
            sealed: head,
        });
        Ok(())
    }

    fn anchor(
        &self,
        SealedHeads { committed, .. }: SealedHeads,
        AnchorTrail { before, link }: &AnchorTrail,
        now: u64,
    ) -> Result<FromSigner, SignerRefusal> {
        // A wrong hash before it gives a hash that no later record follows, which `verify` finds.
        // The time is covered by the hash, so that it is the true one for the true record.
        let last = link.after(*before).ok_or(SignerRefusal::NoNumber)?;
        check_age(last.0, link, self.rules.oldest_age, now)?;
        if last.0 >= committed.0 {
            return Err(SignerRefusal::NotBeforeHead {
                seq: last.0,
                head: committed.0,
            });
        }
        let seal = Statement::sealed(SealKind::Anchor, last, now, &self.keys);
        Ok(FromSigner::Anchored(seal.into()))
    }

    fn thin(
        &self,
        SealedHeads { committed, .. }: SealedHeads,
        ThinTrail {
            previous,
            before,
            links,
        }: ThinTrail,
        now: u64,
    ) -> Result<FromSigner, SignerRefusal> {
        if links.is_empty() || links.len() > MAX_LINKS {
            return Err(SignerRefusal::Count(links.len()));
        }
        let rows = self.followed(before, links, now)?;
        // As for an anchor, wrong hashes lead to no record of the trail.
        let range =
            DroppedRange::of(before, &rows, u64::MAX).ok_or(SignerRefusal::Count(rows.len()))?;
        if range.to >= committed.0 {
            return Err(SignerRefusal::NotBeforeHead {
                seq: range.to,
                head: committed.0,
            });
        }
        let previous = previous
            .and_then(|previous| {
                DroppedRange::by(&self.keys.public(), &DroppedRows::from(previous))
            })
            .filter(|previous| (previous.to, previous.end.0) == before);
        let (range, place) = match previous.map(|previous| previous.followed_by(range.clone())) {
            Some(Successor::Joined(joined)) => (joined, StatementPlace::Instead),
            Some(Successor::Beside(range)) => (range, StatementPlace::Beside),
            None => (range, StatementPlace::Beside),
        };
        let statement = range
            .signed(&self.keys)
            .map_err(|error| SignerRefusal::Statement(error.to_string()))?;
        Ok(FromSigner::Thinned {
            statement: statement.into(),
            place,
        })
    }

    /// Follows the chain over the records of a range and checks the age of those that do not stay.
    fn followed(
        &self,
        before: ChainHead,
        links: Vec<ChainLink>,
        now: u64,
    ) -> Result<Vec<RowSummary>, SignerRefusal> {
        let mut last = before;
        links
            .into_iter()
            .map(|link| {
                last = link.after(last).ok_or(SignerRefusal::NoNumber)?;
                let class = kind::class(&link.kind);
                if class == RowClass::Passing {
                    check_age(last.0, &link, self.rules.passing_age, now)?;
                }
                Ok(RowSummary {
                    seq: last.0,
                    at: link.at,
                    kind: link.kind,
                    class,
                    bytes: 0,
                    hash: last.1,
                })
            })
            .collect()
    }
}

fn check_age(seq: u64, link: &ChainLink, least: Duration, now: u64) -> Result<(), SignerRefusal> {
    let least = u64::try_from(least.as_millis()).unwrap_or(u64::MAX);
    if link.at.saturating_add(least) <= now {
        Ok(())
    } else {
        Err(SignerRefusal::TooYoung { seq })
    }
}

fn random_run() -> Result<RunId, SealKeyError> {
    let mut id = [0; 16];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
        .map_err(SealKeyError::Random)?;
    Ok(RunId(id))
}
