//! The signer of a trail against a program in the server's place, and against an independent model.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_audit::{
    AuditEntry, AuditError, AuditSettings, AuditTrail, ChainLink, CommitResult, Keys, SignerError,
    SignerMemory, SignerRules, SignerState, Statement, TrailSigner, TrailSource, serve_signer,
    signer::{
        SealedHeads,
        message::{
            AnchorTrail, ExtendTrail, FromSigner, LIMIT, OpenTrail, PROTOCOL, RunId, SignedSeal,
            SignedStatement, SignerRefusal, ThinTrail, ToSigner, WantedSeals,
        },
    },
    verify,
};
use peal_core::choice::RecordFailurePolicy;
use peal_frames::{MessageStream, encode};
use peal_store::{SealKind, TrailRow};
use proptest::{collection::vec, prelude::*};
use std::{
    fs::File,
    io::Write,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use support::{Place, decide, granted};

type Head = (u64, [u8; 32]);

const START: Head = (0, [0; 32]);
const HOUR: Duration = Duration::from_secs(3600);
/// A time, in milliseconds since the epoch.
const NOW: u64 = 1_800_000_000_000;

fn keys() -> Keys {
    Keys::of(&[7; 32])
}

fn rules() -> SignerRules {
    SignerRules {
        oldest_age: 24 * HOUR,
        passing_age: HOUR,
    }
}

fn signer(remembered: Option<SealedHeads>) -> SignerState {
    SignerState::new(keys(), rules(), remembered)
}

fn open(head: Option<SignedSeal>) -> ToSigner {
    ToSigner::Open(OpenTrail {
        protocol: PROTOCOL,
        head,
        previous_run: None,
    })
}

fn row(seq: u64, at: u64, kind: &str, body: u8) -> TrailRow {
    TrailRow {
        seq,
        at,
        kind: kind.to_owned(),
        module: None,
        job: Some("job".to_owned()),
        uid: Some(1000),
        outcome: None,
        body: vec![body; 10],
        hash: [0; 32],
    }
}

fn link(at: u64, kind: &str, body: u8) -> ChainLink {
    ChainLink::of(&row(0, at, kind, body))
}

fn extend(from: Head, links: &[ChainLink]) -> ToSigner {
    ToSigner::Extend(ExtendTrail {
        from,
        links: links.to_vec(),
        seals: WantedSeals::Head,
    })
}

/// Sends a request and returns the reply, of which there must be one.
#[track_caller]
fn ask(signer: &mut SignerState, request: ToSigner) -> FromSigner {
    signer.handle(request, NOW).unwrap().unwrap()
}

#[track_caller]
fn sealed(signer: &mut SignerState, request: ToSigner) -> SignedSeal {
    match ask(signer, request) {
        FromSigner::Sealed { head, .. } => head,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(signer: &mut SignerState, request: ToSigner) -> SignerRefusal {
    match ask(signer, request) {
        FromSigner::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn head(seal: &SignedSeal) -> Head {
    (seal.seq, seal.hash)
}

fn begun() -> SignerState {
    let mut signer = signer(None);
    let opened = ask(&mut signer, open(None));
    assert!(matches!(opened, FromSigner::Opened(_)), "{opened:?}");
    signer
}

/// A signer with five committed records, and the heads after each of them.
fn with_records() -> (SignerState, Vec<Head>) {
    let mut signer = begun();
    let mut heads = vec![START];
    for body in 0..5 {
        let from = *heads.last().unwrap();
        let seal = sealed(&mut signer, extend(from, &[link(NOW, "call", body)]));
        assert_eq!(signer.handle(ToSigner::Commit(head(&seal)), NOW), Ok(None));
        heads.push(head(&seal));
    }
    (signer, heads)
}

/// Has records sealed one after another. Returns the heads before, between and after them.
fn sealed_one_by_one(signer: &mut SignerState, links: &[ChainLink]) -> Vec<Head> {
    let mut heads = vec![START];
    for next in links {
        let from = *heads.last().unwrap();
        let extended = extend(from, std::slice::from_ref(next));
        heads.push(head(&sealed(signer, extended)));
    }
    heads
}

#[test]
fn changed_history_is_not_signed() {
    let (mut signer, heads) = with_records();
    let next = [link(NOW, "decision", 9)];
    for (number, from) in heads[..5].iter().enumerate() {
        let refusal = refused(&mut signer, extend(*from, &next));
        let wanted = SignerRefusal::NotAtHead {
            found: number as u64,
            head: 5,
        };
        assert_eq!(refusal, wanted);
    }
    // Nor another record in the place of the last one, or one that is said to be further on.
    for from in [(5, [9; 32]), (6, heads[5].1), (u64::MAX, heads[5].1)] {
        let refusal = refused(&mut signer, extend(from, &next));
        assert!(
            matches!(refusal, SignerRefusal::NotAtHead { head: 5, .. }),
            "{refusal:?}"
        );
    }
    let seal = sealed(&mut signer, extend(heads[5], &next));
    assert_eq!(seal.seq, 6);
    let seal = Statement::of(SealKind::Head, seal.into());
    assert!(seal.is_by(&keys().public()));
}

#[test]
fn group_that_was_not_written_is_replaced_until_it_is_committed() {
    let (mut signer, heads) = with_records();
    let first = sealed(&mut signer, extend(heads[5], &[link(NOW, "call", 1)]));
    let second = sealed(&mut signer, extend(heads[5], &[link(NOW, "call", 2)]));
    assert_ne!(first.hash, second.hash);
    // The first one is not the head any more.
    let refusal = refused(&mut signer, extend(head(&first), &[]));
    assert!(matches!(refusal, SignerRefusal::NotAtHead { .. }));
    assert_eq!(
        signer.handle(ToSigner::Commit(head(&second)), NOW),
        Ok(None)
    );
    let refusal = refused(&mut signer, extend(heads[5], &[link(NOW, "call", 3)]));
    assert!(matches!(refusal, SignerRefusal::NotAtHead { .. }));
    // Records that follow it commit it, too.
    let third = sealed(&mut signer, extend(head(&second), &[link(NOW, "call", 3)]));
    sealed(&mut signer, extend(head(&third), &[link(NOW, "call", 4)]));
    let refusal = refused(&mut signer, extend(head(&second), &[link(NOW, "call", 5)]));
    assert!(matches!(refusal, SignerRefusal::NotAtHead { .. }));
}

#[test]
fn next_signer_continues_neither_earlier_head_nor_other_trail() {
    let (mut first, heads) = with_records();
    let early = sealed(&mut first, extend(heads[5], &[link(NOW, "call", 5)]));
    first.handle(ToSigner::Commit(head(&early)), NOW).unwrap();
    let last = sealed(&mut first, extend(head(&early), &[link(NOW, "call", 6)]));
    let remembered = first.heads();
    // What was committed, and what was sealed and may not have been written.
    for seal in [&early, &last] {
        let mut next = signer(remembered);
        let opened = ask(&mut next, open(Some(seal.clone())));
        assert!(matches!(opened, FromSigner::Opened(_)), "{opened:?}");
        sealed(&mut next, extend(head(seal), &[link(NOW, "call", 7)]));
    }
    let mut others = begun();
    let mut other = START;
    for body in 10..20 {
        other = head(&sealed(
            &mut others,
            extend(other, &[link(NOW, "call", body)]),
        ));
    }
    let other = sealed(&mut others, extend(other, &[]));
    let mut older = begun();
    let older = sealed(&mut older, extend(START, &[link(NOW, "call", 0)]));
    assert_eq!(head(&older), heads[1], "an older head of the same trail");
    for (seal, found) in [(None, 0), (Some(older), 1), (Some(other), 10)] {
        let mut next = signer(remembered);
        let wanted = SignerRefusal::OtherHead { found, sealed: 7 };
        assert_eq!(refused(&mut next, open(seal)), wanted);
        // Without a run it signs nothing.
        assert!(next.handle(extend(head(&last), &[]), NOW).is_err());
    }
}

#[test]
fn seals_of_other_keys_and_kinds_begin_no_run() {
    let mut theirs = SignerState::new(Keys::of(&[8; 32]), rules(), None);
    ask(&mut theirs, open(None));
    let foreign = sealed(&mut theirs, extend(START, &[link(NOW, "call", 0)]));
    let (mut own, heads) = with_records();
    let request = ToSigner::Extend(ExtendTrail {
        from: heads[5],
        links: Vec::new(),
        seals: WantedSeals::HeadAndCheckpoint,
    });
    let FromSigner::Sealed {
        head: own_head,
        checkpoint: Some(checkpoint),
    } = ask(&mut own, request)
    else {
        panic!("no checkpoint")
    };
    let moved = SignedSeal {
        seq: own_head.seq + 1,
        ..own_head.clone()
    };
    let later = SignedSeal {
        at: own_head.at + 1,
        ..own_head
    };
    // A checkpoint stands for any record, and must not become the last one.
    for seal in [foreign, checkpoint, moved, later] {
        let seq = seal.seq;
        let refusal = refused(&mut signer(None), open(Some(seal)));
        assert_eq!(refusal, SignerRefusal::ForeignSeal(seq));
    }
}

#[test]
fn records_that_must_stay_are_not_called_dropped() {
    let day = 86_400_000;
    let mut signer = begun();
    let kinds = [
        ("began", NOW - 2 * day),
        ("call", NOW - 2 * day),
        ("decision", NOW - 2 * day),
        ("call", NOW - 7_200_000),
        ("decision", NOW - 7_200_000),
        ("call", NOW - 60_000),
        ("call", NOW),
    ];
    let links: Vec<ChainLink> = kinds.iter().map(|(kind, at)| link(*at, kind, 1)).collect();
    let heads = sealed_one_by_one(&mut signer, &links);
    signer.handle(ToSigner::Commit(heads[7]), NOW).unwrap();
    let anchor = |seq: usize| {
        ToSigner::Anchor(AnchorTrail {
            before: heads[seq - 1],
            link: links[seq - 1].clone(),
        })
    };
    // The oldest go at the age of a day.
    for seq in [1, 2, 3] {
        let FromSigner::Anchored(seal) = ask(&mut signer, anchor(seq)) else {
            panic!("{seq}")
        };
        assert_eq!(head(&seal), heads[seq]);
        let seal = Statement::of(SealKind::Anchor, seal.into());
        assert!(seal.is_by(&keys().public()));
    }
    for seq in [4, 5, 6, 7] {
        let wanted = SignerRefusal::TooYoung { seq: seq as u64 };
        assert_eq!(refused(&mut signer, anchor(seq)), wanted);
    }
    let thin = |from: usize, to: usize, previous: Option<SignedStatement>| {
        ToSigner::Thin(ThinTrail {
            previous,
            before: heads[from - 1],
            links: links[from - 1..to].to_vec(),
        })
    };
    // Calls go at the age of an hour, and decisions between them stay.
    let FromSigner::Thinned { statement, .. } = ask(&mut signer, thin(1, 4, None)) else {
        panic!("not thinned")
    };
    let text = peal_audit::readable(&statement.body).unwrap();
    let runs: Vec<u64> = text["runs"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|run| [run["from"].as_u64().unwrap(), run["to"].as_u64().unwrap()])
        .collect();
    assert_eq!(runs, [2, 2, 4, 4]);
    assert_eq!(text["kinds"].to_string(), r#"{"call":2}"#);
    let wanted = SignerRefusal::TooYoung { seq: 6 };
    assert_eq!(refused(&mut signer, thin(5, 6, Some(statement))), wanted);
    // The last record, and none that does not exist yet.
    let mut old = begun();
    let seal = sealed(&mut old, extend(START, &[link(0, "call", 1)]));
    old.handle(ToSigner::Commit(head(&seal)), NOW).unwrap();
    for before in [START, head(&seal)] {
        let links = vec![link(0, "call", 1)];
        let anchor = AnchorTrail {
            before,
            link: links[0].clone(),
        };
        let thin = ThinTrail {
            previous: None,
            before,
            links,
        };
        for request in [ToSigner::Anchor(anchor), ToSigner::Thin(thin)] {
            let refusal = refused(&mut old, request);
            assert!(
                matches!(refusal, SignerRefusal::NotBeforeHead { head: 1, .. }),
                "{refusal:?}"
            );
        }
    }
}

#[test]
fn decision_called_a_call_leads_to_no_record_of_the_trail() {
    let mut signer = begun();
    let links = [
        link(0, "decision", 1),
        link(0, "decision", 2),
        link(0, "decision", 3),
    ];
    let heads = sealed_one_by_one(&mut signer, &links);
    signer.handle(ToSigner::Commit(heads[3]), NOW).unwrap();
    let lie = ChainLink {
        kind: "call".to_owned(),
        ..links[1].clone()
    };
    let request = ToSigner::Thin(ThinTrail {
        previous: None,
        before: heads[1],
        links: vec![lie],
    });
    let FromSigner::Thinned { statement, .. } = ask(&mut signer, request) else {
        panic!("not thinned")
    };
    let text = peal_audit::readable(&statement.body).unwrap();
    let hash: peal_sandbox::Digest = text["runs"][0]["hash"].as_str().unwrap().parse().unwrap();
    assert_ne!(
        hash.0, heads[2].1,
        "`verify` finds that record 3 does not follow"
    );
}

/// A signer that another thread serves, and the server's end.
fn served(memory: &File) -> (MessageStream, UnixStream, JoinHandle<bool>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut memory = SignerMemory::new(memory.try_clone().unwrap());
    let remembered = memory.read().unwrap();
    let thread = thread::spawn(move || serve_signer(theirs, signer(remembered), memory).is_ok());
    let raw = ours.try_clone().unwrap();
    (MessageStream::new(ours, LIMIT), raw, thread)
}

#[test]
fn messages_that_no_server_sends_end_the_signer() {
    let whole = |message: &ToSigner| encode(message, LIMIT).unwrap();
    let begin = whole(&open(None));
    let early = whole(&extend(START, &[link(NOW, "call", 0)]));
    let commit = whole(&ToSigner::Commit((1, [1; 32])));
    let cut = &early[..early.len() - 1];
    let cases: [(&str, Vec<Vec<u8>>); 8] = [
        ("no frame", vec![vec![0xff; 64]]),
        ("no message", vec![vec![4, 0, 0, 0, 1, 2, 3, 4]]),
        (
            "too long",
            vec![(LIMIT.0 as u32 + 1).to_le_bytes().to_vec()],
        ),
        ("early", vec![early.clone()]),
        ("commit first", vec![commit.clone()]),
        ("begun twice", vec![begin.clone(), begin.clone()]),
        ("cut off", vec![begin.clone(), cut.to_vec()]),
        ("commit of nothing sealed", vec![begin.clone(), commit]),
    ];
    for (name, messages) in cases {
        let memory = tempfile::tempfile().unwrap();
        let (_stream, mut raw, thread) = served(&memory);
        for message in messages {
            // It may have ended by then.
            let _ = raw.write_all(&message);
        }
        let _ = raw.shutdown(Shutdown::Write);
        assert!(!thread.join().unwrap(), "{name}");
    }
    let memory = tempfile::tempfile().unwrap();
    let (mut stream, raw, thread) = served(&memory);
    stream.send(&open(None)).unwrap();
    stream.next_message::<FromSigner>().unwrap().unwrap();
    // A request that comes again after the connection was lost is refused, not signed twice.
    for is_signed in [true, true, false] {
        let from = if is_signed { START } else { (9, [9; 32]) };
        stream.send(&extend(from, &[link(NOW, "call", 0)])).unwrap();
        let reply: FromSigner = stream.next_message().unwrap().unwrap();
        assert_eq!(matches!(reply, FromSigner::Sealed { .. }), is_signed);
    }
    raw.shutdown(Shutdown::Both).unwrap();
    assert!(thread.join().unwrap(), "the end of the stream is no fault");
}

#[test]
fn killed_signer_leaves_its_memory_to_the_next() {
    let memory = tempfile::tempfile().unwrap();
    let (mut stream, raw, thread) = served(&memory);
    stream.send(&open(None)).unwrap();
    let _: FromSigner = stream.next_message().unwrap().unwrap();
    stream
        .send(&extend(
            START,
            &[link(NOW, "call", 0), link(NOW, "call", 1)],
        ))
        .unwrap();
    let FromSigner::Sealed { head: first, .. } = stream.next_message().unwrap().unwrap() else {
        panic!("not sealed")
    };
    stream
        .send(&extend(head(&first), &[link(NOW, "call", 2)]))
        .unwrap();
    let FromSigner::Sealed { head: second, .. } = stream.next_message().unwrap().unwrap() else {
        panic!("not sealed")
    };
    raw.shutdown(Shutdown::Both).unwrap();
    thread.join().unwrap();
    let heads = SignerMemory::new(memory.try_clone().unwrap())
        .read()
        .unwrap();
    let wanted = SealedHeads {
        committed: head(&first),
        sealed: head(&second),
    };
    assert_eq!(heads, Some(wanted));
    for (seal, is_opened) in [(None, false), (Some(first), true)] {
        let (mut stream, raw, thread) = served(&memory);
        stream.send(&open(seal)).unwrap();
        let reply: FromSigner = stream.next_message().unwrap().unwrap();
        assert_eq!(
            matches!(reply, FromSigner::Opened(_)),
            is_opened,
            "{reply:?}"
        );
        raw.shutdown(Shutdown::Both).unwrap();
        thread.join().unwrap();
    }
    let mut other = tempfile::tempfile().unwrap();
    other.write_all(b"something else").unwrap();
    SignerMemory::new(other).read().unwrap_err();
}

#[derive(Clone, Debug)]
enum Step {
    /// Records after the head, the last committed head, or another one.
    Extend(u8, Vec<(u8, u8)>),
    Commit,
    /// The signer is lost, and the next one opens the head with this number.
    Lost(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let links = vec((0..3_u8, any::<u8>()), 0..4);
    let step = prop_oneof![
        4 => (0..4_u8, links).prop_map(|(from, links)| Step::Extend(from, links)),
        2 => Just(Step::Commit),
        1 => any::<prop::sample::Index>().prop_map(Step::Lost),
    ];
    vec(step, 1..40)
}

/// Records before a head, each by its kind and body, and the seal of the head.
type SealedRecords = (Vec<(u8, u8)>, Option<SignedSeal>);

/// Model: all records that were ever sealed in a list, of which only the last group may go.
#[derive(Default)]
struct Model {
    records: Vec<(u8, u8)>,
    committed: usize,
}

proptest! {
    #[test]
    fn signer_agrees_with_list_that_only_grows(steps in steps()) {
        const KINDS: [&str; 3] = ["call", "decision", "gap"];
        // All heads by the records before them, and their seals.
        let mut seals: Vec<SealedRecords> = vec![(Vec::new(), None)];
        let mut model = Model::default();
        let mut state = begun();
        let head_of = |seals: &[SealedRecords], records: &[(u8, u8)]| {
            let found = seals.iter().find(|(sealed, _)| sealed == records).unwrap();
            found.1.as_ref().map_or(START, head)
        };
        for step in steps {
            match step {
                Step::Extend(from, links) => {
                    let base = match from {
                        0 | 1 => model.records.clone(),
                        2 => model.records[..model.committed].to_vec(),
                        // Any other head that was ever sealed.
                        _ => seals[usize::from(from) % seals.len()].0.clone(),
                    };
                    let may = base == model.records || base == model.records[..model.committed];
                    let from = head_of(&seals, &base);
                    let wanted: Vec<ChainLink> = links
                        .iter()
                        .map(|(kind, body)| link(NOW, KINDS[usize::from(*kind)], *body))
                        .collect();
                    match ask(&mut state, extend(from, &wanted)) {
                        FromSigner::Sealed { head: seal, .. } => {
                            prop_assert!(may, "an earlier head is extended");
                            model.committed = base.len();
                            model.records = [base, links].concat();
                            prop_assert_eq!(seal.seq, model.records.len() as u64);
                            if !seals.iter().any(|(records, _)| *records == model.records) {
                                seals.push((model.records.clone(), Some(seal)));
                            }
                        }
                        FromSigner::Refused(SignerRefusal::NotAtHead { .. }) => {
                            prop_assert!(!may, "the head is not extended");
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                Step::Commit => {
                    let last = head_of(&seals, &model.records);
                    prop_assert_eq!(state.handle(ToSigner::Commit(last), NOW), Ok(None));
                    model.committed = model.records.len();
                }
                Step::Lost(at) => {
                    let (records, seal) = at.get(&seals).clone();
                    let may = records == model.records
                        || records == model.records[..model.committed];
                    let mut next = signer(state.heads());
                    let opened = ask(&mut next, open(seal));
                    prop_assert_eq!(matches!(opened, FromSigner::Opened(_)), may);
                    if may {
                        model.records = records;
                        model.committed = model.records.len();
                        state = next;
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_runs_are_read_back(id in any::<[u8; 16]>(), text in ".{0,40}") {
        prop_assert_eq!(RunId(id).to_string().parse(), Ok(RunId(id)));
        if let Ok(id) = text.parse::<RunId>() {
            prop_assert_eq!(id.to_string(), text.to_lowercase());
        }
    }
}

/// Signers as a supervised server has them, of which the present one can be ended.
struct Signers {
    memory: File,
    key: Keys,
    current: Mutex<Option<UnixStream>>,
    started: AtomicUsize,
    most: AtomicUsize,
}

impl Signers {
    fn new() -> Arc<Signers> {
        Arc::new(Signers {
            memory: tempfile::tempfile().unwrap(),
            key: keys(),
            current: Mutex::default(),
            started: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
        })
    }

    fn signer(self: &Arc<Signers>) -> TrailSigner {
        let signers = self.clone();
        TrailSigner::process(move || {
            let number = signers.started.fetch_add(1, Ordering::SeqCst);
            if number >= signers.most.load(Ordering::SeqCst) {
                return Err(std::io::Error::other("no more signers"));
            }
            let (ours, theirs) = UnixStream::pair()?;
            *signers.current.lock().unwrap() = Some(theirs.try_clone()?);
            let mut memory = SignerMemory::new(signers.memory.try_clone()?);
            let state = SignerState::new(keys(), rules(), memory.read()?);
            thread::spawn(move || drop(serve_signer(theirs, state, memory)));
            Ok(ours)
        })
    }

    fn kill(&self) {
        let current = self.current.lock().unwrap().take().unwrap();
        current.shutdown(Shutdown::Both).unwrap();
    }

    /// Lets no other signer start.
    fn stop(&self) {
        self.most.store(0, Ordering::SeqCst);
    }
}

fn settings(place: &Place, signers: &Arc<Signers>, policy: RecordFailurePolicy) -> AuditSettings {
    AuditSettings {
        signer: signers.signer(),
        on_failure: policy,
        ..place.settings()
    }
}

fn is_whole(place: &Place, signers: &Signers) -> u64 {
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let found = verify(&source, &signers.key.public(), &[]).unwrap();
    assert_eq!(found.findings, []);
    found.last.unwrap()
}

#[test]
fn lost_signer_is_replaced_and_no_record_is_missing() {
    let place = Place::new();
    let signers = Signers::new();
    let audit = AuditTrail::open(settings(&place, &signers, RecordFailurePolicy::Deny)).unwrap();
    for number in 0..40 {
        assert_eq!(decide(&audit, number, &granted()), CommitResult::Yes);
        if number % 10 == 3 {
            signers.kill();
        }
    }
    drop(audit);
    assert!(signers.started.load(Ordering::SeqCst) > 1);
    is_whole(&place, &signers);
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let rows = source.last(&peal_store::Filter::default(), 1000).unwrap();
    let decided = rows.iter().filter(|row| row.kind == "decision").count();
    assert_eq!(decided, 40);
}

#[test]
fn trail_without_a_signer_denies_or_continues_as_configured() {
    for (policy, wanted) in [
        (RecordFailurePolicy::Deny, CommitResult::No),
        (RecordFailurePolicy::Continue, CommitResult::Yes),
    ] {
        let place = Place::new();
        let signers = Signers::new();
        let audit = AuditTrail::open(settings(&place, &signers, policy)).unwrap();
        assert_eq!(decide(&audit, 0, &granted()), CommitResult::Yes);
        signers.stop();
        signers.kill();
        // The journal takes some until it is to be moved.
        let number = (1..100_000)
            .find(|number| {
                decide(&audit, *number, &granted());
                audit.failure().is_some()
            })
            .unwrap();
        let failure = audit.failure().unwrap().to_string();
        assert!(failure.contains("no more signers"), "{failure}");
        assert_eq!(decide(&audit, number + 1, &granted()), wanted);
        let before = audit.health().undone;
        assert!(before > 0);
        drop(audit);
        // Nothing is in the trail that was not sealed.
        is_whole(&place, &signers);
    }
}

#[test]
fn trail_that_was_cut_back_is_refused_by_signers_memory() {
    let place = Place::new();
    let signers = Signers::new();
    let trail = |name: &str| place.path(name);
    let open = || AuditTrail::open(settings(&place, &signers, RecordFailurePolicy::Deny));
    let audit = open().unwrap();
    assert_eq!(decide(&audit, 0, &granted()), CommitResult::Yes);
    drop(audit);
    std::fs::copy(trail("audit.db"), trail("copy")).unwrap();
    let audit = open().unwrap();
    assert_eq!(decide(&audit, 1, &granted()), CommitResult::Yes);
    drop(audit);
    for name in ["audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(trail(name));
    }
    std::fs::copy(trail("copy"), trail("audit.db")).unwrap();
    let error = open().err().unwrap();
    assert!(
        matches!(
            &error,
            AuditError::Signer(SignerError::Refused(SignerRefusal::OtherHead { .. }))
        ),
        "{error}"
    );
    assert!(error.to_string().contains("is not continued"), "{error}");
}

#[test]
fn record_of_a_run_names_neither_its_key_nor_that_of_seals() {
    let place = Place::new();
    drop(place.audit());
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let row = source.row(1).unwrap().unwrap();
    let AuditEntry::Began { run: Some(run), .. } = AuditEntry::read(&row.body).unwrap() else {
        panic!("no run")
    };
    assert!(run.parse::<RunId>().is_ok(), "{run}");
    let opened = ask(&mut signer(None), open(None));
    let FromSigner::Opened(opened) = opened else {
        panic!("{opened:?}")
    };
    assert_ne!(opened.journal, opened.previous_journal);
    assert!(!format!("{opened:?}").contains("KeyBytes(["), "{opened:?}");
}
