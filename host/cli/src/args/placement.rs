//! Options that may come before or after the command: those that select the server and the
//! configuration, those of the trace, and the format of the output.
use super::{OutputArgs, ServerArgs, TableFormats, ToolArgs, TraceArgs, run::takes_next};
use clap::{Args as _, Command};
use std::ffi::{OsStr, OsString};

/// Moves these options after the command, where its parser expects them.
pub fn options_behind_verb(args: &Command, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let movable = movable();
    let mut verbs = Vec::new();
    let mut options = Vec::new();
    let mut words = words.peekable();
    verbs.extend(words.next());
    // The search ends at the first word that is neither an option nor a command: what follows may
    // belong to the program of `peal run`.
    let mut command = args;
    while let Some(word) = words.peek() {
        if is_option_of(&movable, word) {
            let has_value = takes_next(&movable, word);
            options.extend(words.next());
            options.extend(has_value.then(|| words.next()).flatten());
        } else if let Some(verb) = word.to_str().and_then(|name| command.find_subcommand(name)) {
            command = verb;
            verbs.extend(words.next());
        } else {
            break;
        }
    }
    verbs.into_iter().chain(options).chain(words).collect()
}

/// Returns a command with these options only.
fn movable() -> Command {
    let server = ToolArgs::augment_args(ServerArgs::augment_args(Command::new("peal")));
    TraceArgs::augment_args(OutputArgs::<TableFormats>::augment_args(server))
}

fn is_option_of(command: &Command, word: &OsStr) -> bool {
    let Some(text) = word.to_str() else {
        return false;
    };
    let Some(option) = text.strip_prefix("--") else {
        return is_flags_of(command, text) || has_value_in(command, text);
    };
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    command
        .get_arguments()
        .any(|arg| arg.get_long() == Some(name))
}

/// Returns true for short options without values in one word, such as `-vv`.
fn is_flags_of(command: &Command, word: &str) -> bool {
    let is_flag = |letter: char| {
        let mut arguments = command.get_arguments();
        arguments.any(|arg| arg.get_short() == Some(letter) && !arg.get_action().takes_values())
    };
    let letters = word.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(is_flag)
}

/// Returns true for a short option with a value in the same word or the next one, such as `-ojson`.
fn has_value_in(command: &Command, word: &str) -> bool {
    let letter = word.strip_prefix('-').and_then(|rest| rest.chars().next());
    let mut arguments = command.get_arguments();
    letter.is_some()
        && arguments.any(|arg| arg.get_short() == letter && arg.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use super::{super::Args, *};
    use clap::CommandFactory;

    fn placed(line: &str) -> String {
        let placed = options_behind_verb(&Args::command(), line.split(' ').map(OsString::from));
        placed.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn options_before_the_verb_are_moved_behind_it() {
        for (typed, meant) in [
            ("peal --config FILE serve", "peal serve --config FILE"),
            ("peal -q --config FILE serve", "peal serve -q --config FILE"),
            ("peal -vv run -np 2 true", "peal run -vv -np 2 true"),
            (
                "peal --log-format json run -np 2 true",
                "peal run --log-format json -np 2 true",
            ),
            (
                "peal --config=FILE -o json status",
                "peal status --config=FILE -o json",
            ),
            (
                "peal -oyaml --socket S job --set a=b list --output=json",
                "peal job list -oyaml --socket S --set a=b --output=json",
            ),
            (
                "peal --config run run -n 2 prog --config x",
                "peal run --config run -n 2 prog --config x",
            ),
            (
                "peal --pid 7 event notify -3001",
                "peal event notify --pid 7 -3001",
            ),
            ("peal --uri U --nspace N ps", "peal ps --uri U --nspace N"),
        ] {
            assert_eq!(placed(typed), meant);
        }
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        for typed in [
            "peal",
            "peal --version",
            "peal --handler x run prog",
            "peal run -- --config x",
            "peal --config",
            "peal status status",
        ] {
            assert_eq!(placed(typed), typed);
        }
    }
}
