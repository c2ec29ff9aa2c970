//! Names of nodes that differ in a number, as ranges: `pmix[node[2:1-4]]` is `node01` to `node04`.
use std::str;

/// Longest number of a name, in digits.
const MAX_DIGITS: usize = 9;

/// A name, or a group of names that differ in a number.
struct NameGroup<'a> {
    /// Text before the number; the whole name if there are no ranges.
    prefix: &'a [u8],
    /// Text after the number.
    suffix: &'a [u8],
    /// Number of digits, with leading zeros.
    digits: usize,
    /// First and last numbers.
    ranges: Vec<(u32, u32)>,
    /// True if a name after the group did not belong to it: further names would change the order.
    closed: bool,
}

/// Adds a range to ranges: to the last one if it follows it.
pub(super) fn extend(ranges: &mut Vec<(u32, u32)>, first: u32, last: u32) {
    match ranges.last_mut() {
        Some(range) if range.1.checked_add(1) == Some(first) => range.1 = last,
        _ => ranges.push((first, last)),
    }
}

/// Returns ranges as text, such as `1-4,7`.
pub(super) fn ranges_text(ranges: &[(u32, u32)]) -> String {
    let texts = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    texts.collect::<Vec<String>>().join(",")
}

/// Splits a name of letters and digits before and after its first number; `None` for other names.
fn split(name: &[u8]) -> Option<(&[u8], u32, &[u8], usize)> {
    if !name.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let start = name.iter().position(u8::is_ascii_digit)?;
    let (prefix, rest) = name.split_at_checked(start)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, suffix) = rest.split_at_checked(digits)?;
    if digits > MAX_DIGITS {
        return None;
    }
    let number = str::from_utf8(number).ok()?.parse().ok()?;
    Some((prefix, number, suffix, digits))
}

/// Returns the group to which a name belongs. Groups to which it could belong but for a difference
/// are closed, as in the C library.
fn group_of<'a, 'b>(
    groups: &'b mut [NameGroup<'a>],
    (prefix, suffix, digits): (&[u8], &[u8], usize),
) -> Option<&'b mut NameGroup<'a>> {
    for group in groups {
        // A name without number is its own prefix, and never empty; neither is that of a group.
        if group.closed || prefix.is_empty() != group.prefix.is_empty() {
            continue;
        }
        if group.prefix != prefix {
            group.closed = true;
        } else if group.ranges.is_empty() {
            continue;
        } else if group.suffix != suffix || group.digits != digits {
            group.closed = true;
        } else {
            return Some(group);
        }
    }
    None
}

/// Returns the expression of names that are separated by commas; `None` for no names.
pub(super) fn expression(input: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = input.split(|byte| *byte == b',').collect();
    names.pop_if(|last| last.is_empty());
    if names.is_empty() {
        return None;
    }
    let mut groups: Vec<NameGroup<'_>> = Vec::new();
    for name in names {
        let Some((prefix, number, suffix, digits)) = split(name) else {
            groups.push(NameGroup {
                prefix: name,
                suffix: &[],
                digits: 0,
                ranges: Vec::new(),
                closed: false,
            });
            continue;
        };
        match group_of(&mut groups, (prefix, suffix, digits)) {
            Some(group) => extend(&mut group.ranges, number, number),
            None => groups.push(NameGroup {
                prefix,
                suffix,
                digits,
                ranges: vec![(number, number)],
                closed: false,
            }),
        }
    }
    let texts: Vec<Vec<u8>> = groups
        .iter()
        .map(|group| {
            if group.ranges.is_empty() {
                return group.prefix.to_vec();
            }
            let ranges = format!("[{}:{}]", group.digits, ranges_text(&group.ranges));
            [group.prefix, ranges.as_bytes(), group.suffix].concat()
        })
        .collect();
    Some([b"pmix[", &texts.join(&b',')[..], b"]"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_a_number_are_ranges() {
        for (input, expected) in [
            ("n1,n2,n3,m05,m06,x", "pmix[n[1:1-3],m[2:5-6],x]"),
            ("n1,n3,n4", "pmix[n[1:1,3-4]]"),
            ("a28n01,a99n02,a28n02", "pmix[a[2:28]n01,a[2:99,28]n02]"),
            ("n9,n10", "pmix[n[1:9],n[2:10]]"),
            ("a-1,a-2", "pmix[a-1,a-2]"),
            ("1,2,n1", "pmix[[1:1-2],n[1:1]]"),
            ("n1,n12345678901", "pmix[n[1:1],n12345678901]"),
            ("localhost,", "pmix[localhost]"),
        ] {
            let text = expression(input.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
        assert_eq!(expression(b""), None);
    }
}
