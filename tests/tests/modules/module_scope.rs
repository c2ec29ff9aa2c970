//! Modules of the configuration that belong to a user or a job: the events that they receive, and
//! the principal of their requests.
use peal_model::{Info, KeyName, Nspace, Range, Status, Value, rank};
use peal_needs::needs;
use peal_store::{StateScope, Store, StoreSettings};
use peal_tests::{
    daemon::Place,
    guest,
    in_process::{listener, next, soon},
    peal, program, run, text_form, until,
};

use std::sync::Arc;

const ASKED: Status = Status(-3001);
const RAISED: Status = Status(-4000);

/// Writes a component in text form that raises two events for each that it handles. Returns the
/// file.
fn raiser(place: &Place) -> std::path::PathBuf {
    let file = place.path("raiser.wasm");
    std::fs::write(&file, text_form::of_sandbox("notify.wat")).unwrap();
    file
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn job_handler_sees_own_job_only_and_raises_events_as_that_job() {
    let place = Place::new();
    place.configure(&format!(
        "[[module]]\nname = \"raiser\"\npath = {:?}\nscope = \"namespace:mine\"\ncodes = [-3001]\ngrants = [\"notify\"]\n",
        raiser(&place)
    ));
    let daemon = place.start();
    // The job is registered after its handler.
    for job in ["other", "mine"] {
        daemon.tell(&["job", "register", job, "-n", "1"]);
    }
    let other = daemon.client("other", 0).await;
    let mine = daemon.client("mine", 0).await;
    let (handler, mut heard) = listener();
    mine.register(&[RAISED], &[], handler).await.unwrap();
    other
        .notify(ASKED, Range::Namespace, Vec::new())
        .await
        .unwrap();
    mine.notify(ASKED, Range::Namespace, Vec::new())
        .await
        .unwrap();
    for _ in 0..2 {
        let source = next(&mut heard).await.source.unwrap();
        assert_eq!(
            (source.nspace.as_str(), source.rank),
            ("mine", rank::PMIX_RANK_UNDEF)
        );
    }
    let stats = daemon.tell(&["stats"]);
    let line = stats
        .lines()
        .find(|line| line.contains("module_calls"))
        .unwrap();
    assert!(
        line.trim_start().starts_with("1 ") && line.contains("owner=\"namespace mine\""),
        "{line}"
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn state_kept_for_job_name_is_removed_with_job() {
    const SET: Status = Status(-2);
    let place = Place::new();
    let jobs = ["render-1", "render-2"];
    let file = place.path("keeper.wasm");
    std::fs::write(&file, text_form::of_sandbox("keeper.wat")).unwrap();
    let store = place.path("store.db");
    let grants = "grants = [\"notify\", \"sink\", \"state\"]";
    let module = format!(
        "[[module]]\nname = \"keeper\"\npath = {file:?}\nscope = \"namespace:render-*\"\ncodes = [-2]"
    );
    place.configure(&format!(
        "[store]\npath = {store:?}\n[tenant]\n{grants}\n{module}\n{grants}\n"
    ));
    let daemon = place.start();
    for job in jobs {
        daemon.tell(&["job", "register", job, "-n", "1"]);
        let client = daemon.client(job, 0).await;
        let info = |key: &'static str| Info::new(KeyName(key), Value::string("kept"));
        client
            .notify(
                SET,
                Range::Namespace,
                vec![info("test.key"), info("test.value")],
            )
            .await
            .unwrap();
        soon("the client leaves", client.finalize()).await.unwrap();
    }
    let called = |line: &&str| line.contains("module_calls") && line.trim_start().starts_with("1 ");
    let both = || daemon.tell(&["stats"]).lines().filter(called).count() == jobs.len();
    until("both have kept something", both);
    daemon.tell(&["job", "deregister", jobs[0]]);
    daemon.tell(&["stop", "--wait"]);
    let store = Arc::new(Store::open(&store, StoreSettings::default()).unwrap());
    let kept = jobs.map(|job| {
        let scope = StateScope::Namespace(Nspace::new(job).unwrap());
        store.state("keeper", &scope, 0).keys("").unwrap().len()
    });
    assert_eq!(kept, [0, 1]);
}

#[needs(prepared)]
#[test]
fn user_handler_chain_runs_between_those_of_site_and_job() {
    let place = Place::new();
    let uid = rustix::process::geteuid().as_raw();
    let report = guest("report");
    let module = |name: &str, scope: &str| {
        format!(
            "[[module]]\nname = {name:?}\npath = {report:?}\ngrants = [\"logging\"]\nscope = {scope:?}\nplacement = \"first\"\n"
        )
    };
    let text = [
        module("elsewhere", "namespace:elsewhere"),
        module("users", &format!("user:{uid}")),
        module("others", "user:4000000"),
        module("sites", "site"),
    ];
    place.configure(&text.concat());
    let mut command = peal(["run", "--events", "--config"]);
    command
        .arg(place.path("peal.toml"))
        .arg("--handler")
        .arg(&report)
        .arg("--")
        .arg(program("peal-example"));
    let done = run(&mut command).expect_status(0);
    let told: Vec<&str> = done
        .stderr
        .lines()
        .filter(|line| line.contains("chain:") || line.contains("answers"))
        .collect();
    let [site, sites, user, users, job, jobs] = &told[..] else {
        panic!("{}", done.stderr)
    };
    assert!(
        site.ends_with("through the site's chain:") && sites.contains("sites answers"),
        "{told:?}"
    );
    assert!(
        user.ends_with("through the user's chain:") && users.contains("users answers"),
        "{told:?}"
    );
    assert!(
        job.ends_with("through the job's chain:") && jobs.contains("report answers"),
        "{told:?}"
    );
}

#[needs(prepared)]
#[test]
fn site_only_settings_are_refused_for_others() {
    let place = Place::new();
    let said = |text: String| {
        place.configure(&text);
        run(peal(["config", "check"]).arg(place.path("peal.toml")))
            .expect_status(1)
            .stderr
    };
    let module = |name: &str, more: &str| {
        format!("[[module]]\nname = \"m\"\npath = {:?}\n{more}", guest(name))
    };
    let policy = said(module("same-user", "scope = \"user:0\"\n"));
    let wanted =
        "4:1: module m is a connection-policy, which belongs to the site: leave out module.scope";
    assert!(policy.contains(wanted), "{policy}");
    let channel = module(
        "stdio",
        "scope = \"namespace:a\"\nchannels = [\"stdout\"]\nsinks = [\"stdout\"]\ngrants = [\"sink\"]\n",
    );
    let channel = said(channel);
    assert!(
        channel.contains("module m is a log-channel, which belongs to the site"),
        "{channel}"
    );
    assert!(
        channel.contains("7:1: module m is of namespace a and cannot be granted \"sink\""),
        "{channel}"
    );
    let nobody = said(module(
        "report",
        "scope = \"user:nobody-of-this-name\"\ngrants = [\"logging\"]\n",
    ));
    assert!(
        nobody.contains("4:1: module.scope: there is no user \"nobody-of-this-name\" here"),
        "{nobody}"
    );
}
