//! Queries that host environments answer: what a server does not know, or knows of its node alone.
use super::{
    host_router::HostRouter,
    local_services::{KeyAnswer, QueriedKey},
    remote_host::RemoteHost,
};
use peal_model::{Info, Infos, Key, Nspace, Proc, Query, Status, Value, code, key};
use std::sync::Arc;

/// Queries for one host environment.
pub(super) struct QueriesOfHost {
    pub(super) host: Arc<RemoteHost>,
    pub(super) queries: Vec<Query>,
}

/// Answers of host environments to queries.
#[derive(Debug, Default)]
pub(super) struct HostAnswer {
    infos: Vec<Info>,
    /// First error.
    error: Option<Status>,
}

impl HostAnswer {
    pub(super) fn add(&mut self, answer: Result<Vec<Info>, Status>) {
        match answer {
            Ok(infos) => self.infos.extend(infos),
            Err(code::PMIX_ERR_NOT_SUPPORTED) => {}
            Err(error) => drop(self.error.get_or_insert(error)),
        }
    }

    /// Adds what this node knows.
    ///
    /// # Errors
    ///
    /// Nothing is known: the error of a host environment, or `PMIX_ERR_NOT_SUPPORTED` if a proc of
    /// another node is queried.
    pub(super) fn with_own(mut self, keys: Vec<QueriedKey>) -> Result<Vec<Info>, Status> {
        let is_elsewhere = |key: &QueriedKey| key.answer == KeyAnswer::Elsewhere;
        let unanswered = keys
            .iter()
            .any(is_elsewhere)
            .then_some(code::PMIX_ERR_NOT_SUPPORTED);
        let by_host: Vec<Key> = self.infos.iter().map(|info| info.key.clone()).collect();
        for key in keys {
            match key.answer {
                // The host environment knows of all nodes.
                KeyAnswer::OfNode(info) if by_host.contains(&info.key) => {}
                answer => self.infos.extend(answer.info()),
            }
        }
        match self.error.or(unanswered) {
            Some(error) if self.infos.is_empty() => Err(error),
            _ => Ok(self.infos),
        }
    }
}

/// Returns the job that the qualifiers of a query name.
fn named_job(qualifiers: &[Info]) -> Option<Nspace> {
    match qualifiers.value_of(key::PMIX_PROCID) {
        Some(Value::Proc(proc)) => Some(proc.nspace.clone()),
        _ => Nspace::new(qualifiers.value_of(key::PMIX_NSPACE)?.as_str()?).ok(),
    }
}

impl HostRouter {
    /// Returns what this node does not know or does not know alone, for the host environments of the jobs
    /// that the queries name, or of the requester.
    pub(super) fn open_queries(
        &self,
        source: &Proc,
        queries: &[Query],
        keys: &[QueriedKey],
    ) -> Vec<QueriesOfHost> {
        let mut found: Vec<QueriesOfHost> = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            let open = keys
                .iter()
                .filter(|key| key.query == number && !matches!(key.answer, KeyAnswer::Known(_)));
            let keys: Vec<_> = open.map(|open| Some(open.key.clone())).collect();
            let named = named_job(&query.qualifiers).and_then(|job| self.registered(&job));
            let host = named.or_else(|| self.remote(&source.nspace));
            let Some(host) = host.filter(|_| !keys.is_empty()) else {
                continue;
            };
            let query = Query {
                keys,
                qualifiers: query.qualifiers.clone(),
            };
            match found
                .iter_mut()
                .find(|known| Arc::ptr_eq(&known.host, &host))
            {
                Some(known) => known.queries.push(query),
                None => found.push(QueriesOfHost {
                    host,
                    queries: vec![query],
                }),
            }
        }
        found
    }
}
