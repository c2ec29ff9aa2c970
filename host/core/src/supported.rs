//! Supported attributes of each call (`PMIX_QUERY_ATTRIBUTE_SUPPORT`): the server's table, and
//! answers to queries.
use peal_model::{
    Attribute, DataArray, Info, Infos, Key, KeyName, Query, Regattr, Text, Value, key,
};
use std::collections::{BTreeMap, BTreeSet};

/// A call, and its supported attributes.
pub type Supported = (&'static str, &'static [KeyName]);

/// The attributes that the server itself supports. The host environment reports its own.
pub const SERVER: &[Supported] = &[
    ("PMIx_Abort", &[]),
    ("PMIx_Commit", &[]),
    ("PMIx_Connect", &[key::PMIX_TIMEOUT]),
    ("PMIx_Disconnect", &[key::PMIX_TIMEOUT]),
    ("PMIx_Fence", &[key::PMIX_COLLECT_DATA, key::PMIX_TIMEOUT]),
    (
        "PMIx_Get",
        &[
            key::PMIX_GROUP_CONTEXT_ID,
            key::PMIX_IMMEDIATE,
            key::PMIX_OPTIONAL,
            key::PMIX_TIMEOUT,
        ],
    ),
    (
        "PMIx_Group_construct",
        &[
            key::PMIX_GROUP_ADD_MEMBERS,
            key::PMIX_GROUP_ASSIGN_CONTEXT_ID,
            key::PMIX_GROUP_BOOTSTRAP,
            key::PMIX_GROUP_FINAL_MEMBERSHIP_ORDER,
            key::PMIX_GROUP_FT_COLLECTIVE,
            key::PMIX_GROUP_INFO,
            key::PMIX_GROUP_LEADER,
            key::PMIX_GROUP_LOCAL_ONLY,
            key::PMIX_GROUP_NOTIFY_TERMINATION,
            key::PMIX_GROUP_OPTIONAL,
            key::PMIX_TIMEOUT,
        ],
    ),
    ("PMIx_Group_destruct", &[key::PMIX_TIMEOUT]),
    ("PMIx_Group_leave", &[]),
    (
        "PMIx_Job_control",
        &[
            key::PMIX_JOB_CTRL_CANCEL,
            key::PMIX_JOB_CTRL_CHECKPOINT,
            key::PMIX_JOB_CTRL_CHECKPOINT_EVENT,
            key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
            key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL,
            key::PMIX_JOB_CTRL_ID,
            key::PMIX_JOB_CTRL_PREEMPTIBLE,
            key::PMIX_JOB_CTRL_PROVISION,
            key::PMIX_JOB_CTRL_PROVISION_IMAGE,
            key::PMIX_TIMEOUT,
        ],
    ),
    (
        "PMIx_Log",
        &[
            key::PMIX_LOG_AGG,
            key::PMIX_LOG_EMAIL,
            key::PMIX_LOG_GENERATE_TIMESTAMP,
            key::PMIX_LOG_GLOBAL_SYSLOG,
            key::PMIX_LOG_JOB_RECORD,
            key::PMIX_LOG_KEY,
            key::PMIX_LOG_LOCAL_SYSLOG,
            key::PMIX_LOG_ONCE,
            key::PMIX_LOG_SYSLOG,
            key::PMIX_LOG_TIMESTAMP,
            key::PMIX_LOG_VAL,
        ],
    ),
    (
        "PMIx_Notify_event",
        &[
            key::PMIX_EVENT_AFFECTED_PROC,
            key::PMIX_EVENT_AFFECTED_PROCS,
            key::PMIX_EVENT_CUSTOM_RANGE,
            key::PMIX_EVENT_DO_NOT_CACHE,
            key::PMIX_EVENT_NON_DEFAULT,
            key::PMIX_EVENT_STAYS_LOCAL,
        ],
    ),
    (
        "PMIx_Process_monitor",
        &[
            key::PMIX_MONITOR_APP_CONTROL,
            key::PMIX_MONITOR_CANCEL,
            key::PMIX_MONITOR_FILE,
            key::PMIX_MONITOR_FILE_ACCESS,
            key::PMIX_MONITOR_FILE_CHECK_TIME,
            key::PMIX_MONITOR_FILE_DROPS,
            key::PMIX_MONITOR_FILE_MODIFY,
            key::PMIX_MONITOR_FILE_SIZE,
            key::PMIX_MONITOR_HEARTBEAT,
            key::PMIX_MONITOR_HEARTBEAT_DROPS,
            key::PMIX_MONITOR_HEARTBEAT_TIME,
            key::PMIX_MONITOR_ID,
            key::PMIX_SEND_HEARTBEAT,
        ],
    ),
    (
        "PMIx_Query_info",
        &[
            key::PMIX_GROUP_ID,
            key::PMIX_JOB_CTRL_ID,
            key::PMIX_PSET_NAME,
            key::PMIX_QUERY_ATTRIBUTE_SUPPORT,
            key::PMIX_QUERY_DEBUG_SUPPORT,
            key::PMIX_QUERY_GROUP_MEMBERSHIP,
            key::PMIX_QUERY_GROUP_NAMES,
            key::PMIX_QUERY_NUM_GROUPS,
            key::PMIX_QUERY_NUM_PSETS,
            key::PMIX_QUERY_PSET_MEMBERSHIP,
            key::PMIX_QUERY_PSET_NAMES,
            key::PMIX_QUERY_SPAWN_SUPPORT,
        ],
    ),
    (
        "PMIx_Register_event_handler",
        &[
            key::PMIX_EVENT_AFFECTED_PROC,
            key::PMIX_EVENT_AFFECTED_PROCS,
            key::PMIX_EVENT_ENVIRO_LEVEL,
            key::PMIX_EVENT_JOB_LEVEL,
        ],
    ),
    ("PMIx_Resolve_nodes", &[]),
    ("PMIx_Resolve_peers", &[]),
];

/// Spawn attributes for debuggers.
const FOR_DEBUGGERS: [KeyName; 10] = [
    key::PMIX_DEBUGGER_DAEMONS,
    key::PMIX_DEBUG_APP_DIRECTIVES,
    key::PMIX_DEBUG_DAEMONS_PER_NODE,
    key::PMIX_DEBUG_DAEMONS_PER_PROC,
    key::PMIX_DEBUG_JOB,
    key::PMIX_DEBUG_JOB_DIRECTIVES,
    key::PMIX_DEBUG_STOP_IN_APP,
    key::PMIX_DEBUG_STOP_IN_INIT,
    key::PMIX_DEBUG_STOP_ON_EXEC,
    key::PMIX_DEBUG_TARGET,
];

/// Answers queries about supported attributes and calls. The answers for the server and for the
/// host environment are the same: both together, because requesters cannot tell them apart. Clients
/// and tools know what their libraries support. The attributes of spawned procs
/// (`PMIX_QUERY_SPAWN_SUPPORT`) and those for debuggers (`PMIX_QUERY_DEBUG_SUPPORT`) come from the
/// same table.
///
/// There is one info for each call, because `pattrs` of libpmix 4.2 uses the length of the first
/// list for all lists in the same info.
pub fn answer_queries(queries: &[Query], host: &[Supported]) -> Vec<Info> {
    let mut infos = Vec::new();
    for query in queries {
        for key in query.keys.iter().flatten().filter_map(Text::as_str) {
            if key == key::PMIX_QUERY_ATTRIBUTE_SUPPORT.0 {
                infos.extend(answer(&query.qualifiers, host));
            } else if key == key::PMIX_QUERY_SPAWN_SUPPORT.0 {
                infos.extend(of_spawn(host, key::PMIX_QUERY_SPAWN_SUPPORT, |_| true));
            } else if key == key::PMIX_QUERY_DEBUG_SUPPORT.0 {
                infos.extend(of_spawn(host, key::PMIX_QUERY_DEBUG_SUPPORT, |key| {
                    FOR_DEBUGGERS.contains(key)
                }));
            }
        }
    }
    infos
}

/// Returns the selected spawn attributes; none if spawning is not supported.
fn of_spawn(host: &[Supported], key: KeyName, is_meant: impl Fn(&KeyName) -> bool) -> Option<Info> {
    let (_, keys) = host.iter().find(|(call, _)| *call == "PMIx_Spawn")?;
    let keys: Vec<&str> = keys
        .iter()
        .filter(|key| is_meant(key))
        .map(|key| key.0)
        .collect();
    Some(Info::new(key, Value::string(&keys.join(","))))
}

fn answer(qualifiers: &[Info], host: &[Supported]) -> Vec<Info> {
    let levels = [
        (
            key::PMIX_SERVER_FUNCTIONS,
            key::PMIX_SERVER_ATTRIBUTES,
            &[][..],
        ),
        (key::PMIX_HOST_FUNCTIONS, key::PMIX_HOST_ATTRIBUTES, host),
    ];
    let mut infos = Vec::new();
    for (functions, attributes, beside) in levels {
        let mut table: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        // The server and the host environment may name the same call.
        for (call, keys) in SERVER.iter().chain(beside) {
            table
                .entry(call)
                .or_default()
                .extend(keys.iter().map(|key| key.0));
        }
        if qualifiers.value_of(functions).is_some() {
            let names: Vec<&str> = table.keys().copied().collect();
            infos.push(Info::new(functions, Value::string(&names.join(","))));
        }
        if let Some(named) = qualifiers.value_of(attributes) {
            let named: Vec<&str> = named.as_str().unwrap_or("all").split(',').collect();
            let meant = |call: &str| named.iter().any(|name| *name == "all" || *name == call);
            let meant = table
                .iter()
                .filter(|(call, keys)| meant(call) && !keys.is_empty());
            infos.extend(meant.map(|(call, keys)| of_call(call, keys)));
        }
    }
    infos
}

/// Returns the attributes of one call, under its name.
fn of_call(call: &str, keys: &BTreeSet<&str>) -> Info {
    let attributes = keys
        .iter()
        .filter_map(|key| Attribute::of_key(key))
        .map(|attribute| Regattr {
            name: Some(attribute.name.into()),
            key: Some(attribute.key.into()),
            data_type: attribute.data_type(),
            // `pattrs` requires a first line.
            description: vec![Some(attribute.c_type.into())],
        });
    let array = Value::DataArray(DataArray::regattrs(attributes));
    let calls = Key::new(call)
        .map(|call| Info::new(call, array))
        .into_iter();
    Info::new(
        key::PMIX_QUERY_ATTRIBUTE_SUPPORT,
        Value::DataArray(DataArray::infos(calls)),
    )
}
