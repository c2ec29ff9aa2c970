//! Valid requests: at least one of every command, with the directives that servers interpret.
use peal_model::{
    App, Commit, DataArray, Info, IofChannel, Key, KeyName, Kval, Proc, Query, Range, Request,
    ResourceUnit, Scope, Status, Text, Topology, Value, code, key,
};

/// Codes of the attackers' events, for which no other client is registered.
pub const CODES: [Status; 4] = [
    Status(-7001),
    Status(-7002),
    Status(-7003),
    code::PMIX_ERR_PROC_ABORTED,
];

fn info(key: KeyName, value: Value) -> Info {
    Info::new(key, value)
}

fn flag(key: KeyName) -> Info {
    info(key, Value::Bool(true))
}

fn text(key: KeyName, text: &str) -> Info {
    info(key, Value::string(text))
}

fn own(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Returns the requests of `me`, a proc of a job with the procs `others`.
pub fn requests(me: &Proc, others: &[Proc]) -> Vec<Request> {
    let job = Proc::all(me.nspace.clone());
    let both: Vec<Proc> = others.iter().take(1).chain([me]).cloned().collect();
    let other = both[0].clone();
    let timeout = |seconds| info(key::PMIX_TIMEOUT, Value::Int(seconds));
    let get = |proc: &Proc, infos, key: &str| Request::Get {
        proc: proc.clone(),
        infos,
        key: Some(key.into()),
    };
    let notify = |range, infos| Request::Notify {
        code: CODES[0],
        range,
        infos,
    };
    let register = |codes: &[Status], infos| Request::RegisterEvents {
        codes: codes.to_vec(),
        infos,
    };
    let control = |infos| Request::JobControl {
        targets: vec![job.clone(), other.clone()],
        directives: infos,
    };
    let log = |data, directives| Request::Log {
        timestamp: 1_700_000_000,
        data,
        directives,
    };
    let query = |keys: &[KeyName]| Query {
        keys: keys.iter().map(|key| Some(Text::from(key.0))).collect(),
        qualifiers: vec![
            text(key::PMIX_NSPACE, me.nspace.as_str()),
            info(key::PMIX_RANK, Value::Rank(me.rank)),
        ],
    };
    let value = |name: &str| Kval {
        key: own(name),
        value: Value::string("a value"),
    };
    let group = Some(Text::from("group"));
    vec![
        Request::JobData,
        Request::Commit(vec![
            Commit {
                scope: Scope::Local,
                kvals: vec![value("fuzz.local")],
            },
            Commit {
                scope: Scope::Remote,
                kvals: vec![value("fuzz.remote"), value("fuzz.more")],
            },
        ]),
        Request::Fence {
            procs: vec![me.clone()],
            infos: vec![flag(key::PMIX_COLLECT_DATA)],
        },
        Request::Fence {
            procs: both.clone(),
            infos: vec![timeout(1), flag(key::PMIX_COLLECT_DATA)],
        },
        get(me, vec![], "fuzz.local"),
        get(
            &other,
            vec![timeout(1), flag(key::PMIX_GET_REFRESH_CACHE)],
            "fuzz.never",
        ),
        get(&other, vec![flag(key::PMIX_IMMEDIATE)], "fuzz.never"),
        get(
            &job,
            vec![flag(key::PMIX_NODE_INFO), text(key::PMIX_HOSTNAME, "node")],
            key::PMIX_JOB_SIZE.0,
        ),
        notify(
            Range::Namespace,
            vec![info(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(other.clone()),
            )],
        ),
        notify(
            Range::Custom,
            vec![info(
                key::PMIX_EVENT_CUSTOM_RANGE,
                Value::procs(others.to_vec()),
            )],
        ),
        notify(
            Range::Rm,
            vec![text(key::PMIX_EVENT_TEXT_MESSAGE, "for the host")],
        ),
        notify(
            Range::Global,
            vec![
                flag(key::PMIX_EVENT_NON_DEFAULT),
                flag(key::PMIX_EVENT_DO_NOT_CACHE),
            ],
        ),
        notify(
            Range::Local,
            vec![info(key::PMIX_EVENT_PROXY, Value::Proc(other.clone()))],
        ),
        register(&CODES, vec![text(key::PMIX_EVENT_HDLR_NAME, "fuzz")]),
        register(
            &CODES[..1],
            vec![info(
                key::PMIX_EVENT_AFFECTED_PROCS,
                Value::procs(both.clone()),
            )],
        ),
        register(&[], vec![]),
        Request::DeregisterEvents {
            codes: CODES.to_vec(),
        },
        Request::DeregisterEvents {
            codes: vec![Status::DEFAULT_HANDLER],
        },
        log(
            vec![text(key::PMIX_LOG_JOB_RECORD, "a line")],
            vec![flag(key::PMIX_LOG_ONCE)],
        ),
        log(
            vec![
                text(key::PMIX_LOG_LOCAL_SYSLOG, "a line"),
                info(own_name(), Value::Uint32(7)),
            ],
            vec![
                info(key::PMIX_LOG_SYSLOG_PRI, Value::Int(6)),
                flag(key::PMIX_LOG_GENERATE_TIMESTAMP),
            ],
        ),
        log(
            vec![info(
                key::PMIX_LOG_EMAIL,
                Value::DataArray(DataArray::infos([text(key::PMIX_LOG_EMAIL_ADDR, "a@b")])),
            )],
            vec![],
        ),
        control(vec![
            info(key::PMIX_JOB_CTRL_SIGNAL, Value::Int(0)),
            text(key::PMIX_JOB_CTRL_ID, "fuzz"),
        ]),
        control(vec![flag(key::PMIX_JOB_CTRL_PAUSE)]),
        control(vec![flag(key::PMIX_JOB_CTRL_RESUME)]),
        control(vec![flag(key::PMIX_JOB_CTRL_TERMINATE)]),
        control(vec![flag(key::PMIX_JOB_CTRL_KILL)]),
        control(vec![text(key::PMIX_JOB_CTRL_CANCEL, "fuzz")]),
        control(vec![
            text(key::PMIX_REGISTER_CLEANUP, "/nowhere/at/all"),
            flag(key::PMIX_CLEANUP_RECURSIVE),
        ]),
        Request::Query {
            queries: vec![
                query(&[
                    key::PMIX_QUERY_NAMESPACES,
                    key::PMIX_QUERY_JOB_STATUS,
                    key::PMIX_QUERY_PROC_TABLE,
                ]),
                query(&[
                    key::PMIX_QUERY_LOCAL_PROC_TABLE,
                    key::PMIX_QUERY_ATTRIBUTE_SUPPORT,
                    key::PMIX_JOB_SIZE,
                ]),
            ],
        },
        Request::Monitor {
            monitor: info(key::PMIX_MONITOR_HEARTBEAT, Value::Pointer),
            error: code::PMIX_MONITOR_HEARTBEAT_ALERT,
            directives: vec![
                text(key::PMIX_MONITOR_ID, "fuzz"),
                info(key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(1)),
                info(key::PMIX_MONITOR_HEARTBEAT_DROPS, Value::Uint32(2)),
            ],
        },
        Request::Publish {
            uid: 0,
            infos: vec![
                text(KeyName("fuzz.published"), "data"),
                info(key::PMIX_RANGE, Value::Range(Range::Session)),
            ],
        },
        Request::Lookup {
            uid: 0,
            keys: vec![Some("fuzz.published".into())],
            infos: vec![flag(key::PMIX_WAIT)],
        },
        Request::Unpublish {
            uid: 0,
            keys: vec![Some("fuzz.published".into())],
            infos: vec![],
        },
        Request::Spawn {
            infos: vec![text(key::PMIX_MAPPER, "seq")],
            apps: vec![App {
                command: Some("/nowhere/at/all".into()),
                args: vec![Some("all".into())],
                env: vec![Some("A=b".into())],
                cwd: Some("/nowhere".into()),
                max_procs: 1,
                infos: vec![],
            }],
        },
        Request::Connect {
            procs: both.clone(),
            infos: vec![timeout(1)],
        },
        Request::Disconnect {
            procs: both.clone(),
            infos: vec![timeout(1)],
        },
        Request::Allocate {
            directive: 1,
            infos: vec![info(key::PMIX_ALLOC_NUM_NODES, Value::Uint64(1))],
        },
        Request::GetCredential { directives: vec![] },
        Request::ValidateCredential {
            credential: b"who".as_slice().into(),
            directives: vec![],
        },
        Request::IofPull {
            sources: vec![job.clone()],
            directives: vec![],
            channels: IofChannel(6),
            local_id: 1,
        },
        Request::IofPush {
            targets: vec![job.clone()],
            directives: vec![],
            data: Some(b"in".as_slice().into()),
        },
        Request::IofDeregister {
            directives: vec![],
            remote_id: 1,
        },
        Request::GroupConstruct {
            group: group.clone(),
            procs: both.clone(),
            directives: vec![flag(key::PMIX_GROUP_ASSIGN_CONTEXT_ID), timeout(1)],
        },
        Request::GroupDestruct {
            group: group.clone(),
            members: both.clone(),
            directives: vec![timeout(1)],
        },
        Request::GroupLeave {
            group,
            directives: vec![],
        },
        Request::FabricRegister { directives: vec![] },
        Request::FabricUpdate { index: 0 },
        Request::DeviceDistances {
            topology: Topology { xml: None },
            cpuset: Some("0".into()),
            infos: vec![],
        },
        Request::RefreshCache { proc: other },
        Request::ResourceBlock {
            directive: 1,
            block: Some("block".into()),
            units: vec![ResourceUnit {
                device_type: 1,
                count: 1,
            }],
            infos: vec![],
        },
        Request::SessionControl {
            session: 1,
            infos: vec![],
        },
        Request::ResolvePeers {
            node: Some("node".into()),
            nspace: Some(me.nspace.clone()),
        },
        Request::ResolveNode {
            nspace: Some(me.nspace.clone()),
        },
        Request::Abort {
            status: code::PMIX_ERROR,
            message: Some("fuzz".into()),
            targets: vec![me.clone()],
        },
        Request::Finalize,
    ]
}

fn own_name() -> KeyName {
    KeyName("fuzz.payload")
}
