//! The exporter of telemetry against receivers that are away, slow, or not who they should be.
use peal_core::{
    owner::Owner,
    policy::{DecidedBy, DeniedVerdict},
    server::EventOrigin,
};
use peal_model::{
    ConnectionKind, ConnectionSubject, Event, Info, KeyName, PeerInfo, PolicyOutcome,
    PolicyRequest, PolicySubject, Range, Status, UserIdentity, Value, code, key,
};
use peal_sandbox::Digest;
use peal_server::{
    ChainResults, DecisionConclusion, ListenerBounds, MeasuredCall, MeasuredDecision,
    MeasuredEvent, MeasuredFailure, MeasuredOutcome, Metrics, Notice, Notices, ReachedJobs,
    metrics::{Amount, Snapshot},
};
use peal_sinks::WebServiceSettings;
use peal_telemetry::{TelemetryError, TelemetryExporter, TelemetrySettings};
use peal_tests::{
    otlp_receiver::{OtlpReceiver, ReceiverMode, attributes},
    until,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use std::{
    fs,
    num::NonZeroU32,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

fn settings(url: &str) -> TelemetrySettings {
    TelemetrySettings {
        collector: WebServiceSettings {
            url: url.parse().unwrap(),
            headers_file: None,
            ca: None,
            timeout: Duration::from_secs(20),
        },
        metrics_interval: Duration::from_secs(3600),
        sampling_interval: NonZeroU32::MIN,
        max_traces_per_second: u32::MAX,
        queue: ListenerBounds::default(),
        resource: vec![("service.name".to_owned(), "test".to_owned())],
        secrets: Default::default(),
    }
}

struct Exporting {
    notices: Notices,
    metrics: Arc<Metrics>,
    exporter: TelemetryExporter,
}

impl Exporting {
    fn start(settings: TelemetrySettings) -> Result<Exporting, TelemetryError> {
        let notices = Notices::default();
        let metrics: Arc<Metrics> = Arc::default();
        let sampler = TelemetryExporter::sampler(&settings);
        let exporter = TelemetryExporter::start(settings, sampler, &notices, metrics.clone())?;
        Ok(Exporting {
            notices,
            metrics,
            exporter,
        })
    }

    fn count(&self, name: &str) -> u64 {
        let Snapshot { families } = self.metrics.snapshot();
        let name = format!("peal_telemetry_{name}");
        let family = families.iter().find(|family| family.name == name).unwrap();
        match family.samples[0].value {
            Amount::Number(number) => number,
            Amount::Real(real) => panic!("{real}"),
        }
    }
}

/// Returns the notice of an event with one handler, which failed.
fn event(number: u64, infos: Vec<Info>, reason: &str) -> Notice {
    let now = SystemTime::now();
    let failure = MeasuredFailure {
        status: Status::PEAL_ERR_MODULE_TRAPPED,
        limit: None,
        reason: reason.to_owned(),
    };
    let call = MeasuredCall {
        name: "handler\u{202e}\n".into(),
        module: "module".into(),
        digest: Digest::of(b"module"),
        started: now,
        time: Duration::from_millis(3),
        fuel: None,
        outcome: MeasuredOutcome::Failed(failure),
    };
    Notice::Passed {
        event: Arc::new(Event {
            code: code::PMIX_ERR_PROC_ABORTED,
            source: None,
            range: Range::Global,
            infos,
        }),
        results: Arc::new(vec![ChainResults {
            owner: Owner::User(7),
            steps: Vec::new(),
            calls: vec![call],
        }]),
        reached: ReachedJobs::all(),
        origin: EventOrigin::ThisServer,
        measured: Some(MeasuredEvent {
            number,
            uid: Some(7),
            submitted: now,
            time: Duration::from_millis(4),
        }),
    }
}

/// Returns the notice of a connection that a policy denied with this reason.
fn denial(reason: &str, directives: Vec<Info>) -> Notice {
    let now = SystemTime::now();
    let user = UserIdentity { uid: 7, gid: 7 };
    let reasons = vec![Info::new(KeyName("site.reason"), Value::string(reason))];
    Notice::Decided(Arc::new(MeasuredDecision {
        number: 3,
        request: Arc::new(PolicyRequest {
            subject: PolicySubject::Connection(ConnectionSubject {
                kind: ConnectionKind::Tool,
                infos: directives,
                peer: PeerInfo {
                    pid: None,
                    release: String::new(),
                },
            }),
            requester: None,
            identity: Some(user),
            groups: Arc::default(),
            server: user,
            targets: Vec::new(),
        }),
        conclusion: DecisionConclusion::Denied(DeniedVerdict {
            by: DecidedBy::Policy("p".to_owned()),
            status: code::PMIX_ERR_NO_PERMISSIONS,
            reasons,
        }),
        steps: Vec::new(),
        calls: vec![MeasuredCall {
            name: "p".into(),
            module: "policy".into(),
            digest: Digest::of(b"policy"),
            started: now,
            time: Duration::from_millis(1),
            fuel: Some(5),
            outcome: MeasuredOutcome::Policy(PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS)),
        }],
        requested: now,
        decided: now,
    }))
}

fn url(receiver: &OtlpReceiver) -> String {
    format!("http://{}/prefix/", receiver.address())
}

#[test]
fn texts_are_escaped_and_cut_and_secrets_left_out() {
    let receiver = OtlpReceiver::start(None);
    let exporting = Exporting::start(settings(&url(&receiver))).unwrap();
    let long = format!("bad\u{1b}[31m{}", "x".repeat(5000));
    let credential = || Info::new(key::PMIX_CREDENTIAL, Value::string("hunter22"));
    exporting.notices.notify(event(1, Vec::new(), &long));
    exporting
        .notices
        .notify(event(2, vec![credential()], "it says hunter22"));
    exporting.notices.notify(denial(&long, Vec::new()));
    exporting
        .notices
        .notify(denial("it says hunter22", vec![credential()]));
    until("all spans arrive", || receiver.spans().len() == 8);
    let spans = receiver.spans();
    let said = format!("{spans:?}");
    assert!(
        !said.contains("hunter22") && !said.contains('\u{1b}'),
        "{said}"
    );
    let handler = spans
        .iter()
        .find(|span| span.name.starts_with("handler"))
        .unwrap();
    assert_eq!(handler.name, "handler handler\\u{202e}\\n");
    let message = &handler.status.as_ref().unwrap().message;
    assert!(
        message.starts_with("bad\\u{1b}[31mxx") && message.len() < 300,
        "{message}"
    );
    let reasons: Vec<String> = spans
        .iter()
        .filter_map(|span| attributes(&span.attributes).get("peal.reason").cloned())
        .collect();
    assert!(
        reasons[0].starts_with("bad\\u{1b}[31mxx") && reasons[0].len() < 300,
        "{reasons:?}"
    );
    assert!(reasons[1].starts_with("left out:"), "{reasons:?}");
    let paths: Vec<String> = receiver
        .requests()
        .into_iter()
        .map(|all| all.path)
        .collect();
    assert!(
        paths.iter().all(|path| path.starts_with("/prefix/v1/")),
        "{paths:?}"
    );
    exporting.exporter.stop();
}

#[test]
fn collector_that_comes_back_gets_what_waited() {
    let receiver = OtlpReceiver::start(None);
    let address = receiver.address();
    let exporting = Exporting::start(settings(&format!("http://{address}"))).unwrap();
    until("the metrics arrive", || !receiver.metrics().is_empty());
    drop(receiver);
    for number in 0..10 {
        exporting.notices.notify(event(number, Vec::new(), "x"));
    }
    until("posts fail", || exporting.count("export_failures") > 1);
    assert_eq!(exporting.count("traces_dropped"), 0);
    let receiver = OtlpReceiver::start_at(address, None);
    until("all spans arrive", || receiver.spans().len() == 20);
    until("they are counted", || {
        exporting.count("traces_exported") == 10
    });
    // A status that asks for patience is no refusal.
    receiver.set_mode(ReceiverMode::Answers(503));
    exporting.notices.notify(event(11, Vec::new(), "x"));
    let failures = exporting.count("export_failures");
    until("a post fails", || {
        exporting.count("export_failures") > failures
    });
    receiver.set_mode(ReceiverMode::Takes);
    until("the spans arrive", || receiver.spans().len() == 22);
    // Another status is one.
    receiver.set_mode(ReceiverMode::Answers(401));
    exporting.notices.notify(event(12, Vec::new(), "x"));
    until("the trace is dropped", || {
        exporting.count("traces_dropped") == 1
    });
    receiver.set_mode(ReceiverMode::Rejects(1));
    exporting.notices.notify(event(13, Vec::new(), "x"));
    until("the rejected trace is counted", || {
        exporting.count("traces_dropped") == 2
    });
    exporting.exporter.stop();
}

#[test]
fn slow_collector_delays_nobody_and_dropped_traces_are_counted() {
    let receiver = OtlpReceiver::start(None);
    receiver.set_mode(ReceiverMode::Silent);
    let mut settings = settings(&url(&receiver));
    settings.queue.notices = 100;
    settings.collector.timeout = Duration::from_secs(2);
    let exporting = Exporting::start(settings).unwrap();
    until("a post waits for its reply", || {
        !receiver.requests().is_empty()
    });
    let began = Instant::now();
    for number in 0..10_000 {
        exporting.notices.notify(event(number, Vec::new(), "x"));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    receiver.set_mode(ReceiverMode::Takes);
    let sum = || exporting.count("traces_exported") + exporting.count("traces_dropped");
    until("all traces are accounted for", || sum() == 10_000);
    assert!(exporting.count("traces_dropped") >= 9000);
    assert_eq!(
        receiver.spans().len() as u64,
        2 * exporting.count("traces_exported")
    );
    // The exporter ends although the collector does not answer.
    receiver.set_mode(ReceiverMode::Silent);
    exporting.notices.notify(event(1, Vec::new(), "x"));
    let began = Instant::now();
    exporting.exporter.stop();
    assert!(began.elapsed() < Duration::from_secs(30));
}

/// Authority, and a server configuration with its certificate for this machine.
struct Authority {
    pem: PathBuf,
    server: ServerConfig,
    _dir: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = server.signed_by(&key, &issuer).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let pem = dir.path().join("ca.pem");
        fs::write(&pem, issuer.pem()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        Authority {
            pem,
            server,
            _dir: dir,
        }
    }
}

#[test]
fn collector_gets_token_by_tls_and_impostor_gets_nothing() {
    let (own, foreign) = (Authority::new(), Authority::new());
    let headers = own.pem.with_file_name("headers");
    fs::write(&headers, "Authorization: Bearer token-123\nX-Scope: peal\n").unwrap();
    fs::set_permissions(&headers, fs::Permissions::from_mode(0o600)).unwrap();
    let settings_for = |receiver: &OtlpReceiver| {
        let mut settings = settings(&format!("https://{}", receiver.address()));
        settings.collector.ca = Some(own.pem.clone());
        settings.collector.headers_file = Some(headers.clone());
        settings
    };
    let receiver = OtlpReceiver::start(Some(own.server));
    let exporting = Exporting::start(settings_for(&receiver)).unwrap();
    exporting.notices.notify(event(1, Vec::new(), "x"));
    until("the spans arrive", || receiver.spans().len() == 2);
    for request in receiver.requests() {
        assert_eq!(request.headers["authorization"], "Bearer token-123");
        assert_eq!(request.headers["x-scope"], "peal");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        assert!(
            request.headers["user-agent"].starts_with("peal/"),
            "{request:?}"
        );
    }
    exporting.exporter.stop();

    let impostor = OtlpReceiver::start(Some(foreign.server));
    let exporting = Exporting::start(settings_for(&impostor)).unwrap();
    exporting.notices.notify(event(1, Vec::new(), "x"));
    until("posts fail", || exporting.count("export_failures") > 1);
    assert_eq!(impostor.requests(), []);
    exporting.exporter.stop();

    // Others could read the token.
    fs::set_permissions(&headers, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = Exporting::start(settings_for(&receiver))
        .err()
        .unwrap()
        .to_string();
    assert!(
        refused.contains("the headers file") && refused.contains("mode 644"),
        "{refused}"
    );
}
