//! Shared code of the tests of the configuration: a directory with files, and loading them.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is test code")]
use peal_config::{ConfigSources, ProblemOrigin, Resolved, SettingOverride};
use std::path::PathBuf;
use tempfile::TempDir;

/// Directory of a configuration.
pub struct Site {
    pub dir: TempDir,
}

impl Site {
    /// Creates a directory with a `peal.toml`.
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

    /// Writes a file into `modules.d`.
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

    /// Loads the configuration, or returns its problems, line by line, with the file as
    /// `peal.toml`.
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

/// Returns the only problem of a text.
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

/// Returns the sources with one variable only.
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

/// Returns the sources with one `--set` only.
pub fn with_option(text: &str) -> ConfigSources {
    let none = ("PEAL_CONFIG".into(), "".into());
    ConfigSources {
        environment: vec![none],
        overrides: vec![SettingOverride::set(text).unwrap()],
        capabilities: capabilities(),
        ..ConfigSources::default()
    }
}

/// Returns line and column of an origin in a file.
pub fn line(origin: &ProblemOrigin) -> (usize, usize) {
    match origin {
        ProblemOrigin::File(position) => (position.line, position.column),
        other => panic!("{other}"),
    }
}
