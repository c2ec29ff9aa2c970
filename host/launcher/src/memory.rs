//! Memory usage of the server and of procs (`PMIX_QUERY_MEMORY_USAGE`).
use super::{over_nodes, usage_query};
use peal_model::{DataArray, Info, Infos, Key, KeyName, Proc, Status, Value, key};
use peal_system::usage::{self, Fields};
use std::collections::BTreeSet;

/// Measures of memory, the preferred first: the proportional share of a process, which needs
/// permission to read, and its resident memory.
const MEASURES: [KeyName; 2] = [key::PMIX_PROC_PSS, key::PMIX_PROC_RSS];

/// Usage of one proc.
struct Sample {
    usage: Info,
    megabytes: f32,
}

/// Returns the memory of the server and of each of these procs that the qualifiers select. With
/// `PMIX_QUERY_REPORT_AVG` it returns the average of the procs instead, with
/// `PMIX_QUERY_REPORT_MINMAX` the procs with the least and the most memory.
///
/// `PMIX_QUERY_LOCAL_ONLY` changes nothing, since all procs are on this node. Reads `/proc`, which
/// blocks.
pub(super) fn used(qualifiers: &[Info], running: &[(Proc, u32)]) -> Result<Info, Status> {
    let fields: BTreeSet<Key> = MEASURES.map(Key::from).into();
    let fields = Fields::these(&fields);
    let own = usage::of_server(fields).and_then(sample);
    let server = own.map(|own| {
        let megabytes = Value::Float(own.megabytes);
        Info::new(key::PMIX_DAEMON_MEMORY, megabytes)
    });
    let meant = usage_query::select(usage_query::selected_rank(qualifiers)?, running);
    let samples: Vec<Sample> = meant
        .filter_map(|(proc, pid)| sample(usage::of_proc(proc, *pid, fields)?))
        .collect();
    let value = reduce(qualifiers, server, samples);
    Ok(Info::new(key::PMIX_QUERY_MEMORY_USAGE, value))
}

/// Returns the answer of several nodes: the memory of the first one's server, and that of the procs of
/// all.
pub(super) fn combine(qualifiers: &[Info], nodes: &[&Info]) -> Value {
    let of_server = |info: &&Info| info.key == key::PMIX_DAEMON_MEMORY;
    let all = || nodes.iter().flat_map(|node| over_nodes::members(node));
    let samples = all().filter(|info| !of_server(info));
    let samples = samples.cloned().filter_map(sample).collect();
    reduce(qualifiers, all().find(of_server).cloned(), samples)
}

fn reduce(qualifiers: &[Info], server: Option<Info>, samples: Vec<Sample>) -> Value {
    let mut infos: Vec<Info> = server.into_iter().collect();
    let is_average = qualifiers.is_true(key::PMIX_QUERY_REPORT_AVG);
    let is_extremes = qualifiers.is_true(key::PMIX_QUERY_REPORT_MINMAX);
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
    Value::DataArray(DataArray::infos(infos))
}

/// Returns the sample by the first measure that the usage contains.
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

/// Returns the usage of the procs with the least and the most memory. For one proc alone, both are
/// the same.
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
    fn several_have_average_minimum_and_maximum() {
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
    fn usage_of_a_process_has_the_requested_form() {
        let own = (
            Proc::new(Nspace::new("job").unwrap(), Rank(3)),
            std::process::id(),
        );
        let keys = |qualifiers: &[KeyName]| {
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
        let server = key::PMIX_DAEMON_MEMORY;
        let proc = key::PMIX_PROC_RESOURCE_USAGE;
        let average = key::PMIX_CLIENT_AVG_MEMORY;
        assert_eq!(keys(&[]), [server, proc]);
        assert_eq!(
            keys(&[key::PMIX_QUERY_LOCAL_ONLY, key::PMIX_QUERY_REPORT_AVG]),
            [server, average]
        );
        assert_eq!(keys(&[key::PMIX_QUERY_REPORT_MINMAX]), [server, proc, proc]);
    }
}
