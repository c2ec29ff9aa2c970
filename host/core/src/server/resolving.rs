//! Resolution of peers and nodes, and refresh of a cache, for clients of OpenPMIx 5.0 and later,
//! limited to jobs that the requester may see.
use super::{Action, RequestId, ServerState, reply};
use crate::job::{self, TrackedJob};
use peal_model::{Nspace, Proc, Reply, Text, code};
use std::collections::BTreeSet;

impl ServerState {
    /// Returns all data of a proc, or of a job for its wildcard rank.
    pub(super) fn refresh(&mut self, to: RequestId, source: &Proc, proc: &Proc) -> Vec<Action> {
        if !self.may_see(source, &proc.nspace) {
            return vec![reply(to, code::PMIX_ERR_NO_PERMISSIONS)];
        }
        let Some(info) = self.info_of(source, &proc.nspace) else {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        };
        let kvals = self
            .modex
            .answer(proc, || job::values_of(&info, proc))
            .into_inner()
            .kvals;
        vec![Action::Reply {
            to,
            reply: Reply::Kvals {
                status: code::PMIX_SUCCESS,
                kvals,
            },
        }]
    }

    /// Returns the procs of one job or of all jobs on a node; without a node, on the local one.
    pub(super) fn resolve_peers(
        &self,
        to: RequestId,
        source: &Proc,
        node: Option<&Text>,
        nspace: Option<&Nspace>,
    ) -> Vec<Action> {
        let is_there = |job: &&TrackedJob| {
            node.is_none_or(|node| node.as_bytes() == job.spec.hostname.as_bytes())
        };
        let jobs = self.seen(source, nspace).filter(is_there);
        let procs: Vec<Proc> = jobs
            .flat_map(|job| {
                job.spec
                    .ranks()
                    .map(|rank| Proc::new(job.spec.nspace.clone(), rank))
            })
            .collect();
        match procs.is_empty() {
            true => vec![reply(to, code::PMIX_ERR_NOT_FOUND)],
            false => vec![Action::Reply {
                to,
                reply: Reply::Procs {
                    status: code::PMIX_SUCCESS,
                    procs,
                },
            }],
        }
    }

    /// Returns the nodes of one job or of all jobs.
    pub(super) fn resolve_nodes(
        &self,
        to: RequestId,
        source: &Proc,
        nspace: Option<&Nspace>,
    ) -> Vec<Action> {
        let nodes: BTreeSet<&str> = self
            .seen(source, nspace)
            .map(|job| job.spec.hostname.as_str())
            .collect();
        if nodes.is_empty() {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        }
        let nodes = nodes.into_iter().collect::<Vec<_>>().join(",");
        let nodes = Some(Text::from(nodes.as_str()));
        vec![Action::Reply {
            to,
            reply: Reply::Nodes {
                status: code::PMIX_SUCCESS,
                nodes,
            },
        }]
    }

    /// Returns one job or all jobs, as far as the source may see them.
    fn seen<'a>(
        &'a self,
        source: &'a Proc,
        nspace: Option<&'a Nspace>,
    ) -> impl Iterator<Item = &'a TrackedJob> {
        let named = move |job: &&TrackedJob| nspace.is_none_or(|nspace| *nspace == job.spec.nspace);
        self.jobs
            .values()
            .filter(named)
            .filter(move |job| self.may_see(source, &job.spec.nspace))
    }
}
