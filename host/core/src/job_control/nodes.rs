//! Node names in compact notation: `node[01-16],login1`, where ranges keep leading zeros. Results
//! of `PMIx_generate_regex` (`pmix[node[2:1-16]]`) and finite regular expressions are accepted,
//! too.
use super::node_pattern::{self, MAX_NAME, PatternError};
use std::collections::BTreeSet;
use thiserror::Error;

/// Prefix and suffix of uncompressed results of `PMIx_generate_regex`, in releases 4 and 5.
const GENERATED: [(&str, &str); 2] = [("pmix[", "]"), ("raw:", "")];

/// Prefix of compressed results of `PMIx_generate_regex`. They contain null bytes, which end a
/// string.
const COMPRESSED: &str = "blob:";

/// The reason why a text is rejected, with the wrong part and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodesError {
    /// A name is missing.
    #[error(
        "{0:?} names no node, or leaves one out between its commas; write names such as node[01-16],login1"
    )]
    Nameless(String),
    /// Brackets are not balanced, or nested.
    #[error(
        "a bracket of {0:?} is open, closed twice or within another; write it as in node[01-16]"
    )]
    Bracket(String),
    /// The text in brackets is no range.
    #[error(
        "{0:?} is no range of numbers; write it as in [3], [01-16] or [1-4,7], the smaller number first and none of more than nine digits"
    )]
    Range(String),
    /// A name contains other characters or is too long.
    #[error(
        "{0:?} is no name of a node: it has letters, digits, dots, dashes and underscores, at most {MAX_NAME} bytes of them"
    )]
    Name(String),
    /// An expression is invalid or unbounded.
    #[error(
        "{0:?} is no regular expression of a limited number of names; write it as in node(0[1-9]|1[0-6]), without * and +"
    )]
    Pattern(String),
    /// Names are compressed.
    #[error("compressed names of nodes cannot be sent as a string; write them as in node[01-16]")]
    Compressed,
    /// The number of names exceeds the limit.
    #[error("more than {most} nodes are named; {most} are allowed")]
    TooMany {
        /// The limit.
        most: usize,
    },
}

/// Returns the named nodes, each once, in order.
///
/// # Errors
///
/// Fails for invalid text, and before more than `most` names take memory.
pub fn expand(text: &str, most: usize) -> Result<Vec<String>, NodesError> {
    if text.starts_with(COMPRESSED) {
        return Err(NodesError::Compressed);
    }
    let around = |(before, behind): (&str, &str)| text.strip_prefix(before)?.strip_suffix(behind);
    let (text, form) = match GENERATED.into_iter().find_map(around) {
        Some(inner) => (inner, Form::Generated),
        None => (text, Form::Written),
    };
    let mut nodes = Vec::new();
    let mut known = BTreeSet::new();
    let mut room = most;
    for item in items(text) {
        let names = match item.trim() {
            item if form == Form::Written && node_pattern::is_pattern(item) => {
                matched(item, room, most)?
            }
            item => names(item, form, room, most)?,
        };
        // Repeated names count as well, because they took memory before they were dropped.
        room = room.saturating_sub(names.len());
        nodes.extend(names.into_iter().filter(|name| known.insert(name.clone())));
    }
    Ok(nodes)
}

/// The origin of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A person.
    Written,
    /// `PMIx_generate_regex`, which puts the width of numbers before their ranges.
    Generated,
}

/// Splits a text at the commas outside of brackets of any kind.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut in_brackets = false;
    let mut depth = 0_usize;
    text.split(move |character| {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            // In a class of characters these have no special meaning.
            '(' | '{' if !in_brackets => depth = depth.saturating_add(1),
            ')' | '}' if !in_brackets => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && !in_brackets && depth == 0
    })
}

/// Returns the nodes that an expression matches.
fn matched(item: &str, room: usize, most: usize) -> Result<Vec<String>, NodesError> {
    let names = node_pattern::expand(item, room).map_err(|error| match error {
        PatternError::Malformed | PatternError::Endless => NodesError::Pattern(quoted(item)),
        PatternError::TooMany => NodesError::TooMany { most },
    })?;
    for name in &names {
        if name.is_empty() {
            return Err(NodesError::Nameless(quoted(item)));
        }
        checked(name.len(), name)?;
    }
    Ok(names)
}

/// Returns the nodes of one item: its plain parts, joined with each number of each pair of
/// brackets.
fn names(item: &str, form: Form, room: usize, most: usize) -> Result<Vec<String>, NodesError> {
    if item.is_empty() {
        return Err(NodesError::Nameless(quoted(item)));
    }
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((plain, behind)) = rest.split_once('[') {
        let (ranges, after) = behind
            .split_once(']')
            .ok_or_else(|| NodesError::Bracket(quoted(item)))?;
        if plain.contains(']') || ranges.contains('[') {
            return Err(NodesError::Bracket(quoted(item)));
        }
        let numbers = numbers(ranges, form, most)?;
        // Checked before any name is made. A product that saturates is above any limit.
        if names.len().saturating_mul(numbers.len()) > room {
            return Err(NodesError::TooMany { most });
        }
        let with_each = |name: &String| {
            numbers
                .iter()
                .map(|number| format!("{name}{plain}{number}"))
                .collect::<Vec<_>>()
        };
        names = names.iter().flat_map(with_each).collect();
        // Too long names must not be multiplied by further brackets.
        checked(
            names.iter().map(String::len).max().unwrap_or_default(),
            plain,
        )?;
        rest = after;
    }
    if rest.contains(']') {
        return Err(NodesError::Bracket(quoted(item)));
    }
    if names.len() > room {
        return Err(NodesError::TooMany { most });
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    checked(
        names.iter().map(String::len).max().unwrap_or_default(),
        rest,
    )?;
    Ok(names)
}

/// Checks the characters of a part, and the length of the whole name.
fn checked(len: usize, part: &str) -> Result<(), NodesError> {
    let fits =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    if len <= MAX_NAME && part.chars().all(fits) {
        Ok(())
    } else {
        Err(NodesError::Name(quoted(part)))
    }
}

/// Returns the numbers of a pair of brackets, as written.
fn numbers(ranges: &str, form: Form, most: usize) -> Result<Vec<String>, NodesError> {
    let (given_width, ranges) = match ranges.split_once(':').filter(|_| form == Form::Generated) {
        Some((width, rest)) => {
            let width = number(width)
                .and_then(|width| usize::try_from(width).ok())
                .filter(|width| *width <= MAX_NAME);
            (
                Some(width.ok_or_else(|| NodesError::Range(quoted(ranges)))?),
                rest,
            )
        }
        None => (None, ranges),
    };
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let wrong = || NodesError::Range(quoted(range));
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let first = number(low).ok_or_else(wrong)?;
        let last = number(high).ok_or_else(wrong)?;
        // Numbers of nine digits are far below the end of the range, so the sum never saturates.
        let count = last.checked_sub(first).ok_or_else(wrong)?.saturating_add(1);
        if usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_add(numbers.len())
            > most
        {
            return Err(NodesError::TooMany { most });
        }
        // The lower bound shows the leading zeros that all numbers of the range have.
        let width = given_width.unwrap_or(low.len());
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

fn number(digits: &str) -> Option<u32> {
    let is_number =
        // Nine digits always fit into 32 bits.
        (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Truncates a text for an error.
fn quoted(text: &str) -> String {
    text.chars().take(64).collect()
}
