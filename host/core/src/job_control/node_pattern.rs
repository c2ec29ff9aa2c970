//! Nodes that are named by a regular expression, such as `node(0[1-9]|1[0-6])`. Nobody here knows which nodes there are, so it names all
//! that it matches, and must not match any number of them.
use regex_syntax::{
    ParserBuilder,
    hir::{Class, Hir, HirKind, Repetition},
};

/// Why an expression names no nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternError {
    /// It cannot be read, or has something that no list of names can stand for.
    Malformed,
    /// It matches names without end.
    Endless,
    /// It matches more than may be.
    TooMany,
}

/// Whether an item can only be an expression: brackets and commas alone are the ranges of [`super::nodes`].
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

/// The names that an expression matches from their beginning to their end, each as often as it does. More than `most` are an error
/// before they take memory.
pub(super) fn expand(pattern: &str, most: usize) -> Result<Vec<String>, PatternError> {
    let parsed = ParserBuilder::new()
        .unicode(false)
        .utf8(true)
        .nest_limit(16)
        .build()
        .parse(pattern);
    names(&parsed.map_err(|_| PatternError::Malformed)?, most)
}

fn names(of: &Hir, most: usize) -> Result<Vec<String>, PatternError> {
    let found = match of.kind() {
        // Of a whole name the beginning and the end are matched anyway.
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
    // No name is as long, and nothing is repeated for the sake of nothing.
    if usize::try_from(max).unwrap_or(usize::MAX) > super::nodes::MAX_NAME {
        return Err(PatternError::Malformed);
    }
    let one = names(&repetition.sub, most)?;
    let (mut times, mut all) = (vec![String::new()], Vec::new());
    for count in 0..=max {
        if count >= repetition.min {
            all.extend(times.iter().cloned());
        }
        if all.len() > most {
            return Err(PatternError::TooMany);
        }
        if count < max {
            times = joined(&times, &one, most)?;
        }
    }
    Ok(all)
}

/// Each of some beginnings with each of some ends.
fn joined(
    beginnings: &[String],
    ends: &[String],
    most: usize,
) -> Result<Vec<String>, PatternError> {
    if beginnings.len().saturating_mul(ends.len()) > most {
        return Err(PatternError::TooMany);
    }
    let length = |names: &[String]| names.iter().map(String::len).max().unwrap_or_default();
    if length(beginnings) + length(ends) > super::nodes::MAX_NAME {
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
