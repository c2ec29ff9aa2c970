//! `peal monitor usage`: resource usage of procs and the node.
use super::{
    EventListener, refused,
    usage::{self, MeasuredUsage, members},
    written,
};
use crate::{
    args::{MonitorUsage, OutputFormat},
    event::print,
    table::{Side, table},
    units,
};
use anyhow::Result;
use peal_client::{MonitorRequest, UsageSubject};
use peal_model::{Info, Proc, Value, code, key};
use peal_server::admin::WatchedInfo;
use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, SystemTime},
};

/// Placeholder for an unknown value.
const UNKNOWN: &str = "-";

/// Prints the usage once, or each time that the server reports it.
pub async fn usage(args: MonitorUsage) -> Result<ExitCode> {
    let MonitorUsage {
        server,
        targets,
        node,
        disks,
        networks,
        rate,
        count,
        format,
    } = args;
    let procs: Vec<Proc> = targets.into_iter().flat_map(|targets| targets.0).collect();
    let mut wanted = Vec::new();
    wanted.extend((node || procs.is_empty() && !disks && !networks).then_some(UsageSubject::Node));
    wanted.extend(disks.then_some(UsageSubject::Disks));
    wanted.extend(networks.then_some(UsageSubject::Networks));
    wanted.extend((!procs.is_empty()).then_some(UsageSubject::Procs(procs)));
    // Before the monitors start, so that the first report is not missed.
    let mut listening = EventListener::begin(server, code::PMIX_MONITOR_RESUSAGE_UPDATE).await?;
    let printed = async {
        let mut usage = Vec::new();
        for of in wanted {
            let watch = MonitorRequest::usage(of);
            let watch = rate.map_or_else(|| watch.clone(), |rate| watch.clone().at_rate(rate));
            match listening.tool.watch(watch).await {
                Ok(infos) => usage.extend(infos),
                Err(error) => return refused(error),
            }
        }
        if rate.is_some() {
            listening
                .print(count, |event| shown(&event.infos, format.output))
                .await?;
        } else {
            written(&shown(&usage, format.output)?).await?;
        }
        Ok(ExitCode::SUCCESS)
    };
    let ended = printed.await;
    listening.leave().await;
    ended
}

/// Formats the infos, with the last line end.
fn shown(infos: &[Info], format: OutputFormat) -> Result<String> {
    if let OutputFormat::Data(form) = format {
        return form.record(&infos.iter().map(WatchedInfo::from).collect::<Vec<_>>());
    }
    let mut text = procs(&usage::of_procs(infos));
    for info in infos.iter().filter(|info| !is_of_procs(info)) {
        lines(info, 0, &mut text);
    }
    Ok(text)
}

/// Returns true if an info is about procs, which have a table, or about the event that carried it.
fn is_of_procs(info: &Info) -> bool {
    let whole = [
        key::PMIX_PROC_RESOURCE_USAGE,
        key::PMIX_MONITOR_PROC_RESOURCE_USAGE,
    ];
    whole.iter().any(|key| info.key == *key) || members(info).is_none()
}

fn procs(usages: &BTreeMap<Proc, MeasuredUsage>) -> String {
    if usages.is_empty() {
        return String::new();
    }
    let shown = |amount: Option<f64>, unit: fn(f64) -> String| {
        amount.map_or_else(|| UNKNOWN.to_owned(), unit)
    };
    let row = |(proc, usage): (&Proc, &MeasuredUsage)| {
        let count = |count: Option<u64>| {
            count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string())
        };
        [
            proc.to_string(),
            usage.os_state.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            shown(usage.cpu_percent, |percent| format!("{percent:.1}")),
            shown(usage.cpu_seconds, units::seconds),
            shown(usage.resident_mb, units::megabytes),
            shown(usage.proportional_mb, units::megabytes),
            shown(usage.virtual_mb, units::megabytes),
            count(usage.threads),
            count(usage.tree_processes),
            shown(usage.tree_cpu_seconds, units::seconds),
            shown(usage.tree_mb, units::megabytes),
        ]
    };
    let right = Side::Right;
    let head = [
        ("proc", Side::Left),
        ("state", Side::Left),
        ("cpu%", right),
        ("cpu time", right),
        ("resident", right),
        ("share", right),
        ("virtual", right),
        ("threads", right),
        ("processes", right),
        ("tree cpu time", right),
        ("tree memory", right),
    ];
    table(head, &usages.iter().map(row).collect::<Vec<_>>())
}

/// Formats an info and its members as indented lines. The wire format bounds the depth.
fn lines(info: &Info, indent: usize, text: &mut String) {
    let Some(inner) = members(info) else {
        let line = match in_units(info) {
            Some(amount) => format!(
                "{}={amount}",
                crate::plain(info.key.standard_name().unwrap_or(info.key.as_str()))
            ),
            None => print::info(&WatchedInfo::from(info)),
        };
        *text += &format!("{:indent$}{line}\n", "");
        return;
    };
    *text += &format!(
        "{:indent$}{}\n",
        "",
        crate::plain(info.key.standard_name().unwrap_or(info.key.as_str()))
    );
    for info in inner {
        lines(info, indent + 2, text);
    }
}

/// Formats the amount of an info whose attribute has a unit.
fn in_units(info: &Info) -> Option<String> {
    let name = info.key.standard_name()?;
    if let (Value::Time(seconds), true) = (&info.value, name.ends_with("_SAMPLE_TIME")) {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(*seconds))?;
        return Some(humantime::format_rfc3339_seconds(at).to_string());
    }
    let amount = usage::number(&info.value)?;
    let memory = ["PMIX_NODE_MEM_", "PMIX_NODE_SWAP_"];
    if memory.iter().any(|start| name.starts_with(start)) {
        Some(units::megabytes(amount))
    } else if name.ends_with("_BYTES") {
        Some(units::bytes(amount))
    // The kernel counts the weighted time of disks in milliseconds as well.
    } else if name.ends_with("_MILLISEC") || name == "PMIX_DISK_IO_WEIGHTED" {
        Some(units::seconds(amount / 1000.0))
    } else if name.ends_with("_SECTORS") {
        Some(format!("{amount:.0} sectors"))
    } else if name.starts_with("PMIX_NODE_LOAD_AVG") {
        Some(format!("{amount:.2}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DataFormat;
    use peal_model::{DataArray, KeyName, Nspace, Rank};

    #[test]
    fn procs_are_in_a_table_and_the_rest_in_lines() {
        let array = |key: KeyName, infos: Vec<Info>| {
            Info::new(key, Value::DataArray(DataArray::infos(infos)))
        };
        let proc = Proc::new(Nspace::new("solver").unwrap(), Rank(3));
        let of_proc = vec![
            Info::new(key::PMIX_PROCID, Value::Proc(proc)),
            Info::new(key::PMIX_PROC_RSS, Value::Float(12.5)),
            Info::new(key::PMIX_PROC_OS_STATE, Value::string("R")),
        ];
        let node = vec![
            Info::new(key::PMIX_NODE_LOAD_AVG, Value::Float(0.5)),
            Info::new(key::PMIX_NODE_MEM_TOTAL, Value::Float(7_936.516)),
            Info::new(key::PMIX_NET_RECVD_BYTES, Value::Uint64(123_456_789)),
            Info::new(key::PMIX_DISK_READ_MILLISEC, Value::Uint64(90_500)),
            Info::new(key::PMIX_NET_RECVD_PCKTS, Value::Uint64(5)),
            Info::new(key::PMIX_NODE_SAMPLE_TIME, Value::Time(0)),
        ];
        let usage = [
            Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
            array(key::PMIX_PROC_RESOURCE_USAGE, of_proc),
            array(key::PMIX_NODE_RESOURCE_USAGE, node),
        ];
        let expected = "\
proc      state  cpu%  cpu time  resident  share  virtual  threads  processes  tree cpu time  tree memory
solver:3  R         -         -   12.5 MB      -        -        -          -              -            -
PMIX_NODE_RESOURCE_USAGE
  PMIX_NODE_LOAD_AVG=0.50
  PMIX_NODE_MEM_TOTAL=7.8 GB
  PMIX_NET_RECVD_BYTES=117.7 MB
  PMIX_DISK_READ_MILLISEC=1m30s
  PMIX_NET_RECVD_PCKTS=5
  PMIX_NODE_SAMPLE_TIME=1970-01-01T00:00:00Z
";
        assert_eq!(shown(&usage, OutputFormat::Text).unwrap(), expected);
        let json = shown(&usage, OutputFormat::Data(DataFormat::Json)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[2]["attribute"], "PMIX_NODE_RESOURCE_USAGE");
        assert_eq!(
            json[2]["value"][2]["value"], 123_456_789,
            "programs get the numbers"
        );
    }
}
