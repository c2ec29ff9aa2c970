//! Permission to control jobs of other users in a running server: no user by default, members of a
//! group if `admin-group` names it, and the site's own `watchdog`. All decisions are recorded.
use peal_audit::{AuditEntry, DecisionKind, TrailSource};
use peal_core::{
    job::JobSpec,
    job_control::{JobAction, JobControl, NotDone},
    owner::Owner,
    policy::OnFailure,
    registration::{ChainPlacement as Seat, HandlerLocation, Mode},
};
use peal_model::{
    Event, Hook, Info, Key, KeyName, LogRequest, Nspace, Proc, Range, Rank, Status, UserIdentity,
    Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{
    Engine, EngineSettings, Grants, Module, ModuleLimits, ProcUsage, Services, Sink,
};
use peal_server::{
    HostEnvironment, Hosted, HostedChains, HostedChannels, HostedPolicies, InProcessNetwork,
    ServerSettings, UpcallFuture,
};
use peal_store::Filter;
use peal_tests::{
    daemon::{Daemon, Place},
    guest,
    in_process::{Modules, Node, soon},
    peal, program, run, until,
};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

/// User and group without processes.
const NOBODY: u32 = 65_534;
const OPERATORS: u32 = 5001;

/// Starts a server with a job of that user and one of root, neither of which is to end.
fn server(policy: &str) -> (Place, Daemon) {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    place.configure(&format!(
        "[audit]\npath = \"{dir}audit.db\"\non_failure = \"deny\"\n[store]\npath = \"{dir}store.db\"\n{policy}"
    ));
    let server = place.start();
    server.tell(&["job", "register", "somebody-else", "-n", "1"]);
    let user = NOBODY.to_string();
    server.tell(&[
        "job", "register", "mine", "-n", "1", "--uid", &user, "--gid", &user,
    ]);
    (place, server)
}

/// Returns the output of that user's tool, which is in these groups beside its own.
fn tool_says(server: &Daemon, groups: &str) -> String {
    let (_, uri) = server
        .environment("mine", 0)
        .into_iter()
        .find(|(name, _)| name == "PMIX_SERVER_URI41")
        .unwrap();
    let mut command = Command::new("setpriv");
    let user = NOBODY.to_string();
    command.args(["--reuid", &user, "--regid", &user]);
    match groups {
        "" => command.arg("--clear-groups"),
        groups => command.args(["--groups", groups]),
    };
    command
        .arg(program("peal-test-requests"))
        .arg(uri)
        .current_dir("/")
        .env_clear();
    run(&mut command).expect_status(0).stdout
}

/// Returns the output of `peal audit` for the trail.
fn audit(place: &Place, args: &[&str]) -> String {
    run(peal(["audit"])
        .args(args)
        .arg("--config")
        .arg(place.path("peal.toml")))
    .expect_status(0)
    .stdout
}

fn report(place: &Place) -> String {
    audit(place, &["report", "--html", "-"])
}

fn entries(place: &Place) -> Vec<AuditEntry> {
    let rows = TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .last(&Filter::default(), u32::MAX)
        .unwrap();
    rows.iter()
        .map(|row| AuditEntry::read(&row.body).unwrap())
        .collect()
}

#[needs(prepared, root)]
#[test]
fn foreign_jobs_are_denied_by_default_and_attempts_recorded() {
    let (place, server) = server("");
    let said = tool_says(&server, "5001");
    assert!(
        said.starts_with("the other job stays: ") && said.contains("belongs to user 0"),
        "{said}"
    );
    tool_says(&server, "5001");
    server.tell(&["stop"]);
    server.ends();
    // Each tool has a namespace of its own, but there is one row.
    let page = report(&place);
    let row =
        "<td>65534</td><td>NAMES</td><td>job-control of somebody-else</td><td>the default</td>";
    let (before, after) = row.split_once("NAMES").unwrap();
    let rows: Vec<&str> = page
        .split("<tr>")
        .filter(|row| row.starts_with(before) && row.contains(after))
        .collect();
    assert_eq!(rows.len(), 1, "{page}");
    assert!(
        rows[0].contains("-tool-1, peal-") && rows[0].contains(">2</td>"),
        "{rows:?}"
    );
    assert!(page.contains("0 granted and 2 denied from "), "{page}");
    let denied = entries(&place).into_iter().find_map(|entry| match entry {
        AuditEntry::Denied(denial) => Some(denial),
        _ => None,
    });
    let denied = denied.unwrap();
    assert_eq!(denied.uid, Some(NOBODY));
    assert_eq!(
        (denied.hook.as_deref(), denied.by.as_deref()),
        (Some("job-control"), Some("the default"))
    );
    assert_eq!(denied.status, Some(code::PMIX_ERR_NO_PERMISSIONS));
    assert_eq!(
        denied.targets,
        [Proc::all(Nspace::new("somebody-else").unwrap())]
    );
    assert!(denied.reason.contains("belongs to user 0"), "{denied:?}");
    let listed = audit(
        &place,
        &[
            "list",
            "--outcome",
            "denied:PMIX_ERR_NO_PERMISSIONS",
            "--user",
            "nobody",
        ],
    );
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let line = listed.lines().nth(1).unwrap();
    assert!(
        line.contains("  job-control  somebody-else:PMIX_RANK_WILDCARD  the default  "),
        "{line}"
    );
    assert!(line.contains("belongs to user 0"), "{line}");
}

#[needs(prepared, root)]
#[test]
fn members_of_a_group_control_jobs_where_configured() {
    let path = guest("admin-group");
    let module = format!(
        "[[module]]\nname = \"admin-group\"\npath = {path:?}\nconfig = {{ groups = \"operators, {OPERATORS}\" }}\n"
    );
    let (place, server) = server(&module);
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let others = tool_says(&server, "5002");
    assert!(others.contains("belongs to user 0"), "{others}");
    let nobody = tool_says(&server, "");
    assert!(nobody.contains("belongs to user 0"), "{nobody}");
    // The result depends on the host environment, which did not start that job.
    let member = tool_says(&server, "5002,5001");
    assert!(!member.contains("belongs to user"), "{member}");
    server.tell(&["stop"]);
    server.ends();
    // A decision is not recorded as a denial once more.
    assert!(
        !entries(&place)
            .iter()
            .any(|entry| matches!(entry, AuditEntry::Denied(_)))
    );
    assert!(
        report(&place).contains("1 granted and 2 denied from "),
        "{}",
        report(&place)
    );
    let decisions: Vec<_> = entries(&place)
        .into_iter()
        .filter_map(|entry| match entry {
            AuditEntry::Decision(decision) if decision.hook == "job-control" => Some(decision),
            _ => None,
        })
        .collect();
    let of = |decision: &peal_audit::DecisionEntry| {
        let groups: Vec<u32> = decision
            .request
            .groups
            .iter()
            .map(|group| group.gid)
            .collect();
        (groups, decision.verdict, decision.policy.clone())
    };
    let denied = DecisionKind::Denied(code::PMIX_ERR_NO_PERMISSIONS);
    let granted = (
        vec![NOBODY, OPERATORS, 5002],
        DecisionKind::Granted,
        Some("admin-group".to_owned()),
    );
    assert_eq!(
        decisions.iter().map(of).collect::<Vec<_>>(),
        [
            (vec![NOBODY, 5002], denied, None),
            (vec![NOBODY], denied, None),
            granted
        ]
    );
    let replay = run(peal(["audit", "replay", "--config"]).arg(place.path("peal.toml")))
        .expect_status(0)
        .stdout;
    assert!(
        replay.contains(" 0 differ"),
        "the groups are those of then: {replay}"
    );
}

/// Host environment that carries out every request, and records it.
#[derive(Default)]
struct Obedient(Mutex<Vec<(Option<Proc>, JobControl)>>);

impl HostEnvironment for Obedient {
    fn job_control(
        &self,
        requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        self.0.lock().unwrap().push((requester, control));
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// Destination of the job record.
#[derive(Default)]
struct Paper(Mutex<String>);

impl Sink for Paper {
    fn write(&self, _: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.0
            .lock()
            .unwrap()
            .push_str(&String::from_utf8_lossy(bytes));
        Ok(())
    }
}

/// Resource usage that is the same for every proc.
struct Same;

impl ProcUsage for Same {
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        Ok(procs
            .iter()
            .map(|_| Info::new(KeyName("site.memory"), Value::Uint64(4096)))
            .collect())
    }
}

fn load(engine: &Engine, name: &str, services: Services) -> Arc<Module> {
    let patience = Duration::from_secs(60);
    let limits = ModuleLimits {
        call_time: patience,
        host_call_time: patience,
        ..ModuleLimits::default()
    };
    let bytes = fs::read(guest(name)).unwrap();
    Arc::new(Module::load(engine, name, &bytes, &Grants::all(), limits, services).unwrap())
}

/// Starts a server with a job of the test's user and one of another user, `watchdog` with this
/// owner, and the job record.
async fn watched(owner: Owner, policies: HostedPolicies) -> (Node, Arc<Obedient>, Arc<Paper>) {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let paper = Arc::new(Paper::default());
    let sinks = [("job-record".to_owned(), paper.clone() as Arc<dyn Sink>)].into();
    let record = load(
        &engine,
        "record",
        Services {
            sinks,
            ..Services::default()
        },
    );
    record.init(&[]).unwrap();
    let mut channels = HostedChannels::default();
    channels
        .register(
            "record",
            vec![Key::from(key::PMIX_LOG_JOB_RECORD)],
            Seat::Append,
            record,
        )
        .unwrap();
    let watchdog = load(
        &engine,
        "watchdog",
        Services {
            usage: Some(Arc::new(Same)),
            ..Services::default()
        },
    );
    let kill = Info::new(KeyName("action"), Value::string("kill"));
    let mut chains = HostedChains::default();
    for wish in watchdog.init(&[kill]).unwrap() {
        chains
            .register_requested(
                owner.clone(),
                &watchdog.clone().into(),
                &wish,
                (Mode::Active, HandlerLocation::Origin),
            )
            .unwrap();
    }
    let modules = Modules {
        hosted: Hosted {
            channels,
            chains,
            policies,
        },
        ..Modules::default()
    };
    let host = Arc::new(Obedient::default());
    let node = Node::with(
        modules,
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        2,
    )
    .await;
    let nspace = Nspace::new("theirs").unwrap();
    let uid = rustix::process::geteuid().as_raw() + 1;
    node.server
        .handle()
        .add_job(JobSpec::new(
            nspace,
            1,
            "node",
            UserIdentity { uid, gid: 0 },
        ))
        .await
        .unwrap();
    (node, host, paper)
}

/// Raises the alert that this proc sends no heartbeat.
fn alert(node: &Node, job: &str, more: Option<Info>) {
    let silent = Proc::new(Nspace::new(job).unwrap(), Rank(0));
    let infos = [Info::new(
        key::PMIX_EVENT_AFFECTED_PROC,
        Value::Proc(silent),
    )]
    .into_iter()
    .chain(more)
    .collect();
    let event = Event {
        code: code::PMIX_MONITOR_HEARTBEAT_ALERT,
        source: None,
        range: Range::Session,
        infos,
    };
    node.server.handle().notify(event);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn site_watchdog_records_and_kills_silent_proc_once() {
    let (node, host, paper) = watched(Owner::Site, HostedPolicies::default()).await;
    alert(
        &node,
        "theirs",
        Some(Info::new(key::PMIX_MONITOR_APP_CONTROL, Value::Bool(true))),
    );
    alert(&node, "theirs", None);
    let lines = || paper.0.lock().unwrap().clone();
    until("the proc is killed", || !host.0.lock().unwrap().is_empty());
    until("that is recorded", || lines().contains('\n'));
    soon("the server stops", node.server.shutdown()).await;
    let controlled = host.0.lock().unwrap();
    let [(source, control)] = &controlled[..] else {
        panic!("{controlled:?}")
    };
    assert_eq!((source, &control.action), (&None, &JobAction::Kill));
    assert_eq!(
        control.targets,
        [Proc::new(Nspace::new("theirs").unwrap(), Rank(0))]
    );
    let record: serde_json::Value = serde_json::from_str(&lines()).unwrap();
    assert_eq!(
        (&record["nspace"], &record["rank"]),
        (&"theirs".into(), &0.into())
    );
    assert_eq!(record["text"], "theirs:0 sends no heartbeat, action: kill");
    assert_eq!(record["data"][0]["value"], 4096, "{record}");
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn module_requests_pass_policies_of_site() {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let mut policies = HostedPolicies::default();
    let broken = load(&engine, "trap-policy", Services::default());
    policies
        .register(
            Hook::JobControl,
            "broken",
            Seat::Append,
            OnFailure::Deny,
            broken,
        )
        .unwrap();
    let (node, host, paper) = watched(Owner::Site, policies).await;
    alert(&node, "theirs", None);
    until("it is denied", || {
        node.server.counters().requests_denied.get() > 0
    });
    until("and recorded", || {
        paper.0.lock().unwrap().contains("theirs")
    });
    assert!(host.0.lock().unwrap().is_empty());
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_of_a_job_acts_upon_that_job_only() {
    let mine = Nspace::new("job").unwrap();
    let (node, host, paper) =
        watched(Owner::Namespace(mine.clone()), HostedPolicies::default()).await;
    // The range is the session, so that the watchdog receives both.
    alert(&node, "theirs", None);
    alert(&node, "job", None);
    until("its own proc is killed", || {
        !host.0.lock().unwrap().is_empty()
    });
    soon("the server stops", node.server.shutdown()).await;
    let controlled = host.0.lock().unwrap();
    let [(source, control)] = &controlled[..] else {
        panic!("{controlled:?}")
    };
    assert_eq!(
        (&source.as_ref().unwrap().nspace, &control.targets[..]),
        (&mine, &[Proc::new(mine.clone(), Rank(0))][..])
    );
    let lines = paper.0.lock().unwrap();
    let of = |job: &str| {
        lines
            .lines()
            .filter(|line| line.contains(&format!("\"nspace\":\"{job}\"")))
            .count()
    };
    assert_eq!(
        of("theirs"),
        0,
        "it writes into nobody else's record: {lines}"
    );
}
