//! Peal's client under the C library's server: requests of a proc and a tool, the search of a tool
//! for its server, and the effects of a killed server.
use peal_client::{
    AttachTarget, Client, ClientError, ClientSettings, ConstructOptions, Environment, Places, Tool,
    ToolSettings,
};
use peal_model::{Info, Nspace, Proc, Query, Range, Rank, Status, Value, code, key};
use peal_needs::needs;
use peal_tests::{
    c_program,
    c_server::CServer,
    in_process::{everything, listener, next, soon},
    peal, program,
};
use std::{fs, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::Command,
};

/// Codes of two events.
#[derive(Clone, Copy)]
struct Codes {
    news: Status,
    other: Status,
}

const FIRST: Codes = Codes {
    news: Status(-3401),
    other: Status(-3402),
};
/// Other codes, since the server keeps earlier events for handlers that register later.
const SECOND: Codes = Codes {
    news: Status(-3403),
    other: Status(-3404),
};

fn query(keys: &[&str]) -> Query {
    Query {
        keys: keys.iter().map(|key| Some((*key).into())).collect(),
        qualifiers: Vec::new(),
    }
}

fn text(info: &Info) -> (&str, &str) {
    (info.key.as_str(), info.value.as_str().unwrap_or_default())
}

/// Makes every call that both kinds of client have, and checks the events from another client.
async fn makes_every_call(client: &Client, other: &Client, server: &mut CServer, codes: Codes) {
    let me = client.me().to_string();
    let directives = [Info::new(
        key::PMIX_LOG_GENERATE_TIMESTAMP,
        Value::Bool(true),
    )];
    let data = [Info::new(
        key::PMIX_LOG_JOB_RECORD,
        Value::string("all is well"),
    )];
    client.log(&data, &directives).await.unwrap();
    // The server adds the source, and the time because it was requested.
    server
        .says(&format!(
            "{me} logs pmix.log.jrec=all is well with 3 directives"
        ))
        .await;

    let pause = [Info::new(key::PMIX_JOB_CTRL_PAUSE, Value::Bool(true))];
    let done = client
        .job_control(&[server.environment().me], &pause)
        .await
        .unwrap();
    assert_eq!(text(&done[0]), ("pmix.evtext", "as you wish"));
    server
        .says(&format!("{me} wants pmix.jctrl.pause of 1 targets"))
        .await;
    let kill = [Info::new(key::PMIX_JOB_CTRL_KILL, Value::Bool(true))];
    let refused = client.job_control(&[], &kill).await.unwrap_err();
    let ClientError::Refused { status, infos, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(*status, code::PMIX_ERR_NO_PERMISSIONS, "{refused}");
    assert_eq!(text(&infos[0]), ("pmix.evtext", "nobody is killed here"));

    let found = client.query(&[query(&["test.question"])]).await.unwrap();
    assert!(!found.partial);
    assert_eq!(text(&found.infos[0]), ("test.question", "answer"));
    let found = client
        .query(&[query(&["test.question", "test.unknown"])])
        .await
        .unwrap();
    assert!(found.partial);
    assert_eq!(text(&found.infos[0]), ("test.question", "answer"));
    let error = client.query(&[query(&["test.unknown"])]).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_NOT_FOUND, "{error}");

    let (first, mut first_hears) = listener();
    let (second, mut second_hears) = listener();
    let first = client
        .register(&[codes.news, codes.other], everything(), first)
        .await
        .unwrap();
    let second = client
        .register(&[codes.news], everything(), second)
        .await
        .unwrap();
    client.deregister(first).await.unwrap();
    for code in [codes.other, codes.news] {
        other
            .notify(code, Range::Session, Vec::new())
            .await
            .unwrap();
    }
    // The server still sends the events of the second registration.
    let event = next(&mut second_hears).await;
    assert_eq!(
        (event.code, event.source.as_ref()),
        (codes.news, Some(other.me()))
    );
    assert_eq!(soon("the first is dropped", first_hears.recv()).await, None);
    client.deregister(second).await.unwrap();
    client.query(&[query(&["test.question"])]).await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn proc_logs_controls_queries_and_deregisters() {
    let mut server = CServer::start().await;
    let client = soon("a client connects", Client::connect(&server.environment()))
        .await
        .unwrap();
    assert_eq!(client.me(), &server.environment().me);
    let other = tool(settings(&server, AttachTarget::Any)).await;
    makes_every_call(&client, &other, &mut server, FIRST).await;
    other.finalize().await.unwrap();
    client.finalize().await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_proc_forms_groups_in_the_words_of_the_servers_release() {
    let server = CServer::start().await;
    let client = soon("a client connects", Client::connect(&server.environment()))
        .await
        .unwrap();
    let alone = ConstructOptions::of(&[client.me().clone()]);
    for (construct, is_numbered) in [(alone.clone().context_id(), true), (alone, false)] {
        let group = soon(
            "a group is formed",
            client.group_construct("alone", construct),
        )
        .await
        .unwrap();
        assert_eq!(
            (&group.members[..], group.context_id.is_some()),
            (&[client.me().clone()][..], is_numbered)
        );
        soon("it is dissolved", client.group_destruct("alone", &[]))
            .await
            .unwrap();
    }
    client.finalize().await.unwrap();
}

/// Returns settings of a tool that no launcher started.
fn settings(server: &CServer, attach: AttachTarget) -> ToolSettings {
    ToolSettings {
        attach,
        me: None,
        places: server.places(),
        environment: None,
        client: ClientSettings::default(),
    }
}

async fn tool(settings: ToolSettings) -> Tool {
    soon("a tool connects", Tool::init(settings)).await.unwrap()
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_finds_its_server_in_every_way() {
    let mut server = CServer::start().await;
    let Environment { server: uri, .. } = server.environment();
    let Places { host, directory } = server.places();
    let file = directory.join(format!("pmix.{host}.tool.{}", server.pid()));
    let ways = [
        AttachTarget::Uri(uri.clone()),
        AttachTarget::File(file),
        AttachTarget::Pid(server.pid()),
        AttachTarget::Nspace(uri.proc.nspace.clone()),
        AttachTarget::System,
        AttachTarget::SystemFirst,
        AttachTarget::Any,
    ];
    for (rank, attach) in (0..).zip(ways) {
        let tool = tool(settings(&server, attach.clone())).await;
        assert_eq!(tool.server().as_ref(), Some(&uri.proc), "{attach:?}");
        assert_eq!(
            tool.me(),
            &Proc::new(Nspace::new("tools").unwrap(), Rank(rank)),
            "{attach:?}"
        );
        let found = tool.query(&[query(&["test.question"])]).await.unwrap();
        assert_eq!(
            text(&found.infos[0]),
            ("test.question", "answer"),
            "{attach:?}"
        );
        tool.finalize().await.unwrap();
    }
    let tool = tool(settings(&server, AttachTarget::Any)).await;
    let proc = soon("a client connects", Client::connect(&server.environment()))
        .await
        .unwrap();
    makes_every_call(&tool, &proc, &mut server, FIRST).await;
    proc.finalize().await.unwrap();
    tool.finalize().await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn tool_has_own_name_or_one_given_by_server() {
    let mut server = CServer::start().await;
    let me = Proc::new(Nspace::new("my-tool").unwrap(), Rank(3));
    let own = tool(ToolSettings {
        me: Some(me.clone()),
        ..settings(&server, AttachTarget::System)
    })
    .await;
    assert_eq!(own.me(), &me);
    let other = tool(settings(&server, AttachTarget::Any)).await;
    makes_every_call(&own, &other, &mut server, FIRST).await;
    own.finalize().await.unwrap();
    let started = ToolSettings::from(|name| server.variable(name)).unwrap();
    let started = tool(started).await;
    assert_eq!(started.me(), &server.environment().me);
    makes_every_call(&started, &other, &mut server, SECOND).await;
    started.finalize().await.unwrap();
    other.finalize().await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn tool_of_killed_server_attaches_to_another_with_its_handlers() {
    let mut first = CServer::start().await;
    let second = CServer::start().await;
    let tool = tool(settings(&first, AttachTarget::System)).await;
    let (handler, mut heard) = listener();
    tool.register(
        &[FIRST.news, code::PMIX_ERR_LOST_CONNECTION],
        everything(),
        handler,
    )
    .await
    .unwrap();
    let old = tool.server().unwrap();
    first.kill().await;
    let lost = next(&mut heard).await;
    assert_eq!(
        (lost.code, lost.affected()),
        (code::PMIX_ERR_LOST_CONNECTION, vec![old])
    );
    assert_eq!((tool.server(), tool.servers()), (None, Vec::new()));
    let error = tool.query(&[query(&["test.question"])]).await.unwrap_err();
    assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    // The files of the dead server still exist.
    let error = tool.attach(&AttachTarget::System).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");

    let uri = second.environment().server;
    let new = soon(
        "the tool attaches",
        tool.attach(&AttachTarget::Uri(uri.clone())),
    )
    .await
    .unwrap();
    assert_eq!((&new, tool.servers()), (&uri.proc, vec![uri.proc.clone()]));
    let found = tool.query(&[query(&["test.question"])]).await.unwrap();
    assert_eq!(text(&found.infos[0]), ("test.question", "answer"));
    let proc = soon("a client connects", Client::connect(&second.environment()))
        .await
        .unwrap();
    proc.notify(FIRST.news, Range::Session, Vec::new())
        .await
        .unwrap();
    let event = next(&mut heard).await;
    assert_eq!(
        (event.code, event.source.as_ref()),
        (FIRST.news, Some(proc.me()))
    );
    proc.finalize().await.unwrap();
    tool.finalize().await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn tool_with_several_servers_calls_the_primary_one() {
    let mut first = CServer::start().await;
    let mut second = CServer::start().await;
    let tool = tool(settings(&first, AttachTarget::System)).await;
    let old = tool.server().unwrap();
    let new = tool
        .attach(&AttachTarget::Uri(second.environment().server))
        .await
        .unwrap();
    assert_eq!(tool.servers(), [old.clone(), new.clone()]);
    let log = async |text: &str| {
        tool.log(
            &[Info::new(key::PMIX_LOG_JOB_RECORD, Value::string(text))],
            &[],
        )
        .await
        .unwrap();
    };
    let me = tool.me().to_string();
    log("one").await;
    first
        .says(&format!("{me} logs pmix.log.jrec=one with 1 directives"))
        .await;
    tool.set_server(&new).unwrap();
    log("two").await;
    second
        .says(&format!("{me} logs pmix.log.jrec=two with 1 directives"))
        .await;
    tool.disconnect(&new).await.unwrap();
    assert_eq!(tool.servers(), [old]);
    log("three").await;
    first
        .says(&format!("{me} logs pmix.log.jrec=three with 1 directives"))
        .await;
    let error = tool.set_server(&new).unwrap_err();
    assert!(matches!(error, ClientError::NotAttached { .. }), "{error}");
    tool.finalize().await.unwrap();
}

#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn proc_of_killed_server_is_notified_and_no_call_hangs() {
    let witness = program("peal-test-server-loss");
    // The proc outlives its server only where that is wanted.
    let survives = ["--set", "run.on_kill=continue"];
    let mut servers = vec![Command::from(peal(
        [&survives[..], &["run", "-n", "1", "--"]].concat(),
    ))];
    let mut c_server = Command::new(c_program("host"));
    c_server.arg("1");
    servers.push(c_server);
    for mut server in servers {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        server
            .arg(&witness)
            .arg(listener.local_addr().unwrap().to_string());
        let mut child = server
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stream, _) = soon("the witness comes", listener.accept()).await.unwrap();
        let mut said = BufReader::new(stream).lines();
        let mut say = async || {
            soon("the witness prints a line", said.next_line())
                .await
                .unwrap()
        };
        assert_eq!(say().await.as_deref(), Some("ready"));
        child.kill().await.unwrap();
        let lost = code::PMIX_ERR_LOST_CONNECTION;
        for wanted in [
            format!("the open call: {lost}"),
            format!("the event: {lost}, about the server: true"),
            format!("a later call: {lost}"),
        ] {
            assert_eq!(say().await.as_deref(), Some(wanted.as_str()), "{server:?}");
        }
    }
}

/// Returns the error of a tool that looks for a server in this directory.
async fn fails_to_attach(directory: &Path, attach: AttachTarget) -> ClientError {
    let places = Places {
        host: "node".to_owned(),
        directory: directory.to_owned(),
    };
    let client = ClientSettings {
        connect_timeout: Duration::from_secs(5),
        ..ClientSettings::default()
    };
    Tool::init(ToolSettings {
        attach,
        me: None,
        places,
        environment: None,
        client,
    })
    .await
    .err()
    .unwrap()
}

/// Returns the rendezvous file of a server at a closed port. The test is about the search for the
/// file.
fn closed(name: &str) -> String {
    format!("{name}.0;tcp4://127.0.0.1:1\n4.2.2\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_or_ambiguous_server_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let fails = async |attach: AttachTarget| fails_to_attach(directory.path(), attach).await;
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };

    let error = fails(AttachTarget::Any).await;
    let text = format!(
        "no file pmix.node.tool* in {}: check that the server runs",
        directory.path().display()
    );
    assert!(error.to_string().starts_with(&text), "{error}");
    assert_eq!(error.status(), code::PMIX_ERR_UNREACH);
    assert!(
        matches!(fails(AttachTarget::System).await, ClientError::NoServer { name, .. } if name == "pmix.sys.node")
    );

    write("below/pmix.node.tool.12", &closed("twelve"));
    write("pmix.node.tool.12345", &closed("longer"));
    let error = fails(AttachTarget::Pid(12)).await;
    assert!(
        error
            .to_string()
            .starts_with("cannot reach the server at twelve.0;tcp4://127.0.0.1:1:"),
        "{error}"
    );
    assert!(
        matches!(
            fails(AttachTarget::Pid(1)).await,
            ClientError::NoServer { .. }
        ),
        "1 is not 12"
    );
    let error = fails(AttachTarget::Any).await;
    assert!(
        matches!(&error, ClientError::SeveralServers { found, .. } if found.len() == 2),
        "{error}"
    );
    // The tool looks for the system's server first, which does not exist.
    assert!(matches!(
        fails(AttachTarget::SystemFirst).await,
        ClientError::SeveralServers { .. }
    ));
    write("pmix.sys.node", &closed("system"));
    let error = fails(AttachTarget::SystemFirst).await;
    assert!(
        error
            .to_string()
            .starts_with("cannot reach the server at system.0"),
        "{error}"
    );

    let bad = write("bad", "http://example.org/\n");
    let error = fails(AttachTarget::File(bad)).await;
    assert!(
        matches!(&error, ClientError::BadFile { line, .. } if line == "http://example.org/"),
        "{error}"
    );
    let half = write("half", "server.0;tcp4://127.0.");
    assert!(matches!(
        fails(AttachTarget::File(half)).await,
        ClientError::BadFile { .. }
    ));
    let error = fails(AttachTarget::File(directory.path().join("absent"))).await;
    assert!(
        matches!(error, ClientError::UnreadableFile { .. }),
        "{error}"
    );

    // Symbolic links are not followed.
    std::os::unix::fs::symlink(
        directory.path().join("below/pmix.node.tool.12"),
        directory.path().join("pmix.node.tool.7"),
    )
    .unwrap();
    assert!(matches!(
        fails(AttachTarget::Pid(7)).await,
        ClientError::NoServer { passed_by: 0, .. }
    ));
}

#[needs(root)]
#[tokio::test(flavor = "multi_thread")]
async fn rendezvous_file_of_another_user_counts_only_if_named() {
    let directory = tempfile::tempdir().unwrap();
    let strange = directory.path().join("pmix.node.tool.8");
    fs::write(&strange, closed("strange")).unwrap();
    std::os::unix::fs::chown(&strange, Some(65_534), None).unwrap();
    let error = fails_to_attach(directory.path(), AttachTarget::Pid(8)).await;
    assert!(
        matches!(error, ClientError::NoServer { passed_by: 1, .. }),
        "{error}"
    );
    let error = fails_to_attach(directory.path(), AttachTarget::File(strange)).await;
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}
