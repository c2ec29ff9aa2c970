//! Spill: blocks appended to unnamed files, to save memory. The files disappear with the process. A
//! file is released when none of its blocks is needed any more.
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Size in bytes at which a new file is begun.
const SEGMENT: u64 = 16 << 20;

/// Error of writing or reading a block.
#[derive(Debug, Error)]
pub enum SpillError {
    /// The spill has its maximum size.
    #[error("the spill has its maximum size of {max} bytes")]
    Full {
        /// The maximum size in bytes.
        max: u64,
    },
    /// An error of the operating system.
    #[error("cannot {operation} an unnamed file in {}: {source}", dir.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// The directory.
        dir: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Blocks on disk, by number.
#[derive(Debug)]
pub struct Spill {
    dir: PathBuf,
    max: u64,
    segments: BTreeMap<u64, Segment>,
    places: BTreeMap<u64, SpillPosition>,
    next: u64,
}

#[derive(Debug)]
struct Segment {
    file: File,
    end: u64,
    live: usize,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SpillPosition {
    segment: u64,
    offset: u64,
    len: u32,
}

/// Positions of the blocks of a spill, for another process.
#[derive(Debug, Serialize, Deserialize)]
pub struct SpillIndex {
    /// Ends of the files, by number.
    ends: BTreeMap<u64, u64>,
    places: BTreeMap<u64, SpillPosition>,
    next: u64,
}

impl SpillIndex {
    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.ends.len()
    }
}

/// Spill that another process continues.
#[derive(Debug)]
pub struct SpillParts {
    /// Positions of the blocks.
    pub index: SpillIndex,
    /// Files, in the order of their numbers.
    pub files: Vec<OwnedFd>,
}

impl Spill {
    /// Returns the spill for another process. It must not be written to any more.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses further descriptors.
    pub fn parts(&self) -> io::Result<SpillParts> {
        let files = self.segments.values();
        Ok(SpillParts {
            index: SpillIndex {
                ends: self
                    .segments
                    .iter()
                    .map(|(number, segment)| (*number, segment.end))
                    .collect(),
                places: self.places.clone(),
                next: self.next,
            },
            files: files
                .map(|segment| Ok(segment.file.try_clone()?.into()))
                .collect::<io::Result<_>>()?,
        })
    }

    /// Continues a spill of another process, in this directory with at most `max` bytes. One that is larger
    /// takes no further blocks.
    pub fn continued(dir: &Path, max: u64, parts: SpillParts) -> Spill {
        let SpillIndex { ends, places, next } = parts.index;
        let mut spill = Spill {
            next,
            ..Spill::new(dir, max)
        };
        for ((number, end), file) in ends.into_iter().zip(parts.files) {
            let segment = Segment {
                file: file.into(),
                end,
                live: 0,
            };
            spill.segments.insert(number, segment);
        }
        for (number, place) in places {
            if let Some(segment) = spill.segments.get_mut(&place.segment) {
                segment.live += 1;
                spill.places.insert(number, place);
            }
        }
        spill
    }

    /// Creates a spill in this directory with at most `max` bytes. No file is created before the
    /// first write.
    pub fn new(dir: &Path, max: u64) -> Spill {
        Spill {
            dir: dir.to_owned(),
            max,
            segments: BTreeMap::new(),
            places: BTreeMap::new(),
            next: 0,
        }
    }

    /// Stores a block under a new number.
    pub fn write(&mut self, number: u64, bytes: &[u8]) -> Result<(), SpillError> {
        let room = || SpillError::Full { max: self.max };
        let len = u32::try_from(bytes.len()).map_err(|_| room())?;
        if self.bytes().saturating_add(u64::from(len)) > self.max {
            return Err(room());
        }
        let segment = self.open_segment()?;
        let failed = |source| SpillError::Io {
            operation: "write to",
            dir: self.dir.clone(),
            source,
        };
        // `open_segment` returns a segment that exists.
        let Some(open) = self.segments.get_mut(&segment) else {
            return Ok(());
        };
        open.file.write_all_at(bytes, open.end).map_err(failed)?;
        let place = SpillPosition {
            segment,
            offset: open.end,
            len,
        };
        // Only now: what a failed write left is overwritten by the next one.
        open.end += u64::from(len);
        open.live += 1;
        self.places.insert(number, place);
        Ok(())
    }

    /// Returns the block of this number, if there is one.
    pub fn read(&self, number: u64) -> Result<Option<Vec<u8>>, SpillError> {
        let Some(place) = self.places.get(&number) else {
            return Ok(None);
        };
        let Some(segment) = self.segments.get(&place.segment) else {
            return Ok(None);
        };
        let mut bytes = vec![0; usize::try_from(place.len).unwrap_or_default()];
        let failed = |source| SpillError::Io {
            operation: "read from",
            dir: self.dir.clone(),
            source,
        };
        segment
            .file
            .read_exact_at(&mut bytes, place.offset)
            .map_err(failed)?;
        Ok(Some(bytes))
    }

    /// Releases the blocks with numbers from `first` to `last`.
    pub fn forget(&mut self, first: u64, last: u64) {
        while let Some((number, place)) = self
            .places
            // `range` panics if the end precedes the start.
            .range(first..=last.max(first))
            .next()
            .map(|(at, place)| (*at, *place))
        {
            self.places.remove(&number);
            self.release(place);
        }
    }

    fn release(&mut self, place: SpillPosition) {
        let last = self.next;
        let Some(segment) = self.segments.get_mut(&place.segment) else {
            return;
        };
        segment.live = segment.live.saturating_sub(1);
        if segment.live == 0 {
            // The current file is reused if it can be truncated.
            if place.segment == last && segment.file.set_len(0).is_ok() {
                segment.end = 0;
            } else {
                self.segments.remove(&place.segment);
            }
        }
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns true if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.end).sum()
    }

    fn open_segment(&mut self) -> Result<u64, SpillError> {
        if let Some((number, segment)) = self.segments.last_key_value()
            // A file may exceed `SEGMENT` by its last block: blocks are never split.
            && segment.end < SEGMENT
        {
            return Ok(*number);
        }
        let failed = |source| SpillError::Io {
            operation: "make",
            dir: self.dir.clone(),
            source,
        };
        let file = tempfile::tempfile_in(&self.dir).map_err(failed)?;
        self.next += 1;
        self.segments.insert(
            self.next,
            Segment {
                file,
                end: 0,
                live: 0,
            },
        );
        Ok(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> Vec<u8> {
        vec![u8::try_from(number % 251).unwrap(); 1 << 20]
    }

    #[test]
    fn blocks_come_back_as_they_were_and_files_are_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(dir.path(), 1 << 30);
        for number in 0..40 {
            spill.write(number, &block(number)).unwrap();
        }
        assert_eq!(
            (spill.len(), spill.segments.len(), spill.bytes()),
            (40, 3, 40 << 20)
        );
        assert_eq!(
            dir.path().read_dir().unwrap().count(),
            0,
            "they have no names"
        );
        for number in (0..40).rev() {
            assert_eq!(spill.read(number).unwrap().unwrap(), block(number));
        }
        spill.forget(0, 16);
        assert_eq!(
            (spill.segments.len(), spill.bytes()),
            (2, 24 << 20),
            "the first sixteen are a file"
        );
        assert!(spill.read(3).unwrap().is_none());
        assert_eq!(spill.read(17).unwrap().unwrap(), block(17));
        spill.forget(17, 1000);
        assert!(spill.is_empty() && spill.bytes() == 0);
        spill.write(40, b"").unwrap();
        assert_eq!(spill.read(40).unwrap().unwrap(), b"");
    }

    #[test]
    fn blocks_of_another_process_come_back_and_are_released() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Spill::new(dir.path(), 1 << 30);
        for number in 0..20 {
            first.write(number, &block(number)).unwrap();
        }
        first.forget(3, 5);
        let mut second = Spill::continued(dir.path(), 1 << 30, first.parts().unwrap());
        drop(first);
        assert_eq!((second.len(), second.bytes()), (17, 20 << 20));
        second.write(20, &block(20)).unwrap();
        for number in (0..3).chain(6..21) {
            assert_eq!(second.read(number).unwrap().unwrap(), block(number));
        }
        assert!(second.read(4).unwrap().is_none());
        second.forget(0, 20);
        assert!(second.is_empty() && second.bytes() == 0);
        // A lower limit ends nothing.
        second.write(21, &block(21)).unwrap();
        let mut third = Spill::continued(dir.path(), 10, second.parts().unwrap());
        assert_eq!(third.read(21).unwrap().unwrap(), block(21));
        third.write(22, b"1").unwrap_err();
    }

    #[test]
    fn event_without_room_is_refused_with_reason() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(dir.path(), 10);
        spill.write(1, b"123456").unwrap();
        let error = spill.write(2, b"12345").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the spill has its maximum size of 10 bytes"
        );
        spill.forget(1, 1);
        spill.write(2, b"12345").unwrap();
        let gone = dir.path().join("gone");
        let error = Spill::new(&gone, 10).write(1, b"1").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot make an unnamed file in "),
            "{error}"
        );
    }
}
