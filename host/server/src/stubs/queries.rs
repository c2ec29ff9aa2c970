//! Queries that host environments answer: what a server does not know, or knows of its node alone.
use super::{
    host_router::HostRouter,
    local_services::{KeyAnswer, QueriedKey},
    remote_host::RemoteHost,
};
use crate::{host_environment::HostFindings, other_servers::OtherServers};
use peal_model::{
    Info, Infos, Key, Nspace, Proc, Query, Status, Text, UserIdentity, Value, code, key,
};
use std::sync::Arc;

/// Queries for one host environment.
pub(super) struct QueriesOfHost {
    pub(super) host: Arc<RemoteHost>,
    pub(super) queries: Vec<Query>,
}

/// Queries of a requester that runs as a user.
pub(super) struct UserQueries<'a> {
    pub(super) identity: UserIdentity,
    pub(super) queries: &'a [Query],
}

/// Answers of host environments to queries.
#[derive(Debug, Default)]
pub(super) struct HostAnswer {
    infos: Vec<Info>,
    /// First error.
    error: Option<Status>,
    /// First server of another node that did not answer.
    missing: Option<Status>,
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
    pub(super) fn with_own(mut self, keys: Vec<QueriedKey>) -> Result<HostFindings, Status> {
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
        match self.error.or(self.missing).or(unanswered) {
            Some(error) if self.infos.is_empty() => Err(error),
            _ => Ok(HostFindings {
                infos: self.infos,
                missing: self.missing,
            }),
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
    /// Asks the servers of other nodes for what the launcher of a job does not answer.
    pub(super) async fn ask_servers(
        &self,
        answer: &mut HostAnswer,
        asked: UserQueries<'_>,
        keys: &mut [QueriedKey],
        servers: &OtherServers,
    ) {
        for (number, query) in asked.queries.iter().enumerate() {
            let is_open = |key: &QueriedKey| {
                let by_host = |info: &Info| Some(info.key.as_str()) == key.key.as_str();
                let over_nodes = matches!(key.answer, KeyAnswer::OfNode(_) | KeyAnswer::Elsewhere);
                key.query == number && over_nodes && !answer.infos.iter().any(by_host)
            };
            let open: Vec<&mut QueriedKey> = keys.iter_mut().filter(|key| is_open(key)).collect();
            let names: Vec<Text> = open.iter().map(|open| open.key.clone()).collect();
            let Some(job) = named_job(&query.qualifiers).filter(|_| !names.is_empty()) else {
                continue;
            };
            let of_node = self.local.query_of_node(&names, &query.qualifiers);
            let others = servers.query(job, vec![of_node.clone()]).await;
            if others.is_empty() {
                continue;
            }
            let own = self.local.query_for_server(asked.identity, vec![of_node]);
            let mut nodes = vec![own.await.unwrap_or_default()];
            for other in others {
                match other {
                    Ok(infos) => nodes.push(infos),
                    // The node has no procs of the job any more.
                    Err(code::PMIX_ERR_NOT_FOUND) => {}
                    Err(status) => drop(answer.missing.get_or_insert(status)),
                }
            }
            for open in open {
                let known = match &open.answer {
                    KeyAnswer::OfNode(info) => Some(info),
                    _ => None,
                };
                let combined = self
                    .local
                    .combine(&open.key, &query.qualifiers, known, &nodes);
                if let Some(info) = combined {
                    open.answer = KeyAnswer::Known(info);
                }
            }
        }
    }

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
