//! Membership from records: whole, and as a network keeps them that has only the last of each writer.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]
use peal_cluster::{
    JoiningServer, Membership, MembershipChange, MembershipRecord, ProtocolVersion, RecordPosition,
    RecordRefusal, ServerKind,
};
use peal_core::group::ServerId;
use peal_frames::{FrameLimit, named_bytes, of_named_bytes};
use peal_model::NodeName;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn node(number: usize) -> NodeName {
    format!("node-{number}").parse().unwrap()
}

fn joining() -> MembershipRecord {
    MembershipRecord::Joined(JoiningServer {
        major: ProtocolVersion::CURRENT.major,
        minor: ProtocolVersion::CURRENT.minor,
        software: "test".to_owned(),
        kind: ServerKind::Node,
        run: 7,
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Join(usize),
    Leave(usize),
    /// A node declares the server of another one gone.
    Judge(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..5_usize).prop_map(Step::Join),
        1 => (0..5_usize).prop_map(Step::Leave),
        3 => (0..5_usize, 0..5_usize).prop_map(|(by, of)| Step::Judge(by, of)),
    ]
}

/// Subject of a record: that of a node's joins and leaves, or of its verdicts.
type Subject = (NodeName, bool);

/// The last record of each subject, with its position.
type LastRecords = BTreeMap<Subject, (RecordPosition, MembershipRecord)>;

fn members(membership: &Membership) -> Vec<(ServerId, NodeName)> {
    let members = membership.members();
    members
        .map(|(id, member)| (id, member.node.clone()))
        .collect()
}

proptest! {
    #[test]
    fn last_records_give_the_same_members(steps in prop::collection::vec(step(), 1..60)) {
        let mut membership = Membership::new();
        let mut last: LastRecords = BTreeMap::new();
        // A model: the server of each node.
        let mut model: BTreeMap<NodeName, ServerId> = BTreeMap::new();
        for (at, step) in (1..).zip(steps) {
            let (writer, record) = match step {
                Step::Join(number) => {
                    model.insert(node(number), ServerId(at));
                    (node(number), joining())
                }
                Step::Leave(number) => {
                    model.remove(&node(number));
                    (node(number), MembershipRecord::Left)
                }
                Step::Judge(by, of) => {
                    let servers: Vec<ServerId> = model.remove(&node(of)).into_iter().collect();
                    (node(by), membership.verdict(&node(by), &servers))
                }
            };
            let is_verdict = matches!(record, MembershipRecord::Gone(_));
            let position = RecordPosition(at.into());
            membership.apply(position, writer.clone(), record.clone()).unwrap();
            last.insert((writer, is_verdict), (position, record));

            let mut kept: Vec<(RecordPosition, NodeName, MembershipRecord)> = last
                .iter()
                .map(|((writer, _), (at, record))| (*at, writer.clone(), record.clone()))
                .collect();
            kept.sort_by_key(|(at, _, _)| *at);
            let mut read = Membership::new();
            for (at, writer, record) in kept {
                read.apply(at, writer, record).unwrap();
            }
            let model: BTreeSet<(ServerId, NodeName)> =
                model.iter().map(|(node, id)| (*id, node.clone())).collect();
            prop_assert_eq!(members(&membership), model.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(members(&read), members(&membership));
        }
    }
}

#[test]
fn server_that_joins_again_takes_the_place_of_its_former_run() {
    let mut membership = Membership::new();
    let join = |membership: &mut Membership, at| {
        membership
            .apply(RecordPosition(at), node(1), joining())
            .unwrap()
    };
    join(&mut membership, 3);
    let changes = join(&mut membership, 9);
    assert!(matches!(
        changes.as_slice(),
        [
            MembershipChange::Left {
                id: ServerId(3),
                ..
            },
            MembershipChange::Joined { id: ServerId(9) }
        ]
    ));
    assert_eq!(membership.server_of(&node(1)), Some(ServerId(9)));
    assert_eq!(membership.members().count(), 1);
}

#[test]
fn verdict_repeats_those_that_count_alone() {
    let mut membership = Membership::new();
    let join = |membership: &mut Membership, at, number| {
        let at = RecordPosition(at);
        membership.apply(at, node(number), joining()).unwrap();
    };
    (1..=4).for_each(|number| join(&mut membership, number as u64, number));
    let gone =
        |servers: &[u32]| MembershipRecord::Gone(servers.iter().copied().map(ServerId).collect());
    let first = membership.verdict(&node(1), &[ServerId(2), ServerId(3)]);
    assert_eq!(first, gone(&[2, 3]));
    membership.apply(RecordPosition(5), node(1), first).unwrap();
    join(&mut membership, 6, 2);
    assert_eq!(membership.verdict(&node(1), &[ServerId(4)]), gone(&[3, 4]));
    // The verdicts of others are theirs.
    assert_eq!(membership.verdict(&node(4), &[]), gone(&[]));
}

#[test]
fn repeated_join_is_news_to_those_that_missed_it() {
    let MembershipRecord::Joined(server) = joining() else {
        panic!("a joining server joins");
    };
    let repeated = |id: u32| MembershipRecord::Repeated {
        id: ServerId(id),
        server: server.clone(),
    };
    let gone = |id: u32| MembershipRecord::Gone([ServerId(id)].into());
    let apply = |membership: &mut Membership, at, number, record| {
        membership.apply(RecordPosition(at), node(number), record)
    };
    let joined = vec![MembershipChange::Joined { id: ServerId(3) }];
    // Seen: no change, also after a verdict that was on its way.
    let mut full = Membership::new();
    apply(&mut full, 3, 1, joining()).unwrap();
    assert_eq!(apply(&mut full, 4, 1, repeated(3)).unwrap(), []);
    assert_eq!(apply(&mut full, 5, 2, gone(3)).unwrap().len(), 1);
    assert_eq!(apply(&mut full, 6, 1, repeated(3)).unwrap(), []);
    assert_eq!(full.members().count(), 0);
    // Seen, and so was that it left.
    let mut left = Membership::new();
    apply(&mut left, 3, 1, joining()).unwrap();
    apply(&mut left, 4, 1, MembershipRecord::Left).unwrap();
    assert_eq!(apply(&mut left, 5, 1, repeated(3)).unwrap(), []);
    assert_eq!(left.members().count(), 0);
    // Missed, but for the verdict.
    let mut late = Membership::new();
    assert_eq!(apply(&mut late, 5, 2, gone(3)).unwrap(), []);
    assert_eq!(apply(&mut late, 6, 1, repeated(3)).unwrap(), []);
    assert_eq!(late.verdict(&node(2), &[]), gone(3));
    // Missed: the server is there.
    let mut late = Membership::new();
    assert_eq!(apply(&mut late, 6, 1, repeated(3)).unwrap(), joined);
    assert_eq!(late.server_of(&node(1)), Some(ServerId(3)));
    // A node repeats no join of another one, and none that has not been.
    for (at, number, id) in [(7, 2, 3), (8, 2, 8)] {
        let refusal = apply(&mut late, at, number, repeated(id)).unwrap_err();
        assert!(
            matches!(refusal, RecordRefusal::Repeated { .. }),
            "{refusal}"
        );
    }
    // That of its former server may have been on its way when it joined again.
    assert_eq!(apply(&mut late, 9, 1, repeated(2)).unwrap(), []);
    assert_eq!(late.server_of(&node(1)), Some(ServerId(3)));
}

#[test]
fn records_that_may_not_be_applied_are_refused() {
    let mut membership = Membership::new();
    let mut apply = |at, number, record| membership.apply(RecordPosition(at), node(number), record);
    apply(5, 1, joining()).unwrap();
    for at in [4, 5] {
        let refusal = apply(at, 2, joining()).unwrap_err();
        assert!(matches!(refusal, RecordRefusal::Late { .. }), "{refusal}");
    }
    let huge = u64::from(u32::MAX) + 1;
    let refusal = apply(huge, 2, joining()).unwrap_err();
    assert!(matches!(refusal, RecordRefusal::Number { .. }), "{refusal}");
    // One may leave twice.
    assert_eq!(apply(huge + 1, 1, MembershipRecord::Left).unwrap().len(), 1);
    assert_eq!(apply(huge + 2, 1, MembershipRecord::Left).unwrap(), []);
}

#[test]
fn wrong_names_of_nodes_are_refused_when_decoded() {
    let limit = FrameLimit(1000);
    let decoded = |name: &str| {
        let bytes = named_bytes(Vec::new(), &name, limit).unwrap();
        of_named_bytes::<NodeName>(&bytes, limit)
    };
    for name in ["n", "node-1_a", &"x".repeat(63)] {
        assert_eq!(decoded(name).unwrap().as_str(), name);
    }
    for name in ["", "a.b", "a*", ">", "a b", "n\u{e4}", &"x".repeat(64)] {
        let error = decoded(name).unwrap_err().to_string();
        assert!(error.contains("is no name of a node"), "{error}");
    }
}
