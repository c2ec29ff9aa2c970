//! Parsing of monitor requests, and the error of each mistake. RFC "Job control and monitoring".
use peal_core::monitor::{
    FileChanges, LivenessSource, Monitor, MonitorError, MonitorSelector, UsageOf, read,
};
use peal_core::targets::JobRanks;
use peal_model::{
    DataArray, Info, InfoFlags, Infos, KeyName, NodePid, Nspace, Proc, Range, Rank, Status, Value,
    code, key, rank,
};
use std::{collections::BTreeSet, time::Duration};

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

fn requester() -> Proc {
    Proc::new(nspace(), Rank(0))
}

fn ask(
    monitor: (KeyName, Value),
    error: Status,
    directives: &[Info],
) -> Result<Monitor, MonitorError> {
    let ranks = |asked: &Nspace| {
        (*asked == nspace()).then(|| JobRanks {
            local: BTreeSet::from([Rank(0), Rank(1)]),
            size: None,
        })
    };
    read(
        &requester(),
        &Info::new(monitor.0, monitor.1),
        error,
        directives,
        ranks,
        || vec![nspace()],
    )
}

fn infos(directives: &[(KeyName, Value)]) -> Vec<Info> {
    directives
        .iter()
        .map(|(key, value)| Info::new(*key, value.clone()))
        .collect()
}

fn beats(directives: &[(KeyName, Value)]) -> Result<Monitor, MonitorError> {
    ask(
        (key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
        code::PMIX_SUCCESS,
        &infos(directives),
    )
}

fn file(directives: &[(KeyName, Value)]) -> Result<Monitor, MonitorError> {
    ask(
        (key::PMIX_MONITOR_FILE, Value::string("/tmp/log")),
        code::PMIX_SUCCESS,
        &infos(directives),
    )
}

const TIME: (KeyName, Value) = (key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(5));
const CHECK: (KeyName, Value) = (key::PMIX_MONITOR_FILE_CHECK_TIME, Value::Uint32(2));

#[test]
fn example_of_the_rfc_is_parsed() {
    let directives = [
        (key::PMIX_MONITOR_ID, Value::string("MONITOR1")),
        TIME,
        (key::PMIX_MONITOR_HEARTBEAT_DROPS, Value::Uint32(2)),
    ];
    for value in [Value::Undef, Value::Pointer, Value::Bool(true)] {
        let read = ask(
            (key::PMIX_MONITOR_HEARTBEAT, value),
            code::PMIX_MONITOR_HEARTBEAT_ALERT,
            &infos(&directives),
        );
        let Ok(Monitor::Watch(watch)) = read else {
            panic!("{read:?}")
        };
        assert_eq!(watch.id.as_deref(), Some("MONITOR1"));
        assert_eq!(
            watch.signs,
            LivenessSource::Heartbeats {
                time: Duration::from_secs(5),
                drops: 2
            }
        );
        let alert = &watch.alert;
        assert_eq!(
            (alert.code, alert.range, &alert.source),
            (
                code::PMIX_MONITOR_HEARTBEAT_ALERT,
                Range::Namespace,
                &Some(requester())
            )
        );
        assert_eq!(alert.affected(), [requester()]);
        assert_eq!(
            alert.infos.value_of(key::PMIX_MONITOR_ID),
            Some(&Value::string("MONITOR1"))
        );
        assert!(!alert.infos.is_true(key::PMIX_MONITOR_APP_CONTROL));
    }
}

#[test]
fn events_are_raised_as_requested() {
    let targets = Value::Proc(Proc::new(nspace(), Rank(1)));
    let directives = [
        TIME,
        (key::PMIX_MONITOR_APP_CONTROL, Value::Bool(true)),
        (key::PMIX_EVENT_CUSTOM_RANGE, targets.clone()),
        (key::PMIX_RANGE, Value::Range(Range::Custom)),
    ];
    let read = ask(
        (key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
        Status(-3001),
        &infos(&directives),
    );
    let Ok(Monitor::Watch(watch)) = read else {
        panic!("{read:?}")
    };
    assert_eq!(
        (watch.alert.code, watch.alert.range),
        (Status(-3001), Range::Custom)
    );
    assert!(watch.alert.infos.is_true(key::PMIX_MONITOR_APP_CONTROL));
    assert_eq!(
        watch.alert.infos.value_of(key::PMIX_EVENT_CUSTOM_RANGE),
        Some(&targets)
    );

    let Ok(Monitor::Watch(watch)) =
        file(&[CHECK, (key::PMIX_MONITOR_FILE_SIZE, Value::Bool(true))])
    else {
        panic!()
    };
    assert_eq!(watch.alert.code, code::PMIX_MONITOR_FILE_ALERT);
    assert_eq!(
        watch.alert.infos.value_of(key::PMIX_MONITOR_FILE),
        Some(&Value::string("/tmp/log"))
    );
}

#[test]
fn where_the_text_and_the_headers_differ_both_are_read() {
    for value in [Value::Bool(true), Value::string("")] {
        let read = file(&[
            CHECK,
            (key::PMIX_MONITOR_FILE_ACCESS, value.clone()),
            (key::PMIX_MONITOR_FILE_MODIFY, value),
            (key::PMIX_MONITOR_FILE_DROPS, Value::Int(3)),
        ]);
        let Ok(Monitor::Watch(watch)) = read else {
            panic!("{read:?}")
        };
        let traces = FileChanges {
            size: false,
            access: true,
            modify: true,
        };
        let signs = LivenessSource::File {
            path: "/tmp/log".into(),
            traces,
            check: Duration::from_secs(2),
            drops: 3,
        };
        assert_eq!(watch.signs, signs);
    }
    for (value, which) in [
        (Value::string("one"), MonitorSelector::One("one".to_owned())),
        (Value::String(None), MonitorSelector::All),
        (Value::Undef, MonitorSelector::All),
        (Value::Pointer, MonitorSelector::All),
    ] {
        let read = ask((key::PMIX_MONITOR_CANCEL, value), code::PMIX_SUCCESS, &[]);
        assert_eq!(read, Ok(Monitor::Cancel(which)));
    }
    assert_eq!(
        ask(
            (key::PMIX_SEND_HEARTBEAT, Value::Undef),
            code::PMIX_SUCCESS,
            &[]
        ),
        Ok(Monitor::Beat)
    );
}

#[test]
fn directives_of_other_types_are_converted() {
    for (time, drops) in [
        (Value::Int(5), Value::Bool(true)),
        (Value::Uint64(5), Value::Int8(1)),
        (Value::Double(5.5), Value::Size(1)),
        (Value::Rank(Rank(5)), Value::Status(Status(1))),
    ] {
        let directives = [
            (key::PMIX_MONITOR_HEARTBEAT_TIME, time),
            (key::PMIX_MONITOR_HEARTBEAT_DROPS, drops),
            (key::PMIX_MONITOR_APP_CONTROL, Value::string("yes")),
            (key::PMIX_RANGE, Value::Uint8(Range::Session.number())),
        ];
        let Ok(Monitor::Watch(watch)) = beats(&directives) else {
            panic!("{directives:?}")
        };
        assert_eq!(
            watch.signs,
            LivenessSource::Heartbeats {
                time: Duration::from_secs(5),
                drops: 1
            }
        );
        assert_eq!(
            (
                watch.alert.range,
                watch.alert.infos.is_true(key::PMIX_MONITOR_APP_CONTROL)
            ),
            (Range::Session, true)
        );
    }
    for time in [
        Value::Int(-5),
        Value::Uint64(u64::from(u32::MAX) + 1),
        Value::Bool(false),
        Value::string("5"),
    ] {
        assert!(
            beats(&[(key::PMIX_MONITOR_HEARTBEAT_TIME, time.clone())]).is_err(),
            "{time:?}"
        );
    }
}

#[test]
fn each_mistake_is_refused_with_valid_input() {
    let size = || (key::PMIX_MONITOR_FILE_SIZE, Value::Bool(true));
    let bad = code::PMIX_ERR_BAD_PARAM;
    let cancel = |value| ask((key::PMIX_MONITOR_CANCEL, value), code::PMIX_SUCCESS, &[]);
    let path = |path: &str| {
        ask(
            (key::PMIX_MONITOR_FILE, Value::string(path)),
            code::PMIX_SUCCESS,
            &infos(&[CHECK, size()]),
        )
    };
    let raising = |status| {
        ask(
            (key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
            Status(status),
            &infos(&[TIME]),
        )
    };
    let required = |flags| {
        let unknown = Info {
            key: KeyName("site.own").into(),
            flags,
            value: Value::Undef,
        };
        ask(
            (key::PMIX_MONITOR_HEARTBEAT, Value::Undef),
            code::PMIX_SUCCESS,
            &[infos(&[TIME]), vec![unknown]].concat(),
        )
    };
    let usage = |directives: &[(KeyName, Value)]| {
        ask(
            (key::PMIX_MONITOR_PROC_RESOURCE_USAGE, Value::Undef),
            code::PMIX_SUCCESS,
            &infos(directives),
        )
    };
    for (read, status, told) in [
        (
            beats(&[]),
            bad,
            "pmix.monitor.mbeat needs pmix.monitor.btime, the seconds after which a heartbeat is due",
        ),
        (
            beats(&[(key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(0))]),
            bad,
            "pmix.monitor.btime is 0; it should be a PMIX_UINT32, in seconds, at least 1",
        ),
        (
            beats(&[(key::PMIX_MONITOR_HEARTBEAT_TIME, Value::string("soon"))]),
            bad,
            "pmix.monitor.btime is \"soon\"; it should be a PMIX_UINT32, in seconds, at least 1",
        ),
        (
            beats(&[TIME, (key::PMIX_MONITOR_HEARTBEAT_DROPS, Value::Int(-1))]),
            bad,
            "pmix.monitor.bdrop is -1; it should be a PMIX_UINT32",
        ),
        (
            beats(&[TIME, (key::PMIX_MONITOR_HEARTBEAT_TIME, Value::Uint32(6))]),
            bad,
            "pmix.monitor.btime is given twice, with different values; give it once",
        ),
        (
            beats(&[TIME, size()]),
            bad,
            "pmix.monitor.fsize does not go with pmix.monitor.mbeat",
        ),
        (
            beats(&[TIME, (key::PMIX_MONITOR_FILE, Value::string("/tmp/log"))]),
            bad,
            "pmix.monitor.fmon does not go with pmix.monitor.mbeat",
        ),
        (
            beats(&[TIME, (key::PMIX_MONITOR_ID, Value::string(""))]),
            bad,
            "pmix.monitor.id is \"\"; it should be a PMIX_STRING of 1 to 256 bytes",
        ),
        (
            beats(&[
                TIME,
                (key::PMIX_MONITOR_APP_CONTROL, Value::string("maybe")),
            ]),
            bad,
            "pmix.monitor.appctrl is \"maybe\"; it should be a PMIX_BOOL",
        ),
        (
            beats(&[TIME, (key::PMIX_RANGE, Value::Uint8(99))]),
            bad,
            "pmix.range is 99; it should be a PMIX_DATA_RANGE",
        ),
        (
            beats(&[TIME, (key::PMIX_RANGE, Value::Range(Range::Custom))]),
            bad,
            "the range of the event and its targets do not fit; pmix.evrange goes with PMIX_RANGE_CUSTOM, and with nothing else",
        ),
        (
            ask(
                (key::PMIX_MONITOR_HEARTBEAT, Value::Bool(false)),
                code::PMIX_SUCCESS,
                &infos(&[TIME]),
            ),
            bad,
            "pmix.monitor.mbeat is false; it should be a PMIX_BOOL that is true, or nothing",
        ),
        (
            file(&[size()]),
            bad,
            "pmix.monitor.fmon needs pmix.monitor.ftime, the seconds between two looks at it",
        ),
        (
            file(&[CHECK]),
            bad,
            "pmix.monitor.fmon needs one of pmix.monitor.fsize, pmix.monitor.faccess and pmix.monitor.fmod, which select the signs of life",
        ),
        (
            path("log"),
            bad,
            "pmix.monitor.fmon is \"log\"; it should be a PMIX_STRING, the absolute path of a file",
        ),
        (
            path("/tmp/"),
            bad,
            "pmix.monitor.fmon is \"/tmp/\"; it should be a PMIX_STRING, the absolute path of a file",
        ),
        (
            cancel(Value::Uint32(7)),
            bad,
            "pmix.monitor.cancel is 7; it should be a PMIX_STRING, the id of a monitor, or nothing for all",
        ),
        (
            ask(
                (KeyName("site.gauge"), Value::Undef),
                code::PMIX_SUCCESS,
                &[],
            ),
            code::PMIX_ERR_NOT_SUPPORTED,
            "\"site.gauge\" cannot be monitored; it should be pmix.monitor.mbeat, .fmon, .presuse, .ndresuse, .dkresuse, .netresuse or .cancel",
        ),
        (
            required(InfoFlags::REQUIRED),
            code::PMIX_ERR_NOT_SUPPORTED,
            "\"site.own\" is not supported",
        ),
        (
            beats(&[TIME, (key::PMIX_MONITOR_PROXY, Value::Proc(requester()))]),
            code::PMIX_ERR_NOT_SUPPORTED,
            "PMIX_MONITOR_PROXY (\"pmix.monitor.proxy\") is not supported",
        ),
        (
            usage(&[(
                key::PMIX_MONITOR_TARGET_PROCS,
                Value::Proc(Proc::new(nspace(), Rank(2))),
            )]),
            code::PMIX_ERR_NOT_FOUND,
            "job:2 does not exist",
        ),
        (
            usage(&[(
                key::PMIX_MONITOR_TARGET_PROCS,
                Value::Proc(Proc::all(Nspace::new("other").unwrap())),
            )]),
            code::PMIX_ERR_NOT_FOUND,
            "there is no namespace \"other\" here",
        ),
        (
            usage(&[(key::PMIX_MONITOR_TARGET_DISKS, Value::string("sda"))]),
            bad,
            "pmix.monitor.tgtdks does not go with pmix.monitor.presuse",
        ),
    ] {
        let error = read.expect_err(told);
        assert_eq!((error.to_string().as_str(), error.status()), (told, status));
    }
    for status in [1, -230, -330, -1_000_101] {
        assert_eq!(raising(status), Err(MonitorError::BadCode(Status(status))));
    }
    assert!(
        required(InfoFlags::NONE).is_ok(),
        "what nobody knows and nobody requires is passed by"
    );
}

#[test]
fn targets_select_usage_subject() {
    let usage = |directives: &[(KeyName, Value)]| {
        let read = ask(
            (key::PMIX_MONITOR_PROC_RESOURCE_USAGE, Value::Undef),
            code::PMIX_SUCCESS,
            &infos(directives),
        );
        let Ok(Monitor::Usage(sampling)) = read else {
            panic!("{read:?}")
        };
        sampling
    };
    let both = vec![requester(), Proc::new(nspace(), Rank(1))];
    let of = |procs: &[Proc], pids: &[u32]| UsageOf::Procs {
        procs: procs.to_vec(),
        pids: pids.iter().copied().collect(),
    };
    assert_eq!(
        usage(&[]).usage.of,
        of(&both, &[]),
        "all procs of the requester's user"
    );
    let all = Proc::new(nspace(), rank::PMIX_RANK_WILDCARD);
    let named = (
        key::PMIX_MONITOR_TARGET_PROCS,
        Value::procs([all, requester()]),
    );
    assert_eq!(usage(&[named]).usage.of, of(&both, &[]));
    let process = Value::NodePid(Box::new(NodePid {
        hostname: None,
        node_id: 0,
        pid: 17,
    }));
    let rate = usage(&[
        (key::PMIX_MONITOR_TARGET_PIDS, process),
        (key::PMIX_MONITOR_RESOURCE_RATE, Value::Uint32(2)),
    ]);
    assert_eq!(
        (rate.usage.of.clone(), rate.rate),
        (of(&[], &[17]), Some(Duration::from_secs(2)))
    );
    assert_eq!(
        (rate.update.code, rate.update.range),
        (code::PMIX_MONITOR_RESUSAGE_UPDATE, Range::Custom)
    );
    assert_eq!(rate.update.custom_targets(), Some(vec![requester()]));
    assert_eq!(rate.usage.nodes, BTreeSet::new(), "this node");

    let on_node = |hostname: &str| {
        Value::NodePid(Box::new(NodePid {
            hostname: Some(hostname.into()),
            node_id: 0,
            pid: 17,
        }))
    };
    let elsewhere = usage(&[
        (key::PMIX_MONITOR_TARGET_NODES, Value::string("n1")),
        (key::PMIX_MONITOR_TARGET_PIDS, on_node("n2")),
        (key::PMIX_MONITOR_TARGET_PIDS, on_node("")),
    ]);
    assert_eq!(elsewhere.usage.of, of(&[], &[17]));
    assert_eq!(
        elsewhere.usage.nodes,
        BTreeSet::from(["n1".to_owned(), "n2".to_owned()])
    );

    let fields = Value::DataArray(DataArray::infos([Info::new(
        key::PMIX_DISK_READ_COMPLETED,
        Value::Undef,
    )]));
    let names = Value::DataArray(
        DataArray::new(
            peal_model::data_type::PMIX_STRING,
            vec![Value::string("sda")],
        )
        .unwrap(),
    );
    let disks = infos(&[(key::PMIX_MONITOR_TARGET_DISKS, names)]);
    let read = ask(
        (key::PMIX_MONITOR_DISK_RESOURCE_USAGE, fields),
        code::PMIX_SUCCESS,
        &disks,
    );
    let Ok(Monitor::Usage(sampling)) = read else {
        panic!("{read:?}")
    };
    assert_eq!(
        sampling.usage.of,
        UsageOf::Disks(BTreeSet::from(["sda".to_owned()]))
    );
    assert!(
        sampling
            .usage
            .fields
            .iter()
            .any(|key| *key == key::PMIX_DISK_READ_COMPLETED)
    );
    assert_eq!(sampling.usage.fields.len(), 1);
}
