//! Recipients of events, and events without any.
use super::*;

const NEWS: i32 = -3001;

fn other() -> Nspace {
    Nspace::new("other").unwrap()
}

/// Returns a job of two procs, and another one of the same size for this user.
fn two_jobs(owner: UserIdentity) -> Stage {
    let mut stage = Stage::of(2);
    stage
        .server
        .add_job(JobSpec::new(other(), 1, "node", owner));
    let peer = stage
        .server
        .admit(&Proc::new(other(), Rank(0)), owner)
        .unwrap()
        .0;
    stage.peers.push(peer);
    (0..3).for_each(|rank| drop(stage.register(rank, &[NEWS])));
    stage
}

fn custom(targets: &[Proc]) -> Vec<Info> {
    vec![Info::new(
        key::PMIX_EVENT_CUSTOM_RANGE,
        Value::procs(targets.iter().cloned()),
    )]
}

#[test]
fn namespace_event_about_procs_of_two_jobs_reaches_both() {
    let mut stage = two_jobs(WHO);
    let affected = Value::procs([proc(1), Proc::new(other(), Rank(0))]);
    let infos = vec![Info::new(key::PMIX_EVENT_AFFECTED_PROCS, affected)];
    let event = Event {
        code: Status(NEWS),
        source: None,
        range: Range::Namespace,
        infos,
    };
    assert!(
        [&nspace(), &other()]
            .iter()
            .all(|job| crate::audience::concerns(&event, job))
    );
    let actions = stage.server.notify(event).unwrap();
    assert_eq!(hearers(&stage, &actions), [0, 1, 2]);
}

#[test]
fn namespace_event_without_a_namespace_is_refused() {
    let mut stage = two_jobs(WHO);
    let event = Event {
        code: Status(NEWS),
        source: None,
        range: Range::Namespace,
        infos: Vec::new(),
    };
    assert_eq!(stage.server.notify(event), Err(code::PMIX_ERR_BAD_PARAM));
}

#[test]
fn event_with_unknown_targets_only_is_not_found() {
    let stranger = UserIdentity {
        uid: WHO.uid + 1,
        gid: WHO.gid,
    };
    let unknown = Proc::all(Nspace::new("nosuch").unwrap());
    for (owner, targets, answer) in [
        (WHO, vec![unknown.clone()], code::PMIX_ERR_NOT_FOUND),
        (WHO, vec![proc(7)], code::PMIX_ERR_NOT_FOUND),
        (stranger, vec![Proc::all(other())], code::PMIX_ERR_NOT_FOUND),
        (WHO, vec![Proc::all(other())], code::PMIX_SUCCESS),
        (WHO, vec![unknown.clone(), proc(1)], code::PMIX_SUCCESS),
    ] {
        let mut stage = two_jobs(owner);
        let actions = stage.notify(0, NEWS, Range::Custom, custom(&targets));
        assert_eq!(status(&actions), answer, "{targets:?}");
        let spread = actions
            .iter()
            .any(|action| matches!(action, Action::Chain { .. }));
        assert_eq!(
            spread,
            answer == code::PMIX_SUCCESS,
            "a refused event has no effect"
        );
    }
}

#[test]
fn event_for_ended_procs_or_other_servers_is_not_refused() {
    let mut stage = two_jobs(WHO);
    stage.server.proc_ended(&proc(1), None, MonotonicTime(0));
    let ended = stage.notify(0, NEWS, Range::Custom, custom(&[proc(1)]));
    assert_eq!(
        status(&ended),
        code::PMIX_SUCCESS,
        "the raiser could not know"
    );
    stage.server.server_joined(crate::group::ServerId(7));
    let elsewhere = Proc::all(Nspace::new("elsewhere").unwrap());
    let actions = stage.notify(0, NEWS, Range::Custom, custom(&[elsewhere]));
    assert_eq!(
        statuses(&actions).last().unwrap().1,
        code::PMIX_SUCCESS,
        "another server may know them"
    );
}

#[test]
fn ends_of_invited_procs_are_asked_for_before_the_invitation() {
    use crate::group::{GroupMessage, JobSummary, ServerId};
    let mut stage = Stage::of(1);
    let elsewhere = Nspace::new("elsewhere").unwrap();
    stage.server.server_joined(ServerId(7));
    let job = GroupMessage::Job {
        nspace: elsewhere.clone(),
        facts: JobSummary {
            size: 1,
            owner: WHO,
        },
        ranks: crate::rank_ranges::RankRanges::below(1),
    };
    let job = InterServerMessage::Group(job);
    stage
        .server
        .server_message(ServerId(7), job, MonotonicTime(0));
    let invited = [Proc::new(elsewhere, Rank(0))];
    let mut infos = custom(&invited);
    infos.push(Info::new(
        key::PMIX_GROUP_ID,
        Value::String(Some("crew".into())),
    ));
    infos.push(Info::new(
        key::PMIX_GROUP_MEMBERSHIP,
        Value::procs(invited.iter().cloned()),
    ));
    let actions = stage.notify(0, code::PMIX_GROUP_INVITED.0, Range::Custom, infos);
    let place = |is_it: fn(&Action) -> bool| actions.iter().position(is_it).unwrap();
    let watch = place(|action| {
        let watch = |message: &InterServerMessage| {
            matches!(message, InterServerMessage::Group(GroupMessage::Watch(_)))
        };
        matches!(action, Action::Send { message, .. } if watch(message))
    });
    let event = place(|action| matches!(action, Action::Distribute { .. }));
    assert!(watch < event, "{actions:?}");
}

#[test]
fn event_for_the_manager_raised_by_a_module_needs_a_host() {
    let mut stage = Stage::of(1);
    let event = || Event {
        code: Status(NEWS),
        source: None,
        range: Range::Rm,
        infos: Vec::new(),
    };
    assert_eq!(
        stage.server.notify(event()),
        Err(code::PMIX_ERR_NOT_SUPPORTED)
    );
    stage.server.host_registers(&[]);
    let actions = stage
        .server
        .raise(event(), RaisingOwner::Site, EventBudget::new(3))
        .unwrap();
    let [Action::Upcall(Upcall::Notify { allowance, .. })] = actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        allowance,
        EventBudget::new(3),
        "what may follow from it is counted on"
    );
}

#[test]
fn checkpoint_answer_without_a_host_is_not_refused() {
    let mut stage = Stage::of(1);
    let actions = stage.notify(
        0,
        code::PMIX_JCTRL_CHECKPOINT_COMPLETE.0,
        Range::Rm,
        Vec::new(),
    );
    assert_eq!(
        status(&actions),
        code::PMIX_SUCCESS,
        "the server itself hears it"
    );
}
