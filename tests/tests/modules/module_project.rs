//! Work of a module author: a new project outside of the repository is changed, built with the
//! language's own tools, and tested. It is dropped into the directory of a running server, where it
//! decides.
use peal_model::{
    Amendment, Application, ConnectionKind, ConnectionSubject, EventSubject, GroupOperationKind,
    GroupSubject, Hook, Info, JobControlSubject, Key, LogRequest, LogSubject, MonitorSubject,
    PeerInfo, PolicyOutcome, PolicyRequest, PolicySubject, ProvisionSubject, Range,
    RegistrationSubject, SpawnSubject, Status, UserIdentity, Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{
    ChannelCall, DirectoryService, FileAccess, GrantedDirectory, Grants, InitError, Module,
    ModuleLimits, PolicyCall, PolicyResult, Services, Sink,
};
use peal_tests::{
    daemon::Place,
    languages::{engine, handle, info},
    projects::{COMPILING, Project, module, source},
    root, run, run_within, until,
};
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

/// File, line and replacement of the author's change.
const EDIT: [&str; 3] = [
    "not so loud",
    "PMIX_ERR_NO_PERMISSIONS",
    "PMIX_ERR_RESOURCE_BUSY",
];

const ROLES: [&str; 10] = [
    "event-handler",
    "connection-policy",
    "event-policy",
    "job-control-policy",
    "monitor-policy",
    "provision-policy",
    "log-policy",
    "group-policy",
    "spawn-policy",
    "log-channel",
];

/// Changes one line of a file.
fn edit(file: &Path) {
    let [line, old, new] = EDIT;
    let text = fs::read_to_string(file).unwrap();
    let edited: String =
        text.lines().map(|of| if of.contains(line) { of.replace(old, new) } else { of.to_owned() } + "\n").collect();
    assert_ne!(text, edited, "{}", file.display());
    fs::write(file, edited).unwrap();
}

/// Returns the author's changes for capabilities that no new project has: the line before which the
/// code goes, the line to replace, its replacement, and the code.
fn probe(language: &str) -> Option<[&'static str; 4]> {
    Some(match language {
        "c" => [
            "// Turns tools away",
            "  if (request->is_tool)",
            "  peal_peer_info peer;\n  if (peal_peer(&peer) && peer.pid) return probe(&peer);\n  if (request->is_tool)",
            include_str!("probes/probe.c"),
        ],
        "cpp" => [
            "// Turns tools away",
            "  if (request.is_tool())",
            "  if (auto peer = request.peer(); peer && peer->pid) return probe(*peer);\n  if (request.is_tool())",
            include_str!("probes/probe.cpp"),
        ],
        "go" => [
            "// ConnectionPolicy turns",
            "\tif request.IsTool",
            "\tif peer, ok := request.Peer(); ok && peer.Pid > 0 {\n\t\treturn probe(peer)\n\t}\n\tif request.IsTool",
            include_str!("probes/probe.go.txt"),
        ],
        "python" => [
            "@peal.connection_policy",
            "    if request.kind == \"tool\":",
            "    if request.peer is not None and request.peer.pid:\n        return probe(request.peer)\n    if request.kind == \"tool\":",
            include_str!("probes/probe.py"),
        ],
        "js" => [
            "/** Turns tools away",
            "  request.kind === \"tool\"",
            "  request.peer?.pid ? probe(request.peer) : request.kind === \"tool\"",
            include_str!("probes/probe.js"),
        ],
        "ts" => [
            "/** Turns tools away",
            "  request.kind === \"tool\"",
            "  request.peer?.pid ? probe(request.peer) : request.kind === \"tool\"",
            include_str!("probes/probe.ts"),
        ],
        _ => return None,
    })
}

/// Makes a project use more capabilities than a new one does, for a connection of a known process.
fn reach(project: &Path, language: &str, name: &str) {
    let Some([before, old, new, code]) = probe(language) else {
        return;
    };
    let replace = |file: &str, pairs: &[(&str, &str)]| {
        let file = project.join(file);
        let text = fs::read_to_string(&file).unwrap();
        let edited = pairs
            .iter()
            .fold(text.clone(), |text, (old, new)| text.replacen(old, new, 1));
        fs::write(&file, &edited).unwrap();
        edited != text
    };
    assert!(replace(
        source(language),
        &[
            (before, &format!("{code}{before}")),
            (old, new),
            // What the code in Go uses besides.
            ("\t\"strings\"\n", "\t\"strconv\"\n\t\"strings\"\n"),
        ]
    ));
    let all = "[\"sink\", \"random\", \"files\"]";
    assert!(replace(&format!("{name}.toml"), &[("[\"sink\"]", all)]));
    assert_eq!(
        replace("peal-module.toml", &[("[\"sink\"]", all)]),
        !["c", "cpp", "go"].contains(&language),
        "components in compiled languages have no unused imports"
    );
}

/// Uses a project as a site does: copies two of its files, and sends nothing to the server.
async fn decides_for_a_running_server(project: &Path, name: &str) {
    let place = Place::new();
    let drop_ins = place.path("modules.d");
    fs::create_dir(&drop_ins).unwrap();
    place.configure("[deploy]\ndebounce_ms = 20\n");
    let daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "1"]);
    let client = daemon.client("job", 0).await;
    let loud = || client.notify(Status(-3001), Range::Global, Vec::new());
    loud()
        .await
        .unwrap_or_else(|error| panic!("no policy denies it yet: {error}"));

    for file in [format!("{name}.wasm"), format!("{name}.toml")] {
        fs::copy(project.join(&file), drop_ins.join(&file)).unwrap();
    }
    until(&format!("{name} runs"), || {
        daemon.tell(&["module", "list"]).contains(name)
    });
    let denied = loud().await.unwrap_err().to_string();
    assert!(denied.contains(EDIT[2]), "{name}: {denied}");
    client
        .notify(Status(-3001), Range::Namespace, Vec::new())
        .await
        .unwrap();
    daemon.tell(&["stop", "--wait"]);
}

/// Output of a log channel.
#[derive(Default)]
struct Written(Mutex<Vec<u8>>);

impl Sink for Written {
    fn write(&self, _request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.0.lock().unwrap().extend(bytes);
        Ok(())
    }
}

fn load(file: &Path, sink: &Arc<Written>) -> Module {
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    let spool = file.with_file_name("spool");
    fs::create_dir_all(&spool).unwrap();
    let spool = GrantedDirectory::open(&spool, FileAccess::ReadWrite { quota: 65_536 }).unwrap();
    let services = Services {
        sinks: [("journal".to_owned(), sink.clone() as Arc<dyn Sink>)].into(),
        files: [(
            "spool".to_owned(),
            Arc::new(spool) as Arc<dyn DirectoryService>,
        )]
        .into(),
        ..Services::default()
    };
    let bytes = fs::read(file).unwrap();
    Module::load(engine(), "tried", &bytes, &Grants::all(), limits, services)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a connection by a peer of this process id.
fn connection(kind: ConnectionKind, pid: Option<u32>) -> PolicySubject {
    PolicySubject::Connection(ConnectionSubject {
        kind,
        peer: PeerInfo {
            pid,
            release: "3.2.3".to_owned(),
        },
        infos: Vec::new(),
    })
}

/// Calls a policy with a request without a requester and targets.
fn decide(module: &Module, subject: PolicySubject) -> PolicyResult {
    let request = PolicyRequest {
        subject,
        requester: None,
        identity: None,
        groups: Arc::default(),
        server: UserIdentity { uid: 0, gid: 0 },
        targets: Vec::new(),
    };
    module.decide(PolicyCall {
        number: 0,
        request: Arc::new(request),
        steps: Arc::new(Vec::new()),
    })
}

/// Checks the behavior that the texts of a new project describe, by its functions for each role.
fn decides_as_it_says(language: &str, name: &str, module: &Module, written: &Written) {
    let refused = |result: PolicyResult, status, reason: &str| {
        let denial = PolicyOutcome::Deny(status);
        assert_eq!(result.outcome.as_ref().unwrap(), &denial, "{name}");
        assert_eq!(
            result.infos,
            [info("peal.reason", Value::String(Some(reason.into())))],
            "{name}"
        );
    };
    let denied = |result, reason| refused(result, code::PMIX_ERR_NO_PERMISSIONS, reason);
    let passed =
        |result: PolicyResult| assert_eq!(result.outcome.unwrap(), PolicyOutcome::Pass, "{name}");

    denied(
        decide(module, connection(ConnectionKind::Tool, None)),
        "no tools today",
    );
    passed(decide(module, connection(ConnectionKind::Client, None)));
    if probe(language).is_some() {
        let probed = decide(module, connection(ConnectionKind::Client, Some(4711)));
        denied(probed, "4711 3.2.3 70000 true spool a hello -46");
    }
    let event = |range| {
        let subject = EventSubject {
            code: Status(-3001),
            range,
            infos: Vec::new(),
        };
        decide(module, PolicySubject::Event(subject))
    };
    refused(
        event(Range::Global),
        code::PMIX_ERR_RESOURCE_BUSY,
        "not so loud",
    );
    passed(event(Range::Namespace));
    passed(decide(
        module,
        PolicySubject::Registration(RegistrationSubject::default()),
    ));
    let control = |directives| {
        let subject = JobControlSubject {
            directives,
            ..JobControlSubject::default()
        };
        decide(module, PolicySubject::JobControl(subject))
    };
    let kill = Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true));
    denied(control(vec![kill]), "terminate it instead");
    passed(control(Vec::new()));
    let monitor = |monitor| {
        let subject = MonitorSubject {
            monitor,
            directives: Vec::new(),
        };
        decide(module, PolicySubject::Monitor(subject))
    };
    let file = Info::new(key::PMIX_MONITOR_FILE, Value::string("/tmp/out"));
    denied(monitor(file), "send heartbeats instead");
    let heartbeat = Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true));
    passed(monitor(heartbeat));
    let group = |name: &str| {
        let subject = GroupSubject {
            kind: GroupOperationKind::Construct,
            name: Some(name.to_owned()),
            directives: Vec::new(),
        };
        decide(module, PolicySubject::Group(subject))
    };
    denied(group("site"), "that name is the site's");
    passed(group("crew"));
    let spawned = |procs: u32| {
        let application = |command: &str, procs, directives| Application {
            command: command.to_owned(),
            arguments: vec!["-v".to_owned()],
            environment: vec!["A=1".to_owned(), "B=2".to_owned()],
            directory: Some("/tmp".to_owned()),
            procs,
            directives,
        };
        let applications = vec![application("solver", 60, 1), application("viz", procs, 0)];
        let infos = vec![Info::new(key::PMIX_WDIR, Value::string("/"))];
        let subject = SpawnSubject {
            applications,
            infos,
            directives: Vec::new(),
        };
        decide(module, PolicySubject::Spawn(subject))
    };
    refused(
        spawned(5),
        code::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES,
        "no more than 64 procs at once",
    );
    passed(spawned(4));
    let nodes = |names: &[&str]| {
        let subject = ProvisionSubject {
            nodes: names.iter().map(|name| (*name).to_owned()).collect(),
            image: None,
            directives: Vec::new(),
        };
        decide(module, PolicySubject::Provision(subject))
    };
    let provided = nodes(&["spare1", "spare2"]);
    assert_eq!(
        (provided.outcome.unwrap(), provided.infos),
        (
            PolicyOutcome::Grant,
            vec![info("site.ready", Value::Uint32(2))]
        ),
        "{name}"
    );
    passed(nodes(&["spare1", "login1"]));
    let token = |text: &str| vec![info("site.token", Value::String(Some(text.into())))];
    let log = LogSubject {
        data: token("secret"),
        directives: Vec::new(),
    };
    let hidden = decide(module, PolicySubject::Log(log));
    assert_eq!(
        hidden.amendment,
        Amendment {
            data: Some(token("(hidden)")),
            ..Amendment::default()
        },
        "{name}"
    );
    passed(hidden);

    let greeted = handle(module, Vec::new(), Vec::new());
    let greeting = info(
        &format!("{name}.greeting"),
        Value::String(Some("well done, job:3".into())),
    );
    assert_eq!(
        (greeted.status, greeted.infos),
        (code::PMIX_EVENT_NO_ACTION_TAKEN, vec![greeting]),
        "{name}"
    );

    let channel = Key::from(key::PMIX_LOG_STDERR);
    let data = vec![Info::new(
        channel.clone(),
        Value::String(Some("hällo".into())),
    )];
    let request = LogRequest {
        source: None,
        identity: None,
        timestamp: None,
        data,
        directives: Vec::new(),
    };
    let call = ChannelCall {
        channel,
        request: Arc::new(request),
        steps: Arc::new(Vec::new()),
    };
    assert_eq!(module.log(call).status, code::PMIX_SUCCESS, "{name}");
    assert_eq!(
        String::from_utf8_lossy(&written.0.lock().unwrap()),
        "hällo\n",
        "{name}"
    );
    assert_eq!(
        Hook::ALL.len(),
        11,
        "a hook that modules can decide about needs a template"
    );
}

/// Tests one project with every role. Its text for a role is the same as in a project with that
/// role alone.
async fn a_project_with_every_role_decides(language: &str) {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("my-{language}");
    let made = Project::new(
        dir.path(),
        language,
        &name,
        &[&ROLES[..], &["lifecycle"]].concat(),
    );
    let project = &made.dir;
    edit(&project.join(source(language)));
    reach(project, language, &name);
    let done = made.build().expect_status(0);
    assert!(
        done.stdout
            .contains("roles          event-handler, connection-policy, event-policy"),
        "{}",
        done.stdout
    );
    let asked = if probe(language).is_some() {
        "sink, random, files"
    } else {
        "sink"
    };
    assert!(
        done.stdout.contains(&format!("capabilities   {asked}\n")),
        "{}",
        done.stdout
    );
    let file = made.component();

    let tried = run_within(COMPILING, &mut made.module(&["test"]))
        .expect_status(1)
        .stdout;
    assert!(
        tried.contains("FAILED  an event for everybody is denied") && tried.contains(" 1 FAILED\n"),
        "{tried}"
    );
    edit(&project.join("tests/example.toml"));
    run_within(COMPILING, &mut made.module(&["test"])).expect_status(0);
    decides_for_a_running_server(project, &name).await;

    let written = Arc::new(Written::default());
    let loaded = load(&file, &written);
    assert_eq!(loaded.init(&[]).unwrap(), []);
    decides_as_it_says(language, &name, &loaded, &written);
    loaded.stop();

    let wrong = load(&file, &written).init(&[info("greeting", Value::Uint32(7))]);
    let Err(InitError::Refused { reason, .. }) = wrong else {
        panic!("{language}: {wrong:?}")
    };
    assert_eq!(
        reason, "the setting \"greeting\" must be a string",
        "{language}"
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_rust_decides() {
    a_project_with_every_role_decides("rust").await;
}

#[needs(prepared, c_tools)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_c_decides() {
    a_project_with_every_role_decides("c").await;
}

#[needs(prepared, cpp_tools)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_cpp_decides() {
    a_project_with_every_role_decides("cpp").await;
}

#[needs(prepared, go_tools)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_go_decides() {
    a_project_with_every_role_decides("go").await;
}

#[needs(prepared, python_tools)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_python_decides() {
    a_project_with_every_role_decides("python").await;
}

#[needs(prepared, js_tools)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_javascript_decides() {
    a_project_with_every_role_decides("js").await;
}

#[needs(prepared, ts_tools)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_project_in_typescript_decides() {
    a_project_with_every_role_decides("ts").await;
}

/// These are the languages that build quickly.
#[needs(prepared, c_tools, js_tools)]
#[test]
fn each_role_alone_makes_a_project_that_builds_and_loads() {
    let dir = tempfile::tempdir().unwrap();
    for language in ["c", "js"] {
        for role in ROLES {
            let name = format!("{language}-{role}");
            let project = Project::new(dir.path(), language, &name, &[role]);
            let done = project.build().expect_status(0);
            assert!(
                done.stdout.contains(&format!("roles          {role}\n")),
                "{}",
                done.stdout
            );
            run_within(COMPILING, &mut project.module(&["test"])).expect_status(0);
            if language == "c" {
                let measured =
                    run_within(COMPILING, &mut project.module(&["bench", "--calls", "10"]))
                        .expect_status(0)
                        .stdout;
                assert!(measured.contains(role), "{measured}");
            }
            let module = load(&project.component(), &Arc::default());
            assert_eq!(
                module
                    .inspection()
                    .roles
                    .iter()
                    .map(|role| role.name())
                    .collect::<Vec<_>>(),
                [role]
            );
        }
    }
}

/// The functions of a new project can be tested without building a component, and have the format
/// of their language's formatter.
#[needs(prepared)]
#[test]
fn the_functions_of_a_new_project_are_tested_natively() {
    let dir = tempfile::tempdir().unwrap();
    let all = [&ROLES[..], &["lifecycle"]].concat();
    let project = Project::new(dir.path(), "rust", "native", &all).dir;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let formatted = Command::new(&cargo)
        .args(["fmt", "--check"])
        .current_dir(&project)
        .output()
        .unwrap();
    assert!(
        formatted.status.success(),
        "{}",
        String::from_utf8_lossy(&formatted.stdout)
    );
    let mut tests = Command::new(&cargo);
    tests
        .args(["test", "--quiet", "--lib"])
        .current_dir(&project);
    let done = tests
        .env("CARGO_TARGET_DIR", root().join("target/guests-build"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains(&format!("{} passed", all.len())),
        "{said}"
    );
}

/// Runs a tool in a new project, and returns its output.
fn run_tool(language: &str, roles: &[&str], tool: &Path, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let project = Project::new(dir.path(), language, "formed", roles).dir;
    let tools = root().join("target/tools");
    let done = Command::new(tool)
        .args(args)
        .current_dir(&project)
        .env("GOCACHE", tools.join("go-cache"))
        .env("GOPATH", tools.join("go-path"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{language}: {said}");
    said.into_owned()
}

/// Returns all roles of a project.
fn all_roles() -> Vec<&'static str> {
    [&ROLES[..], &["lifecycle"]].concat()
}

#[needs(prepared, go_tools)]
#[test]
fn functions_of_a_new_go_project_are_tested_natively() {
    let go = root().join("target/tools/go/bin/go");
    let all = all_roles();
    // The former prints the names of files that it changes.
    for args in [
        &["fmt", "./..."][..],
        &["-C", "sdk/go", "fmt", "./..."],
        &["vet", "./...", "peal/..."],
    ] {
        assert_eq!(run_tool("go", &all, &go, args), "", "{args:?}");
    }
    let said = run_tool("go", &all, &go, &["test", "-v"]);
    assert_eq!(said.matches("--- PASS: Test").count(), all.len(), "{said}");
    // The imports differ between roles.
    for role in ROLES {
        assert_eq!(run_tool("go", &[role], &go, &["vet", "."]), "", "{role}");
    }
}

#[needs(prepared, ts_tools)]
#[test]
fn new_typescript_project_has_prettiers_style() {
    let prettier = root().join("target/tools/ts/node_modules/.bin/prettier");
    run_tool(
        "ts",
        &all_roles(),
        &prettier,
        &["--check", "module.ts", "tsconfig.json"],
    );
}

#[needs(prepared, clang_format)]
#[test]
fn new_cpp_project_has_clang_formats_style() {
    let sources = ["module.cpp", "sdk/cpp/peal.hpp", "sdk/cpp/peal.cpp"];
    let args = [&["--dry-run", "-Werror"], &sources[..]].concat();
    run_tool("cpp", &all_roles(), Path::new("clang-format-19"), &args);
}

#[needs(prepared, python3)]
#[test]
fn functions_of_a_new_python_project_are_tested_natively() {
    let dir = tempfile::tempdir().unwrap();
    let all = [&ROLES[..], &["lifecycle"]].concat();
    Project::new(dir.path(), "python", "snake", &all);
    let mut tests = Command::new("python3");
    tests
        .args(["-B", "-m", "unittest"])
        .current_dir(dir.path().join("snake"))
        .env("PYTHONPATH", "sdk/python");
    let done = tests.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains(&format!("Ran {} tests", all.len())),
        "{said}"
    );
}

#[needs(prepared)]
#[test]
fn failed_creation_or_build_is_reported_with_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], words: &[&str]| {
        let done = run(&mut module(dir.path(), args));
        assert_ne!(done.status, Some(0), "{}", done.stdout);
        for word in words {
            assert!(
                done.stderr.contains(word),
                "{word:?} is not in {}",
                done.stderr
            );
        }
    };
    refused(
        &["new", "--lang", "perl", "mine"],
        &["'perl'", "rust, c, cpp, go, python, js, ts"],
    );
    refused(
        &["new", "--lang", "c", "--role", "handler", "mine"],
        &["'handler'", "event-handler, connection-policy"],
    );
    refused(
        &["new", "--lang", "c", "--role", "lifecycle", "mine"],
        &["lifecycle alone", "event-handler"],
    );
    refused(
        &["new", "--lang", "c", "My_Module"],
        &["\"My_Module\"", "small letters"],
    );
    refused(&["build", "."], &["peal-module.toml", "peal module new"]);

    Project::new(dir.path(), "python", "mine", &["event-handler"]);
    refused(
        &["test", "mine"],
        &["mine/mine.wasm does not exist", "peal module build mine"],
    );
    refused(
        &["new", "--lang", "c", "mine"],
        &["is there already", "--dir"],
    );
    assert!(
        dir.path().join("mine/module.py").exists() && !dir.path().join("mine/module.c").exists()
    );

    for (language, tool) in [
        ("python", "pip install componentize-py=="),
        ("js", "componentize-qjs@"),
        ("ts", "the TypeScript compiler"),
        ("go", "Go 1.24"),
        ("c", "wasi-libc"),
        ("cpp", "libc++-19-dev-wasm32"),
    ] {
        let name = format!("bare-{language}");
        Project::new(dir.path(), language, &name, &["event-handler"]);
        let mut command = module(dir.path(), &["build", &name]);
        let done = run(command
            .env("PATH", "")
            .env("PEAL_TOOLS", dir.path().join("nothing")));
        assert_ne!(done.status, Some(0), "{language}");
        assert!(
            done.stderr.contains(tool) && done.stderr.contains("--install"),
            "{}",
            done.stderr
        );
    }
    let manifest = dir.path().join("mine/peal-module.toml");
    for (text, words) in [
        (
            "name = \"mine\"\nlanguage = \"perl\"\nroles = [\"event-handler\"]",
            "expected one of `rust`, `c`, `cpp`, `go`, `python`, `js`, `ts`",
        ),
        (
            "name = \"mine\"\nlanguage = \"c\"\nroles = []",
            "name at least one",
        ),
        (
            "name = \"mine\"\nlanguage = \"c\"\nroles = [\"event-handler\"]\ncapabilities = [\"clock\"]",
            "remove the line",
        ),
        (
            "name = \"mine\"\nlanguage = \"js\"\nroles = [\"event-handler\"]\ncapabilities = [\"clok\"]",
            "\"clok\" is unknown; valid are logging, clock,",
        ),
        (
            "name = \"../mine\"\nlanguage = \"c\"\nroles = [\"event-handler\"]",
            "a name has small letters",
        ),
    ] {
        fs::write(&manifest, text).unwrap();
        refused(&["build", "mine"], &[words]);
    }
}

/// An author's mistake is reported by the language's own error, without internals of the tool.
#[needs(prepared, go_tools, python_tools, js_tools, ts_tools)]
#[test]
fn build_error_is_the_authors_own_and_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    for (language, code, told) in [
        (
            "python",
            "import peal\n\nx = = 3\n",
            &[
                "module.py does not build:",
                "File \"module.py\", line 3",
                "SyntaxError",
            ][..],
        ),
        (
            "js",
            "export const x = ;\n",
            &[
                "module.js does not build:",
                "unexpected token",
                "at module.js:1:",
            ],
        ),
        (
            "go",
            "package main\n\nimport \"peal\"\n\nfunc EventHandler(event *peal.Event) *peal.Outcome {\n\tx := 3\n\treturn nil\n}\n\nfunc main() {}\n",
            &[
                "module.go does not build:",
                "./module.go:6:2: declared and not used: x",
            ],
        ),
        (
            "ts",
            "export const x: number = \"one\";\n",
            &[
                "module.ts does not build:",
                "module.ts(1,14): error TS2322",
                "not assignable to type 'number'",
            ],
        ),
    ] {
        let project = Project::new(
            dir.path(),
            language,
            &format!("wrong-{language}"),
            &["event-handler"],
        );
        fs::write(project.dir.join(source(language)), code).unwrap();
        let said = project.build().expect_status(125).stderr;
        let words: String = said
            .lines()
            .skip_while(|line| !line.contains("does not build"))
            .collect::<Vec<_>>()
            .join("\n");
        told.iter()
            .for_each(|part| assert!(words.contains(part), "{part:?} is missing in {said}"));
        assert!(
            !said.contains("backtrace") && !said.contains("Traceback") && said.lines().count() < 12,
            "{said}"
        );
    }
}

#[needs(prepared, go_tools, python_tools, js_tools, ts_tools)]
#[test]
fn module_without_the_export_of_its_role_does_not_build() {
    let dir = tempfile::tempdir().unwrap();
    for (language, code, told) in [
        (
            "python",
            "import peal\n\n\ndef handle(event):\n    return peal.no_action()\n",
            "`@peal.event_handler`",
        ),
        (
            "js",
            "import * as peal from \"./sdk/js/peal.js\";\nexport const eventHandlr = peal.eventHandler(() => undefined);\n",
            "`export const eventHandler = peal.eventHandler(...)`",
        ),
        (
            "ts",
            "import * as peal from \"./sdk/js/peal.js\";\nexport const eventHandlr = peal.eventHandler(() => undefined);\n",
            "`export const eventHandler = peal.eventHandler(...)`",
        ),
        (
            "go",
            "package main\n\nfunc main() {}\n",
            "`func EventHandler(event *peal.Event) *peal.Outcome`",
        ),
    ] {
        let project = Project::new(
            dir.path(),
            language,
            &format!("less-{language}"),
            &["event-handler"],
        );
        fs::write(project.dir.join(source(language)), code).unwrap();
        let said = project.build().expect_status(125).stderr;
        assert!(
            said.contains("peal-module.toml has the role event-handler, and ")
                && said.contains(told),
            "{said}"
        );
        assert!(!project.component().exists(), "{language}");
    }
}
