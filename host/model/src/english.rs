//! English phrases with numbers and names, for messages.

/// Returns a number with its noun, as in `1 module` and `2 modules`. The noun is regular.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into() {
        Ok(1) => format!("1 {noun}"),
        Ok(count) => format!("{count} {noun}s"),
        Err(_) => format!("many {noun}s"),
    }
}

/// Returns a name with its article, as in `an event-policy` and `a log-channel`.
pub fn with_article(name: &str) -> String {
    let first = name.chars().next().unwrap_or_default();
    let article = if "aeiouAEIOU".contains(first) {
        "an"
    } else {
        "a"
    };
    format!("{article} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular_and_none_plural() {
        assert_eq!(
            [0_u32, 1, 2].map(|count| counted(count, "case")),
            ["0 cases", "1 case", "2 cases"]
        );
        assert_eq!(counted(1_usize, "proc"), "1 proc");
    }

    #[test]
    fn vowel_takes_an() {
        assert_eq!(with_article("event-policy"), "an event-policy");
        assert_eq!(with_article("log-channel"), "a log-channel");
    }
}
