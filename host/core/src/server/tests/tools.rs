//! Tools: names, limits, data, visibility.
use super::*;
use peal_model::{ConnectionKind, JobEntry, PeerInfo};

const SERVER: UserIdentity = UserIdentity { uid: 500, gid: 500 };
const OWNER: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};
const ROOT: UserIdentity = UserIdentity { uid: 0, gid: 0 };
const OTHER: UserIdentity = UserIdentity {
    uid: 1001,
    gid: 100,
};
const KEY: KeyName = KeyName("test.key");

fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

/// A server with a job of two procs; at most three tools.
fn server() -> ServerState {
    let mut server = ServerState::new(StateSettings {
        max_tools: 3,
        ..StateSettings::default()
    });
    let UserIdentity { uid, gid } = OWNER;
    server.add_job(JobSpec::new(
        Nspace::new("job").unwrap(),
        2,
        "node",
        UserIdentity { uid, gid },
    ));
    server
}

fn ask(server: &mut ServerState, peer: PeerId, request: Request) -> Reply {
    let actions = server.request(RequestId { peer, tag: 1 }, request, MonotonicTime(0));
    let [Action::Reply { reply, .. }, ..] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    reply.clone()
}

#[test]
fn root_the_servers_user_and_users_of_jobs_may_attach_tools() {
    for (identity, welcome) in [(ROOT, true), (SERVER, true), (OWNER, true), (OTHER, false)] {
        let mut server = server();
        server.guard(SERVER, []);
        let peer = PeerInfo {
            pid: None,
            release: "4.2.2".into(),
        };
        let entrance = server.check_admission(
            ConnectionKind::Tool,
            &proc("tool", 0),
            (identity, Arc::default()),
            (peer, Vec::new()),
        );
        assert_eq!(entrance == AdmissionCheck::Granted, welcome, "{entrance:?}");
    }
}

#[test]
fn a_name_is_somebodys_until_they_leave_and_tools_are_counted() {
    let mut server = server();
    let taken = |proc: &Proc| Err(ConnectionRefusal::NameTaken(proc.clone()));
    let (of_job, tool, second) = (proc("job", 7), proc("tool", 0), proc("tool", 1));
    assert_eq!(server.admit_tool(&of_job, OWNER), taken(&of_job));
    let peer = server.admit_tool(&tool, OWNER).unwrap();
    assert_eq!(server.admit_tool(&tool, OWNER), taken(&tool));
    assert_eq!(
        server.admit_tool(&second, ROOT),
        taken(&second),
        "a namespace has one user"
    );
    server.admit_tool(&second, OWNER).unwrap();
    server.admit_tool(&proc("third", 0), ROOT).unwrap();
    let fourth = proc("fourth", 0);
    assert_eq!(
        server.admit_tool(&fourth, ROOT),
        Err(ConnectionRefusal::TooManyTools { max: 3 })
    );
    // Who has finalized and comes back before its connection is seen to end keeps its new name.
    assert_eq!(
        ask(&mut server, peer, Request::Finalize).status(),
        code::PMIX_SUCCESS
    );
    server.admit_tool(&tool, OWNER).unwrap();
    assert_eq!(server.disconnected(peer, MonotonicTime(0)), []);
    assert_eq!(server.admit_tool(&tool, OWNER), taken(&tool));
}

#[test]
fn a_job_takes_its_name_from_a_tool() {
    let mut server = server();
    let peer = server.admit_tool(&proc("next", 0), OTHER).unwrap();
    let UserIdentity { uid, gid } = OWNER;
    server.add_job(JobSpec::new(
        Nspace::new("next").unwrap(),
        1,
        "node",
        UserIdentity { uid, gid },
    ));
    assert_eq!(
        ask(&mut server, peer, Request::JobData).status(),
        code::PMIX_ERR_INIT
    );
    assert_eq!(server.identity(&proc("next", 0)), Some(OWNER));
    server.admit(&proc("next", 0), OWNER).unwrap();
    assert_eq!(server.disconnected(peer, MonotonicTime(0)), []);
    assert_eq!(
        server.life(&proc("next", 0)),
        Some(crate::job::ProcPhase::Connected(1))
    );
}

#[test]
fn a_tool_has_data_of_its_own_and_leaves_nothing_behind() {
    let mut server = server();
    let tool = proc("tool", 0);
    let peer = server.admit_tool(&tool, OWNER).unwrap();
    let Reply::JobData(info) = ask(&mut server, peer, Request::JobData) else {
        panic!("no job data")
    };
    assert_eq!(info.nspace, tool.nspace);
    let of_rank = |entry: &JobEntry| match entry {
        JobEntry::Rank(Rank(0), kvals) => {
            kvals.contains(&Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(0)))
        }
        _ => false,
    };
    assert!(info.entries.iter().any(of_rank), "{info:?}");
    let kvals = vec![Kval::new(KEY, Value::Bool(true))];
    let commit = Request::Commit(vec![Commit {
        scope: Scope::Global,
        kvals,
    }]);
    assert_eq!(ask(&mut server, peer, commit).status(), code::PMIX_SUCCESS);
    assert!(server.data.has_values(&tool));
    assert_eq!(
        server.disconnected(peer, MonotonicTime(0)),
        [Action::Upcall(Upcall::ToolLeft(tool.clone()))]
    );
    assert!(!server.data.has_values(&tool));
    assert_eq!((server.identity(&tool), server.counts().peers), (None, 0));
}

#[test]
fn values_of_other_users_are_not_given_to_tools() {
    let get = |of: &Proc| Request::Get {
        proc: of.clone(),
        infos: Vec::new(),
        key: Some("pmix.job.size".into()),
    };
    let job = Proc::all(Nspace::new("job").unwrap());
    for (identity, status) in [
        (OWNER, code::PMIX_SUCCESS),
        (ROOT, code::PMIX_SUCCESS),
        (SERVER, code::PMIX_ERR_NO_PERMISSIONS),
    ] {
        let mut server = server();
        let peer = server.admit_tool(&proc("tool", 0), identity).unwrap();
        assert_eq!(
            ask(&mut server, peer, get(&job)).status(),
            status,
            "{identity}"
        );
        let unknown: Status = ask(&mut server, peer, get(&proc("nobody", 0))).status();
        assert_eq!(unknown, code::PMIX_ERR_NOT_FOUND);
    }
}
