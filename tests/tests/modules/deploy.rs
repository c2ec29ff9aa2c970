//! Modules that change while their server runs. A file that is dropped into its directory decides
//! from the next request on. A set with an error is refused as a whole. Meanwhile no request fails,
//! waits, or is decided by parts of two sets.
use peal_model::{Event, Infos, KeyName, Range, Status, Value};
use peal_needs::needs;
use peal_server::admin::{
    AdminReply, AdminRequest, ModuleCall, ModuleState, ShadowReport, request as admin_request,
};
use peal_store::{StateScope, Store, StoreSettings};
use peal_tests::{
    daemon::{Daemon, Place, put},
    guest,
    in_process::{everything, listener, next, soon},
    until,
};
use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

const NEWS: Status = Status(-3001);
const END: Status = Status(-3002);

/// Keys under which the two policies mark the events that they grant.
const MARKS: [KeyName; 2] = [KeyName("mark.one"), KeyName("mark.two")];

/// Returns a component with the same behavior and other bytes: it has one more custom section
/// without meaning.
fn variant(component: &[u8], number: u8) -> Vec<u8> {
    let mut bytes = component.to_vec();
    bytes.extend([0, 3, 1, b'v', number]);
    bytes
}

/// Returns two policies that mark events with their version, one after the other.
fn tallies(place: &Place, version: u64) -> String {
    let module = |name: &str| {
        format!(
            "[[module]]\nname = {name:?}\npath = {:?}\ngrants = [\"state\"]\nconfig = {{ mark = \"mark.{name}\", version = {version} }}\n",
            place.path(&format!("{name}.wasm"))
        )
    };
    format!(
        "[store]\npath = {:?}\n[sandbox]\ncache_dir = {:?}\n{}{}",
        place.path("store.db"),
        place.path("cache"),
        module("one"),
        module("two")
    )
}

fn marks(event: &Event) -> [Option<i64>; 2] {
    MARKS.map(|mark| match event.infos.value_of(mark) {
        Some(Value::Int64(version)) => Some(*version),
        _ => None,
    })
}

/// Returns the memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn policies_are_replaced_two_hundred_times_under_load() {
    const REPLACED: u64 = 200;
    const WARM: u64 = 60;
    let place = Place::new();
    let component = fs::read(guest("count-events")).unwrap();
    let write = |version: u64| {
        for name in ["one.wasm", "two.wasm"] {
            put(&place.path(name), variant(&component, (version % 4) as u8));
        }
        put(&place.path("peal.toml"), tallies(&place, version));
    };
    write(0);
    let daemon = place.start();
    daemon.tell(&["job", "register", "load", "-n", "4"]);
    let hearing = daemon.client("load", 3).await;
    let (handler, mut heard) = listener();
    hearing.register(&[NEWS, END], &[], handler).await.unwrap();
    let going = Arc::new(AtomicBool::new(true));
    let raised = Arc::new(AtomicU64::new(0));
    let mut raisers = Vec::new();
    for rank in 0..3 {
        let client = daemon.client("load", rank).await;
        let going = going.clone();
        let raised = raised.clone();
        raisers.push(tokio::spawn(async move {
            while going.load(Ordering::Relaxed) {
                soon(
                    "an event is accepted",
                    client.notify(NEWS, Range::Namespace, Vec::new()),
                )
                .await
                .unwrap();
                raised.fetch_add(1, Ordering::Relaxed);
            }
            client
        }));
    }
    let checked = tokio::spawn(async move {
        let mut seen = 0;
        let mut versions = std::collections::BTreeSet::new();
        loop {
            let event = next(&mut heard).await;
            if event.code == END {
                return (seen, versions);
            }
            let [one, two] = marks(&event);
            assert_eq!(one, two, "an event was judged by policies of two versions");
            versions.insert(one.unwrap());
            seen += 1;
        }
    });
    let socket = place.socket();
    let mut early = 0;
    for version in 1..=REPLACED {
        write(version);
        let socket = socket.clone();
        let reply = tokio::task::spawn_blocking(move || {
            admin_request(&socket, &AdminRequest::Reload)
                .unwrap()
                .reply()
                .unwrap()
        });
        let AdminReply::Reloaded(reloaded) = soon("the modules are replaced", reply).await.unwrap()
        else {
            panic!()
        };
        // The server may have noticed the files itself.
        assert!(
            reloaded.modules.len() == 2 || reloaded.modules.is_empty(),
            "{reloaded:?}"
        );
        if version == WARM {
            early = memory(daemon.pid());
        }
    }
    let late = memory(daemon.pid());
    going.store(false, Ordering::Relaxed);
    let mut clients = Vec::new();
    for raiser in raisers {
        clients.push(raiser.await.unwrap());
    }
    clients[0]
        .notify(END, Range::Namespace, Vec::new())
        .await
        .unwrap();
    let (seen, versions) = soon("the last event is received", checked).await.unwrap();
    let raised = raised.load(Ordering::Relaxed);
    assert_eq!(seen, raised, "an event was accepted and not delivered");
    assert!(
        versions.len() as u64 > REPLACED / 2,
        "only {} versions judged {raised} events",
        versions.len()
    );
    println!(
        "{raised} events, {} versions, {early} KiB after {WARM}, {late} KiB after {REPLACED}",
        versions.len()
    );
    assert!(
        late < early + early / 5 + 8192,
        "memory grew from {early} KiB to {late} KiB"
    );

    daemon.tell(&["stop", "--wait"]);
    let store = Arc::new(Store::open(&place.path("store.db"), StoreSettings::default()).unwrap());
    for name in ["one", "two"] {
        let calls = store
            .state(name, &StateScope::Site, 1024)
            .get("calls")
            .unwrap()
            .unwrap();
        // The policies decided about the last event, too.
        assert_eq!(
            u64::from_le_bytes(calls.try_into().unwrap()),
            raised + 1,
            "calls counted by {name} over all versions"
        );
    }
}

/// Starts a server that watches the directory `modules.d`.
fn watching(place: &Place) -> (Daemon, PathBuf) {
    let drop_ins = place.path("modules.d");
    fs::create_dir(&drop_ins).unwrap();
    place.configure(&format!(
        "[deploy]\ndebounce_ms = 20\n[store]\npath = {:?}\n",
        place.path("store.db")
    ));
    (place.start(), drop_ins)
}

/// Returns the settings of a module. Its calls may take long: a shadow runs at the lowest priority,
/// after all other work on a busy machine.
fn module(name: &str, rest: &str) -> String {
    format!(
        "name = {name:?}\npath = {:?}\nlimits.call_time_ms = 60000\n{rest}\n",
        guest(name)
    )
}

/// Waits until the running modules have these names.
fn runs(place: &Place, names: &[&str]) {
    until(&format!("{names:?} run"), || {
        place
            .modules()
            .modules
            .iter()
            .map(|module| module.name.as_str())
            .eq(names.iter().copied())
    });
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn component_dropped_into_directory_decides_without_reload() {
    let place = Place::new();
    let (daemon, drop_ins) = watching(&place);
    daemon.tell(&["job", "register", "job", "-n", "4"]);
    let client = daemon.client("job", 0).await;
    let (handler, mut heard) = listener();
    client
        .register(
            &[Status::PEAL_MODULES_DEPLOYED, Status::PEAL_MODULES_REFUSED],
            everything(),
            handler,
        )
        .await
        .unwrap();
    // No policy denies this yet.
    let first = daemon.client("job", 1).await;
    first.register(&[], &[], listener().0).await.unwrap();
    put(
        &drop_ins.join("namespace-only.toml"),
        module("namespace-only", ""),
    );
    runs(&place, &["namespace-only"]);
    let event = next(&mut heard).await;
    assert_eq!(
        (event.code, event.source),
        (Status::PEAL_MODULES_DEPLOYED, None)
    );
    let changes = event
        .infos
        .value_of(KeyName("peal.modules.changes"))
        .and_then(Value::as_str)
        .unwrap();
    assert_eq!(changes, "module \"namespace-only\" added");
    let second = daemon.client("job", 2).await;
    let refused = second
        .register(&[], &[], listener().0)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("PMIX_ERR_NO_PERMISSIONS"), "{refused}");

    // With one error anywhere, everything stays unchanged.
    put(&drop_ins.join("same-user.toml"), module("same-user", ""));
    runs(&place, &["namespace-only", "same-user"]);
    assert_eq!(next(&mut heard).await.code, Status::PEAL_MODULES_DEPLOYED);
    put(
        &drop_ins.join("wrong.toml"),
        "name = \"wrong\"\npath = \"/nowhere.wasm\"\n",
    );
    assert_eq!(next(&mut heard).await.code, Status::PEAL_MODULES_REFUSED);
    runs(&place, &["namespace-only", "same-user"]);
    let said = daemon.ask(&["module", "reload"]).expect_status(125).stderr;
    assert!(
        said.contains("wrong.toml:2:1") && said.contains("cannot read /nowhere.wasm"),
        "{said}"
    );
    assert_eq!(next(&mut heard).await.code, Status::PEAL_MODULES_REFUSED);
    fs::remove_file(drop_ins.join("wrong.toml")).unwrap();

    // The module is removed again.
    fs::remove_file(drop_ins.join("namespace-only.toml")).unwrap();
    runs(&place, &["same-user"]);
    let third = daemon.client("job", 3).await;
    third.register(&[], &[], listener().0).await.unwrap();
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn modules_are_disabled_enabled_rolled_back_across_restarts() {
    let place = Place::new();
    let (daemon, drop_ins) = watching(&place);
    put(
        &drop_ins.join("10-namespace-only.toml"),
        module("namespace-only", ""),
    );
    put(&drop_ins.join("20-same-user.toml"), module("same-user", ""));
    runs(&place, &["namespace-only", "same-user"]);
    let before = place.modules().version;
    assert_eq!(
        daemon
            .tell(&["module", "disable", "namespace-only"])
            .lines()
            .next()
            .unwrap(),
        "module \"namespace-only\" disabled"
    );
    let wrong = daemon
        .ask(&["module", "disable", "namespace-onl"])
        .expect_status(125)
        .stderr;
    assert!(
        wrong.contains("there is no module \"namespace-onl\"; did you mean \"namespace-only\"?"),
        "{wrong}"
    );
    let states = |place: &Place| {
        place
            .modules()
            .modules
            .iter()
            .map(|module| module.state.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&place), ["disabled", "active"]);
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    let daemon = place.start();
    assert_eq!(
        states(&place),
        ["disabled", "active"],
        "a restart enables nothing"
    );
    daemon.tell(&["module", "enable", "namespace-only"]);
    assert_eq!(states(&place), ["active", "active"]);
    assert_eq!(
        daemon.tell(&["module", "enable", "namespace-only"]),
        "module \"namespace-only\" is as it was\n"
    );

    put(
        &drop_ins.join("20-same-user.toml"),
        module("same-user", "on_failure = \"pass\""),
    );
    let configured = async {
        while place.modules().version == before {
            tokio::task::yield_now().await;
        }
    };
    soon("the change is taken over", configured).await;
    let told = daemon.ask(&["module", "rollback"]).expect_status(0);
    assert!(
        told.stdout.contains("module \"same-user\" reconfigured"),
        "{told:?}"
    );
    assert!(
        told.stderr
            .contains("the files of the configuration are as they were"),
        "{told:?}"
    );
    let wrong = daemon
        .ask(&["module", "rollback", "999"])
        .expect_status(125)
        .stderr;
    assert!(
        wrong.contains("there is no version 999; there are"),
        "{wrong}"
    );
    assert!(
        place.modules().versions[0]
            .cause
            .starts_with("rollback to "),
        "{:?}",
        place.modules()
    );
    let shown = daemon.tell(&["module", "list"]);
    assert!(
        shown.starts_with("module          state   owner  roles"),
        "{shown}"
    );
    assert!(
        shown.contains("(runs): ") && shown.contains("rollback to"),
        "{shown}"
    );
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn server_starts_with_last_set_if_files_are_invalid() {
    let place = Place::new();
    let (daemon, drop_ins) = watching(&place);
    // The component is missing when it is needed.
    put(
        &place.path("kept.wasm"),
        fs::read(guest("namespace-only")).unwrap(),
    );
    put(
        &drop_ins.join("kept.toml"),
        format!("name = \"kept\"\npath = {:?}\n", place.path("kept.wasm")),
    );
    runs(&place, &["kept"]);
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    fs::remove_file(place.path("kept.wasm")).unwrap();
    put(&drop_ins.join("kept.toml"), "name = \"kept\"\npath = ");
    let daemon = place.start();
    let list = place.modules();
    assert_eq!(list.modules[0].name, "kept");
    daemon.tell(&["stop", "--wait"]);
    let said = daemon.ends().expect_status(0).stderr;
    assert!(
        said.contains("those that ran last do") && said.contains("kept.toml:2"),
        "{said}"
    );

    // Without a store there is no other version.
    place.configure("");
    let (mut command, _states) = place.serve("alone");
    let refused = peal_tests::run(&mut command).expect_status(125).stderr;
    assert!(refused.contains("kept.toml:2"), "{refused}");
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn retained_handler_keeps_its_registrations() {
    let place = Place::new();
    let (daemon, drop_ins) = watching(&place);
    put(
        &drop_ins.join("a.toml"),
        module("complete", "oneshot = true"),
    );
    runs(&place, &["complete"]);
    daemon.tell(&["job", "register", "job", "-n", "1"]);
    let client = daemon.client("job", 0).await;
    client
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    let handlers = || -> Vec<(String, u64)> {
        let reply = admin_request(&place.socket(), &AdminRequest::Chains)
            .unwrap()
            .reply()
            .unwrap();
        let AdminReply::Chains { chains } = reply else {
            panic!("{reply:?}")
        };
        chains
            .iter()
            .flat_map(|chain| &chain.handlers)
            .map(|handler| (handler.name.clone(), handler.registration))
            .collect()
    };
    let spent = async {
        while !handlers().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("it was called once", spent).await;
    put(
        &drop_ins.join("b.toml"),
        module("report", "grants = [\"logging\"]"),
    );
    runs(&place, &["complete", "report"]);
    let stands = async {
        while handlers().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("the new handler is registered", stands).await;
    assert_eq!(
        handlers(),
        [("report".to_owned(), 2)],
        "a one-shot handler is not registered again because of another one"
    );
    // Its own settings have changed, so it starts anew.
    put(
        &drop_ins.join("a.toml"),
        module("complete", "oneshot = true\nplacement = \"first\""),
    );
    let again = async {
        while handlers().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    soon("it is registered anew", again).await;
    let names: Vec<String> = handlers().into_iter().map(|handler| handler.0).collect();
    assert_eq!(names, ["complete", "report"]);
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn shadow_module_shows_outcome_and_acts_only_after_promotion() {
    let place = Place::new();
    let (daemon, drop_ins) = watching(&place);
    put(
        &drop_ins.join("a.toml"),
        module("namespace-only", "mode = \"shadow\""),
    );
    put(
        &drop_ins.join("b.toml"),
        module("complete", "mode = \"shadow\"\nevent_classes = \"both\""),
    );
    put(
        &drop_ins.join("c.toml"),
        module("report", "grants = [\"logging\"]\nevent_classes = \"both\""),
    );
    runs(&place, &["namespace-only", "complete", "report"]);
    daemon.tell(&["job", "register", "job", "-n", "3"]);
    let client = daemon.client("job", 0).await;
    let hearing = daemon.client("job", 1).await;
    let (handler, mut heard) = listener();
    hearing
        .register(&[NEWS], everything(), handler)
        .await
        .unwrap();
    client
        .notify(NEWS, Range::Global, Vec::new())
        .await
        .unwrap();
    assert_eq!(
        next(&mut heard).await.range,
        Range::Global,
        "a shadow narrows nothing"
    );
    let diff = |name: &str| -> Vec<ShadowReport> {
        let call = AdminRequest::Module(ModuleCall::Diff {
            name: name.to_owned(),
        });
        let reply = admin_request(&place.socket(), &call)
            .unwrap()
            .reply()
            .unwrap();
        let AdminReply::Differences { shadows } = reply else {
            panic!("{reply:?}")
        };
        shadows
    };
    let differed = |name: &'static str, times: u64| async move {
        while diff(name)
            .first()
            .is_none_or(|shadow| shadow.differed < times)
        {
            tokio::task::yield_now().await;
        }
    };
    soon(
        "the shadow policy has been called",
        differed("namespace-only", 1),
    )
    .await;
    soon(
        "the shadow handler has been called",
        differed("complete", 1),
    )
    .await;
    let shadow = &diff("namespace-only")[0];
    // The policy decided about the registration, too, and granted it.
    assert_eq!(
        (shadow.differed, shadow.failed, shadow.missed),
        (1, 0, 0),
        "{shadow:?}"
    );
    let difference = &shadow.differences[0];
    assert!(
        difference
            .about
            .starts_with("event -3001, range PMIX_RANGE_GLOBAL (5), by job:0"),
        "{difference:?}"
    );
    assert!(
        difference
            .actual
            .starts_with("granted to PMIX_RANGE_GLOBAL (5) by the default"),
        "{difference:?}"
    );
    assert!(
        difference
            .would
            .starts_with("granted to PMIX_RANGE_NAMESPACE"),
        "{difference:?}"
    );
    let shadow = &diff("complete")[0];
    assert_eq!(
        shadow.differences[0].would,
        "ended the chain before 1 handler"
    );
    let shown = daemon.tell(&["module", "diff", "complete"]);
    assert!(
        shown.contains("complete: called 1 time, 1 would have come to something else"),
        "{shown}"
    );
    assert!(
        shown.contains("1 time: PMIX_EVENT_ACTION_COMPLETE (-334)"),
        "{shown}"
    );
    let wrong = daemon
        .ask(&["module", "promote", "report"])
        .expect_status(125)
        .stderr;
    assert!(
        wrong.contains("module \"report\" should be a shadow"),
        "{wrong}"
    );

    let told = daemon.tell(&["module", "promote", "namespace-only"]);
    assert!(
        told.starts_with("module \"namespace-only\" promoted"),
        "{told}"
    );
    client
        .notify(NEWS, Range::Global, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut heard).await.range, Range::Namespace);
    // Another component of that name becomes a shadow again.
    put(
        &place.path("other.wasm"),
        variant(&fs::read(guest("namespace-only")).unwrap(), 1),
    );
    let other = format!(
        "name = \"namespace-only\"\npath = {:?}\nmode = \"shadow\"\nlimits.call_time_ms = 60000\n",
        place.path("other.wasm")
    );
    put(&drop_ins.join("a.toml"), other);
    let demoted = async {
        while place.modules().modules[0].state != ModuleState::Shadow {
            tokio::task::yield_now().await;
        }
    };
    soon("the other shadow has been called", demoted).await;
    put(
        &drop_ins.join("d.toml"),
        module(
            "stdio",
            "mode = \"shadow\"\nchannels = [\"stdout\"]\ngrants = [\"sink\"]\nsinks = [\"stdout\"]",
        ),
    );
    let refused = daemon.ask(&["module", "reload"]).expect_status(125).stderr;
    assert!(
        refused.contains("module stdio cannot be a shadow: it is a log channel"),
        "{refused}"
    );
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[test]
fn shadow_excludes_no_module_until_it_is_promoted() {
    let place = Place::new();
    let first = |name: &str, mode: &str| {
        format!(
            "[[module]]\n{}",
            module(
                name,
                &format!("placement = \"first\"\nmode = \"{mode}\"\ngrants = [\"logging\"]")
            )
        )
    };
    place.configure(&(first("report", "shadow") + &first("complete", "active")));
    let daemon = place.start();
    let said = daemon
        .ask(&["module", "promote", "report"])
        .expect_status(125)
        .stderr;
    assert!(said.contains("FIRST is held by"), "{said}");
    let states: Vec<String> = place
        .modules()
        .modules
        .iter()
        .map(|module| module.state.to_string())
        .collect();
    assert_eq!(states, ["shadow", "active"]);
}
