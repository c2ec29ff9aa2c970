//! The attribute `#[needs(..)]` of tests that cannot run on every machine. If a need is not met,
//! libtest reports the test as ignored, with the reason. The helpers of such a test fail, so that
//! no test passes without having run.
use proc_macro::{Delimiter, TokenStream, TokenTree};

/// Findings of `cargo xtask prepare`, which defines the names (`xtask/src/needs.rs`). Each line is
/// `name` for a need that is met, or `name: reason` for one that is not. Empty before the first
/// run.
const FOUND: &str = include_str!(concat!(env!("OUT_DIR"), "/test-needs"));

/// Ignores a test if one of these needs is not met: `#[needs(libpmix, root)]`, above `#[test]`.
#[proc_macro_attribute]
pub fn needs(names: TokenStream, test: TokenStream) -> TokenStream {
    let marked = if is_test(&test) {
        mark(&names)
    } else {
        Err("`#[needs(..)]` stands above `#[test]`, which would not see it otherwise".to_owned())
    };
    let text = marked.unwrap_or_else(|error| format!("compile_error!({error:?});"));
    let mut tokens: TokenStream = text.parse().unwrap_or_default();
    tokens.extend(test);
    tokens
}

/// Returns the attribute for a test with these needs; empty if all of them are met.
fn mark(names: &TokenStream) -> Result<String, String> {
    let mut missing = Vec::new();
    for token in names.clone() {
        match token {
            TokenTree::Ident(name) => missing.extend(reason(FOUND, &name.to_string())?),
            TokenTree::Punct(comma) if comma.as_char() == ',' => {}
            other => return Err(format!("`{other}` is not the name of a need")),
        }
    }
    if missing.is_empty() {
        Ok(String::new())
    } else {
        Ok(format!("#[ignore = {:?}]", missing.join(", ")))
    }
}

/// Returns the reason for which a test with this need is ignored; `None` if the need is met.
fn reason(found: &str, name: &str) -> Result<Option<String>, String> {
    if found.is_empty() {
        return Ok(Some(format!(
            "needs {name}: run `cargo xtask prepare`, which looks for it"
        )));
    }
    let mut needs = found.lines().map(|line| {
        line.split_once(": ")
            .map_or((line, None), |(name, why)| (name, Some(why)))
    });
    match needs.find(|(need, _)| *need == name) {
        Some((_, why)) => Ok(why.map(str::to_owned)),
        None => Err(format!(
            "`{name}` is not among the needs in xtask/src/needs.rs, or `cargo xtask prepare` did not run since"
        )),
    }
}

/// Returns true if an attribute of this item is `#[test]` of any crate.
fn is_test(item: &TokenStream) -> bool {
    let mut groups = item.clone().into_iter().filter_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some(group.stream()),
        _ => None,
    });
    groups.any(|group| {
        group
            .into_iter()
            .any(|token| matches!(token, TokenTree::Ident(name) if name.to_string() == "test"))
    })
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn needs_are_met_missing_or_unknown() {
        let found = "root\nlibpmix: needs libpmix (Debian: libpmix-dev)\n";
        assert_eq!(reason(found, "root"), Ok(None));
        let missing = reason(found, "libpmix").unwrap();
        assert_eq!(
            missing.as_deref(),
            Some("needs libpmix (Debian: libpmix-dev)")
        );
        assert!(
            reason(found, "libpm")
                .unwrap_err()
                .starts_with("`libpm` is not among the needs")
        );
        let before = reason("", "anything").unwrap();
        assert_eq!(
            before.as_deref(),
            Some("needs anything: run `cargo xtask prepare`, which looks for it")
        );
    }
}
