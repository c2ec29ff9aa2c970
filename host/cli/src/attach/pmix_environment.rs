//! PMIx variables of this process's environment, and their replacement for the program.
use anyhow::{Context, Result, bail};
use peal_model::{Nspace, Range};
use peal_wire::{ServerUri, variable};
use std::{ffi::OsString, net::SocketAddr};

/// Prefix of the variables that hold a server's address, one for each encoding.
const URIS: &str = "PMIX_SERVER_URI";

/// Variable in which Open MPI's runtime before 5.0 stores the URI of its daemon on this node. The
/// daemon is the PMIx server, under the same name.
const DAEMON: &str = "OMPI_MCA_orte_local_daemon_uri";

/// Runtime of the server, where it makes a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForeignRuntime {
    /// `mpirun` of Open MPI 4 or before.
    OpenMpi4,
    /// Another or unknown runtime.
    Other,
}

impl ForeignRuntime {
    /// Returns true if the server survives an event of this range. The server of Open MPI 4.1 stops
    /// answering all clients after a request to forward an event to other nodes.
    pub fn bears(self, range: Range) -> bool {
        self == ForeignRuntime::Other
            || matches!(range, Range::Local | Range::Custom | Range::ProcLocal)
    }
}

/// PMIx environment of this process.
pub struct PmixEnvironment {
    /// Namespace of this process's job.
    pub nspace: Nspace,
    /// Name and address of the server.
    pub server: ServerUri,
    /// Runtime of the server.
    pub runtime: ForeignRuntime,
    /// Variables that hold addresses of the server.
    uris: Vec<(String, ServerUri)>,
}

impl PmixEnvironment {
    /// Reads an environment.
    pub fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<PmixEnvironment> {
        let variables: Vec<(String, String)> = variables
            // The variables of PMIx are UTF-8. Others do not matter.
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let value = |wanted| {
            variables
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.as_str())
        };
        let mut uris = Vec::new();
        for (name, value) in variables.iter().filter(|(name, _)| name.starts_with(URIS)) {
            let wrong =
                || format!("{name} is {value:?}, it should be NSPACE.RANK;tcp4://ADDRESS:PORT");
            uris.push((
                name.clone(),
                value.parse::<ServerUri>().with_context(wrong)?,
            ));
        }
        let first = uris
            .iter()
            .find(|(name, _)| name == variable::SERVER_URI)
            // Servers before 4.1 set only the variables of older encodings.
            .or(uris.first());
        let Some((_, server)) = first.cloned() else {
            bail!(
                "{} is not set: no PMIx server has started this process; have one start it, as in `mpirun -n 2 peal attach ...`, \
                 `prterun -n 2 peal attach ...` or `peal run -n 2 -- peal attach ...`",
                variable::SERVER_URI
            );
        };
        let nspace = value(variable::NAMESPACE).with_context(|| {
            format!(
                "{} is not set, though there is a PMIx server",
                variable::NAMESPACE
            )
        })?;
        let nspace = Nspace::new(nspace)
            .with_context(|| format!("{} is {nspace:?}", variable::NAMESPACE))?;
        // The variable may come from an outer job, so it has to name this server.
        let is_the_server =
            |daemon: &str| daemon.split(';').next() == server.to_string().split(';').next();
        let runtime = if value(DAEMON).is_some_and(is_the_server) {
            ForeignRuntime::OpenMpi4
        } else {
            ForeignRuntime::Other
        };
        Ok(PmixEnvironment {
            nspace,
            server,
            runtime,
            uris,
        })
    }

    /// Returns the changes of the environment for the program. Variables with the address of the
    /// server get the address `us` instead. Variables with another address are removed, since they
    /// would bypass this process.
    pub fn instead(&self, us: SocketAddr) -> impl Iterator<Item = (&str, Option<String>)> {
        self.uris.iter().map(move |(name, uri)| {
            let ours = ServerUri {
                proc: uri.proc.clone(),
                addr: us,
            };
            (
                name.as_str(),
                (uri.addr == self.server.addr).then(|| ours.to_string()),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<PmixEnvironment> {
        PmixEnvironment::read(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[test]
    fn every_server_variable_leads_to_proxy() {
        let ours = "127.0.0.1:7".parse().unwrap();
        let found = read(&[
            ("PMIX_NAMESPACE", "job"),
            ("PMIX_SERVER_URI4", "s.0;tcp4://127.0.0.1:99"),
            ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:99"),
            ("PMIX_SERVER_URI61", "s.0;tcp4://127.0.0.1:98"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.server.addr.port(), 99);
        let us = Some("s.0;tcp4://127.0.0.1:7".to_owned());
        let all: Vec<_> = found.instead(ours).collect();
        assert_eq!(
            all,
            [
                ("PMIX_SERVER_URI4", us.clone()),
                ("PMIX_SERVER_URI41", us),
                ("PMIX_SERVER_URI61", None)
            ]
        );
    }

    #[test]
    fn the_runtime_is_known_by_its_daemon_that_is_the_server() {
        let runtime = |daemon| {
            let found = read(&[
                ("PMIX_NAMESPACE", "77"),
                ("PMIX_SERVER_URI41", "76.0;tcp4://127.0.0.1:99"),
                ("OMPI_MCA_orte_local_daemon_uri", daemon),
            ]);
            found.unwrap().runtime
        };
        assert_eq!(
            runtime("76.0;tcp://192.0.2.2:48565"),
            ForeignRuntime::OpenMpi4
        );
        assert_eq!(
            runtime("1.0;tcp://127.0.0.1:1"),
            ForeignRuntime::Other,
            "Peal's own has such a variable for ranks"
        );
        assert!(
            ForeignRuntime::OpenMpi4.bears(Range::Local)
                && ForeignRuntime::Other.bears(Range::Session)
        );
        assert!(
            !ForeignRuntime::OpenMpi4.bears(Range::Session)
                && !ForeignRuntime::OpenMpi4.bears(Range::Rm)
        );
    }

    #[test]
    fn missing_or_invalid_variables_are_named() {
        let error = |variables: &[_]| format!("{:#}", read(variables).err().unwrap());
        assert!(
            error(&[]).starts_with(
                "PMIX_SERVER_URI41 is not set: no PMIx server has started this process"
            )
        );
        let uri = ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:99");
        assert!(error(&[uri]).contains("PMIX_NAMESPACE is not set"));
        let error = error(&[("PMIX_SERVER_URI3", "somewhere")]);
        assert!(
            error.starts_with("PMIX_SERVER_URI3 is \"somewhere\""),
            "{error}"
        );
    }
}
