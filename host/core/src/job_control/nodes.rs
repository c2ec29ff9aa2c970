//! The names of nodes that are written as people write many of them: `node[01-16],login1`, ranges in brackets that keep their zeros.
use std::collections::BTreeSet;
use thiserror::Error;

/// The longest name of a node, in bytes.
const MAX_NAME: usize = 255;

/// Why a text names no nodes. Each says which part of it, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NodesError {
    /// A name is missing.
    #[error("{0:?} names no node, or leaves one out between its commas; write names such as node[01-16],login1")]
    Nameless(String),
    /// Brackets that do not fit.
    #[error("a bracket of {0:?} is open, closed twice or within another; write it as in node[01-16]")]
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
    /// More than may be.
    #[error("more than {most} nodes are named; {most} are allowed")]
    TooMany {
        /// How many may be.
        most: usize,
    },
}

/// The nodes that a text names, each once, in their order. More than `most` are an error before they take memory.
pub fn expand(text: &str, most: usize) -> Result<Vec<String>, NodesError> {
    let (mut nodes, mut known) = (Vec::new(), BTreeSet::new());
    let mut room = most;
    for item in items(text) {
        let names = names(item.trim(), room, most)?;
        room = room.saturating_sub(names.len());
        nodes.extend(names.into_iter().filter(|name| known.insert(name.clone())));
    }
    Ok(nodes)
}

/// What stands between the commas that are not in brackets.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut in_brackets = false;
    text.split(move |character| {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        character == ',' && !in_brackets
    })
}

/// The nodes that one item names: its plain parts, with each number of each pair of brackets between them.
fn names(item: &str, room: usize, most: usize) -> Result<Vec<String>, NodesError> {
    if item.is_empty() {
        return Err(NodesError::Nameless(quoted(item)));
    }
    let mut names = vec![String::new()];
    let mut rest = item;
    while let Some((plain, behind)) = rest.split_once('[') {
        let (ranges, after) = behind.split_once(']').ok_or_else(|| NodesError::Bracket(quoted(item)))?;
        if plain.contains(']') || ranges.contains('[') {
            return Err(NodesError::Bracket(quoted(item)));
        }
        let numbers = numbers(ranges, most)?;
        if names.len().saturating_mul(numbers.len()) > room {
            return Err(NodesError::TooMany { most });
        }
        let with_each =
            |name: &String| numbers.iter().map(|number| format!("{name}{plain}{number}")).collect::<Vec<_>>();
        names = names.iter().flat_map(with_each).collect();
        // What is too long is not made longer many times over.
        checked(names.iter().map(String::len).max().unwrap_or_default(), plain)?;
        rest = after;
    }
    if rest.contains(']') {
        return Err(NodesError::Bracket(quoted(item)));
    }
    if names.len() > room {
        return Err(NodesError::TooMany { most });
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    checked(names.iter().map(String::len).max().unwrap_or_default(), rest)?;
    Ok(names)
}

/// Whether a part of a name, and the length that it has come to, are those of a node's.
fn checked(len: usize, part: &str) -> Result<(), NodesError> {
    let fits = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    if len <= MAX_NAME && part.chars().all(fits) { Ok(()) } else { Err(NodesError::Name(quoted(part))) }
}

/// The numbers of a pair of brackets, as they are written.
fn numbers(ranges: &str, most: usize) -> Result<Vec<String>, NodesError> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let wrong = || NodesError::Range(quoted(range));
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(low).ok_or_else(wrong)?, number(high).ok_or_else(wrong)?);
        let count = last.checked_sub(first).ok_or_else(wrong)?.saturating_add(1);
        if usize::try_from(count).unwrap_or(usize::MAX).saturating_add(numbers.len()) > most {
            return Err(NodesError::TooMany { most });
        }
        let width = low.len();
        numbers.extend((first..=last).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

fn number(digits: &str) -> Option<u32> {
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// As much of a text as is worth showing.
fn quoted(text: &str) -> String {
    text.chars().take(64).collect()
}
