//! Last lines of the output of a proc, from a file of a granted directory.
use peal_sdk::{Proc, files};

/// Name of the granted directory.
const DIRECTORY: &str = "output";

/// Maximum size of the part of the file that is shown, in bytes.
const MAX_BYTES: usize = 16384;

/// Returns the last lines of the output of a proc; none if its file cannot be read: it has no output, or the
/// directory is not granted.
pub fn last_output(pattern: &str, proc: &Proc, lines: usize) -> Option<String> {
    let bytes = files::read(DIRECTORY, &path_of(pattern, proc)).ok()?;
    Some(last_lines(&bytes, lines))
}

/// Returns the path of a proc's file. A placeholder within a namespace is not replaced.
fn path_of(pattern: &str, Proc { nspace, rank }: &Proc) -> String {
    let parts = pattern.split("{nspace}");
    let parts: Vec<String> = parts
        .map(|part| part.replace("{rank}", &rank.to_string()))
        .collect();
    parts.join(nspace)
}

/// Returns the last lines of a text. Bytes that are not UTF-8 are replaced.
fn last_lines(bytes: &[u8], lines: usize) -> String {
    let (_, mut end) = bytes.split_at(bytes.len().saturating_sub(MAX_BYTES));
    if end.len() < bytes.len() {
        // Not within a character, which has at most three further bytes.
        let is_further = |byte: &&u8| **byte & 0xc0 == 0x80;
        let further = end.iter().take(3).take_while(is_further).count();
        end = end.get(further..).unwrap_or_default();
    }
    let text = String::from_utf8_lossy(end);
    let mut last: Vec<&str> = text.trim_end().rsplit('\n').take(lines).collect();
    last.reverse();
    last.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_has_namespace_and_rank_of_the_proc() {
        let proc = Proc::new("{rank}", 7);
        assert_eq!(
            path_of("{nspace}/rank.{rank}/stderr", &proc),
            "{rank}/rank.7/stderr"
        );
        assert_eq!(path_of("all", &proc), "all");
    }

    #[test]
    fn last_lines_are_whole_characters_of_the_last_bytes() {
        assert_eq!(last_lines(b"one\ntwo\nthree\n\n", 2), "two\nthree");
        assert_eq!(last_lines(b"", 2), "");
        assert_eq!(last_lines(b"a\xff\nb", 5), "a\u{fffd}\nb");
        // The part begins within the first character of two bytes.
        let long = "é".repeat(MAX_BYTES / 2 + 1) + "x";
        assert_eq!(
            last_lines(long.as_bytes(), 1),
            "é".repeat(MAX_BYTES / 2 - 1) + "x"
        );
    }
}
