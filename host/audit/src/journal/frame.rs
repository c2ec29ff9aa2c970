//! Frames of the journal, each with the records of one group and a code (HMAC-SHA-256) made with
//! the key of the run.
//!
//! ```text
//! 4 bytes   length of the body: the records and the head they follow
//! 4 bytes   the complement of the length, so that a wrong length is not taken for a truncated end
//! body      number and hash of the record before the first one
//!           each record: time, kind, module, job, user, outcome, body; number and hash are implied
//! 32 bytes  the code, over the hash of the last record and all of the above
//! ```
//! Numbers are little-endian. Text and bytes follow their length. An optional field follows a 0 or
//! a 1.
use crate::{
    hash_chain::{ChainHead, hash_of},
    key::CodeKey,
};
use peal_store::TrailRow;
use thiserror::Error;

/// Size in bytes of the two lengths before the body.
const HEAD: usize = 8;
/// Size in bytes of the code after the body.
const CODE: usize = 32;

/// Error of a frame that is not as it was written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// The two copies of the length differ.
    #[error("its length should be written twice and is {length} once, {second_length} then")]
    Length {
        /// The first copy.
        length: u32,
        /// The second copy.
        second_length: u32,
    },
    /// The body does not contain records.
    #[error("its body should be records, and cannot be read")]
    Unreadable,
    /// The code was not made with the key.
    #[error("its code should be made with the trail's key over its records, and is not")]
    Code,
    /// The frame does not follow the last record.
    #[error("it should follow record {last} of the trail, and follows {found}")]
    Elsewhere {
        /// The last record.
        last: u64,
        /// The record that the frame follows.
        found: u64,
    },
    /// The database has other records with these numbers.
    #[error(
        "it should end with record {seq} as the trail has it, and has a different record {seq}"
    )]
    Other {
        /// The last record of the frame.
        seq: u64,
    },
    /// The journal is longer than any journal that is written.
    #[error("the journal should end before it, since at most {most} bytes are written")]
    Long {
        /// The maximum length of a journal in bytes.
        most: u64,
    },
}

/// The records of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JournalFrame {
    /// The head that the records follow.
    pub(crate) before: ChainHead,
    pub(crate) rows: Vec<TrailRow>,
}

impl JournalFrame {
    /// Returns the last record of the frame.
    pub(crate) fn after(&self) -> ChainHead {
        self.rows
            .last()
            .map_or(self.before, |row| (row.seq, row.hash))
    }
}

/// A frame that is complete and not verified yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SealedFrame<'a> {
    head: &'a [u8],
    records: &'a [u8],
    code: &'a [u8],
}

/// Encodes records as a frame; `None` if they are too long for one.
pub(crate) fn framed(before: ChainHead, rows: &[TrailRow], key: &CodeKey) -> Option<Vec<u8>> {
    let mut records = Writer(Vec::with_capacity(1024));
    records.0.extend(before.0.to_le_bytes());
    records.0.extend(before.1);
    for row in rows {
        records.0.extend(row.at.to_le_bytes());
        records.bytes(row.kind.as_bytes())?;
        for text in [&row.module, &row.job] {
            records.maybe(text.as_deref().map(str::as_bytes))?;
        }
        records.maybe(
            row.uid
                .map(u32::to_le_bytes)
                .as_ref()
                .map(<[u8; 4]>::as_slice),
        )?;
        records.maybe(row.outcome.as_deref().map(str::as_bytes))?;
        records.bytes(&row.body)?;
    }
    let records = records.0;
    let length = u32::try_from(records.len()).ok()?;
    // Without the second length, a damaged one could look like a truncated end.
    let head = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
    let after = rows.last().map_or(before.1, |row| row.hash);
    // With the hash of the last record, the code depends on all records before as well.
    let code = key.code(&[&after, &head, &records]);
    Some([head.as_slice(), &records, &code].concat())
}

/// Takes the first frame off `bytes`; `None` if no complete frame is left. The rest is then a
/// truncated end.
pub(crate) fn first<'a>(bytes: &mut &'a [u8]) -> Result<Option<SealedFrame<'a>>, FrameError> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else {
        return Ok(None);
    };
    let mut numbers = FrameReader(head);
    let (Some(length), Some(inverted_length)) = (numbers.u32(), numbers.u32()) else {
        return Ok(None);
    };
    if length != !inverted_length {
        return Err(FrameError::Length {
            length,
            second_length: !inverted_length,
        });
    }
    let Some((records, rest)) = usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
    else {
        return Ok(None);
    };
    let Some((code, rest)) = rest.split_at_checked(CODE) else {
        return Ok(None);
    };
    *bytes = rest;
    Ok(Some(SealedFrame {
        head,
        records,
        code,
    }))
}

impl SealedFrame<'_> {
    /// Decodes the records without checking the code.
    pub(crate) fn frame(&self) -> Result<JournalFrame, FrameError> {
        let mut records = FrameReader(self.records);
        records.frame().ok_or(FrameError::Unreadable)
    }

    /// Decodes the records if the code was made with the trail's key.
    pub(crate) fn checked(&self, key: &CodeKey) -> Result<JournalFrame, FrameError> {
        let frame = self.frame()?;
        let (_, after) = frame.after();
        // The code covers the hash of the last record, so a frame proves all records before it as
        // well.
        let is_whole = key.has_coded(&[&after, self.head, self.records], self.code);
        if is_whole {
            Ok(frame)
        } else {
            Err(FrameError::Code)
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn bytes(&mut self, bytes: &[u8]) -> Option<()> {
        self.0
            .extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
        self.0.extend(bytes);
        Some(())
    }

    fn maybe(&mut self, bytes: Option<&[u8]>) -> Option<()> {
        self.0.push(u8::from(bytes.is_some()));
        bytes.map_or(Some(()), |bytes| self.bytes(bytes))
    }
}

/// Reader of a frame's body. It never reads past the end and allocates nothing for a length that
/// exceeds the remaining bytes.
struct FrameReader<'a>(&'a [u8]);

impl<'a> FrameReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(usize::try_from(count).ok()?)
    }

    fn text(&mut self) -> Option<String> {
        self.bytes()
            .and_then(|bytes| String::from_utf8(bytes.to_owned()).ok())
    }

    fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.array()? {
            [0] => Some(None),
            [1] => read(self).map(Some),
            _ => None,
        }
    }

    fn frame(&mut self) -> Option<JournalFrame> {
        let before = (self.u64()?, self.array()?);
        let (mut seq, mut hash) = before;
        let mut rows = Vec::new();
        while !self.0.is_empty() {
            seq = seq.checked_add(1)?;
            let row = self.row(seq)?;
            // The frame holds neither number nor hash, because both follow from the record before.
            hash = hash_of(&hash, &row);
            rows.push(TrailRow { hash, ..row });
        }
        Some(JournalFrame { before, rows })
    }

    fn row(&mut self, seq: u64) -> Option<TrailRow> {
        Some(TrailRow {
            seq,
            at: self.u64()?,
            kind: self.text()?,
            module: self.maybe(FrameReader::text)?,
            job: self.maybe(FrameReader::text)?,
            uid: self.maybe(|uid| uid.bytes()?.try_into().ok().map(u32::from_le_bytes))?,
            outcome: self.maybe(FrameReader::text)?,
            body: self.bytes()?.to_owned(),
            // The caller sets it, since it knows the hash of the record before.
            hash: [0; 32],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_chain::FIRST;
    use proptest::{
        collection::vec,
        option,
        prelude::*,
        sample::Index,
        strategy::ValueTree as _,
        test_runner::{TestCaseError, TestRunner},
    };
    use std::ops::RangeInclusive;

    fn key() -> CodeKey {
        CodeKey::new(&[7; 32])
    }

    fn row() -> impl Strategy<Value = TrailRow> {
        let texts = (
            ".{0,8}",
            option::of(".{0,8}"),
            option::of(".{0,8}"),
            option::of(".{0,8}"),
        );
        (
            any::<u64>(),
            texts,
            any::<Option<u32>>(),
            vec(any::<u8>(), 0..64),
        )
            .prop_map(|(at, (kind, module, job, outcome), uid, body)| TrailRow {
                seq: 0,
                at,
                kind,
                module,
                job,
                uid,
                outcome,
                body,
                hash: [0; 32],
            })
    }

    /// Groups of records, each behind the one before.
    fn groups() -> impl Strategy<Value = Vec<JournalFrame>> {
        vec(vec(row(), 1..4), 1..5).prop_map(|groups| {
            let mut last = (4, FIRST);
            let mut frame = |rows: Vec<TrailRow>| {
                let before = last;
                let next = |mut row: TrailRow| {
                    row.seq = last.0 + 1;
                    row.hash = hash_of(&last.1, &row);
                    last = (row.seq, row.hash);
                    row
                };
                JournalFrame {
                    before,
                    rows: rows.into_iter().map(next).collect(),
                }
            };
            groups.into_iter().map(&mut frame).collect()
        })
    }

    fn written(frames: &[JournalFrame]) -> Vec<Vec<u8>> {
        frames
            .iter()
            .map(|frame| framed(frame.before, &frame.rows, &key()).unwrap())
            .collect()
    }

    /// The frames up to the first fault, and how many bytes are left.
    fn read(mut bytes: &[u8]) -> (Vec<JournalFrame>, Result<usize, FrameError>) {
        let mut frames = Vec::new();
        loop {
            match first(&mut bytes)
                .and_then(|whole| whole.map(|whole| whole.checked(&key())).transpose())
            {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, Ok(bytes.len())),
                Err(fault) => return (frames, Err(fault)),
            }
        }
    }

    proptest! {
        #[test]
        fn written_frames_are_read_back(frames in groups()) {
            prop_assert_eq!(read(&written(&frames).concat()), (frames, Ok(0)));
        }

        #[test]
        fn arbitrary_bytes_are_harmless_and_not_frames(bytes in vec(any::<u8>(), 0..300), length in 0..300_u32) {
            prop_assert_eq!(read(&bytes).0, []);
            // Also where a length makes sense.
            let head = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
            let (frames, left) = read(&[head, bytes].concat());
            prop_assert!(frames.is_empty() && left != Ok(0));
        }

        #[test]
        fn truncated_journal_ends_with_last_whole_frame(frames in groups(), at in any::<Index>()) {
            is_cut_off(&frames, |length| at.index(length)..=at.index(length))?;
        }

        #[test]
        fn a_byte_that_is_changed_is_found(frames in groups(), at in any::<Index>(), change in 1..=u8::MAX) {
            is_changed(&frames, |length| at.index(length)..=at.index(length), change)?;
        }
    }

    /// Returns the frame that contains a byte, and its offset.
    fn place(pieces: &[Vec<u8>], at: usize) -> (usize, usize) {
        let ends = pieces.iter().scan(0, |end, piece| {
            *end += piece.len();
            Some(*end)
        });
        let before: Vec<usize> = ends.take_while(|end| *end <= at).collect();
        (before.len(), before.last().copied().unwrap_or_default())
    }

    fn is_cut_off(
        frames: &[JournalFrame],
        at: impl Fn(usize) -> RangeInclusive<usize>,
    ) -> Result<(), TestCaseError> {
        let pieces = written(frames);
        let all = pieces.concat();
        for length in at(all.len()) {
            let (whole, begin) = place(&pieces, length);
            prop_assert_eq!(
                read(&all[..length]),
                (frames[..whole].to_vec(), Ok(length - begin))
            );
        }
        Ok(())
    }

    fn is_changed(
        frames: &[JournalFrame],
        at: impl Fn(usize) -> RangeInclusive<usize>,
        change: u8,
    ) -> Result<(), TestCaseError> {
        let pieces = written(frames);
        let all = pieces.concat();
        for at in at(all.len()) {
            let mut changed = all.clone();
            changed[at] ^= change;
            let (found, left) = read(&changed);
            prop_assert_eq!(found, &frames[..place(&pieces, at).0]);
            prop_assert!(left.is_err(), "byte {}", at);
        }
        Ok(())
    }

    #[test]
    fn each_byte_counts() {
        let mut runner = TestRunner::deterministic();
        let frames = groups().new_tree(&mut runner).unwrap().current();
        is_cut_off(&frames, |length| 0..=length - 1).unwrap();
        (0..8).for_each(|bit| is_changed(&frames, |length| 0..=length - 1, 1 << bit).unwrap());
    }

    #[test]
    fn a_frame_of_another_key_is_refused() {
        let row = TrailRow {
            seq: 1,
            at: 2,
            kind: "decision".to_owned(),
            module: None,
            job: None,
            uid: Some(3),
            outcome: None,
            body: vec![4],
            hash: [0; 32],
        };
        let row = TrailRow {
            hash: hash_of(&FIRST, &row),
            ..row
        };
        let theirs = framed((0, FIRST), &[row], &CodeKey::new(&[8; 32])).unwrap();
        assert_eq!(read(&theirs), (Vec::new(), Err(FrameError::Code)));
    }
}
