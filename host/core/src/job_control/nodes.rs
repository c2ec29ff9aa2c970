//! The names of nodes that are written as people write many of them: `node[01-16],login1`, ranges in brackets that keep their zeros.
//! What `PMIx_generate_regex` makes (`pmix[node[2:1-16]]`) is read as well, and so are regular expressions of an end.
use super::node_pattern::{self, PatternError};
use std::collections::BTreeSet;
use thiserror::Error;

/// The longest name of a node, in bytes.
pub(super) const MAX_NAME: usize = 255;

/// What stands around the names in a text of `PMIx_generate_regex`, in releases 4 and 5, where it does not compress them.
const GENERATED: [(&str, &str); 2] = [("pmix[", "]"), ("raw:", "")];

/// What a text of `PMIx_generate_regex` begins with that compresses names: a string ends before them.
const COMPRESSED: &str = "blob:";

/// Why a text names no nodes. Each says which part of it, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodesError {
    /// A name is missing.
    #[error(
        "{0:?} names no node, or leaves one out between its commas; write names such as node[01-16],login1"
    )]
    Nameless(String),
    /// Brackets that do not fit.
    #[error(
        "a bracket of {0:?} is open, closed twice or within another; write it as in node[01-16]"
    )]
    Bracket(String),
    /// Something in brackets that is no range.
    #[error(
        "{0:?} is no range of numbers; write it as in [3], [01-16] or [1-4,7], the smaller number first and none of more than nine digits"
    )]
    Range(String),
    /// A name that no node can have.
    #[error(
        "{0:?} is no name of a node: it has letters, digits, dots, dashes and underscores, at most {MAX_NAME} bytes of them"
    )]
    Name(String),
    /// An expression that names nothing that can be listed.
    #[error(
        "{0:?} is no regular expression of a limited number of names; write it as in node(0[1-9]|1[0-6]), without * and +"
    )]
    Pattern(String),
    /// Names that were compressed.
    #[error("compressed names of nodes cannot be sent as a string; write them as in node[01-16]")]
    Compressed,
    /// More than may be.
    #[error("more than {most} nodes are named; {most} are allowed")]
    TooMany {
        /// How many may be.
        most: usize,
    },
}

/// The nodes that a text names, each once, in their order. More than `most` are an error before they take memory.
pub fn expand(text: &str, most: usize) -> Result<Vec<String>, NodesError> {
    if text.starts_with(COMPRESSED) {
        return Err(NodesError::Compressed);
    }
    let around = |(before, behind): (&str, &str)| text.strip_prefix(before)?.strip_suffix(behind);
    let (text, form) = match GENERATED.into_iter().find_map(around) {
        Some(inner) => (inner, Form::Generated),
        None => (text, Form::Written),
    };
    let (mut nodes, mut known) = (Vec::new(), BTreeSet::new());
    let mut room = most;
    for item in items(text) {
        let names = match item.trim() {
            item if form == Form::Written && node_pattern::is_pattern(item) => {
                matched(item, room, most)?
            }
            item => names(item, form, room, most)?,
        };
        room = room.saturating_sub(names.len());
        nodes.extend(names.into_iter().filter(|name| known.insert(name.clone())));
    }
    Ok(nodes)
}

/// Who has written a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// People.
    Written,
    /// `PMIx_generate_regex`, which puts the width of numbers before their ranges.
    Generated,
}

/// What stands between the commas that are not in brackets of any kind.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let (mut in_brackets, mut depth) = (false, 0_usize);
    text.split(move |character| {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            '(' | '{' if !in_brackets => depth = depth.saturating_add(1),
            ')' | '}' if !in_brackets => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && !in_brackets && depth == 0
    })
}

/// The nodes that an expression matches.
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

/// The nodes that one item names: its plain parts, with each number of each pair of brackets between them.
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
        // What is too long is not made longer many times over.
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

/// Whether a part of a name, and the length that it has come to, are those of a node's.
fn checked(len: usize, part: &str) -> Result<(), NodesError> {
    let fits =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    if len <= MAX_NAME && part.chars().all(fits) {
        Ok(())
    } else {
        Err(NodesError::Name(quoted(part)))
    }
}

/// The numbers of a pair of brackets, as they are written.
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
        let (first, last) = (
            number(low).ok_or_else(wrong)?,
            number(high).ok_or_else(wrong)?,
        );
        let count = last.checked_sub(first).ok_or_else(wrong)?.saturating_add(1);
        if usize::try_from(count)
            .unwrap_or(usize::MAX)
            .saturating_add(numbers.len())
            > most
        {
            return Err(NodesError::TooMany { most });
        }
        let width = given_width.unwrap_or(low.len());
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

fn number(digits: &str) -> Option<u32> {
    let is_number =
        (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// As much of a text as is worth showing.
fn quoted(text: &str) -> String {
    text.chars().take(64).collect()
}
