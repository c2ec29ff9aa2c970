//! Bursts of lost connections become one event.
use super::*;
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);

/// A server with a job of that many procs, all connected, and the rank and kind of each proc of another job.
fn stage(size: u32) -> Stage {
    let mut stage = Stage::of(size);
    stage.server.settings.connection_loss_window = WINDOW;
    stage
}

/// The procs that each event about a lost connection names.
fn told(actions: &[Action]) -> Vec<Vec<u32>> {
    let named = |action: &Action| match action {
        Action::Chain { event, .. } if event.code == code::PMIX_ERR_LOST_CONNECTION => {
            assert_eq!(event.source.is_some(), event.affected().len() == 1);
            Some(event.affected().iter().map(|proc| proc.rank.0).collect())
        }
        _ => None,
    };
    actions.iter().filter_map(named).collect()
}

fn lose(stage: &mut Stage, rank: usize, at: u64) -> Vec<Action> {
    stage
        .server
        .disconnected(stage.peers[rank], MonotonicTime(at))
}

#[test]
fn losses_within_a_window_are_reported_together() {
    let mut stage = stage(4);
    let hosts = [(0, 1000), (1, 1050), (2, 1099)].map(|(rank, at)| lose(&mut stage, rank, at));
    for actions in &hosts {
        assert!(told(actions).is_empty());
        assert!(
            actions
                .iter()
                .any(|action| matches!(action, Action::Upcall(Upcall::ClientLost(_)))),
            "at once"
        );
    }
    assert_eq!(stage.server.deadline(), Some(MonotonicTime(1100)));
    assert!(told(&stage.server.tick(MonotonicTime(1099))).is_empty());
    assert_eq!(told(&stage.server.tick(MonotonicTime(1100))), [[0, 1, 2]]);
    assert_eq!(stage.server.deadline(), None);
    lose(&mut stage, 3, 2000);
    assert_eq!(told(&stage.server.tick(MonotonicTime(2100))), [[3]]);
}

#[test]
fn each_job_gets_its_own_losses_before_it_ends() {
    let mut stage = stage(2);
    let other = Nspace::new("other").unwrap();
    let uid = WHO.uid;
    let gid = WHO.gid;
    stage.server.add_job(JobSpec::new(
        other.clone(),
        1,
        "node",
        UserIdentity { uid, gid },
    ));
    let (peer, _) = stage
        .server
        .admit(&Proc::new(other.clone(), Rank(0)), WHO)
        .unwrap();
    lose(&mut stage, 0, 0);
    lose(&mut stage, 1, 0);
    stage.server.disconnected(peer, MonotonicTime(0));
    assert_eq!(told(&stage.server.report_losses_of(&other)), [[0]]);
    assert!(told(&stage.server.remove_job(&other)).is_empty());
    assert_eq!(told(&stage.server.report_losses()), [[0, 1]]);
    assert_eq!(stage.server.deadline(), None);
}

#[test]
fn many_losses_come_in_events_of_bounded_size() {
    let mut stage = stage(1500);
    (0..1500).for_each(|rank| drop(lose(&mut stage, rank, 0)));
    let sizes: Vec<usize> = told(&stage.server.tick(MonotonicTime(100)))
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(sizes, [1024, 476]);
}
