//! `peal describe`: modules, jobs, denials and events.
use peal_model::{Range, Status};
use peal_needs::needs;
use peal_tests::{daemon::Place, guest, peal, run, until};
use serde_json::Value;
use tokio::runtime::Handle;

fn configure(place: &Place) {
    place.configure(&format!(
        "[audit]\non_failure = \"continue\"\npath = {:?}\n[store]\npath = {:?}\n\
         [[module]]\nname = \"echo\"\npath = {:?}\ncodes = [-3001]\n\
         [[module]]\nname = \"quota\"\npath = {:?}\ngrants = [\"clock\", \"state\"]\nconfig = {{ event = 1, exempt = \"4000000\" }}\n",
        place.path("audit.db"),
        place.path("store.db"),
        guest("echo"),
        guest("quota")
    ));
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[needs(prepared)]
#[test]
fn modules_and_jobs_are_described() {
    let place = Place::new();
    configure(&place);
    let daemon = place.start();
    daemon.tell(&["job", "register", "solver", "-n", "2"]);
    let module = json(&daemon.tell(&["describe", "module", "echo", "-o", "json"]));
    assert_eq!(module["module"][0]["state"], "active");
    assert_eq!(module["handlers"][0]["chain"], "site");
    assert_eq!(module["component"]["digest"], module["module"][0]["sha256"]);
    assert_eq!(module["versions"], serde_json::json!([1]));
    let text = daemon.tell(&["describe", "module", "echo"]);
    assert!(
        text.starts_with("module\n") && text.contains("\nhandlers\n"),
        "{text}"
    );
    let unknown = daemon
        .ask(&["describe", "module", "ecko"])
        .expect_status(125);
    assert!(
        unknown.stderr.contains("did you mean \"echo\"?"),
        "{unknown:?}"
    );
    let config = place.path("peal.toml");
    let describe = |job: &str| {
        let mut command = daemon.verb(&["describe", "job", job, "-o", "json"]);
        run(command.arg("--config").arg(&config))
    };
    let job = json(&describe("solver").expect_status(0).stdout);
    assert_eq!(
        (&job["job"]["size"], &job["record"]["size"]),
        (&2.into(), &2.into())
    );
    assert_eq!(job["procs"]["nspace"], "solver");
    let unknown = describe("nosuch").expect_status(1);
    assert!(unknown.stderr.contains("no job \"nosuch\""), "{unknown:?}");
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn denials_and_events_are_described_by_their_records() {
    let place = Place::new();
    configure(&place);
    let daemon = place.start();
    daemon.tell(&["job", "register", "solver", "-n", "1"]);
    let client = daemon.client("solver", 0).await;
    client
        .notify(Status(-3001), Range::Namespace, Vec::new())
        .await
        .unwrap();
    // The second event in a minute is denied.
    let denied = client.notify(Status(-3001), Range::Namespace, Vec::new());
    assert!(denied.await.is_err());
    let from = place.path("audit.db");
    let from = from.to_str().unwrap();
    let records = |more: &[&str]| {
        let words = [&["audit", "list", "-o", "name", "--from", from], more].concat();
        run(&mut peal(words)).expect_status(0).stdout
    };
    until("the call is recorded", || {
        !records(&["--module", "echo", "--outcome", "status"]).is_empty()
    });
    let describe = |kind: &str, record: &str| {
        let words = ["describe", kind, record, "--from", from, "-o", "json"];
        run(&mut peal(words))
    };
    let calls = records(&["--module", "echo", "--outcome", "status"]);
    let record = calls.lines().last().unwrap();
    let event = json(&describe("event", record).expect_status(0).stdout);
    assert_eq!(event["event"]["code"]["number"], -3001);
    assert_eq!(event["handlers"][0]["module"], "echo");
    until("the denial is recorded", || {
        !records(&["--outcome", "denied"]).is_empty()
    });
    let denials = records(&["--outcome", "denied"]);
    let denial = denials.lines().last().unwrap();
    let denial = json(&describe("denial", denial).expect_status(0).stdout);
    assert_eq!(denial["denial"]["job"], "solver");
    assert_eq!(denial["policies"][0]["module"], "quota");
    let decisions = records(&["--kind", "decision", "--outcome", "granted"]);
    let granted = decisions.lines().next().unwrap();
    let no = describe("denial", granted).expect_status(125);
    assert!(no.stderr.contains("is no denial"), "{no:?}");
    let no = describe("event", granted).expect_status(125);
    assert!(no.stderr.contains("is no call for an event"), "{no:?}");
    drop(client);
    // The next run of the server counts its requests anew.
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    let daemon = place.start();
    daemon.tell(&["job", "register", "solver", "-n", "1"]);
    let client = daemon.client("solver", 0).await;
    let before = records(&["--outcome", "denied"]).lines().count();
    until("an event is denied", || {
        let notified = client.notify(Status(-3001), Range::Namespace, Vec::new());
        tokio::task::block_in_place(|| Handle::current().block_on(notified)).is_err()
            && records(&["--outcome", "denied"]).lines().count() > before
    });
    for record in records(&["--outcome", "denied"]).lines() {
        let denial = json(&describe("denial", record).expect_status(0).stdout);
        let calls = denial["policies"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{denial}");
    }
}
