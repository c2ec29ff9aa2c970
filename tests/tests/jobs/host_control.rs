//! Control and monitoring of Peal's own client in combination with the host environment: errors of
//! the host environment, choice of the monitor, and files.
use peal_client::{Control, FileSign, MonitorRequest};
use peal_core::{
    job_control::{JobControl, NotDone},
    server::Monitoring,
};
use peal_model::{Info, Infos, KeyName, Proc, Status, Value, code};
use peal_server::{HostEnvironment, InProcessNetwork, ServerSettings, UpcallFuture};
use peal_tests::in_process::{Node, everything, listener, next, soon};
use std::{
    fs::FileTimes,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Host environment that cannot control procs.
struct Unable;

impl HostEnvironment for Unable {
    fn job_control(
        &self,
        _requester: Option<Proc>,
        _control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        Box::pin(std::future::ready(Err(code::PMIX_ERR_NOT_AVAILABLE)))
    }

    fn monitors(&self) -> bool {
        true
    }

    fn monitor(&self, _: Proc, _: Info, _: Status, _: Vec<Info>) -> UpcallFuture<'_, Vec<Info>> {
        Box::pin(std::future::ready(Ok(vec![Info::new(
            KeyName("site.monitor"),
            Value::string("ours"),
        )])))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn error_of_the_host_is_the_answer_to_its_requester() {
    let node = Node::under(
        Arc::new(Unable),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let client = node.client(0).await;
    for control in [
        Control::Pause,
        Control::Signal(10),
        Control::Terminate,
        Control::Kill,
    ] {
        let targets = [node.proc(0), node.proc(1)];
        let refused = soon("it is answered", client.control(&targets, control.clone()))
            .await
            .unwrap_err();
        assert_eq!(
            refused.status(),
            code::PMIX_ERR_NOT_AVAILABLE,
            "{control:?}: {refused}"
        );
        assert!(
            refused
                .to_string()
                .contains("the host environment does not do it"),
            "{control:?}: {refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_monitors_gets_requests_unless_server_does() {
    for (said, by_host) in [
        (Monitoring::Deferred, true),
        (Monitoring::Host, true),
        (Monitoring::Server, false),
    ] {
        let core = peal_core::server::StateSettings {
            monitoring: said,
            ..Default::default()
        };
        let settings = ServerSettings {
            core,
            ..ServerSettings::default()
        };
        let node = Node::under(
            Arc::new(Unable),
            settings,
            &InProcessNetwork::new(),
            "job",
            1,
        )
        .await;
        let client = node.client(0).await;
        let told = soon(
            "it is answered",
            client.watch(MonitorRequest::heartbeat(Duration::from_secs(60), 0)),
        )
        .await
        .unwrap();
        assert_eq!(
            told.value_of(KeyName("site.monitor")).is_some(),
            by_host,
            "{said:?}"
        );
    }
    // If the host environment has no monitors, the server monitors.
    let node = Node::alone(ServerSettings::default(), 1).await;
    let client = node.client(0).await;
    soon(
        "it is answered",
        client.watch(MonitorRequest::heartbeat(Duration::from_secs(60), 0)),
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn file_monitor_uses_the_requested_sign_of_life() {
    let file = tempfile::NamedTempFile::new().unwrap();
    type SetTime = fn(FileTimes, SystemTime) -> FileTimes;
    let touch: [(FileSign, SetTime); 2] = [
        (FileSign::Access, FileTimes::set_accessed),
        (FileSign::Modify, FileTimes::set_modified),
    ];
    for (sign, set) in touch {
        let node = Node::alone(ServerSettings::default(), 1).await;
        let client = node.client(0).await;
        let (handler, mut alerts) = listener();
        client
            .register(&[code::PMIX_MONITOR_FILE_ALERT], everything(), handler)
            .await
            .unwrap();
        let watch = MonitorRequest::file(file.path(), sign, Duration::from_secs(1), 0);
        soon("it is watched", client.watch(watch)).await.unwrap();
        let alert = next(&mut alerts).await;
        assert_eq!(
            alert.source,
            Some(node.proc(0)),
            "the source is the monitored proc, which receives the event, too"
        );
        // It is reported again only if it has shown life in between.
        let later = SystemTime::now() + Duration::from_secs(10);
        file.as_file()
            .set_times(set(FileTimes::new(), later))
            .unwrap();
        next(&mut alerts).await;
    }
}
