//! Maps of the nodes and procs of a job, as the C library's functions `PMIx_generate_regex` and
//! `PMIx_generate_ppn` write them: `pmix[node[2:1-4],other]` and `pmix[0-3;4-7]`, or plain lists.
use peal_model::Rank;
use thiserror::Error;

/// Largest number of nodes in a map.
const MAX_NODES: usize = 65_536;

/// Largest number of procs in a map.
const MAX_PROCS: usize = 1 << 20;

/// Longest name of a node, in bytes.
const MAX_NAME: usize = 255;

/// Reason why a text is no map.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapError {
    /// The text has an unknown form.
    #[error("{text:?} is no list of {of}: a list is {expected}")]
    Form {
        /// "nodes" or "ranks".
        of: &'static str,
        /// The beginning of the text.
        text: String,
        /// The right form.
        expected: &'static str,
    },
    /// The map names too many nodes or procs.
    #[error("map names more than {max} {of}")]
    TooMany {
        /// "nodes" or "ranks".
        of: &'static str,
        /// The limit.
        max: usize,
    },
}

fn nodes_form(text: &str) -> MapError {
    MapError::Form {
        of: "nodes",
        text: text.chars().take(80).collect(),
        expected: "`pmix[n[2:1-4],m]` or `n01,n02,m`",
    }
}

fn ranks_form(text: &str) -> MapError {
    MapError::Form {
        of: "ranks",
        text: text.chars().take(80).collect(),
        expected: "`pmix[0-3;4-7]` or `0,1,2,3;4,5,6,7`",
    }
}

/// Returns the text of a map without its frame.
fn contents(text: &str) -> &str {
    let framed = text
        .strip_prefix("pmix[")
        .and_then(|rest| rest.strip_suffix(']'));
    framed.or_else(|| text.strip_prefix("raw:")).unwrap_or(text)
}

/// Returns the names of the nodes in a map (`PMIX_NODE_MAP`).
///
/// # Errors
///
/// Fails for another text, and for too many nodes.
pub fn nodes(text: &str) -> Result<Vec<String>, MapError> {
    let mut names = Vec::new();
    for group in groups(contents(text)) {
        match group.split_once('[') {
            None if group.is_empty() => {}
            None => names.push(group.to_owned()),
            Some((prefix, rest)) => {
                let (numbers, suffix) = rest.split_once(']').ok_or_else(|| nodes_form(text))?;
                expand(prefix, numbers, suffix, &mut names).ok_or_else(|| nodes_form(text))?;
            }
        }
        if names.len() > MAX_NODES {
            return Err(MapError::TooMany {
                of: "nodes",
                max: MAX_NODES,
            });
        }
    }
    if names.is_empty() || names.iter().any(|name| name.len() > MAX_NAME) {
        return Err(nodes_form(text));
    }
    Ok(names)
}

/// Splits a list at its commas, except those in brackets.
fn groups(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    list.split(move |character| {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    })
}

/// Adds the names of a group such as `n[2:1-4]`; `None` if the numbers have another form.
fn expand(prefix: &str, numbers: &str, suffix: &str, names: &mut Vec<String>) -> Option<()> {
    let (digits, ranges) = numbers.split_once(':')?;
    let digits: usize = digits.parse().ok().filter(|digits| *digits <= 20)?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        for number in first..=last {
            names.push(format!("{prefix}{number:0digits$}{suffix}"));
            // The caller refuses more.
            if names.len() > MAX_NODES {
                return Some(());
            }
        }
    }
    Some(())
}

/// Returns the ranks of each node in a map (`PMIX_PROC_MAP`).
///
/// # Errors
///
/// Fails for another text, and for too many procs.
pub fn ranks(text: &str) -> Result<Vec<Vec<Rank>>, MapError> {
    let mut count = 0_usize;
    let mut nodes = Vec::new();
    for node in contents(text).split(';') {
        let mut ranks = Vec::new();
        for range in node.split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let parse = |number: &str| number.parse::<u32>().map_err(|_| ranks_form(text));
            let (first, last) = (parse(first)?, parse(last)?);
            let more = usize::try_from(last.saturating_sub(first)).unwrap_or(usize::MAX);
            count = count.saturating_add(more).saturating_add(1);
            if count > MAX_PROCS {
                return Err(MapError::TooMany {
                    of: "ranks",
                    max: MAX_PROCS,
                });
            }
            ranks.extend((first..=last).map(Rank));
        }
        nodes.push(ranks);
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_nodes_are_read_in_each_form() {
        for (text, expected) in [
            ("pmix[n[1:1-3]]", "n1 n2 n3"),
            ("pmix[n[1:1-3],m[2:5-6],x]", "n1 n2 n3 m05 m06 x"),
            ("pmix[n[1:1,3-4]]", "n1 n3 n4"),
            ("pmix[a[2:28]n01,a[2:99,28]n02]", "a28n01 a99n02 a28n02"),
            ("pmix[[1:1-2],n[1:1]]", "1 2 n1"),
            ("raw:n1,n2", "n1 n2"),
            ("n1,n2,", "n1 n2"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(nodes(text).unwrap().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn ranks_of_nodes_are_read_in_each_form() {
        let expected = vec![vec![Rank(0), Rank(1)], vec![Rank(2), Rank(3)]];
        for text in ["pmix[0-1;2-3]", "raw:0,1;2,3", "0,1;2,3"] {
            assert_eq!(ranks(text).unwrap(), expected, "{text}");
        }
        assert_eq!(ranks("0;").unwrap(), [vec![Rank(0)], vec![]]);
    }

    #[test]
    fn texts_of_other_forms_are_refused() {
        for text in ["", "pmix[]", "n[1-3]", "n[x:1-3]", "n[1:1-3", "n[30:1]"] {
            assert!(matches!(nodes(text), Err(MapError::Form { .. })), "{text}");
        }
        for text in ["a", "0-b", "pmix[0-3:4]", "-1"] {
            assert!(matches!(ranks(text), Err(MapError::Form { .. })), "{text}");
        }
        let huge = "n[1:0-4294967295]";
        assert!(matches!(nodes(huge), Err(MapError::TooMany { .. })));
        let huge = "0-4294967295";
        assert!(matches!(ranks(huge), Err(MapError::TooMany { .. })));
    }
}
