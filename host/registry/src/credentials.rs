//! User names and passwords for registries, in the form of docker's `config.json`, which `docker
//! login`, `podman login` and `wkg` use.
use base64::{Engine as _, prelude::BASE64_STANDARD};
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    env,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Maximum size of the file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Error of a file of credentials.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("cannot read the credentials in {}: {reason} (registry.credentials)", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The entry of the registry is invalid.
    #[error("the credentials of {registry} in {} should be base64 of USER:PASSWORD (\"auth\")", path.display())]
    Entry {
        /// Path of the file.
        path: PathBuf,
        /// Name of the registry.
        registry: String,
    },
    /// The credentials are kept by another program.
    #[error(
        "the credentials of {registry} are kept by docker-credential-{helper}, which Peal does not start; write them into \
         \"auths\" of {}",
        path.display()
    )]
    Helper {
        /// Path of the file.
        path: PathBuf,
        /// Name of the registry.
        registry: String,
        /// Name of the program.
        helper: String,
    },
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerEntry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct DockerEntry {
    #[serde(default)]
    auth: Option<String>,
    #[serde(default, rename = "registrytoken")]
    token: Option<String>,
}

/// Returns the path of the file that docker's tools use, if there is one.
pub fn usual_credentials() -> Option<PathBuf> {
    let directory = match env::var_os("DOCKER_CONFIG") {
        Some(directory) if !directory.is_empty() => PathBuf::from(directory),
        _ => PathBuf::from(env::var_os("HOME")?).join(".docker"),
    };
    Some(directory.join("config.json")).filter(|path| path.exists())
}

/// Returns the credentials for a registry. Without an entry it is asked anonymously.
pub(crate) fn of_registry(path: &Path, registry: &str) -> Result<RegistryAuth, CredentialsError> {
    let unreadable = |reason: String| CredentialsError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let read = file.take(MAX_FILE).read_to_string(&mut text);
    read.map_err(|error| unreadable(error.to_string()))?;
    // The message of the parser has a position and no text of the file.
    let config: DockerConfig =
        serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
    let is_meant = |name: &str| host(name) == registry;
    let entry = config.auths.iter().find(|(name, _)| is_meant(name));
    let wrong = || CredentialsError::Entry {
        path: path.to_owned(),
        registry: registry.to_owned(),
    };
    match entry {
        Some((
            _,
            DockerEntry {
                token: Some(token), ..
            },
        )) => Ok(RegistryAuth::Bearer(token.clone())),
        Some((
            _,
            DockerEntry {
                auth: Some(auth), ..
            },
        )) if !auth.is_empty() => {
            let bytes = BASE64_STANDARD.decode(auth.trim()).map_err(|_| wrong())?;
            let text = String::from_utf8(bytes).map_err(|_| wrong())?;
            let (user, password) = text.split_once(':').ok_or_else(wrong)?;
            Ok(RegistryAuth::Basic(user.to_owned(), password.to_owned()))
        }
        _ => match config.helpers.iter().find(|(name, _)| is_meant(name)) {
            Some((_, helper)) => Err(CredentialsError::Helper {
                path: path.to_owned(),
                registry: registry.to_owned(),
                helper: helper
                    .chars()
                    .take(64)
                    .flat_map(char::escape_debug)
                    .collect(),
            }),
            None => Ok(RegistryAuth::Anonymous),
        },
    }
}

/// Returns the registry of an entry, which old tools name as an address.
fn host(name: &str) -> &str {
    let name = name
        .strip_prefix("https://")
        .or_else(|| name.strip_prefix("http://"))
        .unwrap_or(name);
    name.split_once('/').map_or(name, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_those_of_the_registry() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(
            &path,
            r#"{"auths":{"https://one.example/v1/":{"auth":"YWRhOmE6Yg=="},"two.example:5000":{"auth":"bm9uZQ=="},
                "three.example":{}},"credHelpers":{"three.example":"pass"},"HttpHeaders":{}}"#,
        )
        .unwrap();
        let of = |registry| of_registry(&path, registry);
        let ada = RegistryAuth::Basic("ada".to_owned(), "a:b".to_owned());
        assert_eq!(of("one.example"), Ok(ada));
        assert_eq!(of("one.example:5000"), Ok(RegistryAuth::Anonymous));
        assert!(matches!(
            of("two.example:5000"),
            Err(CredentialsError::Entry { .. })
        ));
        let helper = of("three.example").unwrap_err().to_string();
        assert!(helper.contains("docker-credential-pass"), "{helper}");
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(
            of("one.example"),
            Err(CredentialsError::Unreadable { .. })
        ));
    }
}
