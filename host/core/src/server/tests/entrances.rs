//! Connections that wait for policies.
use super::*;
use crate::server::{AdmissionCheck, policy_gate::DecisionId};
use peal_model::{ConnectionKind, PeerInfo};

fn request_admission(server: &mut ServerState, uid: u32) -> AdmissionCheck {
    let peer = PeerInfo {
        pid: None,
        release: "4.2.2".into(),
    };
    let name = Proc::new(nspace(), Rank(0));
    let identity = UserIdentity { uid, gid: uid };
    server.check_admission(
        ConnectionKind::Tool,
        &name,
        (identity, Arc::default()),
        (peer, Vec::new()),
    )
}

fn asked(entrance: AdmissionCheck) -> Option<DecisionId> {
    match entrance {
        AdmissionCheck::Undecided(id, _) => Some(id),
        _ => None,
    }
}

#[test]
fn connections_of_one_user_leave_room_for_those_of_others() {
    let mut server = ServerState::new(StateSettings {
        decisions: decisions(4),
        ..StateSettings::default()
    });
    server.guard(WHO, [Hook::Connection]);
    let first = asked(request_admission(&mut server, 7)).unwrap();
    assert!(asked(request_admission(&mut server, 7)).is_some());
    let AdmissionCheck::Denied(denial) = request_admission(&mut server, 7) else {
        panic!("a third connection of four waits")
    };
    assert_eq!(denial.status, code::PMIX_ERR_OUT_OF_RESOURCE);
    assert!(asked(request_admission(&mut server, 8)).is_some());
    assert_eq!(server.counts().decisions_awaited, 3);
    server.entrance_decided(first);
    assert!(
        asked(request_admission(&mut server, 7)).is_some(),
        "there is room again"
    );
}
