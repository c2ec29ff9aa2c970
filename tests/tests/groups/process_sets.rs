//! Process sets that the host environment defines, and locations of procs: the events and query
//! results that procs receive.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_client::{Client, ClientError};
use peal_core::psets::PsetError;
use peal_model::{Info, Infos, KeyName, Nspace, Proc, Query, Rank, Status, Value, code, key};
use peal_needs::needs;
use peal_server::{InProcessNetwork, ServerSettings};
use peal_tests::{
    c_program, finish,
    in_process::{Node, everything, listener, next, soon},
    libpmix::Release,
};

async fn node() -> Node {
    let node = Node::start(
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "one",
        2,
    )
    .await;
    node.add_job("two", 2).await;
    node
}

fn nspace(job: &str) -> Nspace {
    Nspace::new(job).unwrap()
}

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(nspace(job), Rank(rank))
}

async fn told(client: &Client, asked: KeyName, qualifiers: &[Info]) -> Result<Value, Status> {
    let query = Query {
        keys: vec![Some(asked.0.into())],
        qualifiers: qualifiers.to_vec(),
    };
    match soon("query is answered", client.query(&[query])).await {
        Ok(found) => Ok(found.infos.value_of(asked).unwrap().clone()),
        Err(ClientError::Refused { status, .. }) => Err(status),
        Err(error) => panic!("{error}"),
    }
}

fn called(name: &str) -> Vec<Info> {
    vec![Info::new(key::PMIX_PSET_NAME, Value::string(name))]
}

#[tokio::test(flavor = "multi_thread")]
async fn procs_receive_process_sets_and_members_until_job_ends() {
    let node = node().await;
    let client = node.client_of("two", 0).await;
    let server = node.server.handle();
    let refresh = [Info::new(key::PMIX_QUERY_REFRESH_CACHE, Value::Bool(true))];
    assert_eq!(
        told(&client, key::PMIX_QUERY_NUM_PSETS, &refresh).await,
        Ok(Value::Size(0))
    );
    let (handler, mut hears) = listener();
    let codes = [code::PMIX_PROCESS_SET_DEFINE, code::PMIX_PROCESS_SET_DELETE];
    client
        .register(&codes, everything(), handler)
        .await
        .unwrap();

    let members = vec![proc("one", 1), proc("two", 0)];
    let define = async |name: &str, members: &[Proc]| {
        soon(
            "it is defined",
            server.define_process_set(name.into(), members.to_vec()),
        )
        .await
        .unwrap()
    };
    define("odd", &members).await.unwrap();
    define("all", &[proc("two", 0), proc("two", 1)])
        .await
        .unwrap();
    for name in ["odd", "all"] {
        let event = next(&mut hears).await;
        assert_eq!(event.code, code::PMIX_PROCESS_SET_DEFINE);
        assert_eq!(
            event.infos.value_of(key::PMIX_PSET_NAME),
            Some(&Value::string(name))
        );
        assert_eq!(
            event
                .infos
                .value_of(key::PMIX_PSET_MEMBERS)
                .unwrap()
                .as_procs()
                .unwrap()
                .len(),
            2
        );
    }
    assert!(matches!(
        define("odd", &members).await,
        Err(PsetError::Exists { .. })
    ));
    assert!(matches!(
        define("none", &[]).await,
        Err(PsetError::Empty(_))
    ));
    assert!(matches!(
        define("who", &[proc("one", 2)]).await,
        Err(PsetError::Unknown { .. })
    ));

    assert_eq!(
        told(&client, key::PMIX_QUERY_NUM_PSETS, &refresh).await,
        Ok(Value::Size(2))
    );
    assert_eq!(
        told(&client, key::PMIX_QUERY_PSET_NAMES, &[]).await,
        Ok(Value::string("all,odd"))
    );
    let membership = told(&client, key::PMIX_QUERY_PSET_MEMBERSHIP, &called("odd")).await;
    assert_eq!(membership.unwrap().as_procs().unwrap(), members);
    let unknown = told(&client, key::PMIX_QUERY_PSET_MEMBERSHIP, &called("even")).await;
    assert_eq!(unknown, Err(code::PMIX_ERR_NOT_FOUND));

    define("first", &[proc("two", 0)]).await.unwrap();
    next(&mut hears).await;
    // Only a job with a member names the set for deletion.
    for job in ["one", "two"] {
        let jobs = vec![nspace(job)];
        let delete = server.delete_process_set("first".into(), jobs);
        soon("it is deleted", delete).await;
        let left = told(&client, key::PMIX_QUERY_NUM_PSETS, &refresh).await;
        let expected = if job == "one" { 3 } else { 2 };
        assert_eq!(left, Ok(Value::Size(expected)));
    }
    let event = next(&mut hears).await;
    assert_eq!(event.code, code::PMIX_PROCESS_SET_DELETE);
    assert_eq!(
        event.infos.value_of(key::PMIX_PSET_NAME),
        Some(&Value::string("first"))
    );

    server.remove_job(nspace("one"));
    let event = next(&mut hears).await;
    assert_eq!(event.code, code::PMIX_PROCESS_SET_DELETE);
    assert_eq!(
        event.infos.value_of(key::PMIX_PSET_NAME),
        Some(&Value::string("odd"))
    );
    assert_eq!(
        told(&client, key::PMIX_QUERY_PSET_NAMES, &[]).await,
        Ok(Value::string("all"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn procs_get_node_of_each_proc() {
    let node = node().await;
    let client = node.client_of("one", 0).await;
    let one = nspace("one");
    let two = nspace("two");
    assert_eq!(
        client
            .resolve_peers(Some("node"), Some(&two))
            .await
            .unwrap(),
        [proc("two", 0), proc("two", 1)]
    );
    assert_eq!(client.resolve_peers(None, None).await.unwrap().len(), 4);
    assert_eq!(client.resolve_nodes(Some(&one)).await.unwrap(), ["node"]);
    assert_eq!(client.resolve_nodes(None).await.unwrap(), ["node"]);
    for nowhere in [
        client.resolve_peers(Some("moon"), None).await,
        client.resolve_peers(None, Some(&nspace("x"))).await,
    ] {
        assert_eq!(nowhere.unwrap_err().status(), code::PMIX_ERR_NOT_FOUND);
    }
}

/// Output of a proc of either release that resolves the locations of the procs of its own job and
/// of another one.
const WHERE: &str = "rank 0: peers: SUCCESS (0)
rank 0: own:0 is there
rank 0: own:1 is there
rank 0: peers of another job: SUCCESS (0)
rank 0: other:0 is there
rank 0: other:1 is there
rank 0: nodes: SUCCESS (0)
rank 0: nodes: node
rank 0: job size anew: SUCCESS (0)
rank 0: job size: 2
rank 0: finalize: SUCCESS (0)
";

/// Release 4.2 sends no request, and does not know other jobs.
#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn program_of_libpmix_5_gets_the_nodes_of_procs() {
    let program = c_program("resolve");
    let node = node().await;
    let mut command = node.program(0, &program);
    let child = Release::newer().of(command.arg("two")).spawn().unwrap();
    let done = tokio::task::block_in_place(|| finish(child)).expect_status(0);
    assert_eq!(
        done.stdout.replace("PMIX_SUCCESS", "SUCCESS"),
        WHERE,
        "{}",
        done.stderr
    );
}
