//! Tests of what each reader sees of events and denials.
use super::*;
use crate::activity::MAX_RING_BYTES;
use crate::notice::{MeasuredCall, MeasuredFailure, MeasuredOutcome};
use peal_model::{ChainResult, Hook, Info, KeyName, Range, Rank, Value, code};
use peal_sandbox::Digest;

const SUBMITTED: SystemTime = UNIX_EPOCH;

fn identity(uid: u32) -> UserIdentity {
    UserIdentity { uid, gid: uid }
}

fn event() -> Event {
    Event {
        code: Status(-3001),
        source: None,
        range: Range::Session,
        infos: Vec::new(),
    }
}

fn measured(uid: Option<u32>) -> MeasuredEvent {
    MeasuredEvent {
        number: 1,
        uid,
        submitted: SUBMITTED,
        time: Duration::from_micros(90),
    }
}

/// Results of a chain with this number of equal steps, which ended after this time.
fn results(owner: Owner, handler: &str, count: usize, end_us: u64) -> ChainResults {
    let step = ChainResult {
        name: handler.into(),
        status: code::PMIX_EVENT_NO_ACTION_TAKEN,
        infos: Vec::new(),
    };
    let call = MeasuredCall {
        name: handler.into(),
        module: "m".into(),
        digest: Digest::of(b"m"),
        started: SUBMITTED + Duration::from_micros(end_us - 5),
        time: Duration::from_micros(5),
        fuel: None,
        outcome: MeasuredOutcome::Failed(MeasuredFailure {
            status: step.status,
            limit: None,
            reason: "why".to_owned(),
        }),
    };
    ChainResults {
        owner,
        steps: vec![step; count],
        calls: vec![call; count],
    }
}

fn passages(recorder: &ActivityRecorder, viewer: ActivityViewer) -> Vec<EventPassage> {
    let taken = recorder.take_passages(&mut ActivityReader::new(), viewer, Duration::ZERO);
    let entries = taken.entries.iter();
    entries.map(|passage| passage.visible(viewer)).collect()
}

fn handlers(recorder: &ActivityRecorder, viewer: ActivityViewer) -> Vec<Vec<String>> {
    passages(recorder, viewer)
        .into_iter()
        .map(|passage| passage.steps.into_iter().map(|step| step.handler).collect())
        .collect()
}

#[test]
fn user_sees_own_events_and_own_steps_only() {
    let recorder = Arc::new(ActivityRecorder::default());
    let _watched = recorder.watch();
    let job = Nspace::new("job").unwrap();
    let results = vec![
        results(Owner::Site, "site", 1, 10),
        results(Owner::User(7), "seven", 1, 20),
        results(Owner::Namespace(job.clone()), "eight", 1, 30),
    ];
    let jobs = [(job, identity(8))];
    recorder.record_passage(&measured(Some(9)), &event(), &Arc::new(results), &jobs);
    let all = vec!["site", "seven", "eight"];
    assert_eq!(handlers(&recorder, ActivityViewer::Admin), [all]);
    assert_eq!(handlers(&recorder, ActivityViewer::User(7)), [["seven"]]);
    assert_eq!(handlers(&recorder, ActivityViewer::User(8)), [["eight"]]);
    assert_eq!(
        handlers(&recorder, ActivityViewer::User(9)),
        [Vec::<String>::new()],
        "the event is user 9's, none of the handlers is"
    );
    assert!(handlers(&recorder, ActivityViewer::User(10)).is_empty());
    let times = [7, 8, 9].map(|uid| passages(&recorder, ActivityViewer::User(uid))[0].time_us);
    assert_eq!(times, [20, 30, 0], "the time to the last own step");
    let whole = &passages(&recorder, ActivityViewer::Admin)[0];
    assert_eq!((whole.time_us, whole.steps[0].time_us), (90, 5));
    assert_eq!(whole.steps[0].failure.as_deref(), Some("why"));
}

#[test]
fn many_steps_of_site_leave_room_for_those_of_users() {
    let recorder = Arc::new(ActivityRecorder::default());
    let _watched = recorder.watch();
    let results = vec![
        results(Owner::Site, "site", 100, 10),
        results(Owner::User(7), "seven", MAX_STEPS + 3, 20),
    ];
    recorder.record_passage(&measured(None), &event(), &Arc::new(results), &[]);
    let of = |viewer| {
        let passage = passages(&recorder, viewer).remove(0);
        (passage.steps.len(), passage.further_steps)
    };
    assert_eq!(of(ActivityViewer::User(7)), (MAX_STEPS, 3));
    assert_eq!(of(ActivityViewer::Admin), (2 * MAX_STEPS, 68 + 3));
}

#[test]
fn passages_and_counts_are_those_of_present_watchers() {
    let recorder = Arc::new(ActivityRecorder::default());
    let admin = ActivityViewer::Admin;
    let pass = || recorder.record_passage(&measured(None), &event(), &Arc::default(), &[]);
    let counted = || recorder.event_counts(admin).codes.len();
    pass();
    assert!(passages(&recorder, admin).is_empty() && !recorder.is_watched());
    let first = recorder.watch();
    let second = recorder.watch();
    pass();
    recorder.event_enters(None, Status(-1));
    drop(first);
    assert_eq!((passages(&recorder, admin).len(), counted()), (1, 1));
    drop(second);
    assert!(passages(&recorder, admin).is_empty() && !recorder.is_watched());
    let _third = recorder.watch();
    assert_eq!((passages(&recorder, admin).len(), counted()), (0, 0));
}

#[test]
fn passages_of_a_flood_that_are_left_out_count_as_missed() {
    let recorder = Arc::new(ActivityRecorder::default());
    recorder.set_capacity(16);
    let (admin, user) = (ActivityViewer::Admin, ActivityViewer::User(7));
    assert!(!recorder.event_enters(None, Status(-1)), "nobody watches");
    let _watched = recorder.watch();
    let mut readers = [ActivityReader::new(), ActivityReader::new()];
    let mut read = || {
        let [of_admin, of_user] = &mut readers;
        let read = |reader, viewer| {
            let taken = recorder.take_passages(reader, viewer, Duration::ZERO);
            (taken.entries.len(), taken.missed)
        };
        (read(of_admin, admin), read(of_user, user))
    };
    assert_eq!(read(), ((0, 0), (0, 0)));
    let mut recorded = 0;
    for _ in 0..10_000 {
        let results = Arc::new(vec![results(Owner::User(7), "seven", 1, 20)]);
        if recorder.event_enters(Some(8), Status(-1)) {
            recorded += 1;
            recorder.record_passage(&measured(Some(8)), &event(), &results, &[]);
        } else {
            recorder.leave_passage_out(Some(8), &results, &[]);
        }
    }
    assert!(
        (16..256).contains(&recorded),
        "{recorded}: as many as are kept"
    );
    assert_eq!(read(), ((16, 9984), (16, 9984)));
    assert!(
        recorder.event_enters(Some(7), Status(-1)),
        "of another user"
    );
}

fn denial(uid: u32, by: DecidedBy, reason: &str) -> Denial {
    Denial {
        hook: Hook::Connection,
        requester: None,
        identity: Some(identity(uid)),
        targets: vec![Proc::new(Nspace::new("job\"").unwrap(), Rank(0))],
        decision: None,
        by,
        status: code::PMIX_ERR_NO_PERMISSIONS,
        reasons: vec![Info::new(KeyName("site.reason"), Value::string(reason))],
    }
}

#[test]
fn user_sees_own_denials_without_names_of_policies() {
    let recorder = ActivityRecorder::default();
    let why = format!("bad\u{1b}[31m{}", "x".repeat(5000));
    recorder.record_denial(denial(7, DecidedBy::Policy("secret".to_owned()), &why));
    recorder.record_denial(denial(8, DecidedBy::Unavailable, "later"));
    let seen = |viewer| {
        let taken = recorder.take_denials(&mut ActivityReader::new(), viewer, Duration::ZERO);
        let entries = taken.entries.iter();
        entries
            .map(|denial| denial.visible(viewer))
            .collect::<Vec<_>>()
    };
    let own = seen(ActivityViewer::User(7));
    assert_eq!((own.len(), own[0].by.as_str()), (1, "a policy"));
    assert_eq!(own[0].targets, ["job\\\":0"]);
    assert!(own[0].reason.starts_with("bad\\u{1b}[31mx") && own[0].reason.len() < 210);
    assert_eq!(seen(ActivityViewer::User(8)).len(), 1);
    assert!(seen(ActivityViewer::User(9)).is_empty());
    let all = seen(ActivityViewer::Admin);
    assert_eq!((all.len(), all[0].by.as_str()), (2, "policy \"secret\""));
}

#[test]
fn texts_in_a_report_are_no_longer_than_was_charged() {
    let ugly = "\u{1}\"\u{202e}".repeat(80);
    let mut results = results(Owner::User(7), &ugly, 40, 10);
    results.owner = Owner::Namespace(Nspace::new(&"\"".repeat(200)).unwrap());
    let mut event = event();
    event.source = Some(Proc::new(Nspace::new(&"\"".repeat(250)).unwrap(), Rank(0)));
    let passage = RecordedPassage::new(&measured(None), &event, &Arc::new(vec![results]), &[]);
    let length = |text: Result<String, _>| text.map(|text: String| text.len()).unwrap();
    let text = serde_json::to_string(&passage.visible(ActivityViewer::Admin));
    assert!(length(text) <= passage.bytes());
    let denial = RecordedDenial {
        at_ms: u64::MAX,
        denial: denial(u32::MAX, DecidedBy::Policy(ugly.clone()), &ugly),
    };
    let text = serde_json::to_string(&denial.visible(ActivityViewer::Admin));
    assert!(length(text) <= denial.bytes());
}

#[test]
fn large_infos_of_handlers_take_no_room_in_the_ring() {
    let recorder = Arc::new(ActivityRecorder::default());
    let _watched = recorder.watch();
    let mut results = results(Owner::Site, "site", 1, 10);
    let info = Info::new(KeyName("large"), Value::string(&"x".repeat(MAX_RING_BYTES)));
    results.steps[0].infos.push(info);
    recorder.record_passage(&measured(None), &event(), &Arc::new(vec![results]), &[]);
    assert_eq!(handlers(&recorder, ActivityViewer::Admin), [["site"]]);
}
