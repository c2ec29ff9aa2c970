//! Environment variables by which a server describes itself to its clients.
use crate::ClientError;
use peal_model::{Nspace, Proc, Rank};
use peal_wire::{GDS_HASH, Release, ServerUri, variable};
use std::ffi::OsString;

/// Environment of a client: its server and its own name.
#[derive(Clone, PartialEq, Debug)]
pub struct Environment {
    /// Name of the client.
    pub me: Proc,
    /// Name and address of its server.
    pub server: ServerUri,
    /// Release of the server, if the server set it.
    pub release: Option<Release>,
}

impl Environment {
    /// Reads the environment of this process.
    pub fn read() -> Result<Environment, ClientError> {
        Environment::from(std::env::var_os)
    }

    /// Reads an environment by this function.
    pub fn from(
        get: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Environment, ClientError> {
        let text = |name| get(name).map(|value| value.to_string_lossy().into_owned());
        let need = |variable| text(variable).ok_or(ClientError::NotSet { variable });
        let bad = |variable, value: &str, expected| ClientError::BadVariable {
            variable,
            value: value.to_owned(),
            expected,
        };
        let uri = need(variable::SERVER_URI)?;
        let server = uri.parse().map_err(|_| {
            bad(
                variable::SERVER_URI,
                &uri,
                "NSPACE.RANK;tcp4://ADDRESS:PORT",
            )
        })?;
        let nspace = need(variable::NAMESPACE)?;
        let nspace = Nspace::new(&nspace).map_err(|_| {
            bad(
                variable::NAMESPACE,
                &nspace,
                "at most 255 bytes without control characters",
            )
        })?;
        let rank = need(variable::RANK)?;
        let rank = rank
            .parse()
            .map_err(|_| bad(variable::RANK, &rank, "a number"))?;
        // This client reads data from messages only. A server without this store would leave every
        // key of the job absent.
        if let Some(modules) = text(variable::GDS_MODULE)
            && !modules.split(',').any(|module| module.trim() == GDS_HASH)
        {
            return Err(bad(
                variable::GDS_MODULE,
                &modules,
                "a list that has \"hash\" in it",
            ));
        }
        // A release in an unknown form is no error: the client then uses the forms of its own.
        let release = text(variable::VERSION).and_then(|version| version.parse().ok());
        Ok(Environment {
            me: Proc::new(nspace, Rank(rank)),
            server,
            release,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Result<Environment, ClientError> {
        let found = |name: &str| {
            pairs
                .iter()
                .find(|pair| pair.0 == name)
                .map(|pair| pair.1.into())
        };
        Environment::from(found)
    }

    #[test]
    fn missing_or_invalid_variables_are_named() {
        let error = environment(&[]).unwrap_err().to_string();
        assert!(error.starts_with("PMIX_SERVER_URI41 is not set"), "{error}");
        let uri = ("PMIX_SERVER_URI41", "server.0;tcp4://127.0.0.1:99");
        let error = environment(&[uri, ("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "x")])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "PMIX_RANK is \"x\", it should be a number");
        let only_shared_memory = ("PMIX_GDS_MODULE", "ds21,ds12");
        let all = [uri, ("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "1")];
        assert_eq!(environment(&all).unwrap().me.to_string(), "job:1");
        let error = environment(&[all[0], all[1], all[2], only_shared_memory])
            .unwrap_err()
            .to_string();
        assert!(error.contains("a list that has \"hash\" in it"), "{error}");
    }
}
