//! Connections that wait for policies.
use super::*;
use crate::server::{Entrance, gate::DecisionId};
use peal_model::{ConnectionKind, Peer as PeerInfo};

fn knock(server: &mut Server, uid: u32) -> Entrance {
    let (peer, name) = (
        PeerInfo {
            pid: None,
            release: "4.2.2".into(),
        },
        Proc::new(nspace(), Rank(0)),
    );
    let identity = Identity { uid, gid: uid };
    server.entrance(
        ConnectionKind::Tool,
        &name,
        (identity, Arc::default()),
        (peer, Vec::new()),
    )
}

fn asked(entrance: Entrance) -> Option<DecisionId> {
    match entrance {
        Entrance::Ask(id, _) => Some(id),
        _ => None,
    }
}

#[test]
fn connections_of_one_user_leave_room_for_those_of_others() {
    let mut server = Server::new(Settings {
        max_decisions: 4,
        ..Settings::default()
    });
    server.guard(WHO, [Hook::Connection]);
    let first = asked(knock(&mut server, 7)).unwrap();
    assert!(asked(knock(&mut server, 7)).is_some());
    let Entrance::Shut(denial) = knock(&mut server, 7) else {
        panic!("a third connection of four waits")
    };
    assert_eq!(denial.status, code::PMIX_ERR_OUT_OF_RESOURCE);
    assert!(asked(knock(&mut server, 8)).is_some());
    assert_eq!(server.counts().decisions_awaited, 3);
    server.entrance_decided(first);
    assert!(
        asked(knock(&mut server, 7)).is_some(),
        "there is room again"
    );
}
