//! A tool of Peal's own client among several of Peal's servers, one of which is killed.
use peal_client::{AttachTarget, ClientError, Tool, ToolSettings};
use peal_model::{Info, Proc, Query, Range, Status, Value, code, key};
use peal_needs::needs;
use peal_tests::{
    in_process::{listener, next, soon},
    peal,
};
use std::{path::Path, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const NEWS: Status = Status(-3501);

/// Starts `peal run` with a proc that does nothing, and ends when its server does.
async fn server(directory: &Path) -> Child {
    let mut command = Command::from(peal([
        "run",
        "-n",
        "1",
        "--",
        "sh",
        "-c",
        "echo ready; exec cat",
    ]));
    command
        .env("PMIX_SYSTEM_TMPDIR", directory)
        .env_remove("PMIX_SERVER_TMPDIR");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = soon("the job starts", said.next_line()).await.unwrap();
    assert_eq!(line.as_deref(), Some("ready"));
    child
}

async fn tool(directory: &TempDir, attach: AttachTarget) -> Result<Tool, ClientError> {
    let mut settings = ToolSettings::from(|_| None).unwrap();
    settings.places.directory = directory.path().to_owned();
    settings.attach = attach;
    soon("a tool connects, or not", Tool::init(settings)).await
}

async fn namespaces(tool: &Tool) -> String {
    let query = Query {
        keys: vec![Some(key::PMIX_QUERY_NAMESPACES.0.into())],
        qualifiers: Vec::new(),
    };
    let found = tool.query(&[query]).await.unwrap();
    found.infos[0].value.as_str().unwrap().to_owned()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_chooses_among_servers_and_goes_on_when_one_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = server(directory.path()).await;
    let tool = tool(&directory, AttachTarget::Any).await.unwrap();
    let old = tool.server().unwrap();
    let second = server(directory.path()).await;
    let several = self::tool(&directory, AttachTarget::Any)
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&several, ClientError::SeveralServers { found, .. } if found.len() == 2),
        "{several}"
    );

    let new = tool
        .attach(&AttachTarget::Pid(second.id().unwrap()))
        .await
        .unwrap();
    assert_eq!(tool.servers(), [old.clone(), new.clone()]);
    let of_first = namespaces(&tool).await;
    let of_second = {
        tool.set_server(&new).unwrap();
        namespaces(&tool).await
    };
    assert_ne!(of_first, of_second);
    tool.set_server(&old).unwrap();

    let (handler, mut heard) = listener();
    tool.register(&[code::PMIX_ERR_LOST_CONNECTION, NEWS], &[], handler)
        .await
        .unwrap();
    first.kill().await.unwrap();
    let lost = next(&mut heard).await;
    assert_eq!(
        (lost.code, lost.affected()),
        (code::PMIX_ERR_LOST_CONNECTION, vec![old.clone()])
    );
    // Calls go to the dead server until another one is set.
    let error = tool.log(&[], &[]).await.unwrap_err();
    assert_eq!(error.status(), code::PMIX_ERR_LOST_CONNECTION, "{error}");
    assert!(matches!(
        tool.set_server(&old),
        Err(ClientError::NotAttached { .. })
    ));
    tool.set_server(&new).unwrap();
    assert_eq!(namespaces(&tool).await, of_second);

    // The other server knows the tool's registrations.
    let other = self::tool(&directory, AttachTarget::Nspace(new.nspace.clone()))
        .await
        .unwrap();
    let to_tool = Info::new(
        key::PMIX_EVENT_CUSTOM_RANGE,
        Value::procs([tool.me().clone()]),
    );
    other
        .notify(NEWS, Range::Custom, vec![to_tool])
        .await
        .unwrap();
    let event = next(&mut heard).await;
    let source: Option<&Proc> = event.source.as_ref();
    assert_eq!((event.code, source), (NEWS, Some(other.me())));
    other.finalize().await.unwrap();
    tool.disconnect(&new).await.unwrap();
    let error = tool.query(&[]).await.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::NoConnection { .. } | ClientError::Lost { .. }
        ),
        "{error}"
    );
}
