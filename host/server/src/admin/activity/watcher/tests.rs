//! Tests of the reports to watchers.
use super::*;
use crate::{
    admin::{
        activity::sample::tests::{sample, sample_at},
        watcher_shares::{WatcherKind, WatcherLimits, WatcherShares},
    },
    notice::{ChainResults, MeasuredEvent},
};
use peal_core::owner::Owner;
use peal_model::{Event, Range};
use std::time::SystemTime;

fn watcher(recorder: &Arc<ActivityRecorder>, viewer: ActivityViewer) -> ActivityWatcher {
    let shares = Arc::new(WatcherShares::new(WatcherLimits::default()));
    let permit = shares.admit(0, WatcherKind::Own).unwrap();
    ActivityWatcher::new(recorder, viewer, 1, permit)
}

fn pass(recorder: &ActivityRecorder, number: u64, owner: Owner) {
    let measured = MeasuredEvent {
        number,
        uid: None,
        submitted: SystemTime::now(),
        time: Duration::from_micros(5),
    };
    let event = Event {
        code: Status(-3001),
        source: None,
        range: Range::Session,
        infos: Vec::new(),
    };
    let results = ChainResults {
        owner,
        steps: Vec::new(),
        calls: Vec::new(),
    };
    recorder.record_passage(&measured, &event, &Arc::new(vec![results]), &[]);
}

fn numbers(report: &ActivityReport) -> Vec<u64> {
    report
        .passages
        .iter()
        .map(|passage| passage.number)
        .collect()
}

#[test]
fn first_report_is_complete_and_later_ones_have_changes() {
    let recorder: Arc<ActivityRecorder> = Arc::default();
    let mut watcher = watcher(&recorder, ActivityViewer::Admin);
    let first = watcher.report(&sample());
    assert!(first.server.is_some() && first.chains.is_some() && first.further.is_some());
    let second = watcher.report(&sample());
    assert_eq!((first.number, second.number), (1, 2));
    assert!(second.server.is_none() && second.jobs.is_none() && second.further.is_none());
    let (first, second) = (first.counts.unwrap(), second.counts.unwrap());
    assert!(first.at_ms >= 5000 && second.at_ms >= 5000);
}

#[test]
fn user_gets_numbers_of_its_own_and_admin_those_of_server() {
    let recorder: Arc<ActivityRecorder> = Arc::default();
    let mut admin = watcher(&recorder, ActivityViewer::Admin);
    let mut user = watcher(&recorder, ActivityViewer::User(7));
    for number in 100..110 {
        let owner = if number % 3 == 0 { 7 } else { 8 };
        pass(&recorder, number, Owner::User(owner));
    }
    let sample = sample();
    assert_eq!(
        numbers(&admin.report(&sample)),
        (100..110).collect::<Vec<_>>()
    );
    let report = user.report(&sample);
    assert_eq!(
        (report.only_user, numbers(&report)),
        (Some(7), vec![1, 2, 3])
    );
    pass(&recorder, 200, Owner::User(7));
    assert_eq!(numbers(&user.report(&sample)), [4]);
}

#[test]
fn flood_is_reported_in_part() {
    let recorder: Arc<ActivityRecorder> = Arc::default();
    let mut watcher = watcher(&recorder, ActivityViewer::Admin);
    let mut report = |uptime| {
        (0..1000).for_each(|number| pass(&recorder, number, Owner::Site));
        let report = watcher.report(&sample_at(Duration::from_secs(uptime)));
        (report.passages.len(), report.missed.passages)
    };
    assert_eq!(report(5), (256, 0), "all that are there");
    assert_eq!(report(5), (0, 1000));
    assert_eq!(report(6), (32, 968));
    assert_eq!(report(60), (256, 744));
}

#[test]
fn full_rings_fit_into_one_reply() {
    let recorder: Arc<ActivityRecorder> = Arc::default();
    recorder.set_capacity(65_536);
    let mut watcher = watcher(&recorder, ActivityViewer::Admin);
    (0..65_536).for_each(|number| pass(&recorder, number, Owner::Site));
    let line = watcher.line(&sample()).unwrap();
    assert!(line.len() > 1 << 20, "the rings hold much");
}

#[test]
fn users_get_fewer_reports_than_administrators() {
    let recorder: Arc<ActivityRecorder> = Arc::default();
    let of = |viewer| watcher(&recorder, viewer).interval().as_millis();
    assert_eq!(of(ActivityViewer::Admin), 100);
    assert_eq!(of(ActivityViewer::User(7)), 1000);
}
