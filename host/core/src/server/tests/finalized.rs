//! Procs that have finalized and may initialize again.
use super::*;

#[test]
fn fence_waits_for_finalized_proc_until_its_process_ends() {
    let mut stage = Stage::of(2);
    // One that initializes again takes part, whether it had left before the fence began or while it waited.
    for finalizes_first in [true, false] {
        let waits = |stage: &mut Stage| assert!(stage.fence(0, Vec::new()).1.is_empty());
        if !finalizes_first {
            waits(&mut stage);
        }
        let left = stage.ask(1, Request::Finalize).1;
        assert_eq!(statuses(&left), []);
        if finalizes_first {
            waits(&mut stage);
        }
        assert_eq!(
            stage.server.disconnected(stage.peers[1], MonotonicTime(0)),
            []
        );
        stage.peers[1] = stage.server.admit(&proc(1), WHO).unwrap().0;
        let (_, answers) = stage.fence(1, Vec::new());
        assert_eq!(
            statuses(&answers)
                .iter()
                .map(|answer| answer.1)
                .collect::<Vec<_>>(),
            [code::PMIX_SUCCESS; 2]
        );
    }
    // One whose process ends instead is missed, and by later fences, too.
    stage.ask(1, Request::Finalize);
    assert!(stage.fence(0, Vec::new()).1.is_empty());
    let ended = stage.server.proc_ended(&proc(1), None, MonotonicTime(0));
    assert_eq!(stage.server.life(&proc(1)), Some(ProcPhase::Terminated));
    let later = stage.fence(0, Vec::new()).1;
    for actions in [ended, later] {
        let answers = statuses(&actions);
        assert!(!answers.is_empty());
        let is_partial = |(_, status)| status == code::PMIX_ERR_PARTIAL_SUCCESS;
        assert!(answers.into_iter().all(is_partial));
    }
}
