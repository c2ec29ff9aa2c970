//! Requests of one client take neither memory nor time from others, and leave nothing when the
//! client has gone.
use super::*;
use crate::policy::{DecidedBy, Verdict};

/// A fence of these ranks.
fn fence_of(stage: &mut Stage, rank: u32, ranks: &[u32]) -> (RequestId, Vec<Action>) {
    let procs = ranks.iter().map(|rank| proc(*rank)).collect();
    stage.ask(
        rank,
        Request::Fence {
            procs,
            infos: Vec::new(),
        },
    )
}

#[test]
fn all_requesters_waiting_for_a_key_get_same_data() {
    let mut stage = Stage::of(3);
    for rank in [1, 2, 2] {
        assert_eq!(stage.get(rank, proc(0), A, &[]).1, []);
    }
    let actions = stage.commit(0, Scope::Global, A, 7);
    let data: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Reply {
                reply: Reply::Data { ranks, .. },
                ..
            } => Some(&ranks[0]),
            _ => None,
        })
        .collect();
    assert_eq!(data.len(), 3);
    assert!(
        data.iter().all(|one| std::ptr::eq(&***one, &**data[0])),
        "one copy for all"
    );
    let later = stage.get(1, proc(0), A, &[]).1;
    stage.commit(0, Scope::Global, B, 8);
    assert_eq!(value(&later, B), None);
    assert!(
        value(&stage.get(1, proc(0), A, &[]).1, B).is_some(),
        "a commit makes it anew"
    );
}

#[test]
fn a_commit_counts_whole_or_not_at_all() {
    let mut stage = Stage::of(2);
    let kvals = vec![
        Kval::new(A, Value::Uint32(1)),
        Kval::new(B, Value::string(&"x".repeat(2000))),
    ];
    let (_, actions) = stage.ask(
        0,
        Request::Commit(vec![Commit {
            scope: Scope::Global,
            kvals,
        }]),
    );
    assert_eq!(status(&actions), code::PMIX_ERR_OUT_OF_RESOURCE);
    let immediate = [(key::PMIX_IMMEDIATE, Value::Bool(true))];
    assert_eq!(
        status(&stage.get(1, proc(0), A, &immediate).1),
        code::PMIX_ERR_NOT_FOUND
    );
    for _ in 0..100 {
        let kvals = vec![Kval::new(A, Value::string(&"x".repeat(300))); 2];
        let (_, actions) = stage.ask(
            0,
            Request::Commit(vec![Commit {
                scope: Scope::Local,
                kvals,
            }]),
        );
        assert_eq!(
            status(&actions),
            code::PMIX_SUCCESS,
            "what replaces takes the room of what it replaces"
        );
    }
}

#[test]
fn refused_first_commit_answers_no_get_without_key() {
    let mut stage = Stage::of(2);
    let too_long = Commit {
        scope: Scope::Global,
        kvals: vec![Kval::new(A, Value::string(&"x".repeat(2000)))],
    };
    let (_, actions) = stage.ask(0, Request::Commit(vec![too_long]));
    assert_eq!(status(&actions), code::PMIX_ERR_OUT_OF_RESOURCE);
    let get = Request::Get {
        proc: proc(0),
        infos: Vec::new(),
        key: None,
    };
    assert_eq!(stage.ask(1, get).1, []);
    let committed = stage.commit(0, Scope::Global, A, 7);
    assert_eq!(committed.len(), 2, "the get is answered now: {committed:?}");
}

#[test]
fn fences_per_proc_are_bounded_and_deserted_ones_are_dropped() {
    let mut stage = Stage::of(2);
    let max = stage.server.settings.max_fences;
    for _ in 0..max {
        assert_eq!(fence_of(&mut stage, 0, &[0, 1]).1, []);
    }
    assert_eq!(
        status(&fence_of(&mut stage, 0, &[0, 1]).1),
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    assert_eq!(
        status(&fence_of(&mut stage, 1, &[0, 1]).1),
        code::PMIX_SUCCESS,
        "the other is not concerned"
    );
    // The other's call has ended one fence of both.
    assert_eq!(fence_of(&mut stage, 0, &[0, 1]).1, []);
    // Finalizing and coming back does not help: they are the proc's, until its connection is gone.
    stage.ask(0, Request::Finalize);
    let again = stage.server.admit(&proc(0), WHO).unwrap().0;
    let before = std::mem::replace(&mut stage.peers[0], again);
    assert_eq!(
        status(&fence_of(&mut stage, 0, &[0, 1]).1),
        code::PMIX_ERR_OUT_OF_RESOURCE
    );
    stage.server.disconnected(before, MonotonicTime(0));
    assert_eq!(fence_of(&mut stage, 0, &[0, 1]).1, []);
}

#[test]
fn fences_of_other_procs_are_not_awaited() {
    let mut stage = Stage::of(1);
    let theirs = Nspace::new("theirs").unwrap();
    stage.server.add_job(JobSpec::new(
        theirs.clone(),
        1,
        "node",
        UserIdentity {
            uid: 2000,
            gid: 100,
        },
    ));
    let procs = vec![proc(0), Proc::all(theirs)];
    let (_, actions) = stage.ask(
        0,
        Request::Fence {
            procs,
            infos: Vec::new(),
        },
    );
    assert_eq!(status(&actions), code::PMIX_ERR_INVALID_NAMESPACE);
}

#[test]
fn removed_job_takes_waiting_requests_and_procs_are_ignored() {
    let mut stage = Stage::of(2);
    let (fence, _) = stage.fence(0, Vec::new());
    let (get, _) = stage.get(0, proc(1), A, &[]);
    let answered = stage.server.remove_job(&nspace());
    assert_eq!(
        statuses(&answered),
        [get, fence].map(|to| (to, code::PMIX_ERR_INVALID_NAMESPACE))
    );
    assert_eq!(stage.server.deadline(), None);
    // Another job of that name belongs to somebody else.
    stage.server.add_job(JobSpec::new(
        nspace(),
        2,
        "node",
        UserIdentity {
            uid: 2000,
            gid: 100,
        },
    ));
    assert_eq!(
        status(&stage.commit(0, Scope::Global, A, 1)),
        code::PMIX_ERR_INIT
    );
    let old = stage.peers[1];
    assert_eq!(
        stage.server.clients.identity_of(old),
        Some(WHO),
        "who they were"
    );
    let other = UserIdentity {
        uid: 2000,
        gid: 100,
    };
    stage.peers = (0..2)
        .map(|rank| stage.server.admit(&proc(rank), other).unwrap().0)
        .collect();
    assert_eq!(
        stage.fence(1, Vec::new()).1,
        [],
        "the fence before it is not joined"
    );
    let answers = statuses(&stage.fence(0, Vec::new()).1);
    let done: Vec<Status> = answers.into_iter().map(|(_, status)| status).collect();
    assert_eq!(done, [code::PMIX_SUCCESS; 2]);
}

#[test]
fn pending_tool_request_is_denied_when_a_job_takes_its_name() {
    let mut server = ServerState::new(StateSettings::default());
    server.guard(WHO, [Hook::Event]);
    let tool = Proc::new(Nspace::new("solver").unwrap(), Rank(0));
    let peer = server.admit_tool(&tool, WHO).unwrap();
    let to = RequestId { peer, tag: 1 };
    let event = Request::Notify {
        code: Status(-5000),
        range: Range::Global,
        infos: Vec::new(),
    };
    let actions = server.request(to, event, MonotonicTime(0));
    let [Action::Decide { id, .. }] = actions[..] else {
        panic!("{actions:?}")
    };
    let spec = JobSpec::new(
        tool.nspace,
        1,
        "node",
        UserIdentity {
            uid: 2000,
            gid: 100,
        },
    );
    let actions = server.add_job(spec);
    let [Action::Denied(denial), answer] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (&denial.by, denial.identity),
        (&DecidedBy::Eviction, Some(WHO))
    );
    assert_eq!(
        statuses(std::slice::from_ref(answer)),
        [(to, code::PMIX_ERR_NO_PERMISSIONS)]
    );
    let granted = Verdict::Granted {
        by: DecidedBy::Policy("slow".into()),
        amended: Vec::new(),
        range: None,
        data: None,
        answer: Vec::new(),
    };
    assert_eq!(
        server.decided(id, granted),
        [],
        "the verdict comes too late"
    );
}

#[test]
fn one_users_questions_leave_room_for_those_of_others() {
    let mut server = ServerState::new(StateSettings {
        decisions: decisions(4),
        ..StateSettings::default()
    });
    server.guard(WHO, [Hook::Event]);
    let mut asks = |uid: u32, tag: u32| {
        let name = format!("tool-{uid}-{tag}");
        let peer = server
            .admit_tool(
                &Proc::new(Nspace::new(&name).unwrap(), Rank(0)),
                UserIdentity { uid, gid: uid },
            )
            .unwrap();
        let event = Request::Notify {
            code: Status(-5000),
            range: Range::Global,
            infos: Vec::new(),
        };
        let actions = server.request(RequestId { peer, tag }, event, MonotonicTime(0));
        matches!(actions[..], [Action::Decide { .. }])
    };
    let answers = [(7, 1), (7, 2), (7, 3), (8, 4), (8, 5), (9, 6)].map(|(uid, tag)| asks(uid, tag));
    assert_eq!(answers, [true, true, false, true, true, false]);
}

#[test]
fn oversized_proc_filter_is_refused() {
    let mut stage = Stage::of(1);
    let procs = |count: u32| {
        let procs = (0..count).map(|rank| Value::Proc(proc(rank))).collect();
        let array = peal_model::DataArray::new(peal_model::data_type::PMIX_PROC, procs).unwrap();
        vec![Info::new(
            key::PMIX_EVENT_AFFECTED_PROCS,
            Value::DataArray(array),
        )]
    };
    let mut register = |count| {
        let infos = procs(count);
        status(
            &stage
                .ask(
                    0,
                    Request::RegisterEvents {
                        codes: vec![Status(-5000)],
                        infos,
                    },
                )
                .1,
        )
    };
    assert_eq!(register(1024), code::PMIX_SUCCESS);
    assert_eq!(register(1025), code::PMIX_ERR_OUT_OF_RESOURCE);
}
