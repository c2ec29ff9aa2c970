//! Passwords of mail sinks, in files that only their owner can read.
use crate::SinkError;
use rustix::process::geteuid;
use std::{
    fs::File,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Maximum size of a password file in bytes.
const MAX_PASSWORD_FILE_BYTES: u64 = 4096;

/// Credentials for a mail server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// The user name.
    pub user: String,
    /// A file with the password on its first line, readable by its owner only.
    pub password_file: PathBuf,
}

/// Reads a password. The mode is that of the opened file, so that it cannot be replaced after the
/// check.
pub(super) fn password(name: &str, path: &Path) -> Result<String, SinkError> {
    let of = |source| SinkError::Read {
        name: name.to_owned(),
        purpose: "the password file",
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(of)?;
    // Metadata of the open file: the path may lead to another one by now.
    let found = file.metadata().map_err(of)?;
    let me = geteuid().as_raw();
    if (found.uid() != me && found.uid() != 0) || found.mode() & 0o077 != 0 {
        let owner = found.uid();
        let mode = found.mode() & 0o7777;
        return Err(SinkError::Exposed {
            name: name.to_owned(),
            path: path.to_owned(),
            owner,
            mode,
            me,
        });
    }
    let mut text = String::new();
    file.take(MAX_PASSWORD_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(of)?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(SinkError::Setting {
            name: name.to_owned(),
            setting: "the password file",
            value: "empty".to_owned(),
            right: "a file with the password on its first line",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn password_file_must_be_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("secret word\nno more\n", 0o600);
        assert_eq!(password("m", &path).unwrap(), "secret word");
        for mode in [0o640, 0o604, 0o660, 0o610] {
            write("secret word", mode);
            let error = password("m", &path).unwrap_err().to_string();
            assert!(
                error.contains(&format!("has mode {mode:o}")) && !error.contains("secret word"),
                "{error}"
            );
        }
        write("\n", 0o400);
        let error = password("m", &path).unwrap_err().to_string();
        assert!(
            error.ends_with("is empty, it must be a file with the password on its first line"),
            "{error}"
        );
        assert!(
            password("m", &dir.path().join("none"))
                .unwrap_err()
                .to_string()
                .contains("could not be read")
        );
    }
}
