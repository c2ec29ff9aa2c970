//! Binding of a spawned job's procs to processors, as its request asks for it.
use super::{
    binding::{BindingRule, usable_processors},
    job_request::JobOptions,
    processors::NodeProcessors,
};
use peal_core::choice::{BindTo, ProcessorUnit};
use peal_model::{Info, InfoFlags, Infos, KeyName, Status, Value, code, key};
use std::sync::Arc;

/// Directives about the binding.
const OF_JOBS: [KeyName; 2] = [key::PMIX_BINDTO, key::PMIX_MAPBY];

/// Returns true for a directive of a job that an application cannot have for itself.
pub(super) fn is_of_job(info: &Info) -> bool {
    OF_JOBS.iter().any(|key| info.key == *key)
}

/// Returns the binding of the procs. `like` has the one that applies unless the request has another.
///
/// Only the unit is read, as in `core:overload-allowed`. A directive that cannot be honoured is ignored.
///
/// # Errors
///
/// `PMIX_ERR_NOT_SUPPORTED` if a directive is required and cannot be honoured.
pub(super) fn read(infos: &[Info], like: &JobOptions) -> Result<Option<BindingRule>, Status> {
    let bind_to = unit(infos, key::PMIX_BINDTO, BindTo::from_keyword)?;
    let map_by = unit(infos, key::PMIX_MAPBY, ProcessorUnit::from_keyword)?;
    let own = like.binding.as_ref();
    let target = match bind_to {
        Some(bind_to) => bind_to.unit(),
        None => own.map(|rule| rule.bind_to),
    };
    let Some(target) = target else {
        // Procs that are not bound have no places.
        return refuse_if_required(infos, key::PMIX_MAPBY).map(|()| None);
    };
    let processors = match own {
        Some(rule) => Some(rule.processors.clone()),
        None => processors(like),
    };
    let Some(processors) = processors else {
        return OF_JOBS
            .into_iter()
            .try_for_each(|key| refuse_if_required(infos, key))
            .map(|()| None);
    };
    let like_parent = own.filter(|_| bind_to.is_none()).map(|rule| rule.map_by);
    Ok(Some(BindingRule {
        processors,
        map_by: map_by.or(like_parent).unwrap_or(target),
        bind_to: target,
    }))
}

/// Returns true if the procs must be bound as the request says.
pub(super) fn is_required(infos: &[Info]) -> bool {
    let mut of_job = infos.iter().filter(|info| is_of_job(info));
    of_job.any(|info| info.flags.contains(InfoFlags::REQUIRED))
}

/// Returns the unit that a directive names.
fn unit<T>(
    infos: &[Info],
    key: KeyName,
    from_keyword: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Status> {
    let named = infos.value_of(key).and_then(Value::as_str);
    let word = named.map(|text| text.split(':').next().unwrap_or(text));
    let found = word.and_then(from_keyword);
    if found.is_none() {
        refuse_if_required(infos, key)?;
    }
    Ok(found)
}

fn refuse_if_required(infos: &[Info], key: KeyName) -> Result<(), Status> {
    let mut of_key = infos.iter().filter(|info| info.key == key);
    if of_key.any(|info| info.flags.contains(InfoFlags::REQUIRED)) {
        tracing::info!(
            key = key.0,
            "spawn refused: required directive not supported"
        );
        return Err(code::PMIX_ERR_NOT_SUPPORTED);
    }
    Ok(())
}

/// Returns the processors of this node, if the launcher knows them.
fn processors(like: &JobOptions) -> Option<Arc<NodeProcessors>> {
    let xml = like.topology.as_ref()?.as_str()?;
    let is_usable = usable_processors()
        .inspect_err(|error| tracing::warn!(%error, "own processors unknown"))
        .ok()?;
    NodeProcessors::read(xml, is_usable)
        .inspect_err(|error| tracing::warn!(%error, "processors of this node unknown"))
        .ok()
        .map(Arc::new)
}
