//! Job control and monitoring of Peal's own client with typed arguments: messages on the wire,
//! interpretation of the answers, and heartbeats.
use peal_client::{
    CheckpointMethod, CleanupRequest, Client, ClientError, ClientSettings, Control, ControlRequest,
    ControlState, Depth, FileSign, MonitorRequest, Preemption, RequestSelector, TopDirectory,
    UsageSubject,
};
use peal_core::{
    job_control::{JobAction, JobControl, NotDone},
    policy,
};
use peal_model::{
    CommandCode, DataArray, Info, Infos, KeyName, Nspace, Proc, Query, Range, Rank, Reply, Request,
    Status, Value, code, key,
};
use peal_needs::needs;
use peal_server::{HostEnvironment, InProcessNetwork, ServerSettings, UpcallFuture};
use peal_tests::{
    fake_server::{FakeServer, deceived},
    in_process::{Node, everything, listener, next, soon},
};
use peal_wire::Tag;
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::time::sleep;

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("solver").unwrap(), Rank(rank))
}

fn infos(key: KeyName, infos: Vec<Info>) -> Info {
    Info::new(key, Value::DataArray(DataArray::infos(infos)))
}

fn text(key: KeyName, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

/// Runs a call of a client. Returns the request that the server received, and the client's result.
async fn heard<T>(
    server: &mut FakeServer,
    reply: Reply,
    ask: impl Future<Output = Result<T, ClientError>>,
) -> (Request, Result<T, ClientError>) {
    let serve = async {
        let (tag, request) = server.hear().await;
        server.answer(tag, request.command(), &reply).await;
        request
    };
    soon("it is answered", async { tokio::join!(serve, ask) }).await
}

fn granted() -> Reply {
    Reply::Status(code::PMIX_SUCCESS)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_has_keys_and_types_of_the_standard() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let minute = Some(Duration::from_millis(59_001));
    let cleanup = CleanupRequest {
        files: vec!["/tmp/a".into(), "/tmp/b".into()],
        directories: vec!["/tmp/d".into()],
        depth: Depth::Recursive,
        top: TopDirectory::Leave,
        ignored: vec!["keep".into(), "this".into()],
        ..CleanupRequest::default()
    };
    let methods = vec![
        CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT),
        CheckpointMethod::Signal(12),
    ];
    for (control, expected) in [
        (Control::Pause, "pmix.jctrl.pause=Bool(true)"),
        (Control::Resume, "pmix.jctrl.resume=Bool(true)"),
        (Control::Signal(10), "pmix.jctrl.sig=Int(10)"),
        (Control::Terminate, "pmix.jctrl.term=Bool(true)"),
        (Control::Kill, "pmix.jctrl.kill=Bool(true)"),
        (
            Control::Checkpoint {
                name: "n.1".into(),
                method: None,
                timeout: minute,
            },
            "pmix.jctrl.ckpt=String(n.1) pmix.timeout=Int(60)",
        ),
        (
            Control::Checkpoint {
                name: "n.1".into(),
                method: Some(CheckpointMethod::Signal(12)),
                timeout: None,
            },
            "pmix.jctrl.ckpt=String(n.1) pmix.jctrl.ckptsig=Int(12)",
        ),
        (
            Control::Restart {
                checkpoint: Some("n.1".into()),
            },
            "pmix.jctrl.restart=String(n.1)",
        ),
        (
            Control::Restart { checkpoint: None },
            "pmix.jctrl.restart=None",
        ),
        (
            Control::Cancel(RequestSelector::Named("x".into())),
            "pmix.jctrl.cancel=String(x)",
        ),
        (
            Control::Cancel(RequestSelector::All),
            "pmix.jctrl.cancel=None",
        ),
        (
            Control::Provision {
                nodes: "node[01-16]".into(),
                image: Some("el9".into()),
            },
            "pmix.jctrl.pvn=String(node[01-16]) pmix.jctrl.pvnimg=String(el9)",
        ),
        (
            Control::Preempt {
                action: Preemption::Kill,
                grace: minute,
            },
            "peal.jctrl.preempt=String(kill) peal.jctrl.grace=Uint32(60)",
        ),
        (Control::Preemptible, "pmix.jctrl.preempt=Bool(true)"),
        (
            Control::CheckpointMethods(methods),
            "pmix.jctrl.ckmethod=[pmix.jctrl.ckptev=Status(-106) pmix.jctrl.ckptsig=Int(12)]",
        ),
        (
            Control::Cleanup(cleanup),
            "pmix.reg.cleanup=String(/tmp/a) pmix.reg.cleanup=String(/tmp/b) pmix.reg.cleanupdir=String(/tmp/d) \
             pmix.clnup.recurse=Bool(true) pmix.clnup.lvtop=Bool(true) pmix.clnup.ignore=String(keep,this)",
        ),
    ] {
        let target = [proc(1)];
        let ask = client.control(&target, control.called("mine"));
        let (request, controlled) = heard(&mut server, granted(), ask).await;
        controlled.unwrap();
        let Request::JobControl {
            targets,
            directives,
        } = request
        else {
            panic!("{request:?}")
        };
        assert_eq!(targets, [proc(1)]);
        assert_eq!(
            said(&directives),
            format!("{expected} pmix.jctrl.id=String(mine)")
        );
    }
    let unnamed =
        ControlRequest::from(Control::Kill).with(Info::new(KeyName("site.why"), Value::Int(5)));
    let (request, _) = heard(&mut server, granted(), client.control(&[], unnamed)).await;
    let Request::JobControl {
        targets,
        directives,
    } = request
    else {
        panic!("{request:?}")
    };
    assert_eq!(
        (targets.len(), said(&directives).as_str()),
        (0, "pmix.jctrl.kill=Bool(true) site.why=Int(5)")
    );
}

/// Formats infos with their keys and types.
fn said(infos: &[Info]) -> String {
    let value = |value: &Value| match value {
        Value::String(None) => "None".to_owned(),
        Value::String(Some(text)) => format!("String({})", text.to_string_lossy()),
        Value::Status(status) => format!("Status({})", status.0),
        Value::Range(Range::Session) => "session".to_owned(),
        Value::DataArray(array) => {
            let infos: Vec<Info> = array
                .as_infos()
                .unwrap_or_default()
                .into_iter()
                .cloned()
                .collect();
            format!("[{}]", said(&infos))
        }
        other => format!("{other:?}"),
    };
    let infos: Vec<String> = infos
        .iter()
        .map(|info| format!("{}={}", info.key.as_str(), value(&info.value)))
        .collect();
    infos.join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_names_procs_left_out() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let outcome = |rank, status| {
        infos(
            KeyName("peal.jctrl.outcome"),
            vec![
                Info::new(key::PMIX_PROCID, Value::Proc(proc(rank))),
                Info::new(KeyName("peal.jctrl.status"), Value::Status(status)),
                policy::reason("it has ended"),
            ],
        )
    };
    let told = vec![
        outcome(0, code::PMIX_SUCCESS),
        outcome(1, code::PMIX_ERR_NOT_FOUND),
    ];
    let partly = Reply::Infos {
        status: code::PMIX_ERR_PARTIAL_SUCCESS,
        infos: told.clone(),
    };
    let (_, controlled) = heard(&mut server, partly, client.control(&[], Control::Pause)).await;
    let controlled = controlled.unwrap();
    let [not_done] = &controlled.not_done[..] else {
        panic!("{controlled:?}")
    };
    assert_eq!(
        (&not_done.proc, not_done.status),
        (&proc(1), code::PMIX_ERR_NOT_FOUND)
    );
    assert_eq!(not_done.reasons, ["it has ended"]);

    let nobody = Reply::Infos {
        status: code::PMIX_ERR_NO_PERMISSIONS,
        infos: vec![policy::reason("not yours")],
    };
    let (_, refused) = heard(&mut server, nobody, client.control(&[], Control::Pause)).await;
    let ClientError::Refused { status, infos, .. } = refused.unwrap_err() else {
        panic!()
    };
    assert_eq!(
        (status, peal_client::reasons(&infos)),
        (code::PMIX_ERR_NO_PERMISSIONS, vec!["not yours".to_owned()])
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn control_status_is_queried_by_name_or_for_all() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let request = |id: &str, state: &str| {
        infos(
            KeyName("peal.jctrl.request"),
            vec![
                text(key::PMIX_JOB_CTRL_ID, id),
                text(KeyName("peal.jctrl.state"), state),
                text(KeyName("peal.jctrl.action"), "checkpoint \"n.1\""),
                policy::reason("one was late"),
            ],
        )
    };
    let kept = |requests| Reply::Infos {
        status: code::PMIX_SUCCESS,
        infos: vec![infos(key::PMIX_JOB_CTRL_ID, requests)],
    };
    let both = kept(vec![request("a", "running"), request("b", "failed")]);
    let (asked, all) = heard(&mut server, both.clone(), client.control_statuses()).await;
    let keys = vec![Some(key::PMIX_JOB_CTRL_ID.0.into())];
    assert_eq!(
        asked,
        Request::Query {
            queries: vec![Query {
                keys: keys.clone(),
                qualifiers: Vec::new()
            }]
        }
    );
    let all = all.unwrap();
    assert_eq!(
        all.iter()
            .map(|status| (status.id.as_str(), status.state))
            .collect::<Vec<_>>(),
        [("a", ControlState::Running), ("b", ControlState::Failed)]
    );
    assert!(!all[0].state.is_final() && all[1].state.is_final());
    assert_eq!(
        (all[1].action.as_str(), &all[1].reasons[..]),
        ("checkpoint \"n.1\"", &["one was late".to_owned()][..])
    );

    let (asked, one) = heard(&mut server, both.clone(), client.control_status("b")).await;
    let qualifiers = vec![text(key::PMIX_JOB_CTRL_ID, "b")];
    assert_eq!(
        asked,
        Request::Query {
            queries: vec![Query { keys, qualifiers }]
        }
    );
    assert_eq!(one.unwrap().unwrap().id, "b");
    let (_, none) = heard(&mut server, both, client.control_status("c")).await;
    assert_eq!(none.unwrap(), None, "that of another is not taken for it");
    let unknown = Reply::Status(code::PMIX_ERR_NOT_FOUND);
    assert_eq!(
        heard(&mut server, unknown, client.control_statuses())
            .await
            .1
            .unwrap(),
        []
    );
    let odd = kept(vec![request("a", "asleep")]);
    let error = heard(&mut server, odd, client.control_statuses())
        .await
        .1
        .unwrap_err();
    assert!(matches!(error, ClientError::UnfitAnswer { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn monitor_requests_use_keys_and_types_of_the_standard() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    let seconds = Duration::from_secs;
    let own = Status(-3001);
    let beat = code::PMIX_MONITOR_HEARTBEAT_ALERT;
    let file = code::PMIX_MONITOR_FILE_ALERT;
    let out = Path::new("/scratch/out");
    for (watch, monitor, alert, expected) in [
        (
            MonitorRequest::heartbeat(seconds(5), 2),
            "pmix.monitor.mbeat=Bool(true)",
            beat,
            "pmix.monitor.btime=Uint32(5) pmix.monitor.bdrop=Uint32(2)",
        ),
        (
            MonitorRequest::heartbeat(Duration::from_millis(10), 0)
                .called("h")
                .left_to_the_application(),
            "pmix.monitor.mbeat=Bool(true)",
            beat,
            "pmix.monitor.btime=Uint32(1) pmix.monitor.bdrop=Uint32(0) pmix.monitor.id=String(h) pmix.monitor.appctrl=Bool(true)",
        ),
        (
            MonitorRequest::file(out, FileSign::Size, seconds(60), 1),
            "pmix.monitor.fmon=String(/scratch/out)",
            file,
            "pmix.monitor.fsize=Bool(true) pmix.monitor.ftime=Uint32(60) pmix.monitor.fdrop=Uint32(1)",
        ),
        (
            MonitorRequest::file(out, FileSign::Access, seconds(1), 0)
                .alerting(own)
                .reaching(Range::Session),
            "pmix.monitor.fmon=String(/scratch/out)",
            own,
            "pmix.monitor.faccess=Bool(true) pmix.monitor.ftime=Uint32(1) pmix.monitor.fdrop=Uint32(0) pmix.range=session",
        ),
        (
            MonitorRequest::usage(UsageSubject::Node).at_rate(seconds(2)),
            "pmix.monitor.ndresuse=[]",
            code::PMIX_MONITOR_RESUSAGE_UPDATE,
            "pmix.monitor.resrate=Uint32(2)",
        ),
    ] {
        assert_eq!(watch.alert(), alert);
        let (request, watched) = heard(&mut server, granted(), client.watch(watch)).await;
        watched.unwrap();
        let Request::Monitor {
            monitor: of,
            error,
            directives,
        } = request
        else {
            panic!("{request:?}")
        };
        assert_eq!((said(&[of]).as_str(), error), (monitor, alert));
        assert_eq!(said(&directives), expected);
    }
    let usage = MonitorRequest::usage(UsageSubject::Procs(vec![proc(0), proc(3)]));
    let told = Reply::Infos {
        status: code::PMIX_SUCCESS,
        infos: vec![text(KeyName("test"), "told")],
    };
    let (request, answer) = heard(&mut server, told, client.watch(usage)).await;
    assert_eq!(said(&answer.unwrap()), "test=String(told)");
    let Request::Monitor { directives, .. } = request else {
        panic!("{request:?}")
    };
    assert_eq!(
        directives
            .value_of(key::PMIX_MONITOR_TARGET_PROCS)
            .unwrap()
            .as_procs(),
        Some(vec![proc(0), proc(3)])
    );

    for (which, expected) in [
        (
            RequestSelector::Named("h".to_owned()),
            "pmix.monitor.cancel=String(h)",
        ),
        (RequestSelector::All, "pmix.monitor.cancel=None"),
    ] {
        let (request, ended) = heard(&mut server, granted(), client.unwatch(&which)).await;
        ended.unwrap();
        let Request::Monitor { monitor, error, .. } = request else {
            panic!("{request:?}")
        };
        assert_eq!(
            (said(&[monitor]).as_str(), error),
            (expected, code::PMIX_SUCCESS)
        );
    }
    let no = Reply::Infos {
        status: code::PMIX_ERR_BAD_PARAM,
        infos: vec![policy::reason("no time")],
    };
    let refused = heard(
        &mut server,
        no,
        client.watch(MonitorRequest::heartbeat(seconds(5), 0)),
    )
    .await
    .1
    .unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("PMIx_Process_monitor is refused"),
        "{refused}"
    );
}

/// Waits for the next frame of a client, which must be a heartbeat.
async fn beaten(server: &mut FakeServer) {
    let frame = soon("a frame comes", server.frame())
        .await
        .expect("the client has gone");
    assert_eq!((frame.tag, frame.payload.len()), (Tag::HEARTBEAT, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heart_beats_until_it_is_dropped_or_its_client_is_gone() {
    let (client, mut server) = deceived(ClientSettings::default()).await;
    client.beat().await.unwrap();
    beaten(&mut server).await;
    let heart = client.heartbeats(Duration::from_millis(1));
    for _ in 0..5 {
        beaten(&mut server).await;
    }
    drop(heart);
    // Heartbeats on their way come before the next request. None follows it.
    let fence = async {
        loop {
            let frame = soon("a frame comes", server.frame()).await.unwrap();
            if frame.tag != Tag::HEARTBEAT {
                break server
                    .answer(frame.tag, CommandCode::Fence, &granted())
                    .await;
            }
        }
    };
    let (fenced, ()) = soon("the fence is answered", async {
        tokio::join!(client.fence(&[], &[]), fence)
    })
    .await;
    fenced.unwrap();
    let (request, _) = heard(&mut server, granted(), client.log(&[], &[])).await;
    assert_eq!(request.command(), CommandCode::Log);

    // The heartbeat task keeps no connection open.
    let heart = client.heartbeats(Duration::from_millis(1));
    drop(client);
    soon("the connection is closed", async {
        while server.frame().await.is_some() {}
    })
    .await;
    drop(heart);
}

/// Host environment that carries out every request except for rank 1.
#[derive(Default)]
struct Obedient(Mutex<Vec<JobControl>>);

impl HostEnvironment for Obedient {
    fn job_control(
        &self,
        _requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        self.0.lock().unwrap().push(control);
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(1));
        let status = code::PMIX_ERR_NO_PERMISSIONS;
        let reason = "it is stubborn".to_owned();
        Box::pin(std::future::ready(Ok(vec![NotDone {
            proc,
            status,
            reason,
        }])))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_understands_it_and_bears_heartbeats() {
    let host = Arc::new(Obedient::default());
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let client: Client = node.client(0).await;
    let _heart = client.heartbeats(Duration::from_millis(1));
    let request = Control::Signal(10).called("wake up");
    let told = soon(
        "it is answered",
        client.control(&[node.proc(0), node.proc(1)], request),
    )
    .await
    .unwrap();
    assert_eq!(told.not_done[0].proc, node.proc(1));
    assert_eq!(told.not_done[0].reasons, ["it is stubborn"]);
    {
        let asked = host.0.lock().unwrap();
        assert_eq!(asked[0].action, JobAction::Signal(10));
        assert_eq!(asked[0].targets, [node.proc(0), node.proc(1)]);
    }
    let kept = soon("it is answered", client.control_status("wake up"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (kept.state, kept.action.as_str()),
        (ControlState::Failed, "signal 10")
    );
    assert_eq!(
        (kept.outcomes, client.control_status("sleep").await.unwrap()),
        (told.not_done, None)
    );

    let refused = soon("it is answered", client.control(&[proc(0)], Control::Kill))
        .await
        .unwrap_err();
    assert_eq!(refused.status(), code::PMIX_ERR_NOT_FOUND, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn beating_proc_is_not_silent_and_monitored_again_after_silence() {
    /// Time of twenty heartbeats, so that a process that waits for a core is not reported as
    /// silent.
    const WATCH: Duration = Duration::from_secs(2);
    let node = Node::alone(ServerSettings::default(), 2).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (handler, mut alerts) = listener();
    soon(
        "it is registered",
        other.register(&[code::PMIX_MONITOR_HEARTBEAT_ALERT], everything(), handler),
    )
    .await
    .unwrap();
    soon(
        "it is watched",
        client.watch(MonitorRequest::heartbeat(WATCH, 0)),
    )
    .await
    .unwrap();
    // The last two rounds use connections of the proc's clones. One clone finalizes, the other only
    // closes its connection.
    for round in 0..4 {
        let clone = if round < 2 {
            None
        } else {
            Some(node.client(0).await)
        };
        let period = Duration::from_millis(100);
        let heart = clone.as_ref().unwrap_or(&client).heartbeats(period);
        sleep(WATCH * 3 / 2).await;
        assert!(
            alerts.try_recv().is_err(),
            "it has not been silent, in round {round}"
        );
        drop(heart);
        let silence = Instant::now();
        match clone {
            Some(clone) if round == 2 => soon("a clone leaves", clone.finalize()).await.unwrap(),
            clone => drop(clone),
        }
        next(&mut alerts).await;
        // The last heartbeat may be older than the drop by one period. The monitor's time is the
        // bound.
        let silence = silence.elapsed() + period;
        assert!(silence >= WATCH, "after {silence:?} in round {round}");
    }
    sleep(WATCH * 3 / 2).await;
    assert!(alerts.try_recv().is_err(), "a silence is reported once");
}
