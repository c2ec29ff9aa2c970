//! What memory the server and procs use (`PMIX_QUERY_MEMORY_USAGE`).
use super::usage_query;
use peal_model::{DataArray, Info, Infos, Key, KeyName, Proc, Status, Value, key};
use peal_system::usage::{self, Fields};
use std::collections::BTreeSet;

/// The share of a process in what it has in memory, which not everybody is told, and all of that.
const MEASURES: [KeyName; 2] = [key::PMIX_PROC_PSS, key::PMIX_PROC_RSS];

/// One proc, and how many megabytes it uses.
struct Sample {
    usage: Info,
    megabytes: f32,
}

/// The memory of the server, and that of each of these procs which the query is about: or their average (`PMIX_QUERY_REPORT_AVG`),
/// and those that use the least and the most (`PMIX_QUERY_REPORT_MINMAX`). All of it is local. Reads `/proc`: not for tokio's own
/// threads.
pub(super) fn used(qualifiers: &[Info], running: &[(Proc, u32)]) -> Result<Info, Status> {
    let fields: BTreeSet<Key> = MEASURES.map(Key::from).into();
    let fields = Fields::these(&fields);
    let mut infos = Vec::new();
    if let Some(own) = usage::of_server(fields).and_then(sample) {
        infos.push(Info::new(
            key::PMIX_DAEMON_MEMORY,
            Value::Float(own.megabytes),
        ));
    }
    let meant = usage_query::meant(usage_query::wanted(qualifiers)?, running);
    let samples: Vec<Sample> = meant
        .filter_map(|(proc, pid)| sample(usage::of_proc(proc, *pid, fields)?))
        .collect();
    let (is_average, is_extremes) = (
        qualifiers.is_true(key::PMIX_QUERY_REPORT_AVG),
        qualifiers.is_true(key::PMIX_QUERY_REPORT_MINMAX),
    );
    if is_average && let Some(average) = average(&samples) {
        infos.push(Info::new(
            key::PMIX_CLIENT_AVG_MEMORY,
            Value::Float(average),
        ));
    }
    if is_extremes {
        infos.extend(extremes(samples));
    } else if !is_average {
        infos.extend(samples.into_iter().map(|sample| sample.usage));
    }
    Ok(Info::new(
        key::PMIX_QUERY_MEMORY_USAGE,
        Value::DataArray(DataArray::infos(infos)),
    ))
}

/// By the first of the measures that is told.
fn sample(usage: Info) -> Option<Sample> {
    let Value::DataArray(array) = &usage.value else {
        return None;
    };
    let infos: Vec<Info> = array.as_infos()?.into_iter().cloned().collect();
    let megabytes = MEASURES
        .iter()
        .find_map(|measure| match infos.value_of(*measure) {
            Some(Value::Float(megabytes)) => Some(*megabytes),
            _ => None,
        })?;
    Some(Sample { usage, megabytes })
}

#[allow(clippy::cast_precision_loss, reason = "the attribute is a float")]
fn average(samples: &[Sample]) -> Option<f32> {
    let sum: f32 = samples.iter().map(|sample| sample.megabytes).sum();
    (!samples.is_empty()).then(|| sum / samples.len() as f32)
}

/// Who uses the least and who the most: of one proc alone that is the same.
fn extremes(mut samples: Vec<Sample>) -> Vec<Info> {
    samples.sort_by(|one, other| one.megabytes.total_cmp(&other.megabytes));
    let ends = [samples.first(), samples.last()];
    ends.into_iter()
        .flatten()
        .map(|sample| sample.usage.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Rank};

    fn of(rank: u32, megabytes: f32) -> Sample {
        let infos = [
            Info::new(key::PMIX_RANK, Value::Rank(Rank(rank))),
            Info::new(key::PMIX_PROC_RSS, Value::Float(megabytes)),
        ];
        sample(Info::new(
            key::PMIX_PROC_RESOURCE_USAGE,
            Value::DataArray(DataArray::infos(infos)),
        ))
        .unwrap()
    }

    #[test]
    fn of_several_the_average_the_least_and_the_most_are_told() {
        let samples = vec![of(0, 4.0), of(1, 1.0), of(2, 7.0)];
        assert_eq!((average(&samples), average(&[])), (Some(4.0), None));
        let found: Vec<f32> = extremes(samples)
            .into_iter()
            .map(|usage| sample(usage).unwrap().megabytes)
            .collect();
        assert_eq!(found, [1.0, 7.0]);
        assert!(extremes(Vec::new()).is_empty());
    }

    #[test]
    fn a_process_is_told_of_in_the_way_that_is_asked_for() {
        let own = (
            Proc::new(Nspace::new("job").unwrap(), Rank(3)),
            std::process::id(),
        );
        let told = |qualifiers: &[KeyName]| {
            let qualifiers: Vec<Info> = qualifiers
                .iter()
                .map(|key| Info::new(*key, Value::Bool(true)))
                .collect();
            let Value::DataArray(array) =
                used(&qualifiers, std::slice::from_ref(&own)).unwrap().value
            else {
                panic!()
            };
            array
                .as_infos()
                .unwrap()
                .iter()
                .map(|info| info.key.clone())
                .collect::<Vec<_>>()
        };
        let (server, proc, average) = (
            key::PMIX_DAEMON_MEMORY,
            key::PMIX_PROC_RESOURCE_USAGE,
            key::PMIX_CLIENT_AVG_MEMORY,
        );
        assert_eq!(told(&[]), [server, proc]);
        assert_eq!(
            told(&[key::PMIX_QUERY_LOCAL_ONLY, key::PMIX_QUERY_REPORT_AVG]),
            [server, average]
        );
        assert_eq!(told(&[key::PMIX_QUERY_REPORT_MINMAX]), [server, proc, proc]);
    }
}
