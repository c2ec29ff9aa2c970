//! Suggestions for misspelt names.
use std::cmp::Reverse;

/// Returns the limit of the distance at which a name is suggested: a third of its letters, at least
/// one and at most three.
fn reach(name: &str) -> usize {
    (name.len() / 3).clamp(1, 3)
}

/// Returns the length of the common prefix of two names.
fn common(one: &str, other: &str) -> usize {
    one.chars()
        .zip(other.chars())
        .take_while(|(one, other)| one == other)
        .count()
}

/// Returns the nearest name: the one with the fewest letters dropped, added, changed or swapped. Of
/// several, it is the one with the longest common prefix.
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names whose lengths differ too much cannot be near; the comparison of long ones would take
    // long.
    let near = names
        .into_iter()
        .filter(|name| written.len().abs_diff(name.len()) <= reach(name));
    let with_distance = near.map(|name| (strsim::osa_distance(written, name), name));
    let near = with_distance.filter(|(distance, name)| *distance <= reach(name));
    near.min_by_key(|(distance, name)| (*distance, Reverse(common(written, name))))
        .map(|of| of.1)
}

/// Returns the hint for an unknown name: the nearest one, or all.
pub(crate) fn instead(written: &str, names: &[&str]) -> String {
    match nearest(written, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!(
            "known are {}",
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_nothing_where_none_is_near() {
        let names = ["path", "place", "name", "channels", "mode", "codes"];
        for (written, meant) in [
            ("pth", "path"),
            ("pace", "place"),
            ("nmae", "name"),
            ("channel", "channels"),
            ("code", "codes"),
        ] {
            assert_eq!(nearest(written, names), Some(meant));
        }
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest(&"path".repeat(100_000), names), None);
        assert_eq!(instead("colour", &["a", "b"]), "known are `a`, `b`");
    }
}
