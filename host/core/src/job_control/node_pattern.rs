//! Nodes that are named by a regular expression, such as `node(0[1-9]|1[0-6])`. The server has no
//! list of nodes, so the expression stands for all names that it matches, and their number must be
//! bounded.
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind, Repetition},
};

/// Maximum length of a node name, in bytes.
pub(super) const MAX_NAME: usize = 255;

/// The reason why an expression is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternError {
    /// The expression is invalid, or has an element that no list of names can represent.
    Malformed,
    /// The expression matches an unlimited number of names.
    Endless,
    /// The expression matches more names than are allowed.
    TooMany,
}

/// Returns true if an item can only be an expression. Items with brackets and commas alone are
/// ranges of [`super::nodes`].
pub(super) fn is_pattern(item: &str) -> bool {
    let mut in_brackets = false;
    item.chars().any(|character| {
        match character {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        !in_brackets && "(){}|?*+\\^$".contains(character)
    })
}

/// Returns the names that an expression matches as a whole, with repetitions.
///
/// # Errors
///
/// Fails before more than `most` names take memory.
pub(super) fn expand(pattern: &str, most: usize) -> Result<Vec<String>, PatternError> {
    let parsed = ParserBuilder::new()
        // Names of nodes are ASCII. With Unicode, `\w` and `\d` would stand for many characters
        // that no name has.
        .unicode(false)
        .utf8(true)
        // `names` follows the expression by recursion, so the depth must be bounded.
        .nest_limit(16)
        .build()
        .parse(pattern);
    names(&parsed.map_err(|_| PatternError::Malformed)?, most)
}

fn names(of: &Hir, most: usize) -> Result<Vec<String>, PatternError> {
    let found = match of.kind() {
        // Whole names are matched, so anchors match anyway.
        HirKind::Empty | HirKind::Look(_) => vec![String::new()],
        HirKind::Literal(literal) => {
            vec![String::from_utf8(literal.0.to_vec()).map_err(|_| PatternError::Malformed)?]
        }
        HirKind::Class(class) => characters(class, most)?,
        HirKind::Capture(capture) => names(&capture.sub, most)?,
        HirKind::Concat(parts) => {
            let mut all = vec![String::new()];
            for part in parts {
                all = joined(&all, &names(part, most)?, most)?;
            }
            all
        }
        HirKind::Alternation(ways) => {
            let mut all = Vec::new();
            for way in ways {
                all.extend(names(way, most)?);
                // Each alternative is within the limit by itself, so the sum is checked as it
                // grows.
                if all.len() > most {
                    return Err(PatternError::TooMany);
                }
            }
            all
        }
        HirKind::Repetition(repetition) => repeated(repetition, most)?,
    };
    if found.len() > most {
        Err(PatternError::TooMany)
    } else {
        Ok(found)
    }
}

fn repeated(repetition: &Repetition, most: usize) -> Result<Vec<String>, PatternError> {
    let max = repetition.max.ok_or(PatternError::Endless)?;
    // A longer repetition exceeds the maximum length, unless it repeats the empty string, which is
    // useless.
    if usize::try_from(max).unwrap_or(usize::MAX) > MAX_NAME {
        return Err(PatternError::Malformed);
    }
    let one = names(&repetition.sub, most)?;
    let mut times = vec![String::new()];
    let mut all = Vec::new();
    for count in 0..=max {
        if count >= repetition.min {
            all.extend(times.iter().cloned());
        }
        if all.len() > most {
            return Err(PatternError::TooMany);
        }
        // Names of one more repetition are not needed, and could exceed the limit.
        if count < max {
            times = joined(&times, &one, most)?;
        }
    }
    Ok(all)
}

/// Returns each beginning joined with each end.
fn joined(
    beginnings: &[String],
    ends: &[String],
    most: usize,
) -> Result<Vec<String>, PatternError> {
    // Checked before any name is made. A product that saturates is above any limit.
    if beginnings.len().saturating_mul(ends.len()) > most {
        return Err(PatternError::TooMany);
    }
    let length = |names: &[String]| names.iter().map(String::len).max().unwrap_or_default();
    if length(beginnings) + length(ends) > MAX_NAME {
        return Err(PatternError::Malformed);
    }
    Ok(beginnings
        .iter()
        .flat_map(|begin| ends.iter().map(move |end| format!("{begin}{end}")))
        .collect())
}

fn characters(class: &Class, most: usize) -> Result<Vec<String>, PatternError> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class
            .iter()
            .map(|range| (range.start().into(), range.end().into()))
            .collect(),
        Class::Bytes(class) => class
            .iter()
            .map(|range| (range.start().into(), range.end().into()))
            .collect(),
    };
    let mut all = Vec::new();
    for character in ranges.into_iter().flat_map(|(first, last)| first..=last) {
        // Checked as the list grows, before the next name takes memory.
        if all.len() >= most {
            return Err(PatternError::TooMany);
        }
        all.push(
            char::from_u32(character)
                .ok_or(PatternError::Malformed)?
                .to_string(),
        );
    }
    Ok(all)
}
