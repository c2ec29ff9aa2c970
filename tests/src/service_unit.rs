//! The systemd unit that ships with Peal.
use crate::root;
use std::{fs, path::PathBuf};

/// Returns its path.
pub fn path() -> PathBuf {
    root().join("packaging/peal.service")
}

/// Returns its text.
pub fn text() -> String {
    fs::read_to_string(path()).unwrap()
}

/// Returns the values of the lines of a setting.
pub fn values(setting: &str) -> Vec<String> {
    let text = text();
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let values = lines.filter(|(name, _)| *name == setting);
    values.map(|(_, value)| value.to_owned()).collect()
}

/// Returns the words of all lines of a setting.
pub fn words(setting: &str) -> impl Iterator<Item = String> {
    let words = |line: String| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    values(setting).into_iter().flat_map(words)
}
