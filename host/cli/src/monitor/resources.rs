//! `peal monitor usage`: what procs and the node use of resources.
use super::{
    Listening, refused,
    usage::{self, Usage, members},
    written,
};
use crate::{
    args::MonitorUsage,
    event::print,
    table::{Side, table},
};
use anyhow::Result;
use peal_client::{UsageOf, Watch};
use peal_model::{Info, Proc, code, key};
use peal_server::admin::SeenInfo;
use std::{collections::BTreeMap, process::ExitCode};

/// What is not known.
const UNKNOWN: &str = "-";

/// Prints it once, or as often as it is told.
pub async fn usage(args: MonitorUsage) -> Result<ExitCode> {
    let MonitorUsage { server, targets, node, disks, networks, rate, count, json } = args;
    let procs: Vec<Proc> = targets.into_iter().flat_map(|targets| targets.0).collect();
    let mut wanted = Vec::new();
    wanted.extend((node || procs.is_empty() && !disks && !networks).then_some(UsageOf::Node));
    wanted.extend(disks.then_some(UsageOf::Disks));
    wanted.extend(networks.then_some(UsageOf::Networks));
    wanted.extend((!procs.is_empty()).then_some(UsageOf::Procs(procs)));
    let mut listening = Listening::begin(server, code::PMIX_MONITOR_RESUSAGE_UPDATE).await?;
    let mut told = Vec::new();
    for of in wanted {
        let watch = Watch::usage(of);
        let watch = rate.map_or_else(|| watch.clone(), |rate| watch.clone().at_rate(rate));
        match listening.tool.watch(watch).await {
            Ok(infos) => told.extend(infos),
            Err(error) => return refused(error),
        }
    }
    if rate.is_some() {
        listening.print(count, |event| shown(&event.infos, json)).await?;
    } else {
        written(&shown(&told, json)?).await?;
    }
    listening.leave().await;
    Ok(ExitCode::SUCCESS)
}

/// What was told, with the end of the last line.
fn shown(infos: &[Info], json: bool) -> Result<String> {
    if json {
        return Ok(serde_json::to_string(&infos.iter().map(SeenInfo::from).collect::<Vec<_>>())? + "\n");
    }
    let mut text = procs(&usage::of_procs(infos));
    for info in infos.iter().filter(|info| !is_of_procs(info)) {
        lines(info, 0, &mut text);
    }
    Ok(text)
}

/// Whether an info is about procs alone, which have a table, or about the event that carried it.
fn is_of_procs(info: &Info) -> bool {
    let whole = [key::PMIX_PROC_RESOURCE_USAGE, key::PMIX_MONITOR_PROC_RESOURCE_USAGE];
    whole.iter().any(|key| info.key == *key) || members(info).is_none()
}

fn procs(usages: &BTreeMap<Proc, Usage>) -> String {
    if usages.is_empty() {
        return String::new();
    }
    let number = |number: Option<f64>| number.map_or_else(|| UNKNOWN.to_owned(), |number| format!("{number:.1}"));
    let row = |(proc, usage): (&Proc, &Usage)| {
        let count = |count: Option<u64>| count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string());
        [
            proc.to_string(),
            usage.os_state.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            number(usage.cpu_percent),
            number(usage.cpu_seconds),
            number(usage.resident_mb),
            number(usage.proportional_mb),
            number(usage.virtual_mb),
            count(usage.threads),
            count(usage.tree_processes),
            number(usage.tree_cpu_seconds),
            number(usage.tree_mb),
        ]
    };
    let right = Side::Right;
    let head = [
        ("proc", Side::Left),
        ("state", Side::Left),
        ("cpu%", right),
        ("cpu s", right),
        ("resident MB", right),
        ("share MB", right),
        ("virtual MB", right),
        ("threads", right),
        ("processes", right),
        ("tree cpu s", right),
        ("tree MB", right),
    ];
    table(head, &usages.iter().map(row).collect::<Vec<_>>())
}

/// An info in lines, what is in it below it. As deep as the wire lets arrays be.
fn lines(info: &Info, indent: usize, text: &mut String) {
    let Some(inner) = members(info) else {
        *text += &format!("{:indent$}{}\n", "", print::info(&SeenInfo::from(info)));
        return;
    };
    *text += &format!("{:indent$}{}\n", "", crate::plain(info.key.standard_name().unwrap_or(info.key.as_str())));
    for info in inner {
        lines(info, indent + 2, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{DataArray, KeyName, Nspace, Rank, Value};

    #[test]
    fn procs_stand_in_a_table_and_the_rest_in_lines() {
        let array = |key: KeyName, infos: Vec<Info>| Info::new(key, Value::DataArray(DataArray::infos(infos)));
        let proc = Proc::new(Nspace::new("solver").unwrap(), Rank(3));
        let of_proc = vec![
            Info::new(key::PMIX_PROCID, Value::Proc(proc)),
            Info::new(key::PMIX_PROC_RSS, Value::Float(12.5)),
            Info::new(key::PMIX_PROC_OS_STATE, Value::string("R")),
        ];
        let node = vec![Info::new(key::PMIX_NODE_LOAD_AVG, Value::Float(0.5))];
        let told = [
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
            array(key::PMIX_PROC_RESOURCE_USAGE, of_proc),
            array(key::PMIX_NODE_RESOURCE_USAGE, node),
        ];
        let expected = "\
proc      state  cpu%  cpu s  resident MB  share MB  virtual MB  threads  processes  tree cpu s  tree MB
solver:3  R         -      -         12.5         -           -        -          -           -        -
PMIX_NODE_RESOURCE_USAGE
  PMIX_NODE_LOAD_AVG=0.5
";
        assert_eq!(shown(&told, false).unwrap(), expected);
        let json: serde_json::Value = serde_json::from_str(&shown(&told, true).unwrap()).unwrap();
        assert_eq!(json[2]["attribute"], "PMIX_NODE_RESOURCE_USAGE");
    }
}
