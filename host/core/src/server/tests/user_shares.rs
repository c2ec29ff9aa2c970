//! Tests of user shares: the values and tools of one user together are bounded, and are released
//! with them.
use super::*;

/// The memory that all values of a user may take, in bytes.
const SHARE: usize = 1500;

fn stage(size: u32) -> Stage {
    let mut stage = Stage::of(size);
    stage.server.settings.max_put_bytes_per_user = SHARE;
    stage
}

/// A proc puts a value of about so many bytes.
fn put(stage: &mut Stage, rank: u32, bytes: usize) -> Vec<Action> {
    let kvals = vec![Kval::new(A, Value::string(&"x".repeat(bytes)))];
    stage
        .ask(
            rank,
            Request::Commit(vec![Commit {
                scope: Scope::Global,
                kvals,
            }]),
        )
        .1
}

#[test]
fn values_of_one_user_are_bounded_and_refusal_has_limit() {
    let mut stage = stage(3);
    assert_eq!(
        [0, 1].map(|rank| status(&put(&mut stage, rank, 600))),
        [code::PMIX_SUCCESS; 2]
    );
    let refused = put(&mut stage, 2, 600);
    assert_eq!(status(&refused), code::PMIX_ERR_OUT_OF_RESOURCE);
    let Some(Action::PutRefused { refusal, .. }) = refused.last() else {
        panic!("{refused:?}")
    };
    assert_eq!(
        *refusal,
        PutRefusal::User {
            uid: WHO.uid,
            max: SHARE
        }
    );
    assert!(
        refusal
            .to_string()
            .contains("1500 bytes (server.max_put_bytes_per_user)"),
        "{refusal}"
    );
    // What is smaller takes the place of what was there, and leaves room for others.
    assert_eq!(status(&put(&mut stage, 0, 10)), code::PMIX_SUCCESS);
    assert_eq!(status(&put(&mut stage, 2, 600)), code::PMIX_SUCCESS);
}

#[test]
fn values_of_other_users_root_and_servers_user_have_room() {
    let mut stage = stage(2);
    stage.server.guard(UserIdentity { uid: 500, gid: 500 }, []);
    (0..2).for_each(|rank| drop(put(&mut stage, rank, 600)));
    for (uid, fits) in [(1000, false), (1001, true), (0, true), (500, true)] {
        let nspace = Nspace::new(&format!("job-of-{uid}")).unwrap();
        let identity = UserIdentity { uid, gid: 100 };
        stage
            .server
            .add_job(JobSpec::new(nspace.clone(), 4, "node", identity));
        for rank in 0..4 {
            stage.peers[0] = stage
                .server
                .admit(&Proc::new(nspace.clone(), Rank(rank)), identity)
                .unwrap()
                .0;
            let status = status(&put(&mut stage, 0, 600));
            let is_within_share = uid == 1001 && rank < 2;
            let wanted = fits && (uid != 1001 || is_within_share);
            assert_eq!(
                status == code::PMIX_SUCCESS,
                wanted,
                "rank {rank} of user {uid}: {status}"
            );
        }
    }
}

#[test]
fn values_of_all_users_leave_a_part_to_root() {
    let mut stage = stage(2);
    stage.server.settings.max_put_bytes_total = 3600;
    let fits = [(1001, 2), (1002, 2), (1003, 0), (0, 1)];
    for (uid, wanted) in fits {
        let nspace = Nspace::new(&format!("job-of-{uid}")).unwrap();
        let identity = UserIdentity { uid, gid: 100 };
        stage
            .server
            .add_job(JobSpec::new(nspace.clone(), 4, "node", identity));
        let mut put_by = |rank: u32| {
            stage.peers[0] = stage
                .server
                .admit(&Proc::new(nspace.clone(), Rank(rank)), identity)
                .unwrap()
                .0;
            put(&mut stage, 0, 600)
        };
        let answers = [0, 1, 2].map(&mut put_by);
        let is_kept = |actions: &&Vec<Action>| status(actions) == code::PMIX_SUCCESS;
        assert_eq!(answers.iter().filter(is_kept).count(), wanted, "user {uid}");
        let refused_by_total = answers.iter().flatten().any(|action| {
            let Action::PutRefused { refusal, .. } = action else {
                return false;
            };
            refusal
                .to_string()
                .ends_with("(server.max_put_bytes_total)")
        });
        assert_eq!(refused_by_total, uid == 1003 || uid == 0);
    }
}

#[test]
fn values_go_when_all_procs_of_job_have_ended() {
    let mut stage = stage(2);
    (0..2).for_each(|rank| drop(put(&mut stage, rank, 600)));
    let before = stage.server.counts().put_bytes;
    // The first is lost. The second may still ask for what it has put, also when it finalizes and comes back.
    stage.server.disconnected(stage.peers[0], MonotonicTime(0));
    stage.ask(1, Request::Finalize);
    stage.server.disconnected(stage.peers[1], MonotonicTime(0));
    assert_eq!(stage.server.counts().put_bytes, before);
    stage.peers[1] = stage.server.admit(&proc(1), WHO).unwrap().0;
    assert!(value(&stage.get(1, proc(0), A, &[]).1, A).is_some());
    stage.ask(1, Request::Finalize);
    stage.server.proc_ended(&proc(1), None, MonotonicTime(0));
    assert_eq!(stage.server.counts().put_bytes, 0);
}

#[test]
fn tools_of_one_user_are_bounded_and_some_are_root_and_servers() {
    const SERVER: UserIdentity = UserIdentity { uid: 500, gid: 500 };
    let settings = StateSettings {
        max_tools: 16,
        max_tools_per_user: 8,
        ..StateSettings::default()
    };
    let mut server = ServerState::new(settings);
    server.guard(SERVER, []);
    let mut number = 0;
    let mut attach = |server: &mut ServerState, uid| {
        number += 1;
        let nspace = Nspace::new(&format!("tool-{number}")).unwrap();
        server.admit_tool(&Proc::new(nspace, Rank(0)), UserIdentity { uid, gid: 100 })
    };
    let first = attach(&mut server, 1000).unwrap();
    (1..8).for_each(|_| assert!(attach(&mut server, 1000).is_ok()));
    let refused = attach(&mut server, 1000).unwrap_err();
    assert_eq!(
        refused,
        ConnectionRefusal::TooManyToolsOfUser { uid: 1000, max: 8 }
    );
    assert_eq!(
        refused.to_string(),
        "user 1000 has 8 tools; the limit is 8 (tools.max_connections_per_user)"
    );
    (0..6).for_each(|_| assert!(attach(&mut server, 1001).is_ok()));
    assert_eq!(
        attach(&mut server, 1001),
        Err(ConnectionRefusal::TooManyTools { max: 14 })
    );
    assert!(attach(&mut server, 0).is_ok() && attach(&mut server, SERVER.uid).is_ok());
    assert_eq!(
        attach(&mut server, 0),
        Err(ConnectionRefusal::TooManyTools { max: 16 })
    );
    server.disconnected(first, MonotonicTime(0));
    assert!(attach(&mut server, 0).is_ok());
}
