//! Names as settings have them: as they are, or what they begin with and a `*`.

/// A name, or what those begin with that are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    word: String,
    is_prefix: bool,
}

impl Pattern {
    /// Reads a name; a `*` at the end stands for any text. Nothing where there is another `*`, or no name at all.
    pub fn read(text: &str) -> Option<Pattern> {
        let prefix = text.strip_suffix('*');
        let word = prefix.unwrap_or(text);
        let is_pattern = !text.is_empty() && !word.contains('*');
        is_pattern.then(|| Pattern {
            word: word.to_owned(),
            is_prefix: prefix.is_some(),
        })
    }

    /// Whether this name is meant.
    pub fn is_for(&self, name: &str) -> bool {
        if self.is_prefix {
            name.starts_with(&self.word)
        } else {
            name == self.word
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_matches_itself_and_final_asterisk_any_suffix() {
        for (pattern, name, is_meant) in [
            ("crew", "crew", true),
            ("crew", "crew-1", false),
            ("crew-*", "crew-1", true),
            ("crew-*", "crew-", true),
            ("crew-*", "crew", false),
            ("*", "", true),
        ] {
            assert_eq!(
                Pattern::read(pattern).map(|read| read.is_for(name)),
                Some(is_meant),
                "{pattern} for {name}"
            );
        }
        for wrong in ["", "*crew", "a*b", "**"] {
            assert_eq!(Pattern::read(wrong), None);
        }
    }
}
