//! What the tests of the configuration share: a directory with files, and loading them.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is test code")]
use peal_config::{ConfigSources, ProblemOrigin, Resolved, SettingOverride};
use std::path::PathBuf;
use tempfile::TempDir;

/// A directory for a configuration.
pub struct Site {
    pub dir: TempDir,
}

impl Site {
    /// A directory with a `peal.toml`.
    pub fn new(text: &str) -> Site {
        let site = Site {
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::write(site.file(), text).unwrap();
        site
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("peal.toml")
    }

    /// Puts a file into `modules.d`.
    pub fn drop_in(&self, name: &str, text: &str) -> PathBuf {
        let dir = self.dir.path().join("modules.d");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn sources(&self) -> ConfigSources {
        ConfigSources {
            file: Some(self.file()),
            capabilities: capabilities(),
            ..ConfigSources::default()
        }
    }

    /// Loads it, or returns what is wrong, line by line, the file as `peal.toml`.
    pub fn load(&self) -> Result<Resolved, Vec<String>> {
        let dir = format!("{}/", self.dir.path().display());
        self.sources().load().map_err(|problems| {
            problems
                .to_string()
                .replace(&dir, "")
                .lines()
                .map(str::to_owned)
                .collect()
        })
    }
}

/// Loads a text as `peal.toml`.
pub fn load(text: &str) -> Result<Resolved, Vec<String>> {
    Site::new(text).load()
}

/// The one thing that is wrong with a text.
#[track_caller]
pub fn problem(text: &str) -> String {
    match load(text) {
        Ok(_) => panic!("nothing is wrong with {text}"),
        Err(problems) => match &problems[..] {
            [problem] => problem.clone(),
            several => panic!("{text}: {several:#?}"),
        },
    }
}

/// Nothing but a variable.
pub fn with_variable(name: &str, value: &str) -> ConfigSources {
    let none = ("PEAL_CONFIG".into(), "".into());
    ConfigSources {
        environment: vec![none, (name.into(), value.into())],
        capabilities: capabilities(),
        ..ConfigSources::default()
    }
}

fn capabilities() -> Vec<&'static str> {
    vec![
        "logging",
        "clock",
        "notify",
        "registration",
        "sink",
        "state",
        "random",
        "wasi",
    ]
}

/// Nothing but `--set`.
pub fn with_option(text: &str) -> ConfigSources {
    let none = ("PEAL_CONFIG".into(), "".into());
    ConfigSources {
        environment: vec![none],
        given: vec![SettingOverride::set(text).unwrap()],
        capabilities: capabilities(),
        ..ConfigSources::default()
    }
}

/// Line and column of an origin in a file.
pub fn line(origin: &ProblemOrigin) -> (usize, usize) {
    match origin {
        ProblemOrigin::File(position) => (position.line, position.column),
        other => panic!("{other}"),
    }
}
