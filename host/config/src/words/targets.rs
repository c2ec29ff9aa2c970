//! Targets of commands: a job, one of its procs, or some of them.
use super::nspace;
use peal_model::{Proc, Rank};
use std::collections::BTreeSet;

/// Limit of ranks in a list. A longer list should name the whole job.
const MAX_RANKS: usize = 65_536;

/// Procs that are targets together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetKeywords(pub Vec<Proc>);

/// Parses targets: a job, as in `solver`; one of its procs, as in `solver:0`; some of them, as in
/// `solver:0-3,7`; or all of them, as in `solver:*`. A job whose name contains a colon must be
/// followed by `:*`.
pub fn targets(text: &str) -> Result<TargetKeywords, String> {
    let wanted = || {
        format!(
            "{text:?} is no NSPACE, NSPACE:RANK or NSPACE:RANKS, as in solver, solver:0 or solver:0-3,7; all are solver:*"
        )
    };
    let Some((job, ranks)) = text.rsplit_once(':') else {
        return Ok(TargetKeywords(vec![Proc::all(
            nspace(text)
                .ok()
                .filter(|job| !job.is_empty())
                .ok_or_else(wanted)?,
        )]));
    };
    let job = nspace(job)
        .ok()
        .filter(|job| !job.is_empty())
        .ok_or_else(wanted)?;
    if ranks == "*" {
        return Ok(TargetKeywords(vec![Proc::all(job)]));
    }
    // A set, so that each proc is a target once.
    let mut named = BTreeSet::new();
    for part in ranks.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first = rank(first).ok_or_else(wanted)?;
        let last = rank(last).ok_or_else(wanted)?;
        if first > last {
            return Err(format!(
                "{part:?} in {text:?} begins behind its end; it should be {last}-{first}"
            ));
        }
        // Repeated ranks count again, so that repetition cannot make the parser work for long.
        if named.len().saturating_add((last - first) as usize) >= MAX_RANKS {
            return Err(format!(
                "{text:?} names more than {MAX_RANKS} ranks; all of the job are {job}:*"
            ));
        }
        named.extend(first..=last);
    }
    Ok(TargetKeywords(
        named
            .into_iter()
            .map(|rank| Proc::new(job.clone(), Rank(rank)))
            .collect(),
    ))
}

/// Parses a rank of digits only, since a sign is part of a range.
fn rank(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|of| of.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|rank| is_number && Rank(*rank).is_valid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        targets(text).map(|TargetKeywords(procs)| {
            let ranks = procs
                .iter()
                .map(|proc| proc.to_string())
                .collect::<Vec<_>>();
            ranks.join(" ")
        })
    }

    #[test]
    fn a_job_a_proc_and_some_procs() {
        for (text, procs) in [
            ("solver", "solver:PMIX_RANK_WILDCARD"),
            ("solver:*", "solver:PMIX_RANK_WILDCARD"),
            ("a:b:*", "a:b:PMIX_RANK_WILDCARD"),
            ("solver:0", "solver:0"),
            ("solver:7,0-2,1", "solver:0 solver:1 solver:2 solver:7"),
            ("a:b:3", "a:b:3"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(procs), "{text}");
        }
        assert_eq!(targets("a:0-65534").unwrap().0.len(), 65_535);
    }

    #[test]
    fn invalid_targets_and_too_many_are_refused() {
        for text in [
            "",
            ":0",
            "a:",
            "a:b",
            "a:-1",
            "a:1-",
            "a:+1",
            "a:1--2",
            "a:0,,1",
            "a:4294967295",
            "a: 1",
        ] {
            assert!(read(text).unwrap_err().contains("is no NSPACE"), "{text}");
        }
        assert!(read("a:3-1").unwrap_err().ends_with("it should be 1-3"));
        assert!(
            read("a:0-4294967000")
                .unwrap_err()
                .contains("more than 65536 ranks; all of the job are a:*")
        );
        let again = format!("a:{}", ["0-65535"; 1000].join(","));
        assert!(read(&again).unwrap_err().contains("more than"));
    }
}
