//! Secrets for other services, in files that only their owner can read.
use crate::CredentialError;
use rustix::process::geteuid;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use std::{fs::File, io::Read, os::unix::fs::MetadataExt, path::Path};

/// Maximum size of a file with a secret, in bytes.
const MAX_SECRET_FILE_BYTES: u64 = 16_384;

/// Kind of a secret. It names the file in errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SecretKind {
    /// The password for a mail server.
    Password,
    /// The token for a web service.
    Token,
    /// The path of a URL by which a web service knows the sender.
    UrlPath,
    /// The header fields of requests to a web service.
    Headers,
    /// The key of a certificate.
    Key,
}

impl SecretKind {
    /// Returns the name of the file.
    pub(crate) fn file(self) -> &'static str {
        match self {
            SecretKind::Password => "the password file",
            SecretKind::Token => "the token file",
            SecretKind::UrlPath => "the path file",
            SecretKind::Headers => "the headers file",
            SecretKind::Key => "the key file",
        }
    }

    /// Returns the valid contents of the file.
    pub(crate) fn right(self) -> &'static str {
        match self {
            SecretKind::Password => "a file with the password on its first line",
            SecretKind::Token => {
                "a file with the token on its first line, in printable ASCII without blanks"
            }
            SecretKind::UrlPath => {
                "a file with the path of a URL on its first line, which begins with one /"
            }
            SecretKind::Headers => {
                "a file with a header field NAME: VALUE on each line, in printable ASCII"
            }
            SecretKind::Key => "a file with the private key of a certificate (PEM)",
        }
    }

    /// Returns the error of a file with invalid contents, which it does not show.
    pub(crate) fn invalid(self, value: &str) -> CredentialError {
        CredentialError::Contents {
            file: self.file(),
            value: value.to_owned(),
            right: self.right(),
        }
    }
}

/// Reads the token in a file: its first line.
///
/// # Errors
///
/// Fails if the file cannot be read, is empty, or is not its owner's alone.
pub fn read_token(path: &Path) -> Result<String, CredentialError> {
    secret(SecretKind::Token, path)
}

/// Reads a file that only its owner may read, at most 16 KiB of it: the key of a certificate in PEM.
///
/// # Errors
///
/// Fails if the file cannot be read, or is not its owner's alone.
pub fn read_private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CredentialError> {
    let text = secret_text(SecretKind::Key, path)?;
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| SecretKind::Key.invalid("no key"))
}

/// Reads the first line of the file of a secret.
pub(crate) fn secret(kind: SecretKind, path: &Path) -> Result<String, CredentialError> {
    match secret_text(kind, path)?.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(kind.invalid("empty")),
    }
}

/// Reads the file of a secret, at most its beginning. The mode is that of the opened file, so that it
/// cannot be replaced after the check.
pub(crate) fn secret_text(kind: SecretKind, path: &Path) -> Result<String, CredentialError> {
    let of = |source| CredentialError::Read {
        purpose: kind.file(),
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
        return Err(CredentialError::Exposed {
            file: kind.file(),
            path: path.to_owned(),
            owner,
            mode,
            me,
        });
    }
    let mut text = String::new();
    file.take(MAX_SECRET_FILE_BYTES)
        .read_to_string(&mut text)
        .map_err(of)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn secret_file_must_be_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let write = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let password = || secret(SecretKind::Password, &path);
        write("secret word\nno more\n", 0o600);
        assert_eq!(password().unwrap(), "secret word");
        for mode in [0o640, 0o604, 0o660, 0o610] {
            write("secret word", mode);
            let error = password().unwrap_err().to_string();
            assert!(
                error.contains(&format!("has mode {mode:o}")) && !error.contains("secret word"),
                "{error}"
            );
        }
        let token = secret(SecretKind::Token, &path);
        let error = token.unwrap_err().to_string();
        assert!(error.contains("the token file \""), "{error}");
        write("\n", 0o400);
        let error = password().unwrap_err().to_string();
        assert!(
            error.ends_with("is empty, it must be a file with the password on its first line"),
            "{error}"
        );
        let missing = secret(SecretKind::UrlPath, &dir.path().join("none"));
        assert!(
            missing
                .unwrap_err()
                .to_string()
                .contains("could not be read")
        );
    }
}
