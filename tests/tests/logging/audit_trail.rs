//! A running server's audit trail: its entries, the output of `peal audit`, and the state after a
//! sudden end.
use peal_audit::{AuditEntry, DecisionKind, GapReason, TrailSource, verify};
use peal_client::Client;
use peal_model::{Info, KeyName, Range, Status, Value, key};
use peal_needs::needs;
use peal_store::Filter;
use peal_tests::{
    daemon::{Place, put},
    guest,
    in_process::soon,
    rng::SplitMix64,
    run,
};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const NEWS: Status = Status(-3101);
const NUMBER: KeyName = KeyName("test.number");
const SECRET: &str = "correct horse battery staple";

/// Configures a policy for events, and a handler.
fn configure(place: &Place) {
    let dir = place.path("").display().to_string();
    let policy = guest("same-user").display().to_string();
    let handler = guest("echo").display().to_string();
    place.configure(&format!(
        "[audit]\npath = \"{dir}audit.db\"\non_failure = \"deny\"\ncheckpoint_file = \"{dir}checkpoints\"\n\
         [store]\npath = \"{dir}store.db\"\n\
         [[module]]\nname = \"same-user\"\npath = \"{policy}\"\n\
         [[module]]\nname = \"echo\"\npath = \"{handler}\"\ncodes = [-3101]\n"
    ));
}

fn entries(place: &Place) -> Vec<AuditEntry> {
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let rows = source.last(&Filter::default(), u32::MAX).unwrap();
    rows.iter()
        .map(|row| AuditEntry::read(&row.body).unwrap())
        .collect()
}

async fn raise(client: &Client, number: u64) -> bool {
    let infos = vec![
        Info::new(NUMBER, Value::Uint64(number)),
        Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET)),
    ];
    client.notify(NEWS, Range::Namespace, infos).await.is_ok()
}

/// Returns the numbers of the granted events.
fn granted(entries: &[AuditEntry]) -> BTreeSet<u64> {
    let number = |entry: &AuditEntry| {
        let AuditEntry::Decision(decision) = entry else {
            return None;
        };
        let info = decision
            .request
            .subject
            .infos()
            .iter()
            .find(|info| info.key == NUMBER)?;
        (decision.verdict == DecisionKind::Granted).then(|| info.value.as_u64())?
    };
    entries.iter().filter_map(number).collect()
}

fn verified(place: &Place) -> peal_audit::Verified {
    let key = std::fs::read_to_string(place.path("audit.db.key.pub"))
        .unwrap()
        .parse()
        .unwrap();
    let text = std::fs::read_to_string(place.path("checkpoints")).unwrap();
    let elsewhere: Vec<_> = text.lines().map(|line| line.parse().unwrap()).collect();
    verify(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &key,
        &elsewhere,
    )
    .unwrap()
}

#[needs(prepared)]
#[tokio::test]
async fn trail_of_server_is_listed_verified_and_replayed() {
    let place = Place::new();
    configure(&place);
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let client = server.client("job", 0).await;
    for number in 0..20 {
        assert!(raise(&client, number).await);
    }
    // One of these module sets is refused, the other is not.
    let config = std::fs::read_to_string(place.path("peal.toml")).unwrap();
    place.configure(&format!(
        "{config}\n[[module]]\nname = \"none\"\npath = \"none.wasm\"\n"
    ));
    server.ask(&["module", "reload"]);
    place.configure(&config.replace("codes = [-3101]", "codes = [-3102]"));
    server.tell(&["module", "reload"]);
    drop(client);
    server.tell(&["stop", "--wait"]);
    server.ends();
    let found = entries(&place);
    assert_eq!(granted(&found).len(), 20);
    assert!(
        found
            .iter()
            .any(|entry| matches!(entry, AuditEntry::Refused { reasons } if reasons.join(" ").contains("none.wasm")))
    );
    assert!(found.iter().any(
        |entry| matches!(entry, AuditEntry::Deployed { cause, .. } if cause == "configuration")
    ));
    assert!(
        matches!(
            (&found[0], found.last()),
            (AuditEntry::Began { .. }, Some(AuditEntry::Ended))
        ),
        "{found:?}"
    );
    for name in ["audit.db", "audit.db-wal", "checkpoints"] {
        let bytes = std::fs::read(place.path(name)).unwrap_or_default();
        assert!(
            !bytes
                .windows(SECRET.len())
                .any(|window| window == SECRET.as_bytes()),
            "{name} has a secret"
        );
    }
    let config = place.path("peal.toml").display().to_string();
    let audit = |args: &[&str]| {
        run(peal_tests::peal(["audit"])
            .args(args)
            .args(["--config", &config]))
    };
    let list = audit(&["list", "--kind", "decision", "--job", "job", "-n", "0"])
        .expect_status(0)
        .stdout;
    assert!(
        list.lines().count() >= 20
            && list.contains("  event -3101")
            && list.contains("  policy \"same-user\"  "),
        "{list}"
    );
    let seq = list
        .lines()
        .last()
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    let shown = audit(&["show", seq, "-o", "json"]).expect_status(0).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["entry"]["Decision"]["hook"], "event");
    assert_eq!(
        shown["entry"]["Decision"]["request"]["requester"]["nspace"],
        "job"
    );
    let said = audit(&["show", "999999"]);
    assert!(said.stderr.contains("the last one is"), "{}", said.stderr);
    assert!(
        audit(&["verify"])
            .expect_status(0)
            .stdout
            .contains("as it was written")
    );
    let replay = audit(&["replay"]).expect_status(0).stdout;
    assert!(replay.contains(" 0 differ"), "{replay}");
    assert!(
        audit(&["stats"])
            .expect_status(0)
            .stdout
            .contains("same-user: pass")
    );
    // The whole trail is exported and read elsewhere, without a server or a configuration.
    let exported = place.path("trail.jsonl").display().to_string();
    audit(&["export", "--file", &exported]).expect_status(0);
    audit(&["export", "--file", &exported]).expect_status(125);
    let key = place.path("audit.db.key.pub").display().to_string();
    let elsewhere = |args: &[&str]| {
        run(peal_tests::peal(["audit"])
            .args(args)
            .args(["--from", &exported]))
    };
    elsewhere(&["verify", "--key", &key]).expect_status(0);
    elsewhere(&["replay", "--module", "same-user"]).expect_status(0);
    let other = guest("trap-policy").display().to_string();
    let differs = elsewhere(&["replay", "--module", "same-user", "--with", &other])
        .expect_status(1)
        .stdout;
    assert!(differs.contains("-> failed"), "{differs}");
}

#[needs(prepared)]
#[tokio::test]
async fn trail_records_behaviour_on_write_failure() {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    place.configure(&format!("[audit]\npath = \"{dir}audit.db\"\n"));
    let (mut command, _states) = place.serve("never");
    let said = run(&mut command).expect_status(125).stderr;
    assert!(
        said.contains("audit.on_failure is required with an audit trail"),
        "{said}"
    );
    let checked = run(peal_tests::peal(["config", "check"]).arg(place.path("peal.toml")))
        .expect_status(1)
        .stderr;
    assert_eq!(checked, said, "`config check` reports the error of `serve`");
    assert!(
        checked.contains("peal.toml:2:1: audit.on_failure"),
        "{checked}"
    );
    put(
        &place.path("audit.db"),
        "not a database, but long enough that it could be taken for one by who does not look",
    );
    place.configure(&format!(
        "[audit]\npath = \"{dir}audit.db\"\non_failure = \"continue\"\n"
    ));
    let (mut command, _states) = place.serve("never-either");
    let said = run(&mut command).expect_status(125).stderr;
    assert!(
        said.contains("audit.db") && said.contains("not a database"),
        "{said}"
    );
}

#[needs(prepared)]
#[test]
fn audit_filter_with_unknown_word_is_wrong_command_line() {
    for (args, says) in [
        (
            &["list", "--outcome", "denid"][..],
            "there is no outcome \"denid\"; did you mean `denied`?",
        ),
        (
            &["list", "--outcome", "sideways"],
            "there are granted, denied, pass, grant, deny, status, done, init, failed",
        ),
        (
            &["stats", "--outcome", "failed:feul"],
            "no limit is called \"feul\"; did you mean `fuel`?",
        ),
        (
            &["export", "--outcome", "denied:PMIX_ERR_NO_PERMISSION"],
            "PMIX_ERR_NO_PERMISSIONS",
        ),
        (
            &["report", "--html", "-", "--outcome", "pass:on"],
            "outcome pass has no detail",
        ),
        (&["list", "--kind", "decison"], "decision"),
        (
            &["list", "--user", "no such user"],
            "there is no user \"no such user\" here",
        ),
        (&["list", "--since", "yesterday"], "neither as long ago as"),
        (&["list", "-n", "-1"], "unexpected argument"),
        (&["show", "first"], "a whole number from 1 to"),
    ] {
        let refused = run(peal_tests::peal(["audit"]).args(args))
            .expect_status(2)
            .stderr;
        assert!(refused.contains(says), "{args:?}: {refused}");
    }
}

#[needs(prepared)]
#[tokio::test]
async fn journal_written_by_others_is_reported_and_not_taken_over() {
    let place = Place::new();
    configure(&place);
    let server = place.start();
    server.tell(&["stop", "--wait"]);
    server.ends();
    assert_eq!(std::fs::read(place.path("audit.db-tail")).unwrap(), b"");
    let config = place.path("peal.toml").display().to_string();
    let verify =
        |args: &[&str]| run(peal_tests::peal(["audit", "verify", "--config", &config]).args(args));
    let said = |args: &[&str]| verify(args).expect_status(0).stdout;
    let waiting = || {
        let verified: serde_json::Value = serde_json::from_str(&said(&["-o", "json"])).unwrap();
        verified["waiting"].clone()
    };
    assert!(!said(&[]).contains("journal") && waiting().is_null());
    put(&place.path("audit.db-tail"), [1; 600]);
    assert!(
        said(&[]).contains(
            "note: 0 more records (600 bytes) wait in the journal and are not sealed yet"
        )
    );
    assert_eq!(waiting(), serde_json::json!({ "bytes": 600, "records": 0 }));
    std::fs::set_permissions(
        place.path("audit.db-tail"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let (mut command, _states) = place.serve("never");
    let said = run(&mut command).expect_status(125).stderr;
    assert!(
        said.contains("audit.db-tail")
            && said.contains("frame 1: its length should be written twice"),
        "{said}"
    );
    std::fs::remove_file(place.path("audit.db-tail")).unwrap();
    place.start();
}

/// Returns the number of times that processes are killed in a soak, which is `PEAL_KILLS`; none in the
/// tests, where a few are enough.
pub(super) fn kills() -> Option<u32> {
    let kills = std::env::var("PEAL_KILLS").ok()?;
    Some(kills.parse().unwrap())
}

pub(super) fn seed() -> u64 {
    std::env::var("PEAL_KILL_SEED").map_or(7, |seed| seed.parse().unwrap())
}

#[needs(prepared)]
#[tokio::test]
async fn answered_requests_are_in_trail_after_server_is_killed() {
    let place = Place::new();
    configure(&place);
    let mut told = BTreeSet::new();
    let mut next = 0;
    let mut random = SplitMix64(seed());
    let mut journalled = 0;
    let kills = kills().unwrap_or(5);
    for round in 0..kills {
        let server = place.start();
        // All grants of the previous server are in the trail. The last of them come from the
        // journal.
        let found = entries(&place);
        let missing: Vec<u64> = told.difference(&granted(&found)).copied().collect();
        assert!(
            missing.is_empty(),
            "round {round}: {missing:?} were granted, and are not in the trail"
        );
        server.tell(&["job", "register", "job", "-n", "2"]);
        let one = server.client("job", 0).await;
        let two = server.client("job", 1).await;
        let end = Instant::now() + Duration::from_millis(random.below(400) as u64);
        let killer = tokio::task::spawn_blocking(move || {
            while Instant::now() < end {
                std::thread::yield_now();
            }
            server.signal(Signal::KILL);
            server.ends();
        });
        let first = next + 1;
        let second = next + 1_000_000;
        let raised = tokio::join!(until_the_end(&one, first), until_the_end(&two, second));
        killer.await.unwrap();
        told.extend((first..first + raised.0).chain(second..second + raised.1));
        next += 2_000_000;
        // The next server recovers the journal, and records the gap.
        let source = TrailSource::open(&place.path("audit.db")).unwrap();
        let last = source
            .last(&Filter::default(), 1)
            .unwrap()
            .pop()
            .map_or(0, |row| row.seq);
        journalled += source
            .waiting(last)
            .unwrap()
            .map_or(0, |waiting| waiting.records);
    }
    let server = place.start();
    server.signal(Signal::TERM);
    server.ends();
    let found = entries(&place);
    assert!(
        told.is_subset(&granted(&found)) && !told.is_empty(),
        "{} were granted",
        told.len()
    );
    let gaps = found
        .iter()
        .filter(|entry| {
            matches!(
                entry,
                AuditEntry::Gap {
                    reason: GapReason::Crash,
                    ..
                }
            )
        })
        .count();
    assert_eq!(gaps as u32, kills);
    let verified = verified(&place);
    assert_eq!((verified.findings, verified.waiting), (Vec::new(), None));
    println!(
        "{} kills, {} decisions told, {} records, {journalled} of them out of the journal, all verified",
        kills,
        told.len(),
        verified.records
    );
}

/// Raises events until the server is gone. Returns the number of accepted events.
async fn until_the_end(client: &Client, first: u64) -> u64 {
    for number in 0.. {
        if !soon(
            "an event is answered or the server is gone",
            raise(client, first + number),
        )
        .await
        {
            return number;
        }
    }
    unreachable!("there are not so many numbers")
}
