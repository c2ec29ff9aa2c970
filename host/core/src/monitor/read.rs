//! Parsing of monitor requests, complete before any effect.
use super::{
    FileChanges, LivenessSource, Monitor, MonitorError, MonitorSelector, MonitorSpec, Sampling,
    UsageOf, UsageRequest, named,
};
use crate::targets::{self, JobRanks};
use peal_model::{
    Event, Info, InfoFlags, Infos, KeyName, Nspace, Proc, Range, Status, Value, code, key,
};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Maximum number of procs in one usage request.
const MOST_PROCS: usize = 1024;

/// Maximum length of an id, in bytes, because it is in every event.
const LONGEST_ID: usize = 256;

/// Maximum length of a path, in bytes, as in the kernel.
const LONGEST_PATH: usize = 4096;

/// The directives of monitoring, each with the kinds of monitor that it belongs to.
const DIRECTIVES: [(KeyName, &[KeyName]); 15] = [
    (
        key::PMIX_MONITOR_HEARTBEAT_TIME,
        &[key::PMIX_MONITOR_HEARTBEAT],
    ),
    (
        key::PMIX_MONITOR_HEARTBEAT_DROPS,
        &[key::PMIX_MONITOR_HEARTBEAT],
    ),
    (key::PMIX_MONITOR_FILE_SIZE, &[key::PMIX_MONITOR_FILE]),
    (key::PMIX_MONITOR_FILE_ACCESS, &[key::PMIX_MONITOR_FILE]),
    (key::PMIX_MONITOR_FILE_MODIFY, &[key::PMIX_MONITOR_FILE]),
    (key::PMIX_MONITOR_FILE_CHECK_TIME, &[key::PMIX_MONITOR_FILE]),
    (key::PMIX_MONITOR_FILE_DROPS, &[key::PMIX_MONITOR_FILE]),
    (
        key::PMIX_MONITOR_APP_CONTROL,
        &[key::PMIX_MONITOR_HEARTBEAT, key::PMIX_MONITOR_FILE],
    ),
    (key::PMIX_MONITOR_RESOURCE_RATE, &USAGES),
    (
        key::PMIX_MONITOR_TARGET_PROCS,
        &[key::PMIX_MONITOR_PROC_RESOURCE_USAGE],
    ),
    (
        key::PMIX_MONITOR_TARGET_PIDS,
        &[key::PMIX_MONITOR_PROC_RESOURCE_USAGE],
    ),
    (key::PMIX_MONITOR_TARGET_NODES, &USAGES),
    (
        key::PMIX_MONITOR_TARGET_DISKS,
        &[key::PMIX_MONITOR_DISK_RESOURCE_USAGE],
    ),
    (
        key::PMIX_MONITOR_TARGET_NETS,
        &[key::PMIX_MONITOR_NET_RESOURCE_USAGE],
    ),
    (key::PMIX_MONITOR_LOCAL_ONLY, &USAGES),
];

const USAGES: [KeyName; 4] = [
    key::PMIX_MONITOR_PROC_RESOURCE_USAGE,
    key::PMIX_MONITOR_NODE_RESOURCE_USAGE,
    key::PMIX_MONITOR_DISK_RESOURCE_USAGE,
    key::PMIX_MONITOR_NET_RESOURCE_USAGE,
];

/// Directives that belong to all kinds of monitor.
const COMMON: [KeyName; 3] = [
    key::PMIX_MONITOR_ID,
    key::PMIX_RANGE,
    key::PMIX_EVENT_CUSTOM_RANGE,
];

/// Parses a request of `requester`. `error` is the code of the event to raise. `ranks` returns
/// those of a known job, `jobs` the jobs of the requester's user.
///
/// # Errors
///
/// Fails if a directive is invalid, missing, or does not belong to the kind of monitor.
pub fn read(
    requester: &Proc,
    monitor: &Info,
    error: Status,
    directives: &[Info],
    ranks: impl Fn(&Nspace) -> Option<JobRanks>,
    jobs: impl Fn() -> Vec<Nspace>,
) -> Result<Monitor, MonitorError> {
    let is = |key: KeyName| monitor.key == key;
    if is(key::PMIX_SEND_HEARTBEAT) {
        return Ok(Monitor::Beat);
    }
    if is(key::PMIX_MONITOR_CANCEL) {
        fits(key::PMIX_MONITOR_CANCEL, directives)?;
        return Ok(Monitor::Cancel(cancelled(&monitor.value)?));
    }
    if is(key::PMIX_MONITOR_HEARTBEAT) {
        fits(key::PMIX_MONITOR_HEARTBEAT, directives)?;
        return watch(
            requester,
            heartbeats(&monitor.value, directives)?,
            error,
            directives,
        );
    }
    if is(key::PMIX_MONITOR_FILE) {
        fits(key::PMIX_MONITOR_FILE, directives)?;
        return watch(
            requester,
            file(&monitor.value, directives)?,
            error,
            directives,
        );
    }
    let kind = USAGES.into_iter().find(|usage| is(*usage));
    let kind = kind.ok_or_else(|| MonitorError::UnknownKind(monitor.key.clone()))?;
    fits(kind, directives)?;
    let MeasuredUsage { of, mut elsewhere } = measured_usage(kind, directives, ranks, jobs)?;
    let usage = UsageRequest {
        of,
        fields: fields(kind, &monitor.value)?,
        nodes: nodes(directives)?,
    };
    if truth(directives, key::PMIX_MONITOR_LOCAL_ONLY)? {
        elsewhere.retain(|proc| proc.rank.is_valid());
    }
    let id = id(directives)?;
    let (range, mut infos) = range(directives, Range::Custom)?;
    // Unless the request says otherwise, updates are for the requester alone.
    if range == Range::Custom && infos.is_empty() {
        infos.push(Info::new(
            key::PMIX_EVENT_CUSTOM_RANGE,
            Value::procs([requester.clone()]),
        ));
    }
    infos.extend(named(id.as_ref()));
    // An update is useless to later recipients.
    infos.push(Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true)));
    let code = raised(error, code::PMIX_MONITOR_RESUSAGE_UPDATE)?;
    let update = Arc::new(Event {
        code,
        source: None,
        range,
        infos,
    });
    let rate = seconds(directives, key::PMIX_MONITOR_RESOURCE_RATE)?;
    Ok(Monitor::Usage(Sampling {
        id,
        usage: Arc::new(usage),
        elsewhere,
        rate,
        update,
    }))
}

/// Returns a liveness monitor. The source of the alert is the silent proc, as in OpenPMIx.
/// [`crate::event_targets::BY_SERVER`] makes the proc receive it, too.
fn watch(
    requester: &Proc,
    signs: LivenessSource,
    error: Status,
    directives: &[Info],
) -> Result<Monitor, MonitorError> {
    let id = id(directives)?;
    let (range, targets) = range(directives, Range::Namespace)?;
    let usual = match &signs {
        LivenessSource::Heartbeats { .. } => code::PMIX_MONITOR_HEARTBEAT_ALERT,
        LivenessSource::File { .. } => code::PMIX_MONITOR_FILE_ALERT,
    };
    let mut infos = vec![Info::new(
        key::PMIX_EVENT_AFFECTED_PROC,
        Value::Proc(requester.clone()),
    )];
    infos.extend(named(id.as_ref()));
    if truth(directives, key::PMIX_MONITOR_APP_CONTROL)? {
        infos.push(Info::new(key::PMIX_MONITOR_APP_CONTROL, Value::Bool(true)));
    }
    if let LivenessSource::File { path, .. } = &signs {
        infos.push(Info::new(
            key::PMIX_MONITOR_FILE,
            Value::String(Some(path_text(path))),
        ));
    }
    infos.extend(targets);
    let alert = Arc::new(Event {
        code: raised(error, usual)?,
        source: Some(requester.clone()),
        range,
        infos,
    });
    Ok(Monitor::Watch(MonitorSpec { id, signs, alert }))
}

fn path_text(path: &Path) -> peal_model::Text {
    peal_model::Text::from_bytes(path.as_os_str().as_bytes())
}

/// Returns the code of the event. Codes of the system and of Peal are excluded, because the event
/// is raised in the server's name.
fn raised(error: Status, usual: Status) -> Result<Status, MonitorError> {
    let of_the_system = code::PMIX_EVENT_SYS_OTHER..=code::PMIX_EVENT_SYS_BASE;
    match error {
        code::PMIX_SUCCESS => Ok(usual),
        error if error.0 > 0 || error.0 <= -1_000_000 || of_the_system.contains(&error) => {
            Err(MonitorError::BadCode(error))
        }
        error => Ok(error),
    }
}

/// Checks that all directives belong to this kind, none is given twice with different values, and
/// no required one is unknown.
fn fits(kind: KeyName, directives: &[Info]) -> Result<(), MonitorError> {
    for info in directives {
        let known = DIRECTIVES.iter().find(|(key, _)| info.key == *key);
        let fits = known.map(|(_, kinds)| kinds.contains(&kind));
        // A cancellation raises no event, so it has neither an id nor a range of its own.
        let common = COMMON.iter().any(|key| info.key == *key) && kind != key::PMIX_MONITOR_CANCEL;
        match (known, fits, common) {
            (Some((key, _)), Some(false), _) => {
                return Err(MonitorError::Stray {
                    key: key.0,
                    kind: kind.0,
                });
            }
            (None, _, false)
                if info.flags.contains(InfoFlags::REQUIRED) || changes_targets(info) =>
            {
                return Err(MonitorError::Unsupported(info.key.clone()));
            }
            _ => {}
        }
        // The kind is given in one place only. Keys of unknown meaning are no obstacle.
        let kinds = [
            key::PMIX_MONITOR_HEARTBEAT,
            key::PMIX_MONITOR_FILE,
            key::PMIX_MONITOR_CANCEL,
        ]
        .into_iter();
        if let Some(other) = kinds.chain(USAGES).find(|other| info.key == *other) {
            return Err(MonitorError::Stray {
                key: other.0,
                kind: kind.0,
            });
        }
        // Several lists of targets are combined.
        let lists = [
            key::PMIX_MONITOR_TARGET_PROCS,
            key::PMIX_MONITOR_TARGET_PIDS,
            key::PMIX_MONITOR_TARGET_NODES,
        ];
        let once = known
            .map(|(key, _)| *key)
            .filter(|key| !lists.contains(key));
        let once = once.or_else(|| COMMON.into_iter().find(|key| info.key == *key));
        if let Some(key) = once
            && directives
                .iter()
                .any(|other| other.key == key && other.value != info.value)
        {
            return Err(MonitorError::Twice(key.0));
        }
    }
    Ok(())
}

/// Returns true for unsupported directives that must not be ignored, because other procs would be
/// monitored than requested.
fn changes_targets(info: &Info) -> bool {
    info.key == key::PMIX_MONITOR_PROXY || info.key == key::PMIX_MONITOR_TARGET_NODEIDS
}

/// Parses a heartbeat monitor. The header defines a boolean value; the RFC defines none, which
/// libraries pack as a pointer.
fn heartbeats(value: &Value, directives: &[Info]) -> Result<LivenessSource, MonitorError> {
    if *value != Value::Pointer && value.as_bool() != Some(true) {
        return Err(bad(
            key::PMIX_MONITOR_HEARTBEAT,
            value,
            "a PMIX_BOOL that is true, or nothing",
        ));
    }
    let time =
        seconds(directives, key::PMIX_MONITOR_HEARTBEAT_TIME)?.ok_or(MonitorError::Missing {
            kind: key::PMIX_MONITOR_HEARTBEAT.0,
            directive: "pmix.monitor.btime, the seconds after which a heartbeat is due",
        })?;
    Ok(LivenessSource::Heartbeats {
        time,
        drops: number(directives, key::PMIX_MONITOR_HEARTBEAT_DROPS)?.unwrap_or(0),
    })
}

fn file(value: &Value, directives: &[Info]) -> Result<LivenessSource, MonitorError> {
    let text = if let Value::String(Some(text)) = value {
        text.as_bytes()
    } else {
        &[]
    };
    let path = PathBuf::from(OsStr::from_bytes(text));
    // `Path` ignores a slash at the end, which can only follow the name of a directory.
    let names_a_file = path.is_absolute() && path.file_name().is_some() && !text.ends_with(b"/");
    if !names_a_file || text.len() > LONGEST_PATH {
        return Err(bad(
            key::PMIX_MONITOR_FILE,
            value,
            "a PMIX_STRING, the absolute path of a file",
        ));
    }
    let kind = key::PMIX_MONITOR_FILE.0;
    let check =
        seconds(directives, key::PMIX_MONITOR_FILE_CHECK_TIME)?.ok_or(MonitorError::Missing {
            kind,
            directive: "pmix.monitor.ftime, the seconds between two looks at it",
        })?;
    let traces = FileChanges {
        size: truth(directives, key::PMIX_MONITOR_FILE_SIZE)?,
        access: trace(directives, key::PMIX_MONITOR_FILE_ACCESS)?,
        modify: trace(directives, key::PMIX_MONITOR_FILE_MODIFY)?,
    };
    // Otherwise nothing would be a sign of life, and each check would count as missed.
    if traces == FileChanges::default() {
        let directive = "one of pmix.monitor.fsize, pmix.monitor.faccess and pmix.monitor.fmod, which select the signs of life";
        return Err(MonitorError::Missing { kind, directive });
    }
    let drops = number(directives, key::PMIX_MONITOR_FILE_DROPS)?.unwrap_or(0);
    Ok(LivenessSource::File {
        path,
        traces,
        check,
        drops,
    })
}

fn cancelled(value: &Value) -> Result<MonitorSelector, MonitorError> {
    match value {
        // RFC "Job control and monitoring": NULL cancels all monitoring for the proc.
        Value::Undef | Value::Pointer | Value::String(None) => Ok(MonitorSelector::All),
        value => match value.as_str() {
            Some(id) => Ok(MonitorSelector::One(id.to_owned())),
            None => Err(bad(
                key::PMIX_MONITOR_CANCEL,
                value,
                "a PMIX_STRING, the id of a monitor, or nothing for all",
            )),
        },
    }
}

/// The usage that a request is about.
struct MeasuredUsage {
    /// The part that this server measures.
    of: UsageOf,
    /// Procs of other nodes.
    elsewhere: Vec<Proc>,
}

impl From<UsageOf> for MeasuredUsage {
    fn from(of: UsageOf) -> MeasuredUsage {
        let elsewhere = Vec::new();
        MeasuredUsage { of, elsewhere }
    }
}

fn measured_usage(
    kind: KeyName,
    directives: &[Info],
    ranks: impl Fn(&Nspace) -> Option<JobRanks>,
    jobs: impl Fn() -> Vec<Nspace>,
) -> Result<MeasuredUsage, MonitorError> {
    if kind == key::PMIX_MONITOR_NODE_RESOURCE_USAGE {
        return Ok(UsageOf::Node.into());
    }
    if kind == key::PMIX_MONITOR_DISK_RESOURCE_USAGE {
        let disks = names(directives, key::PMIX_MONITOR_TARGET_DISKS)?;
        return Ok(UsageOf::Disks(disks).into());
    }
    if kind == key::PMIX_MONITOR_NET_RESOURCE_USAGE {
        let networks = names(directives, key::PMIX_MONITOR_TARGET_NETS)?;
        return Ok(UsageOf::Networks(networks).into());
    }
    let mut named = Vec::new();
    let mut pids = BTreeSet::new();
    for info in directives {
        if info.key == key::PMIX_MONITOR_TARGET_PROCS {
            let procs = info.value.as_procs();
            let wrong = || {
                bad(
                    key::PMIX_MONITOR_TARGET_PROCS,
                    &info.value,
                    "an array of PMIX_PROC",
                )
            };
            named.extend(procs.ok_or_else(wrong)?);
        } else if info.key == key::PMIX_MONITOR_TARGET_PIDS {
            pids.extend(processes(&info.value)?);
        }
    }
    let all_of_user = named.is_empty() && pids.is_empty();
    if all_of_user {
        named = jobs().into_iter().map(Proc::all).collect();
    }
    let mut procs = targets::resolve(&named, ranks)?;
    // Without any name those of this node are meant.
    if all_of_user {
        procs.elsewhere.clear();
    }
    // A sample measures each proc, so their number bounds its cost.
    let found = procs.local.len() + pids.len();
    if found > MOST_PROCS {
        return Err(MonitorError::TooManyProcs {
            found,
            max: MOST_PROCS,
        });
    }
    Ok(MeasuredUsage {
        of: UsageOf::Procs {
            procs: procs.local,
            pids,
        },
        elsewhere: procs.elsewhere,
    })
}

fn processes(value: &Value) -> Result<BTreeSet<u32>, MonitorError> {
    let pid = |item: &Value| match item {
        Value::NodePid(process) => Some(process.pid),
        number => number.as_u32(),
    };
    let pids: Option<BTreeSet<u32>> = items(value).iter().map(pid).collect();
    pids.ok_or_else(|| {
        bad(
            key::PMIX_MONITOR_TARGET_PIDS,
            value,
            "an array of PMIX_NODE_PID",
        )
    })
}

/// Returns the nodes that the request names, also as the nodes of process ids: the same process id
/// is another process on another node.
fn nodes(directives: &[Info]) -> Result<BTreeSet<String>, MonitorError> {
    let mut nodes = names(directives, key::PMIX_MONITOR_TARGET_NODES)?;
    let processes = directives
        .iter()
        .filter(|info| info.key == key::PMIX_MONITOR_TARGET_PIDS)
        .flat_map(|info| items(&info.value));
    for process in processes {
        if let Value::NodePid(process) = process
            && let Some(hostname) = &process.hostname
            && !hostname.as_bytes().is_empty()
        {
            nodes.insert(hostname.to_string_lossy().into_owned());
        }
    }
    Ok(nodes)
}

/// Returns the elements of an array. A single value is accepted as an array of one.
fn items(value: &Value) -> &[Value] {
    if let Value::DataArray(array) = value {
        array.items()
    } else {
        std::slice::from_ref(value)
    }
}

/// Parses the requested attributes. Their values have no meaning.
fn fields(kind: KeyName, value: &Value) -> Result<BTreeSet<peal_model::Key>, MonitorError> {
    let infos = match value {
        Value::Undef | Value::Pointer | Value::Bool(true) => return Ok(BTreeSet::new()),
        Value::DataArray(array) if array.items().is_empty() => return Ok(BTreeSet::new()),
        Value::DataArray(array) => array.as_infos(),
        _ => None,
    };
    let infos = infos.ok_or_else(|| {
        bad(
            kind,
            value,
            "an array of PMIX_INFO with the requested keys, or nothing for all",
        )
    })?;
    Ok(infos.into_iter().map(|info| info.key.clone()).collect())
}

fn names(directives: &[Info], key: KeyName) -> Result<BTreeSet<String>, MonitorError> {
    let mut names = BTreeSet::new();
    for value in directives
        .iter()
        .filter(|info| info.key == key)
        .map(|info| &info.value)
    {
        let texts: Option<Vec<&str>> = items(value).iter().map(Value::as_str).collect();
        let texts = texts.ok_or_else(|| bad(key, value, "an array of PMIX_STRING"))?;
        names.extend(texts.into_iter().map(str::to_owned));
    }
    Ok(names)
}

fn id(directives: &[Info]) -> Result<Option<String>, MonitorError> {
    let Some(value) = directives.value_of(key::PMIX_MONITOR_ID) else {
        return Ok(None);
    };
    let id = value
        .as_str()
        .filter(|id| (1..=LONGEST_ID).contains(&id.len()));
    let wrong = || {
        bad(
            key::PMIX_MONITOR_ID,
            value,
            "a PMIX_STRING of 1 to 256 bytes",
        )
    };
    id.map(|id| Some(id.to_owned())).ok_or_else(wrong)
}

/// Parses the range of the event, with the infos that it needs.
fn range(directives: &[Info], default: Range) -> Result<(Range, Vec<Info>), MonitorError> {
    let targets = directives
        .iter()
        .find(|info| info.key == key::PMIX_EVENT_CUSTOM_RANGE);
    let range = match directives.value_of(key::PMIX_RANGE) {
        None if targets.is_some() => Range::Custom,
        None => default,
        Some(value) => value
            .as_range()
            .ok_or_else(|| bad(key::PMIX_RANGE, value, "a PMIX_DATA_RANGE"))?,
    };
    match (range, targets) {
        (Range::Undef | Range::ProcLocal, _) => Err(MonitorError::BadRange),
        (Range::Custom, Some(targets)) if targets.value.as_procs().is_none() => Err(bad(
            key::PMIX_EVENT_CUSTOM_RANGE,
            &targets.value,
            "a PMIX_PROC or an array of them",
        )),
        (Range::Custom, Some(targets)) => Ok((range, vec![targets.clone()])),
        // The caller of this function adds the requester as the target.
        (Range::Custom, None) if default == Range::Custom => Ok((range, Vec::new())),
        (Range::Custom, None) | (_, Some(_)) => Err(MonitorError::BadRange),
        (_, None) => Ok((range, Vec::new())),
    }
}

fn seconds(directives: &[Info], key: KeyName) -> Result<Option<Duration>, MonitorError> {
    let Some(value) = directives.value_of(key) else {
        return Ok(None);
    };
    // A period of zero would be due at every tick.
    let seconds = value.as_u32().filter(|seconds| *seconds > 0);
    let wrong = || bad(key, value, "a PMIX_UINT32, in seconds, at least 1");
    Ok(Some(Duration::from_secs(u64::from(
        seconds.ok_or_else(wrong)?,
    ))))
}

fn number(directives: &[Info], key: KeyName) -> Result<Option<u32>, MonitorError> {
    let Some(value) = directives.value_of(key) else {
        return Ok(None);
    };
    value
        .as_u32()
        .map(Some)
        .ok_or_else(|| bad(key, value, "a PMIX_UINT32"))
}

fn truth(directives: &[Info], key: KeyName) -> Result<bool, MonitorError> {
    let Some(value) = directives.value_of(key) else {
        return Ok(false);
    };
    value
        .as_bool()
        .ok_or_else(|| bad(key, value, "a PMIX_BOOL"))
}

/// Parses a flag that the RFC and later headers define as a string of undefined content, and
/// libraries send as a boolean.
fn trace(directives: &[Info], key: KeyName) -> Result<bool, MonitorError> {
    match directives.value_of(key) {
        None => Ok(false),
        Some(Value::String(_)) => Ok(true),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| bad(key, value, "a PMIX_BOOL or a PMIX_STRING")),
    }
}

fn bad(key: KeyName, value: &Value, expected: &'static str) -> MonitorError {
    MonitorError::BadValue {
        key: key.0,
        found: value.to_string(),
        expected,
    }
}
