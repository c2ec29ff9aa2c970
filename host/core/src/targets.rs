//! Resolution of named procs: ranks that stand for several procs become single ones.
use peal_model::{Nspace, Proc, Rank, rank};
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

/// Returns the single procs that named ones stand for. `ranks` returns those of a known job.
///
/// # Errors
///
/// Fails if a job or rank is unknown.
pub(crate) fn single(
    named: &[Proc],
    ranks: impl Fn(&Nspace) -> Option<BTreeSet<Rank>>,
) -> Result<BTreeSet<Proc>, UnknownTarget> {
    let mut by_job: BTreeMap<&Nspace, BTreeSet<Rank>> = BTreeMap::new();
    for target in named {
        by_job
            .entry(&target.nspace)
            .or_default()
            .insert(target.rank);
    }
    let mut procs = BTreeSet::new();
    for (nspace, mut wanted) in by_job {
        let known = ranks(nspace).ok_or_else(|| UnknownTarget::Nspace(nspace.clone()))?;
        // All procs of a job are on this node.
        let whole = [
            rank::PMIX_RANK_WILDCARD,
            rank::PMIX_RANK_LOCAL_PEERS,
            rank::PMIX_RANK_LOCAL_NODE,
        ];
        // `count` and not `any`, because each of these ranks must leave the set.
        let all = whole.iter().filter(|rank| wanted.remove(rank)).count() > 0;
        if let Some(unknown) = wanted.difference(&known).next() {
            return Err(UnknownTarget::Rank(Proc::new(nspace.clone(), *unknown)));
        }
        let wanted = if all { known } else { wanted };
        procs.extend(
            wanted
                .into_iter()
                .map(|rank| Proc::new(nspace.clone(), rank)),
        );
    }
    Ok(procs)
}
