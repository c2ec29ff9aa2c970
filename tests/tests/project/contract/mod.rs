//! Compatibility of the contract: `wit/` against earlier states of it (`tests/contract/VERSION`),
//! and components of earlier states under the current host. Once a version is released, which a
//! file `RELEASED` in its directory marks, breaking changes are forbidden. Before, they are only
//! reported.
mod compare;

use compare::{Change, compare};
use peal_build::Manifest;
use peal_model::{
    ConnectionKind, ConnectionSubject, Event, EventSubject, GroupOperationKind, GroupSubject, Info,
    JobControlSubject, Key, LogRequest, LogSubject, MonitorSubject, Nspace, PeerInfo,
    PolicyRequest, PolicySubject, Proc, ProvisionSubject, Range, Rank, RegistrationSubject,
    SpawnSubject, Status, TargetProc, UserIdentity, Value, key,
};
use peal_sandbox::{
    CONTRACT_VERSION, ChannelCall, Engine, EngineSettings, EventCall, FailureKind, Grants,
    LoadError, Module, ModuleLimits, PolicyCall, Role, Services,
};
use peal_tests::root;
use semver::Version;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use wit_parser::Resolve;

fn baselines() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root().join("tests/contract"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

fn contract(dir: &Path) -> Resolve {
    let mut wit = Resolve::default();
    let files = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|file| file.extension().is_some_and(|of| of == "wit"))
        .collect();
    files.sort();
    let mut sources = wit_parser::SourceMap::new();
    for file in &files {
        sources.push_file(file).unwrap();
    }
    wit.push_group(sources.parse().unwrap()).unwrap();
    wit
}

/// Returns the version of the package.
fn version(wit: &Resolve) -> Version {
    let mut names = wit.package_names.keys();
    let name = names.find(|name| name.name == "pmix").unwrap();
    name.version.clone().unwrap()
}

/// Returns the part of the package's version that determines compatibility.
fn line(wit: &Resolve) -> (u64, u64) {
    let version = version(wit);
    (version.major, version.minor)
}

/// Treatment of breaking changes.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rule {
    Report,
    Forbid,
}

impl Rule {
    fn of(baseline: &Path) -> Rule {
        if baseline.join("RELEASED").exists() {
            Rule::Forbid
        } else {
            Rule::Report
        }
    }
}

/// Returns an error if a contract differs from the released one with the same version.
fn check_number(then: &Version, now: &Version, changes: &[Change]) -> Result<(), String> {
    if then == now && !changes.is_empty() {
        return Err(format!(
            "{now} is released, and differs by {changes:?}; additions need a new patch version"
        ));
    }
    Ok(())
}

/// Prints every difference. Returns an error for forbidden ones.
fn judge(changes: &[Change], rule: Rule) -> Result<(), String> {
    for change in changes {
        match change {
            Change::Added(what) => println!("added: {what}"),
            Change::Broken(what) => println!("breaks components: {what}"),
        }
    }
    let broken: Vec<&str> = changes
        .iter()
        .filter_map(|change| {
            if let Change::Broken(what) = change {
                Some(&**what)
            } else {
                None
            }
        })
        .collect();
    match rule {
        Rule::Forbid if !broken.is_empty() => Err(broken.join("\n")),
        Rule::Report | Rule::Forbid => Ok(()),
    }
}

#[test]
fn items_used_by_components_stay() {
    let now = contract(&root().join("wit"));
    for baseline in baselines() {
        let then = contract(&baseline);
        // A new line may break compatibility with the old one. Its components then belong to the
        // old line.
        if line(&then) == line(&now) {
            let changes = compare(&then, &now);
            judge(&changes, Rule::of(&baseline)).unwrap();
            if Rule::of(&baseline) == Rule::Forbid {
                check_number(&version(&then), &version(&now), &changes).unwrap();
            }
        }
    }
}

/// Components have the version in the names of their interfaces, and servers compare it with theirs.
#[test]
fn contract_has_one_version_in_all_places() {
    let now = version(&contract(&root().join("wit")));
    assert_eq!(now, CONTRACT_VERSION);
    let manifest =
        Manifest::parse("name = \"a\"\nlanguage = \"c\"\nroles = [\"event-handler\"]").unwrap();
    let world = peal_build::world(&manifest);
    assert!(
        world.contains(&format!("export peal:pmix/event-handler@{now};")),
        "{world}"
    );
    let newest = baselines()
        .iter()
        .filter(|baseline| Rule::of(baseline) == Rule::Forbid)
        .map(|baseline| version(&contract(baseline)))
        .max();
    assert!(
        newest.is_some_and(|newest| newest <= now),
        "a release is newer than wit/"
    );
}

#[test]
fn released_version_with_changes_is_an_error() {
    let added = changed(&[(
        "now: func() -> u64;",
        "now: func() -> u64; zone: func() -> string;",
    )]);
    let [one, next] = [Version::new(0, 1, 0), Version::new(0, 1, 1)];
    assert_eq!(check_number(&one, &one, &[]), Ok(()));
    assert_eq!(check_number(&one, &next, &added), Ok(()));
    let refused = check_number(&one, &one, &added).unwrap_err();
    assert!(refused.starts_with("0.1.0 is released"), "{refused}");
}

const THEN: &str = "
    package a:pmix@0.1.0;
    interface types { type code = s32; record proc { nspace: string, rank: u32 } enum range { local, global }
                      variant value { none, text(string) } flags marks { required } }
    interface clock { now: func() -> u64; }
    interface handler { use types.{code, proc}; handle: func(code: code, who: option<proc>) -> result<list<code>, code>; }
    world imports { import clock; }
    world module { include imports; export handler; }
    world everything { include module; }";

fn changed(edits: &[(&str, &str)]) -> Vec<Change> {
    let parse = |text: &str| {
        let mut wit = Resolve::default();
        wit.push_str("contract.wit", text).unwrap();
        wit
    };
    let edit = |text: String, (from, to): &(&str, &str)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    compare(
        &parse(THEN),
        &parse(&edits.iter().fold(THEN.to_owned(), edit)),
    )
}

#[test]
fn added_items_break_nothing() {
    assert_eq!(changed(&[]), []);
    assert_eq!(
        changed(&[
            ("0.1.0", "0.1.1"),
            ("interface clock {", "/// says more\n interface clock {")
        ]),
        []
    );
    let added = |edits| {
        let changes = changed(edits);
        assert!(
            !changes.is_empty()
                && changes
                    .iter()
                    .all(|change| matches!(change, Change::Added(_))),
            "{changes:?}"
        );
        assert_eq!(judge(&changes, Rule::Forbid), Ok(()));
    };
    added(&[(
        "now: func() -> u64;",
        "now: func() -> u64; zone: func() -> string;",
    )]);
    added(&[(
        "interface clock",
        "interface random { get: func() -> u64; } interface clock",
    )]);
    added(&[
        (
            "interface clock",
            "interface random { get: func() -> u64; } interface clock",
        ),
        ("import clock;", "import clock; import random;"),
    ]);
    added(&[("type code = s32;", "type code = s32; type rank = u32;")]);
    added(&[
        (
            "interface clock",
            "interface policy { decide: func() -> bool; } interface clock",
        ),
        (
            "world everything { include module;",
            "world everything { include module; export policy;",
        ),
    ]);
    added(&[(
        "world everything",
        "world tool { include imports; } world everything",
    )]);
}

#[test]
fn removed_changed_or_required_items_break_components() {
    for (from, to, says) in [
        ("now: func() -> u64;", "", "clock: func now is gone"),
        (
            "now: func() -> u64;",
            "now: func() -> s64;",
            "clock: func now was func() -> u64 and is func() -> s64",
        ),
        (
            "rank: u32 }",
            "rank: u32, epoch: u32 }",
            "types: type proc was record",
        ),
        (
            "nspace: string, rank: u32",
            "rank: u32, nspace: string",
            "types: type proc was record",
        ),
        (
            "enum range { local, global }",
            "enum range { local }",
            "types: type range was enum",
        ),
        (
            "enum range { local, global }",
            "enum range { local, global, session }",
            "types: type range was enum",
        ),
        (
            "none, text(string)",
            "none, text(string), more(u8)",
            "types: type value was variant",
        ),
        (
            "flags marks { required }",
            "flags marks { required, persistent }",
            "types: type marks was flags",
        ),
        ("flags marks { required }", "", "types: type marks is gone"),
        (
            "type code = s32",
            "type code = s64",
            "types: type code was s32 and is s64",
        ),
        (
            "who: option<proc>",
            "who: proc",
            "handler: func handle was func(code: types.code, who: option<types.proc>)",
        ),
        (
            "-> result<list<code>, code>;",
            "-> result<list<code>, code>; undo: func();",
            "handler: func undo is new in a role",
        ),
        ("import clock;", "", "world imports offers clock no more"),
        (
            "world everything { include module; }",
            "",
            "world everything is gone",
        ),
        ("export handler;", "", "world module has handler no more"),
        (
            "world module { include imports;",
            "interface stop { stop: func(); } world module { include imports; export stop;",
            "world module demands stop",
        ),
    ] {
        let changes = changed(&[(from, to)]);
        let told =
            |change: &Change| matches!(change, Change::Broken(what) if what.starts_with(says));
        assert!(changes.iter().any(told), "{says}: {changes:?}");
        assert_eq!(
            judge(&changes, Rule::Report),
            Ok(()),
            "it is reported until there is a release"
        );
        assert!(judge(&changes, Rule::Forbid).unwrap_err().contains(says));
    }
}

#[test]
fn a_release_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Rule::of(dir.path()), Rule::Report);
    fs::write(dir.path().join("RELEASED"), "").unwrap();
    assert_eq!(Rule::of(dir.path()), Rule::Forbid);
}

fn load(bytes: &[u8]) -> Result<Module, LoadError> {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let limits = ModuleLimits {
        call_time: Duration::from_secs(60),
        ..ModuleLimits::default()
    };
    Module::load(
        &engine,
        "then",
        bytes,
        &Grants::all(),
        limits,
        Services::default(),
    )
}

/// Calls a module in each of its roles. The contract requires only that it can be called; its
/// result does not matter.
fn call(module: &Module) {
    if module.has_role(Role::Lifecycle) {
        module
            .init(&[Info::new(Key::new("mode").unwrap(), Value::Int64(0))])
            .unwrap();
    }
    let proc = Proc::new(Nspace::new("solver").unwrap(), Rank(0));
    let user = Some(UserIdentity {
        uid: 1000,
        gid: 1000,
    });
    let reached =
        |failure: Option<FailureKind>| assert_ne!(failure, Some(FailureKind::Unavailable));
    if module.has_role(Role::EventHandler) {
        let infos = vec![Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(proc.clone()),
        )];
        let event = Event {
            code: Status(-3001),
            source: Some(proc.clone()),
            range: Range::Session,
            infos,
        };
        let call = EventCall {
            number: 0,
            registration: 1,
            tag: 1,
            event: Arc::new(event),
            identity: user,
            steps: Arc::default(),
        };
        reached(module.handle(call).failure.map(|failure| failure.kind));
    }
    let monitor = Info::new(key::PMIX_MONITOR_HEARTBEAT, Value::Bool(true));
    let subjects = [
        PolicySubject::Connection(ConnectionSubject {
            kind: ConnectionKind::Client,
            peer: PeerInfo {
                pid: None,
                release: "4.2.2".to_owned(),
            },
            infos: Vec::new(),
        }),
        PolicySubject::Event(EventSubject {
            code: Status(-3001),
            range: Range::Session,
            infos: Vec::new(),
        }),
        PolicySubject::Registration(RegistrationSubject {
            codes: vec![Status(-3001)],
            directives: Vec::new(),
        }),
        PolicySubject::JobControl(JobControlSubject::default()),
        PolicySubject::Monitor(MonitorSubject {
            monitor,
            directives: Vec::new(),
        }),
        PolicySubject::Provision(ProvisionSubject::default()),
        PolicySubject::Log(LogSubject::default()),
        PolicySubject::Group(GroupSubject {
            kind: GroupOperationKind::Join,
            name: None,
            directives: Vec::new(),
        }),
        PolicySubject::Spawn(SpawnSubject::default()),
    ];
    for subject in subjects {
        let role = Role::policy(subject.hook()).unwrap();
        if !module.has_role(role) {
            continue;
        }
        let request = PolicyRequest {
            subject,
            requester: Some(proc.clone()),
            identity: user,
            groups: Arc::default(),
            server: UserIdentity { uid: 0, gid: 0 },
            targets: vec![TargetProc {
                proc: proc.clone(),
                owner: user,
            }],
        };
        let result = module.decide(PolicyCall {
            number: 0,
            request: Arc::new(request),
            steps: Arc::default(),
        });
        reached(result.outcome.err().map(|failure| failure.kind));
    }
    if module.has_role(Role::LogChannel) {
        let data = vec![Info::new(key::PMIX_LOG_STDOUT, Value::string("a line"))];
        let request = LogRequest {
            source: Some(proc),
            identity: user,
            timestamp: None,
            data,
            directives: Vec::new(),
        };
        let channel = Key::from(key::PMIX_LOG_STDOUT);
        let result = module.log(ChannelCall {
            channel,
            request: Arc::new(request),
            steps: Arc::default(),
        });
        reached(result.failure.map(|failure| failure.kind));
    }
}

/// The host accepts components of any patch release of its line, older or newer. At least one of
/// them differs from its own number.
#[test]
fn components_of_earlier_contracts_are_loaded_and_called() {
    let mut seen = 0;
    for baseline in baselines() {
        let version = baseline.file_name().unwrap().to_str().unwrap().to_owned();
        for file in fs::read_dir(&baseline)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if file.extension().is_none_or(|of| of != "wat") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            assert!(
                text.contains(&format!("@{version}")),
                "{} is not of {version}",
                file.display()
            );
            for of in [version.as_str(), "0.1.1", "0.1.40"] {
                let bytes = wat::parse_str(text.replace(&format!("@{version}"), &format!("@{of}")))
                    .unwrap();
                let module = load(&bytes)
                    .unwrap_or_else(|error| panic!("{} as {of}: {error}", file.display()));
                call(&module);
            }
            seen += 1;
        }
    }
    assert!(seen >= 3);
}

/// Returns a component of 0.1.0 with other words, and with another version of the contract.
fn handler_with(words: (&str, &str), version: &str) -> Vec<u8> {
    let text = fs::read_to_string(root().join("tests/contract/0.1.0/handler.wat")).unwrap();
    assert!(text.contains(words.0), "{}", words.0);
    let text = text.replace(words.0, words.1);
    wat::parse_str(text.replace("@0.1.0", &format!("@{version}"))).unwrap()
}

/// The error names the version of the component, those that are served, and the remedy.
#[test]
fn components_of_other_contracts_are_refused_with_remedy() {
    let same = ("event-handler", "event-handler");
    for (version, remedy) in [
        ("0.0.9", "build the module again"),
        ("0.1.0-rc.1", "build the module again"),
        ("0.2.0", "update the server, or build the module again"),
        ("1.0.0", "update the server, or build the module again"),
    ] {
        let refused = load(&handler_with(same, version)).unwrap_err().to_string();
        let expected = format!(
            "module then is built for peal:pmix {version}; this server has 0.1.0 and loads modules of 0.1: \
             {remedy} with the server's `peal module build`"
        );
        assert_eq!(refused, expected);
    }
}

/// Additions of a later patch version: to an interface, an interface, a role. A module whose role is
/// unknown would never be called, so that its other roles do not help.
#[test]
fn component_needing_a_later_addition_is_refused_with_remedy() {
    for (words, missing) in [
        (("\"server-identity\"", "\"server-mood\""), "`server-mood`"),
        (
            ("peal:pmix/logging", "peal:pmix/singing"),
            "peal:pmix/singing@0.1.7 is unknown",
        ),
        (
            ("peal:pmix/event-handler", "peal:pmix/event-listener"),
            "peal:pmix/event-listener@0.1.7",
        ),
    ] {
        let refused = load(&handler_with(words, "0.1.7")).unwrap_err().to_string();
        let start = "module then is built for peal:pmix 0.1.7 and needs an addition to 0.1.0 of this server (";
        assert!(refused.starts_with(start), "{refused}");
        assert!(refused.contains(missing), "{missing}: {refused}");
        let end =
            "): update the server, or build the module again with the server's `peal module build`";
        assert!(refused.ends_with(end), "{refused}");
    }
}

/// Drafts of 0.1.0 had other names under the same version. `server` was one of them.
#[test]
fn component_of_a_draft_is_refused_with_remedy() {
    let draft = handler_with(("\"server-identity\"", "\"server\""), "0.1.0");
    let refused = load(&draft).unwrap_err().to_string();
    assert!(
        refused.starts_with("module then does not match the contract peal:pmix 0.1.0: ")
            && refused.ends_with("; build the module again with the server's `peal module build`"),
        "{refused}"
    );
}

/// A component knows only those functions of an interface that existed when it was built. It
/// neither imports nor misses later ones.
#[test]
fn component_without_later_functions_is_loaded() {
    let state = r#"(import "peal:pmix/state@0.1.0" (instance
        (export "get" (func (param "key" string) (result (result (option (list u8)) (error s32)))))))"#;
    let noop = fs::read_to_string(root().join("host/sandbox/tests/wat/noop.wat")).unwrap();
    let text = noop.replacen("(component", &format!("(component {state}"), 1);
    call(&load(&peal_tests::text_form::assemble(&text)).unwrap());
    // A function that never existed is missing.
    let text = noop.replacen(
        "(component",
        &format!("(component {}", state.replace("\"get\"", "\"fetch\"")),
        1,
    );
    assert!(matches!(
        load(&peal_tests::text_form::assemble(&text)),
        Err(LoadError::Unfit { .. })
    ));
}
