//! The policies and log channels that ship with Peal, called as a server calls them.
use peal_model::{
    Amendment, ConnectionKind, ConnectionSubject, DataArray, EventSubject, Info, Infos,
    JobControlSubject, Key, KeyName, LogRequest, Nspace, PeerInfo, PolicyOutcome, PolicyRequest,
    PolicySubject, Proc, Range, Rank, Status, TargetProc, UserIdentity, Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{
    Capability, ChannelCall, Engine, EngineSettings, FailureKind, Grants, Module, ModuleLimits,
    PolicyCall, Role, Services, Sink,
};
use peal_tests::guest;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const REASON: KeyName = KeyName("peal.reason");
const SERVER: UserIdentity = UserIdentity { uid: 990, gid: 990 };

fn connection(kind: ConnectionKind) -> PolicySubject {
    PolicySubject::Connection(ConnectionSubject {
        kind,
        peer: PeerInfo {
            pid: None,
            release: "4.2.2".to_owned(),
        },
        infos: Vec::new(),
    })
}

fn event(infos: Vec<Info>) -> PolicySubject {
    PolicySubject::Event(EventSubject {
        code: Status(-3001),
        range: Range::Session,
        infos,
    })
}

fn job_control() -> PolicySubject {
    PolicySubject::JobControl(JobControlSubject::default())
}

/// Loads a guest with exactly these grants, and with limits that do not depend on the speed of the
/// machine.
fn module(name: &str, grants: &[Capability], services: Services) -> Module {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    let bytes = std::fs::read(guest(name)).unwrap();
    Module::load(
        &engine,
        name,
        &bytes,
        &grants.iter().copied().collect::<Grants>(),
        limits,
        services,
    )
    .unwrap()
}

fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

fn user(uid: u32) -> UserIdentity {
    UserIdentity { uid, gid: 100 }
}

fn target(nspace: &str, owner: Option<u32>) -> TargetProc {
    TargetProc {
        proc: proc(nspace, 0),
        owner: owner.map(user),
    }
}

/// Returns a request of user 1000, as proc 0 of "mine", about these targets.
fn request(subject: PolicySubject, targets: Vec<TargetProc>) -> PolicyRequest {
    PolicyRequest {
        subject,
        requester: Some(proc("mine", 0)),
        identity: Some(user(1000)),
        server: SERVER,
        groups: Arc::default(),
        targets,
    }
}

/// Returns the outcome of a policy and its reason.
fn decide(module: &Module, request: PolicyRequest) -> (PolicyOutcome, String) {
    let result = module.decide(PolicyCall {
        number: 0,
        request: Arc::new(request),
        steps: Arc::default(),
    });
    let reason = result
        .infos
        .value_of(REASON)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    assert_eq!(result.amendment, Amendment::default());
    (result.outcome.unwrap(), reason)
}

fn refused(reason: &str) -> (PolicyOutcome, String) {
    (
        PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS),
        reason.to_owned(),
    )
}

fn unknown(reason: &str) -> (PolicyOutcome, String) {
    (
        PolicyOutcome::Deny(code::PMIX_ERR_NOT_FOUND),
        reason.to_owned(),
    )
}

fn granted() -> (PolicyOutcome, String) {
    (PolicyOutcome::Grant, String::new())
}

#[needs(prepared)]
#[test]
fn same_user_lets_procs_be_controlled_by_their_own_user_only() {
    let module = module("same-user", &[], Services::default());
    let ask = |targets| decide(&module, request(job_control(), targets));
    assert_eq!(ask(Vec::new()), granted(), "the caller's own namespace");
    assert_eq!(
        ask(vec![target("mine", Some(1000)), target("too", Some(1000))]),
        granted()
    );
    let foreign = refused("uid 1000 may not control job theirs of uid 0");
    assert_eq!(
        ask(vec![target("mine", Some(1000)), target("theirs", Some(0))]),
        foreign
    );
    assert_eq!(
        ask(vec![target("nowhere", None)]),
        unknown("job nowhere is not known here")
    );

    let root = PolicyRequest {
        identity: Some(user(0)),
        ..request(job_control(), vec![target("mine", Some(1000))])
    };
    assert_eq!(
        decide(&module, root),
        refused("uid 0 may not control job mine of uid 1000")
    );
}

#[needs(prepared)]
#[test]
fn same_user_lets_proc_connect_as_registered_user() {
    let module = module("same-user", &[], Services::default());
    let ask = |owner| {
        decide(
            &module,
            request(
                connection(ConnectionKind::Client),
                vec![target("mine", owner)],
            ),
        )
    };
    assert_eq!(ask(Some(1000)), granted());
    assert_eq!(
        ask(Some(1001)),
        refused("uid 1000 may not connect as a proc of job mine of uid 1001")
    );
    assert_eq!(ask(None), unknown("job mine is not known here"));
}

#[needs(prepared)]
#[test]
fn same_user_lets_tool_connect_by_its_user_or_jobs() {
    let module = module("same-user", &[], Services::default());
    let ask = |uid, targets| {
        let request = PolicyRequest {
            requester: None,
            identity: Some(user(uid)),
            ..request(connection(ConnectionKind::Tool), targets)
        };
        decide(&module, request)
    };
    let stranger = refused(
        "uid 1000 is neither root nor that of the server, nor that of all jobs that its tool asks about",
    );
    assert_eq!(ask(0, Vec::new()), granted());
    assert_eq!(ask(SERVER.uid, Vec::new()), granted());
    assert_eq!(ask(1000, Vec::new()), stranger);
    assert_eq!(ask(1000, vec![target("mine", Some(1000))]), granted());
    assert_eq!(
        ask(
            1000,
            vec![target("mine", Some(1000)), target("theirs", Some(7))]
        ),
        stranger
    );
    assert_eq!(ask(1000, vec![target("nowhere", None)]), stranger);
}

#[needs(prepared)]
#[test]
fn same_user_passes_events_that_claim_no_other_source() {
    let module = module("same-user", &[], Services::default());
    let ask = |claimed: Option<Value>| {
        let infos = claimed
            .map(|claimed| Info::new(key::PMIX_EVENT_PROXY, claimed))
            .into_iter()
            .collect();
        decide(
            &module,
            PolicyRequest {
                ..request(event(infos), vec![target("theirs", Some(0))])
            },
        )
    };
    let passed = (PolicyOutcome::Pass, String::new());
    let foreign =
        refused("mine:0 names another proc as the source of its event (PMIX_EVENT_PROXY)");
    assert_eq!(ask(None), passed, "the default rule chooses the recipients");
    assert_eq!(ask(Some(Value::Proc(proc("mine", 0)))), passed);
    assert_eq!(ask(Some(Value::Proc(proc("mine", 1)))), foreign);
    assert_eq!(ask(Some(Value::Bool(true))), foreign);
}

#[needs(prepared)]
#[test]
fn same_user_lets_unknown_user_do_nothing() {
    let module = module("same-user", &[], Services::default());
    for subject in [
        connection(ConnectionKind::Client),
        connection(ConnectionKind::Tool),
        event(Vec::new()),
        job_control(),
    ] {
        let nobody = PolicyRequest {
            identity: None,
            ..request(subject.clone(), Vec::new())
        };
        assert_eq!(
            decide(&module, nobody),
            refused("user of mine:0 is unknown: the kernel reports no owner of its connection")
        );
        let nameless = PolicyRequest {
            identity: None,
            requester: None,
            ..request(subject.clone(), Vec::new())
        };
        assert_eq!(
            decide(&module, nameless),
            refused(
                "user of a tool without a name is unknown: the kernel reports no owner of its connection"
            )
        );
    }
}

#[needs(prepared)]
#[test]
fn trap_policy_fails_on_any_request() {
    let module = module("trap-policy", &[], Services::default());
    for subject in [
        connection(ConnectionKind::Client),
        connection(ConnectionKind::Tool),
        event(Vec::new()),
        job_control(),
    ] {
        let call = PolicyCall {
            number: 0,
            request: Arc::new(request(subject.clone(), Vec::new())),
            steps: Arc::default(),
        };
        assert_eq!(
            module.decide(call).outcome.unwrap_err().kind,
            FailureKind::Trapped
        );
    }
}

#[needs(prepared)]
#[test]
fn guests_import_only_capabilities_in_use() {
    let policies = [
        Role::ConnectionPolicy,
        Role::EventPolicy,
        Role::JobControlPolicy,
    ];
    let channel = [Role::LogChannel, Role::Lifecycle];
    for (name, roles, capabilities) in [
        ("complete", &[Role::EventHandler][..], &[][..]),
        (
            "same-user",
            &[
                Role::ConnectionPolicy,
                Role::EventPolicy,
                Role::JobControlPolicy,
                Role::MonitorPolicy,
                Role::GroupPolicy,
                Role::SpawnPolicy,
            ],
            &[],
        ),
        ("group-rule", &[Role::GroupPolicy, Role::Lifecycle], &[]),
        ("spawn-limit", &[Role::SpawnPolicy, Role::Lifecycle], &[]),
        ("join-by-rule", &[Role::EventHandler, Role::Lifecycle], &[]),
        (
            "admin-group",
            &[Role::JobControlPolicy, Role::Lifecycle],
            &[],
        ),
        (
            "provision-dry",
            &[Role::ProvisionPolicy, Role::Lifecycle],
            &[],
        ),
        (
            "watchdog",
            &[Role::EventHandler, Role::Lifecycle],
            &[
                Capability::Logging,
                Capability::Clock,
                Capability::Control,
                Capability::Report,
                Capability::Usage,
            ],
        ),
        (
            "log-abort",
            &[Role::EventHandler, Role::Lifecycle],
            &[Capability::Report],
        ),
        (
            "restart",
            &[Role::EventHandler, Role::Lifecycle],
            &[Capability::Control],
        ),
        ("trap-policy", &policies, &[]),
        ("stdio", &[Role::LogChannel], &[Capability::Sink]),
        ("syslog", &channel, &[Capability::Clock, Capability::Sink]),
        ("email", &channel, &[Capability::Clock, Capability::Sink]),
        ("file", &channel, &[Capability::Clock, Capability::Sink]),
        ("record", &channel, &[Capability::Clock, Capability::Sink]),
    ] {
        let found = peal_sandbox::inspect(&std::fs::read(guest(name)).unwrap()).unwrap();
        assert_eq!(found.roles.into_iter().collect::<Vec<_>>(), roles, "{name}");
        assert_eq!(
            found.capabilities.into_iter().collect::<Vec<_>>(),
            capabilities,
            "{name}"
        );
        assert!(
            found.unknown_imports.is_empty() && found.other_exports.is_empty(),
            "{name}"
        );
    }
}

/// Destination that keeps the text written to it.
#[derive(Default)]
struct Page(Mutex<String>);

impl Sink for Page {
    fn write(&self, _: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.0
            .lock()
            .unwrap()
            .push_str(std::str::from_utf8(bytes).unwrap());
        Ok(())
    }
}

/// The shipped channel with its sinks.
struct Stdio {
    module: Module,
    stdout: Arc<Page>,
    stderr: Arc<Page>,
}

impl Stdio {
    fn new() -> Stdio {
        let stdout = Arc::new(Page::default());
        let stderr = Arc::new(Page::default());
        let sinks = [("stdout", &stdout), ("stderr", &stderr)];
        let sinks = sinks
            .map(|(name, page)| (name.to_owned(), Arc::clone(page) as Arc<dyn Sink>))
            .into();
        let module = module(
            "stdio",
            &[Capability::Sink],
            Services {
                sinks,
                ..Services::default()
            },
        );
        Stdio {
            module,
            stdout,
            stderr,
        }
    }

    /// Returns the result of a request for this channel, and the text that it wrote to stdout and
    /// stderr.
    fn log(
        &self,
        channel: KeyName,
        data: Vec<Info>,
        directives: &[KeyName],
    ) -> (Status, String, String) {
        let directives = directives
            .iter()
            .map(|key| Info::new(*key, Value::Bool(true)))
            .collect();
        let request = LogRequest {
            source: Some(proc("mine", 0)),
            identity: Some(user(1000)),
            timestamp: Some(1_700_000_000),
            data,
            directives,
        };
        let call = ChannelCall {
            channel: channel.into(),
            request: Arc::new(request),
            steps: Arc::default(),
        };
        let result = self.module.log(call);
        assert_eq!(result.failure, None);
        let taken = |page: &Page| std::mem::take(&mut *page.0.lock().unwrap());
        (result.status, taken(&self.stdout), taken(&self.stderr))
    }
}

fn said(channel: KeyName, text: &str) -> Info {
    Info::new(channel, Value::string(text))
}

fn written(stdout: &str, stderr: &str) -> (Status, String, String) {
    (code::PMIX_SUCCESS, stdout.to_owned(), stderr.to_owned())
}

fn failed(status: Status) -> (Status, String, String) {
    (status, String::new(), String::new())
}

#[needs(prepared)]
#[test]
fn stdio_writes_channel_data_to_sink_of_same_name() {
    let stdio = Stdio::new();
    let out = key::PMIX_LOG_STDOUT;
    let err = key::PMIX_LOG_STDERR;
    let data = || {
        vec![
            said(out, "out\n"),
            said(err, "err"),
            said(key::PMIX_LOG_LOCAL_SYSLOG, "sys"),
            said(out, "again"),
        ]
    };
    assert_eq!(stdio.log(out, data(), &[]), written("out\nagain\n", ""));
    assert_eq!(stdio.log(err, data(), &[]), written("", "err\n"));

    let payload = Info::new(Key::new("app.progress").unwrap(), Value::string("half"));
    assert_eq!(
        stdio.log(out, vec![payload], &[]),
        written("app.progress: half\n", "")
    );
}

#[needs(prepared)]
#[test]
fn stdio_tags_and_dates_each_line_on_request() {
    let stdio = Stdio::new();
    let out = key::PMIX_LOG_STDOUT;
    let err = key::PMIX_LOG_STDERR;
    let directives = [key::PMIX_LOG_TAG_OUTPUT, key::PMIX_LOG_TIMESTAMP_OUTPUT];
    let lines = "2023-11-14T22:13:20Z <stdout>: one\n2023-11-14T22:13:20Z <stdout>: two\n";
    assert_eq!(
        stdio.log(out, vec![said(out, "one\ntwo")], &directives),
        written(lines, "")
    );
    assert_eq!(
        stdio.log(err, vec![said(err, "one")], &directives[..1]),
        written("", "<stderr>: one\n")
    );
}

#[needs(prepared)]
#[test]
fn stdio_output_cannot_control_a_terminal() {
    let out = key::PMIX_LOG_STDOUT;
    let text = said(out, "\u{1b}]0;title\u{7} grün");
    assert_eq!(
        Stdio::new().log(out, vec![text], &[]),
        written("\\u{1b}]0;title\\u{7} grün\n", "")
    );
}

#[needs(prepared)]
#[test]
fn stdio_writes_nothing_of_data_that_is_not_text() {
    let stdio = Stdio::new();
    let out = key::PMIX_LOG_STDOUT;
    for value in [
        Value::Uint64(1),
        Value::Undef,
        Value::DataArray(DataArray::infos([said(out, "x")])),
    ] {
        let data = vec![said(out, "first"), Info::new(out, value)];
        assert_eq!(stdio.log(out, data, &[]), failed(code::PMIX_ERR_BAD_PARAM));
    }
    assert_eq!(
        stdio.log(out, Vec::new(), &[]),
        failed(code::PMIX_ERR_BAD_PARAM)
    );
}

#[needs(prepared)]
#[test]
fn stdio_writes_xml_on_request() {
    let stdio = Stdio::new();
    let out = key::PMIX_LOG_STDOUT;
    let xml = key::PMIX_LOG_XML_OUTPUT;
    let lines = "<stdout nspace=\"mine\" rank=\"0\">a &lt; b&#010;</stdout>\n";
    assert_eq!(
        stdio.log(out, vec![said(out, "a < b")], &[xml]),
        written(lines, "")
    );
}

#[needs(prepared)]
#[test]
fn stdio_refuses_unsupported_requests() {
    let stdio = Stdio::new();
    let out = key::PMIX_LOG_STDOUT;
    let unknown = KeyName("pmix.log.colour");
    assert_eq!(
        stdio.log(out, vec![said(out, "x")], &[unknown]),
        failed(code::PMIX_ERR_NOT_SUPPORTED)
    );
    let mail = key::PMIX_LOG_EMAIL;
    assert_eq!(
        stdio.log(mail, vec![said(mail, "x")], &[]),
        failed(code::PMIX_ERR_NOT_SUPPORTED)
    );
}
