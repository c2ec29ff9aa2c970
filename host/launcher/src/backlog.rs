//! The last output of procs, for pulls that begin later.
use peal_model::{IofChannel, Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum size of all streams together, in bytes. When it is reached, new output of a stream
/// replaces older output of the same stream.
const MAX_BACKLOG_BYTES: usize = 16 << 20;

/// One stream of one proc: the proc and its IOF channel.
type Source = (Proc, u16);

/// State of a stream: more output can follow, or the stream has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
enum Flow {
    #[default]
    Open,
    Ended,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct StreamBacklog {
    #[serde(with = "kept_bytes")]
    last: VecDeque<u8>,
    flow: Flow,
}

/// Form of kept bytes: a number for each would take several times as long to read.
mod kept_bytes {
    use serde::{Deserializer, Serializer};
    use std::collections::VecDeque;

    pub(super) fn serialize<S: Serializer>(
        kept: &VecDeque<u8>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = kept.iter().copied().collect();
        serde_bytes::serialize(&bytes, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<VecDeque<u8>, D::Error> {
        let bytes: Vec<u8> = serde_bytes::deserialize(deserializer)?;
        Ok(bytes.into())
    }
}

/// The last output of the streams of all running jobs. Streams without output take no memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct OutputBacklog {
    /// Jobs whose logged lines are kept.
    jobs: BTreeSet<Nspace>,
    streams: BTreeMap<Source, StreamBacklog>,
    bytes: usize,
}

impl OutputBacklog {
    /// Begins to keep the streams of a job. Logged lines of other jobs are not kept.
    pub(super) fn open(&mut self, job: &Nspace) {
        if !self.jobs.contains(job) {
            self.jobs.insert(job.clone());
        }
    }

    /// Keeps output that a proc wrote; empty output is the end of the stream. At most `most` bytes
    /// are kept of each stream: the last ones, from the beginning of a line if they contain one.
    pub(super) fn write(
        &mut self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        most: usize,
    ) {
        if most == 0 {
            return;
        }
        let kept = self.streams.entry((source.clone(), channel.0)).or_default();
        kept.flow = if written.is_empty() {
            Flow::Ended
        } else {
            Flow::Open
        };
        self.append((source, channel), written, most);
    }

    /// Keeps lines that were logged to a stream, within the same bounds. A stream that has ended
    /// stays ended.
    pub(super) fn insert(
        &mut self,
        (source, channel): (&Proc, IofChannel),
        written: &[u8],
        most: usize,
    ) {
        if self.jobs.contains(&source.nspace) {
            self.append((source, channel), written, most);
        }
    }

    fn append(&mut self, (source, channel): (&Proc, IofChannel), written: &[u8], most: usize) {
        let kept = self.streams.entry((source.clone(), channel.0)).or_default();
        let before = kept.last.len();
        // What the stream already has counts as room, since new output replaces it.
        let room = most.min(before.saturating_add(MAX_BACKLOG_BYTES.saturating_sub(self.bytes)));
        let tail = written
            .get(written.len().saturating_sub(room)..)
            .unwrap_or_default();
        kept.last.extend(tail);
        let excess = kept.last.len().saturating_sub(room);
        if excess > 0 || tail.len() < written.len() {
            // If all of `written` is kept, the byte before the cut is known: a line end there makes
            // the cut the beginning of a line. Otherwise that byte was left out and is unknown.
            let from = if tail.len() < written.len() {
                excess
            } else {
                excess.saturating_sub(1)
            };
            let line = kept
                .last
                .range(from..)
                .position(|byte| *byte == b'\n')
                .map(|at| from + at + 1);
            // Without a later line end, the cut is in the middle of a line that is longer than
            // all that is kept.
            kept.last.drain(
                ..line
                    .filter(|line| *line < kept.last.len())
                    .unwrap_or(excess),
            );
        }
        self.bytes = self
            .bytes
            .saturating_sub(before)
            .saturating_add(kept.last.len());
    }

    /// Returns the kept output of the selected streams, at most `most` bytes of each. An empty
    /// piece follows for each stream that has ended.
    pub(super) fn of(
        &self,
        wants: impl Fn(&Proc, IofChannel) -> bool,
        most: usize,
    ) -> impl Iterator<Item = (&Proc, IofChannel, Vec<u8>)> {
        let wanted = self
            .streams
            .iter()
            .filter(move |((source, channel), _)| wants(source, IofChannel(*channel)));
        wanted.flat_map(move |((source, channel), kept)| {
            let last: Vec<u8> = kept
                .last
                .iter()
                .skip(kept.last.len().saturating_sub(most))
                .copied()
                .collect();
            let end = (kept.flow == Flow::Ended).then(Vec::new);
            let pieces = Some(last)
                .filter(|last| !last.is_empty())
                .into_iter()
                .chain(end);
            pieces.map(move |piece| (source, IofChannel(*channel), piece))
        })
    }

    /// Removes the streams of a job that has ended.
    pub(super) fn forget(&mut self, job: &Nspace) {
        self.jobs.remove(job);
        self.streams.retain(|(source, _), _| source.nspace != *job);
        self.bytes = self.streams.values().map(|kept| kept.last.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Rank;
    use proptest::prelude::*;

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn kept(backlog: &OutputBacklog, most: usize) -> Vec<String> {
        let pieces = backlog
            .of(|_, _| true, most)
            .map(|(source, _, piece)| (source.rank.0, piece));
        pieces
            .map(|(rank, piece)| format!("{rank}{}", String::from_utf8(piece).unwrap()))
            .collect()
    }

    #[test]
    fn last_lines_and_end_are_kept_until_job_is_removed() {
        let mut backlog = OutputBacklog::default();
        let out = IofChannel::STDOUT;
        let mut write = |rank, text: &str| backlog.write((&proc(rank), out), text.as_bytes(), 8);
        write(0, "one\n");
        write(0, "two\n");
        write(0, "three\n");
        write(1, "endless words");
        write(1, "");
        write(2, "");
        write(3, "a\nbc\n");
        write(3, "12345\n");
        assert_eq!(
            kept(&backlog, 64),
            ["0three\n", "1ss words", "1", "2", "312345\n"]
        );
        assert_eq!(
            kept(&backlog, 3),
            ["0ee\n", "1rds", "1", "2", "345\n"],
            "a smaller limit returns the end of the output"
        );
        backlog.write((&proc(4), out), b"not kept", 0);
        backlog.forget(&proc(0).nspace);
        assert_eq!((kept(&backlog, 64).len(), backlog.bytes), (0, 0));
    }

    #[test]
    fn logged_lines_are_kept_of_open_jobs_only() {
        let mut backlog = OutputBacklog::default();
        let proc = proc(0);
        let log = |backlog: &mut OutputBacklog| {
            backlog.insert((&proc, IofChannel::STDOUT), b"line\n", 8);
            kept(backlog, 8)
        };
        assert!(log(&mut backlog).is_empty());
        backlog.open(&proc.nspace);
        assert_eq!(log(&mut backlog), ["0line\n"]);
        backlog.forget(&proc.nspace);
        assert!(log(&mut backlog).is_empty());
    }

    proptest! {
        #[test]
        fn backlog_is_bounded_and_keeps_newest_output(
            writes in prop::collection::vec((0u32..3, "[ab\n]{1,20}"), 1..40), most in 1usize..12,
        ) {
            let mut backlog = OutputBacklog::default();
            let mut all = BTreeMap::<u32, String>::new();
            for (rank, text) in &writes {
                backlog.write((&proc(*rank), IofChannel::STDOUT), text.as_bytes(), most);
                all.entry(*rank).or_default().push_str(text);
            }
            let mut bytes = 0;
            for (source, _, piece) in backlog.of(|_, _| true, usize::MAX) {
                bytes += piece.len();
                prop_assert!(piece.len() <= most && !piece.is_empty());
                prop_assert!(all[&source.rank.0].as_bytes().ends_with(&piece));
            }
            prop_assert_eq!(bytes, backlog.bytes);
        }
    }
}
