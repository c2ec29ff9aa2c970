//! Resolution of named procs: ranks that stand for several procs become single ones.
use peal_model::{Nspace, Proc, Rank, rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A named target does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnknownTarget {
    /// An unknown namespace.
    #[error("there is no namespace {0:?} here")]
    Nspace(Nspace),
    /// A rank that its job does not have.
    #[error("{0} does not exist")]
    Rank(Proc),
}

/// Ranks of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRanks {
    /// The ranks of this node.
    pub local: BTreeSet<Rank>,
    /// The number of procs on all nodes, if some are on other nodes.
    pub size: Option<u32>,
}

impl JobRanks {
    fn is_elsewhere(&self, rank: Rank) -> bool {
        self.size.is_some_and(|size| rank.0 < size) && !self.local.contains(&rank)
    }
}

/// Procs that named ones stand for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ResolvedTargets {
    /// The procs as they were named.
    pub named: Vec<Proc>,
    /// The single procs of this node, each once, in order.
    pub local: Vec<Proc>,
    /// The procs of other nodes: single ones, and jobs with procs there
    /// (`PMIX_RANK_WILDCARD`).
    pub elsewhere: Vec<Proc>,
}

impl ResolvedTargets {
    /// Returns single procs of this node.
    pub(crate) fn of_node(procs: Vec<Proc>) -> ResolvedTargets {
        ResolvedTargets {
            named: procs.clone(),
            local: procs,
            elsewhere: Vec::new(),
        }
    }

    /// Returns the procs of all nodes.
    pub fn all(&self) -> Vec<Proc> {
        [self.local.as_slice(), &self.elsewhere].concat()
    }
}

/// Returns the procs that named ones stand for. `ranks` returns those of a known job.
///
/// # Errors
///
/// Fails if a job or rank is unknown.
pub(crate) fn resolve(
    named: &[Proc],
    ranks: impl Fn(&Nspace) -> Option<JobRanks>,
) -> Result<ResolvedTargets, UnknownTarget> {
    let mut by_job: BTreeMap<&Nspace, BTreeSet<Rank>> = BTreeMap::new();
    for target in named {
        by_job
            .entry(&target.nspace)
            .or_default()
            .insert(target.rank);
    }
    let mut resolved = ResolvedTargets {
        named: named.to_vec(),
        ..ResolvedTargets::default()
    };
    for (nspace, mut wanted) in by_job {
        let known = ranks(nspace).ok_or_else(|| UnknownTarget::Nspace(nspace.clone()))?;
        let proc = |rank| Proc::new(nspace.clone(), rank);
        let whole = wanted.remove(&rank::PMIX_RANK_WILDCARD);
        let of_node = [rank::PMIX_RANK_LOCAL_PEERS, rank::PMIX_RANK_LOCAL_NODE];
        // `count` and not `any`, because each of these ranks must leave the set.
        let node = of_node.iter().filter(|rank| wanted.remove(rank)).count() > 0;
        let (elsewhere, wanted): (BTreeSet<Rank>, BTreeSet<Rank>) = wanted
            .into_iter()
            .partition(|rank| known.is_elsewhere(*rank));
        if let Some(unknown) = wanted.difference(&known.local).next() {
            return Err(UnknownTarget::Rank(proc(*unknown)));
        }
        if whole && known.size.is_some() {
            resolved.elsewhere.push(proc(rank::PMIX_RANK_WILDCARD));
        } else {
            resolved.elsewhere.extend(elsewhere.into_iter().map(proc));
        }
        let local = if whole || node { known.local } else { wanted };
        resolved.local.extend(local.into_iter().map(proc));
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Nspace {
        Nspace::new("job").unwrap()
    }

    /// A job of four procs, of which two are on this node.
    fn ranks(nspace: &Nspace) -> Option<JobRanks> {
        (*nspace == job()).then(|| JobRanks {
            local: [Rank(0), Rank(1)].into(),
            size: Some(4),
        })
    }

    fn procs(ranks: &[Rank]) -> Vec<Proc> {
        ranks.iter().map(|rank| Proc::new(job(), *rank)).collect()
    }

    #[test]
    fn ranks_of_other_nodes_are_known_and_apart() {
        let all = rank::PMIX_RANK_WILDCARD;
        let node = rank::PMIX_RANK_LOCAL_PEERS;
        for (named, local, elsewhere) in [
            (vec![Rank(1), Rank(3)], vec![Rank(1)], vec![Rank(3)]),
            (vec![all, Rank(3)], vec![Rank(0), Rank(1)], vec![all]),
            (vec![node, Rank(2)], vec![Rank(0), Rank(1)], vec![Rank(2)]),
        ] {
            let named = procs(&named);
            let expected = ResolvedTargets {
                named: named.clone(),
                local: procs(&local),
                elsewhere: procs(&elsewhere),
            };
            assert_eq!(resolve(&named, ranks), Ok(expected));
        }
        let unknown = Proc::new(job(), Rank(4));
        assert_eq!(
            resolve(std::slice::from_ref(&unknown), ranks),
            Err(UnknownTarget::Rank(unknown))
        );
    }
}
