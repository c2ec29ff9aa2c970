//! Patterns of namespaces: names in which `*` stands for any text.
use peal_model::{IdentError, Nspace};
use std::fmt;

/// A pattern that namespaces match by their name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NspacePattern(Nspace);

impl NspacePattern {
    /// Creates a pattern. Each `*` stands for any text, also the empty one.
    ///
    /// # Errors
    ///
    /// Fails if the text is no valid name of a namespace.
    pub fn new(pattern: &str) -> Result<NspacePattern, IdentError> {
        Nspace::new(pattern).map(NspacePattern)
    }

    /// Returns the only namespace that can match, if there is only one.
    pub fn exact(&self) -> Option<&Nspace> {
        (!self.0.as_str().contains('*')).then_some(&self.0)
    }

    /// Returns the text of the pattern, as if it were a name.
    pub fn as_nspace(&self) -> &Nspace {
        &self.0
    }

    /// Returns true if a namespace matches.
    pub fn matches(&self, nspace: &Nspace) -> bool {
        let mut parts = self.0.as_str().split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = nspace.as_str().strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The earliest match of each part leaves the most text for the parts after it.
        for part in parts {
            let Some((_, behind)) = rest.split_once(part) else {
                return false;
            };
            rest = behind;
        }
        rest.ends_with(last)
    }
}

impl fmt::Display for NspacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation: `*` stands for any text, letter by letter.
    fn means(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|taken| means(rest, &name[taken..])),
            Some((letter, rest)) => name.first() == Some(letter) && means(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn star_matches_any_text(pattern in "[ab*]{0,7}", name in "[ab]{0,8}") {
            let letters = |text: &str| text.chars().collect::<Vec<char>>();
            let matches = NspacePattern::new(&pattern).unwrap().matches(&Nspace::new(&name).unwrap());
            prop_assert_eq!(matches, means(&letters(&pattern), &letters(&name)));
        }
    }

    #[test]
    fn without_a_star_it_is_one_name() {
        let pattern = NspacePattern::new("solver").unwrap();
        assert_eq!(pattern.exact().unwrap().as_str(), "solver");
        assert_eq!(NspacePattern::new("solver*").unwrap().exact(), None);
    }
}
