//! Text of an error and of its causes, as commands print it.

/// Returns the text of an error and its causes, each once: many errors contain the text of their
/// cause.
pub fn error_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !contains_cause(&text, &cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Returns true if a text contains this cause: at its end, or as a whole behind a colon.
fn contains_cause(text: &str, cause: &str) -> bool {
    let is_whole =
        |behind: &str| !behind.starts_with(|next: char| next.is_alphanumeric() || next == ' ');
    text.ends_with(cause) || text.split(&format!(": {cause}")).skip(1).any(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use std::{io, path::Path};

    fn text(error: impl Into<anyhow::Error>) -> String {
        error_text(&error.into())
    }

    #[test]
    fn causes_are_shown_once() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let read = peal_modules::read(Path::new("/nowhere/x.wasm")).unwrap_err();
        let shown = text(read);
        assert_eq!(shown.matches("No such file").count(), 1, "{shown}");
        let wrapped = Err::<(), _>(missing())
            .context("entity not found")
            .unwrap_err();
        assert_eq!(text(wrapped), "entity not found");
    }

    #[test]
    fn causes_that_differ_are_all_shown() {
        let error = Err::<(), _>(anyhow!("disk").context("disk full"))
            .context("cannot write")
            .unwrap_err();
        assert_eq!(text(error), "cannot write: disk full: disk");
    }
}
