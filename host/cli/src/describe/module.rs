//! `peal describe module`.
use super::DescribedParts;
use crate::{
    admin,
    args::{DescribeModule, ServerArgs},
    module, users,
};
use anyhow::{Context, Result, bail};
use peal_config::nearest;
use peal_sandbox::Inspection;
use peal_server::{
    admin::{
        AdminReply, AdminRequest, Chain, ChainOwner, ModuleCall, ModuleState, ModuleStatus,
        ShadowReport, VersionStatus,
    },
    metrics::MetricFamily,
};
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode};

/// Label of the metrics of a module.
const MODULE_LABEL: &str = "module";

/// Describes a module, once for each of its owners.
pub(super) fn describe(args: DescribeModule) -> Result<ExitCode> {
    let DescribeModule { at, name, format } = args;
    let list = module::modules(at.clone())?;
    let named: Vec<&ModuleStatus> = list
        .modules
        .iter()
        .filter(|module| module.name == name)
        .collect();
    let Some(first) = named.first() else {
        let names = list.modules.iter().map(|module| module.name.as_str());
        let hint = match nearest(&name, names) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`peal module list` shows all".to_owned(),
        };
        bail!("the server has no module {name:?}; {hint}");
    };
    let mut told = DescribedParts::default();
    let modules: Result<Vec<Value>> = named.iter().map(|module| status(module)).collect();
    told.add("module", modules?)?;
    match &first.path {
        Some(path) => told.add_known("component", component(Path::new(path)))?,
        None => told.add("component", Value::Null)?,
    }
    told.add_known("handlers", handlers(at.clone(), &name))?;
    let is_shadow = named
        .iter()
        .any(|module| module.state == ModuleState::Shadow);
    if is_shadow {
        told.add_known("differences", differences(at.clone(), &name))?;
    }
    told.add_known("metrics", metrics(at, &name))?;
    let has = |version: &&VersionStatus| version.modules.contains(&name);
    let versions: Vec<u64> = list
        .versions
        .iter()
        .filter(has)
        .map(|version| version.version)
        .collect();
    told.add("versions", versions)?;
    told.print(format.output)
}

fn status(module: &ModuleStatus) -> Result<Value> {
    let mut told = serde_json::to_value(module)?;
    if let (Some(fields), ChainOwner::User(uid)) = (told.as_object_mut(), &module.owner) {
        fields.insert("user".to_owned(), json!(users::name(*uid)));
    }
    Ok(told)
}

/// Inspects the component on this node.
fn component(path: &Path) -> Result<Inspection> {
    let bytes = peal_modules::read(path)?;
    peal_sandbox::inspect(&bytes).with_context(|| path.display().to_string())
}

/// Returns the registrations of a module in all chains.
fn handlers(at: ServerArgs, name: &str) -> Result<Vec<Value>> {
    let (reply, _) = admin::request(at, &AdminRequest::Chains)?;
    let AdminReply::Chains { chains } = reply else {
        return admin::unexpected(&reply);
    };
    let of_chain = |chain: &Chain| {
        let owner = users::owner(&chain.owner);
        let handlers = chain.handlers.iter().enumerate();
        let own = handlers.filter(|(_, handler)| handler.module == name);
        own.map(
            |(place, handler)| json!({ "chain": owner, "position": place + 1, "handler": handler }),
        )
        .collect::<Vec<Value>>()
    };
    Ok(chains.iter().flat_map(of_chain).collect())
}

fn differences(at: ServerArgs, name: &str) -> Result<Vec<ShadowReport>> {
    let name = name.to_owned();
    let (reply, _) = admin::request(at, &AdminRequest::Module(ModuleCall::Diff { name }))?;
    match reply {
        AdminReply::Differences { shadows } => Ok(shadows),
        reply => admin::unexpected(&reply),
    }
}

/// Returns the samples of a module.
fn metrics(at: ServerArgs, name: &str) -> Result<Vec<Value>> {
    let (reply, _) = admin::request(at, &AdminRequest::Stats)?;
    let AdminReply::Stats(snapshot) = reply else {
        return admin::unexpected(&reply);
    };
    let of_family = |family: &MetricFamily| {
        let samples = family.samples.iter();
        let own = samples.filter(|sample| {
            let label = sample.labels.get(MODULE_LABEL);
            label.is_some_and(|label| label == name)
        });
        own.map(
            |sample| json!({ "name": family.name, "labels": sample.labels, "value": sample.value }),
        )
        .collect::<Vec<Value>>()
    };
    Ok(snapshot.families.iter().flat_map(of_family).collect())
}
