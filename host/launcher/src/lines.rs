//! Splitting of output into whole lines, so that lines of different procs never mix, and tags
//! before them.
use peal_model::Rank;
use std::borrow::Cow;

/// Length from which a line is passed on in pieces, in bytes.
pub(super) const LONGEST_LINE: usize = 64 * 1024;

/// Marking of output lines with the proc that wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tagging {
    /// Lines are unchanged.
    #[default]
    Plain,
    /// Lines begin with `[rank]`.
    Rank,
}

impl Tagging {
    /// Returns text of a proc of that rank as whole, tagged lines.
    pub(crate) fn lines(self, rank: Rank, bytes: &[u8]) -> Vec<u8> {
        let mut text = bytes.to_vec();
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        Tagger::new(rank, self).tag(&text).into_owned()
    }
}

/// State of an output: more can follow, or its end was reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Reached,
    NotYet,
}

/// Buffer of output that has been read and not yet passed on.
#[derive(Default)]
pub(super) struct LineSplitter {
    pub(super) waiting: Vec<u8>,
}

impl LineSplitter {
    /// Removes and returns the output that can be passed on: up to the last end of a line. Returns
    /// all of it at the end of the output, or if it is one line that is too long.
    pub(super) fn take(&mut self, end: End) -> Vec<u8> {
        let whole = self
            .waiting
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        // A long rest behind whole lines can wait: those are passed on first.
        let all = end == End::Reached || (whole == 0 && self.waiting.len() >= LONGEST_LINE);
        if all || whole == self.waiting.len() {
            std::mem::take(&mut self.waiting)
        } else {
            let rest = self.waiting.split_off(whole);
            std::mem::replace(&mut self.waiting, rest)
        }
    }
}

/// Adds the tags to the lines of one proc.
pub(super) struct Tagger {
    rank: Rank,
    tagging: Tagging,
    /// True if the next byte begins a line.
    at_start: bool,
}

impl Tagger {
    pub(super) fn new(rank: Rank, tagging: Tagging) -> Tagger {
        Tagger {
            rank,
            tagging,
            at_start: true,
        }
    }

    pub(super) fn tag<'a>(&mut self, ready: &'a [u8]) -> Cow<'a, [u8]> {
        match self.tagging {
            Tagging::Plain => ready.into(),
            Tagging::Rank => self.tagged(ready).into(),
        }
    }

    fn tagged(&mut self, ready: &[u8]) -> Vec<u8> {
        let tag = format!("[{}] ", self.rank).into_bytes();
        let mut tagged = Vec::with_capacity(ready.len() + tag.len());
        for line in ready.split_inclusive(|byte| *byte == b'\n') {
            // A long line that is passed on in pieces gets one tag.
            if self.at_start {
                tagged.extend_from_slice(&tag);
            }
            tagged.extend_from_slice(line);
            self.at_start = line.ends_with(b"\n");
        }
        tagged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Read {
        lines: LineSplitter,
        tagger: Tagger,
    }

    impl Read {
        fn tagged(rank: u32, tagging: Tagging) -> Read {
            Read {
                lines: LineSplitter::default(),
                tagger: Tagger::new(Rank(rank), tagging),
            }
        }

        fn more(&mut self, bytes: &[u8], end: End) -> String {
            self.lines.waiting.extend_from_slice(bytes);
            String::from_utf8(self.tagger.tag(&self.lines.take(end)).into_owned()).unwrap()
        }
    }

    #[test]
    fn lines_stay_whole_and_endless_line_is_passed_on_at_limit() {
        let mut read = Read::tagged(3, Tagging::Rank);
        assert_eq!(read.more(b"one\ntw", End::NotYet), "[3] one\n");
        assert_eq!(read.more(b"", End::NotYet), "");
        assert_eq!(read.more(b"o\nthree", End::Reached), "[3] two\n[3] three");
    }

    #[test]
    fn large_output_is_cut_at_line_end_and_long_line_tagged_once() {
        let mut read = Read::tagged(0, Tagging::Plain);
        let much = [&vec![b'x'; LONGEST_LINE], &b"\nrest"[..]].concat();
        assert!(read.more(&much, End::NotYet).ends_with("x\n"));
        assert_eq!(read.lines.waiting, b"rest");
        let mut read = Read::tagged(0, Tagging::Rank);
        let first = read.more(&[b'x'; LONGEST_LINE], End::NotYet);
        let second = read.more(b"end\nnext\n", End::NotYet);
        assert!(
            first.starts_with("[0] x") && second == "end\n[0] next\n",
            "{second}"
        );
    }
}
