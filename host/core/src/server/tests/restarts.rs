//! Restarts of procs by the host environment.
use super::*;

/// Returns the checkpoint that the data of a rank name for its restart.
fn told(stage: &mut Stage, of: u32) -> Vec<Value> {
    let (_, actions) = stage.ask(0, Request::JobData);
    let [
        Action::Reply {
            reply: Reply::JobData(info),
            ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    let of_rank = |entry: &peal_model::JobEntry| match entry {
        peal_model::JobEntry::Rank(rank, kvals) if *rank == Rank(of) => kvals.clone(),
        _ => Vec::new(),
    };
    let kvals = info.entries.iter().flat_map(of_rank);
    kvals
        .filter(|kval| kval.key == key::PMIX_JOB_CTRL_RESTART)
        .map(|kval| kval.value)
        .collect()
}

#[test]
fn restarted_proc_reconnects_as_itself_without_end_event() {
    let mut stage = Stage::of(2);
    stage.register(0, &[]);
    stage.commit(1, Scope::Global, A, 1);
    let restarted = stage
        .server
        .proc_restarts(&proc(1), Some("first"), MonotonicTime(0));
    assert_eq!(
        (stage.server.life(&proc(1)), restarted),
        (Some(ProcPhase::Expected), Vec::new())
    );
    assert!(
        stage
            .server
            .disconnected(stage.peers[1], MonotonicTime(0))
            .is_empty(),
        "its connection counts no more"
    );
    assert_eq!(told(&mut stage, 1), [Value::string("first")]);
    assert_eq!(told(&mut stage, 0), [], "each is told of its own");

    let (waits, actions) = stage.get(0, proc(1), A, &[]);
    assert_eq!(
        actions,
        [],
        "what the old one put is gone, and the new one may put it"
    );
    let (peer, actions) = stage.server.admit(&proc(1), WHO).unwrap();
    assert_eq!(actions, [Action::Upcall(Upcall::ClientConnected(proc(1)))]);
    stage.peers[1] = peer;
    let answers = stage.commit(1, Scope::Global, A, 2);
    assert!(
        answers
            .iter()
            .any(|action| matches!(action, Action::Reply { to, .. } if *to == waits))
    );
    stage.server.proc_restarts(&proc(1), None, MonotonicTime(0));
    assert_eq!(told(&mut stage, 1), [], "the last start counts");
}

#[test]
fn fences_that_it_has_a_part_in_fail_and_others_do_not() {
    let mut stage = Stage::of(4);
    let some = |ranks: [u32; 2]| Request::Fence {
        procs: ranks.map(proc).to_vec(),
        infos: Vec::new(),
    };
    let (left, _) = stage.ask(0, some([0, 1]));
    let (stays, _) = stage.ask(2, some([2, 3]));
    let (arrived, _) = stage.ask(1, some([1, 3]));
    let failed = stage.server.proc_restarts(&proc(1), None, MonotonicTime(0));
    assert_eq!(
        statuses(&failed),
        [
            (left, code::PMIX_ERR_PROC_RESTART),
            (arrived, code::PMIX_ERR_PROC_RESTART)
        ]
    );
    let (_, over) = stage.ask(3, some([2, 3]));
    assert!(statuses(&over).contains(&(stays, code::PMIX_SUCCESS)));
}

#[test]
fn ended_proc_can_restart_and_unknown_one_cannot() {
    let mut stage = Stage::of(2);
    stage.server.proc_ended(&proc(1), None, MonotonicTime(0));
    assert!(matches!(
        stage.server.admit(&proc(1), WHO),
        Err(ConnectionRefusal::Ended(_))
    ));
    stage.server.proc_restarts(&proc(1), None, MonotonicTime(0));
    assert!(stage.server.admit(&proc(1), WHO).is_ok());
    assert!(
        stage
            .server
            .proc_restarts(&proc(2), None, MonotonicTime(0))
            .is_empty()
    );
}
