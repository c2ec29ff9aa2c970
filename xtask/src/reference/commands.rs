//! Reference page of commands: the help text of each, as `--help` prints it.
use anyhow::{Context, Result};
use std::fmt::Write as _;

/// Returns the page. `print` runs `peal` with these words and returns its output.
pub fn page(print: &dyn Fn(&[&str]) -> Result<String>) -> Result<String> {
    let mut page = String::from(
        "# Commands\n\nGenerated from the help texts of `peal` by `cargo xtask docs`. [Command line](../run/command-line.md) has the rules that hold for \
         all commands.\n",
    );
    add(&mut page, print, &[])?;
    Ok(page)
}

/// Adds a command and those below it.
fn add(page: &mut String, print: &dyn Fn(&[&str]) -> Result<String>, words: &[&str]) -> Result<()> {
    let help = print(&[words, &["--help"]].concat())
        .with_context(|| format!("the help text of `peal {}`", words.join(" ")))?;
    let name = [&["peal"], words].concat().join(" ");
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end())?;
    for command in commands_in(&help) {
        add(page, print, &[words, &[command]].concat())?;
    }
    Ok(())
}

/// Returns the commands that a help text lists.
fn commands_in(help: &str) -> Vec<&str> {
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    // The continuation of an entry has a larger indentation.
    let names = listed.filter_map(|line| {
        line.strip_prefix("  ")
            .filter(|rest| !rest.starts_with(' '))
    });
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_each_command_once() {
        let help = |words: &[&str]| {
            Ok(match words {
                ["--help"] => {
                    "Runs.\n\nCommands:\n  run   Run a\n        program\n  log   Log\n  help  Print this\n\nOptions:\n  -h\n".to_owned()
                }
                words => format!("{words:?}\n"),
            })
        };
        let page = page(&help).unwrap();
        let headings: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        assert_eq!(headings, ["## peal", "## peal run", "## peal log"]);
    }
}
